"""Prefixes of semantic IDs as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

__all__ = ["prefix_numbers", "require_codes"]


def prefix_numbers(codes: NDArray[Any], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """For every level, one number per row that is equal for rows with equal prefixes and sorts as prefixes do.

    Mixed radix while it fits 63 bits; beyond that prefixes are renumbered densely first.
    """
    numbers, number, limit = [], np.zeros(len(codes), np.int64), 1
    for level, size in enumerate(sizes):
        if limit * size >= 2**63:
            number = np.unique(number, return_inverse=True)[1].astype(np.int64)
            limit = len(codes)
        number = number * size + codes[:, level]
        limit *= size
        numbers.append(number)
    return numbers


def require_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """The codes as an array (n, levels), if they fit the sizes and there are any."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise InputError(f"codes of shape {array.shape} do not fit {len(sizes)} sizes")
    if 0 in array.shape:
        raise InputError("there are no codes to measure")
    if (array < 0).any() or (array >= np.asarray(sizes)).any():
        raise InputError(f"some codes lie outside their codebook (sizes {tuple(sizes)})")
    return array
