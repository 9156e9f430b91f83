"""The best k of many scores, ties to the lowest index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_rows"]


def top_rows(scores: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Per row of scores (n, m) the columns of its k largest, best first, ties to the lowest column: (n, min(k, m)).

    Columns whose score is -inf are not candidates: they are reported as -1, after all others.
    """
    n, m = scores.shape
    k = min(k, m)
    if k < 1:
        return np.empty((n, 0), np.int64)
    columns = np.argpartition(scores, m - k, axis=1)[:, m - k :] if k < m else np.tile(np.arange(m), (n, 1))
    values = np.take_along_axis(scores, columns, 1)
    least = values.min(axis=1)
    crowded = np.count_nonzero(scores == least[:, None], axis=1) > np.count_nonzero(values == least[:, None], axis=1)
    for row in np.flatnonzero(crowded):  # a tie across the cut: argpartition picks any of the equal columns
        columns[row] = np.lexsort((np.arange(m), -scores[row]))[:k]
    values = np.take_along_axis(scores, columns, 1)
    order = np.lexsort((columns, -values), axis=1)
    best: NDArray[np.int64] = np.take_along_axis(columns, order, 1).astype(np.int64)
    best[np.take_along_axis(values, order, 1) == -np.inf] = -1
    return best
