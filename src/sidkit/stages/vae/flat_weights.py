"""The weights of several runs in one matrix, so that an optimiser's step is a few kernels. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from .torch_layers import Tensor, Weights

__all__ = ["WeightLayout", "adamw"]

ALIGNED = 64  # numbers: where a weight may start, so that kernels read whole lines of memory
BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class WeightLayout:
    """Where each weight is in the row of a run."""

    shapes: dict[str, tuple[int, ...]]  # of one run

    @classmethod
    def of(cls, weights: Weights) -> WeightLayout:
        """weights: (R, ...) each."""
        return cls({name: tuple(weight.shape[1:]) for name, weight in weights.items()})

    def empty(self, runs: int, device: Any) -> Tensor:
        return torch.zeros(runs, sum(map(_room, self.shapes.values())), device=device)

    def views(self, flat: Tensor) -> Weights:
        """By name, (R, ...), in the memory of flat (R, P)."""
        views, start = {}, 0
        for name, shape in self.shapes.items():
            views[name] = flat[:, start : start + prod(shape)].view(len(flat), *shape)
            start += _room(shape)
        return views


def _room(shape: tuple[int, ...]) -> int:
    return -(-prod(shape) // ALIGNED) * ALIGNED


def adamw(w: Tensor, grad: Tensor, first: Tensor, second: Tensor, step: Tensor, rate: Tensor, decay: float) -> None:
    """One step of AdamW in place, with torch's defaults; step (counted from 1) and rate: float64, on the device."""
    one, two = BETAS
    first.lerp_(grad, 1 - one)
    second.mul_(two).addcmul_(grad, grad, value=1 - two)
    size = rate / (1 - one**step)
    divisor = (second.sqrt() / (1 - two**step).sqrt()).add_(EPSILON)
    w.mul_(1 - rate * decay).sub_((first * size).div_(divisor))
