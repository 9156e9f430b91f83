"""Which new codes stand for which old ones: an assignment by the items that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_permutation", "common_items"]

Integers = NDArray[np.int64]


def common_items(codes: NDArray[Any], old: NDArray[Any], size: int) -> Integers:
    """N: (size, size), the items with new code j and old code a; old codes beyond the size cannot be kept."""
    known = old < size
    return np.bincount(codes[known].astype(np.int64) * size + old[known], minlength=size * size).reshape(size, size)


def best_permutation(together: Integers) -> Integers:
    """The permutation `new` with the largest sum over j of together[j, new(j)]."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(together, maximize=True)
    out = np.empty(len(rows), np.int64)
    out[rows] = columns
    return out
