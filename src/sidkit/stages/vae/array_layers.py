"""A multilayer perceptron as plain arrays, run without torch.

Training needs torch; encoding does not. Layers are (weight, bias) pairs with ReLU between them; zero layers are the
identity. Products are computed in float64 and in blocks of one shape, so that the result of a row does not depend on
the other rows: rounded to float32, it is the same in any batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import like
from ...files.folder import require_array
from ...geometry import Array

__all__ = ["Layer", "double", "forward", "layer_arrays", "product", "read_layers", "single"]

Layer = tuple[NDArray[Any], NDArray[Any]]  # weight (out, in), bias (out,)

BLOCK = 256  # rows per product


def forward(x: Array, layers: Sequence[Layer]) -> Array:
    """x (n, widths[0]) through all layers, in float64: (n, widths[-1])."""
    h = double(x)
    for i, (weight, bias) in enumerate(layers):
        h = product(h, like(weight, h).T) + like(bias, h)
        if i + 1 < len(layers):
            h = h.clip(min=0.0)
    return h


def product(x: Array, w: Array) -> Array:
    """x @ w, (n, k) @ (k, m), every row by the same kernel in the same order."""
    if not isinstance(x, np.ndarray):
        return x @ w
    out = np.empty((len(x), w.shape[1]), x.dtype)
    w = np.ascontiguousarray(w)
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        n = len(block)
        if n < BLOCK:
            block = np.concatenate([block, np.zeros((BLOCK - n, x.shape[1]), x.dtype)])
        out[start : start + n] = (block @ w)[:n]
    return out


def double(x: Array) -> Array:
    """x in float64, on the same device."""
    return x.astype(np.float64, copy=False) if isinstance(x, np.ndarray) else x.double()


def single(x: Array) -> Array:
    """x in float32, on the same device."""
    return x.astype(np.float32, copy=False) if isinstance(x, np.ndarray) else x.float()


def layer_arrays(prefix: str, layers: Sequence[Layer]) -> dict[str, NDArray[Any]]:
    """Layers by the names they are stored under: encoder.0.weight, encoder.0.bias, ..."""
    named = ((f"{prefix}.{i}", layer) for i, layer in enumerate(layers))
    return {f"{name}.{part}": array for name, layer in named for part, array in zip(PARTS, layer, strict=True)}


def read_layers(arrays: Mapping[str, NDArray[Any]], prefix: str, widths: Sequence[int]) -> tuple[Layer, ...]:
    """The stored layers of a perceptron with these widths, checked; the inverse of `layer_arrays`."""
    return tuple(
        (
            require_array(arrays, f"{prefix}.{i}.weight", (widths[i + 1], widths[i])),
            require_array(arrays, f"{prefix}.{i}.bias", (widths[i + 1],)),
        )
        for i in range(len(widths) - 1)
    )


PARTS = ("weight", "bias")
