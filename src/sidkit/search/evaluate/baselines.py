"""Baselines for a generative retriever, on the same pairs.

    bm25_lists       the words of the query against the texts of the items
    nearest_lists    the vector of the query against the vectors of the items
    counted_lists    what was clicked for this very query before, then what is clicked most

Each gives the item rows of every pair's query, best first: (pairs, k), -1 where there are fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...geometry import unit
from ...progress import Progress, Silent
from ..align.pairs import Pairs
from ..model.ranking import first_of_each
from .bm25 import BM25
from .top import top_rows

__all__ = ["bm25_lists", "counted_lists", "nearest_lists"]

Integers = NDArray[np.int64]
BLOCK = 1 << 24  # scores held at once


def bm25_lists(
    texts: Sequence[str | None],
    queries: Sequence[str | None],
    pairs: Any,
    k: int = 50,
    k1: float = 1.5,
    b: float = 0.75,
    progress: Progress | None = None,
) -> Integers:
    """texts: of the items; queries: texts of the queries; pairs: (n,) the query row of every pair."""
    asked, which = _distinct(pairs, len(queries))
    return BM25(texts, k1, b).top([queries[row] for row in asked], k, progress=progress)[which]


def nearest_lists(
    queries: NDArray[Any], items: NDArray[Any], pairs: Any, k: int = 50, progress: Progress | None = None
) -> Integers:
    """Exact nearest items by cosine. queries: (q, d); items: (m, d); pairs: (n,) the query row of every pair."""
    asked, which = _distinct(pairs, len(queries))
    if queries.shape[1] != items.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions and items {items.shape[1]}")
    x, y = unit(np.asarray(queries, np.float32)[asked]), unit(np.asarray(items, np.float32))
    report = progress or Silent()
    report.start("nearest", len(x))
    out = np.full((len(x), k), -1, np.int64)
    step = max(1, BLOCK // len(y))
    for start in range(0, len(x), step):
        best = top_rows(x[start : start + step] @ y.T, k)
        out[start : start + step, : best.shape[1]] = best
        report.advance(len(best))
    return out[which]


def counted_lists(clicked: Pairs, pairs: Any, popularity: Any, k: int = 50) -> Integers:
    """clicked: query-item pairs of the training part, with weights; popularity: (m,) clicks of every item.

    Items of the query by weight, ties by popularity and then by row; then all others by popularity.
    """
    clicks = np.asarray(popularity)
    asked, which = _distinct(pairs, None)
    order = np.lexsort((clicked.right, -clicks[clicked.right], -clicked.weight, clicked.left))
    left, right = clicked.left[order], clicked.right[order]
    rank = np.arange(len(left)) - np.searchsorted(left, left)
    line = np.searchsorted(asked, left)
    inside = (rank < k) & (line < len(asked))
    inside[inside] = asked[line[inside]] == left[inside]
    rows = np.full((len(asked), 2 * k), -1, np.int64)
    rows[line[inside], rank[inside]] = right[inside]
    popular = np.lexsort((np.arange(len(clicks)), -clicks))[:k]
    rows[:, k : k + len(popular)] = popular
    return first_of_each(rows, k)[which]


def _distinct(pairs: Any, queries: int | None) -> tuple[Integers, Integers]:
    """The query rows that occur, ascending, and which of them every pair has."""
    rows = np.asarray(pairs, np.int64)
    asked, which = np.unique(rows, return_inverse=True)
    if len(asked) and (asked[0] < 0 or (queries is not None and asked[-1] >= queries)):
        outside = asked[0] if asked[0] < 0 else asked[-1]
        raise InputError(f"there is no query {outside}: queries are numbered 0 to {(queries or 0) - 1}")
    return asked, which.reshape(-1)
