"""A multilayer perceptron in torch, for training. Imported by fits only; `array_layers` runs the same without torch.

Everything has a leading axis of runs: weights are (R, ...), rows (R, B, d).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .dense import dense

__all__ = ["Tensor", "Weights", "apply", "as_rows", "new_weights", "squared_error"]

Tensor = Any
Weights = dict[str, Tensor]  # by the names they are stored under


def new_weights(encoder: Sequence[int], decoder: Sequence[int], sizes: Sequence[int], generator: Any) -> Weights:
    """Layers of one run with these widths, and codebooks between them, zero until k-means sets them."""
    layers = _new_layers("encoder", encoder, generator) | _new_layers("decoder", decoder, generator)
    return layers | {f"codebook.{level}": torch.zeros(1, K, encoder[-1]) for level, K in enumerate(sizes)}


def _new_layers(prefix: str, widths: Sequence[int], generator: Any) -> Weights:
    """Layers with these widths: Xavier-normal weights, zero biases."""
    weights: Weights = {}
    for i in range(len(widths) - 1):
        weight = torch.empty(widths[i + 1], widths[i])
        weights[f"{prefix}.{i}.weight"] = torch.nn.init.xavier_normal_(weight, generator=generator)[None]
        weights[f"{prefix}.{i}.bias"] = torch.zeros(1, widths[i + 1])
    return weights


def apply(x: Tensor, weights: Mapping[str, Tensor], prefix: str) -> Tensor:
    """x through the layers named with that prefix, ReLU between them; the identity where there are none."""
    i = 0
    while f"{prefix}.{i}.weight" in weights:
        relu = f"{prefix}.{i + 1}.weight" in weights
        x = dense(x, weights[f"{prefix}.{i}.weight"], weights[f"{prefix}.{i}.bias"], relu)
        i += 1
    return x


def squared_error(a: Tensor, b: Tensor, reduction: str) -> Tensor:
    """|a - b|^2 of every run, (R,): the mean over all elements, or the sum over features and the mean over rows."""
    square = (a - b).square()
    return square.mean(dim=(1, 2)) if reduction == "mean" else square.sum(dim=2).mean(dim=1)


def as_rows(x: Any, device: Any) -> Tensor:
    """Rows, an array or a tensor, as float32 on a device."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(device=device, dtype=torch.float32)
    return torch.tensor(x, dtype=torch.float32, device=device)
