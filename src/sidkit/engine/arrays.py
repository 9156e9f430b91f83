"""Helpers for arrays of numpy and torch alike: moving, widening, and cutting them into pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry import Array

__all__ = ["like", "namespace", "pieces", "widened"]

AT_ONCE = 1 << 26  # numbers in one temporary array: 512 MB of float64


def like(a: NDArray[Any], x: Array) -> Array:
    """`a` in the dtype and on the device of x."""
    if isinstance(x, np.ndarray):
        return a.astype(x.dtype, copy=False)
    import torch

    return torch.as_tensor(a).to(device=x.device, dtype=x.dtype)


def namespace(x: Array) -> Any:
    """numpy or torch, whichever x belongs to."""
    if isinstance(x, np.ndarray):
        return np
    import torch

    return torch


def pieces(x: Array, width: int) -> Iterator[Array]:
    """The rows of x in pieces, so that a temporary array of `width` numbers per row has at most AT_ONCE numbers.

    Without rows there is one empty piece.
    """
    step = max(1, AT_ONCE // max(width, 1))
    for start in range(0, max(len(x), 1), step):
        yield x[start : start + step]


def widened(x: Array) -> Array:
    """x in float64."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()
