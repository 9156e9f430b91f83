"""A number for each row, by which equal rows are found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.arrays import pieces
from ..geometry import Array

__all__ = ["digests"]

IN_CACHE = 1 << 16  # numbers of an array looked at together


def digests(x: Array) -> Array:
    """A number for the bits of every row, minus zero counting as zero: (n,) int64, where the rows are.

    Equal rows have the same; different rows hardly ever.
    """
    factors = np.random.default_rng(0).integers(1, 1 << 63, x.shape[1])
    if isinstance(x, np.ndarray):
        step = max(1, IN_CACHE // max(1, x.shape[1]))
        parts = [x[start : start + step] for start in range(0, len(x), step)]
        return np.concatenate([np.zeros(0, np.int64), *(_digests(part, factors) for part in parts)])
    import torch

    there = torch.as_tensor(factors).to(x.device)
    bits = torch.int64 if x.element_size() == 8 else torch.int32
    return torch.cat([((part + 0.0).view(bits) * there).sum(1) for part in pieces(x, x.shape[1])])


def _digests(x: NDArray[Any], factors: NDArray[np.int64]) -> NDArray[np.int64]:
    x = np.ascontiguousarray(x + 0.0)  # without negative zeros: equal rows have the same bits
    bits: NDArray[Any] = x.view(np.int64 if x.itemsize == 8 else np.int32)
    found: NDArray[np.int64] = np.multiply(bits, factors).sum(axis=1)
    return found
