"""Prefixes of semantic IDs as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["prefix_numbers"]


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
