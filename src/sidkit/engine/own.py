"""The nearest centroid where every row has centroids of its own: those of its parent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry import Array, squared_length
from . import native
from .cpu import PAIRS, book, nearest

__all__ = ["nearest_own"]

TOGETHER = 16  # rows with the same centroids that are worth a matrix product

Integers = NDArray[np.int64]


def nearest_own(x: Array, centroids: NDArray[Any], first: Integers, count: Integers) -> Array:
    """The nearest of the centroids first .. first + count - 1 of every row, counted from its first: (n,).

    By the score in float64, ties to the lowest index, as `nearest` decides for a codebook of these centroids.
    """
    if not isinstance(x, np.ndarray):
        from .cuda.own import nearest_own as on_device

        return on_device(x, centroids, first, count)
    if native.ready(x) and centroids.dtype == np.float32:
        from .native.parents import nearest_own as compiled

        return compiled(x, centroids, first, count)
    out = np.zeros(len(x), np.int32)
    order = np.lexsort((count, first))
    starts = np.flatnonzero(np.diff(first[order], prepend=-1) | np.diff(count[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    for start, size in zip(starts[sizes >= TOGETHER], sizes[sizes >= TOGETHER], strict=True):
        rows = order[start : start + size]
        own = centroids[first[rows[0]] : first[rows[0]] + count[rows[0]]]
        out[rows] = nearest(x[rows], book(own, "euclidean", x))
    few = order[np.repeat(sizes < TOGETHER, sizes)]
    few = few[count[few] > 1]
    step = max(1, PAIRS // (x.shape[1] * int(count.max(initial=1))))
    for start in range(0, len(few), step):
        rows = few[start : start + step]
        out[rows] = _nearest_of_few(x[rows], centroids, first[rows], count[rows])
    return out


def _nearest_of_few(x: NDArray[Any], centroids: NDArray[Any], first: Integers, count: Integers) -> NDArray[np.int32]:
    """All pairs of a row and one of its centroids, scored in float64 in a fixed order of additions."""
    starts = np.cumsum(count) - count
    slot = np.arange(count.sum()) - np.repeat(starts, count)
    c = centroids[np.repeat(first, count) + slot].astype(np.float64)
    score = (np.repeat(x.astype(np.float64), count, axis=0) * c).sum(axis=1) - 0.5 * squared_length(c)[:, 0]
    best = np.repeat(np.maximum.reduceat(score, starts), count)
    found: NDArray[np.int32] = np.minimum.reduceat(np.where(score == best, slot, len(slot)), starts).astype(np.int32)
    return found
