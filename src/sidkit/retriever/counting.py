"""Recommending by counting, without any model: what a recommender has to beat to be worth its training.

    popular     for everybody what was taken most often in training
    followed    what came right after the user's last item most often in training, then what is popular

Equal counts are ordered by popularity, then by row. Figures have the names of metrics.py's `item` reading.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sequences import Sequences
from .data import Split, examples, require_known
from .metrics import CUTS, Tally

__all__ = ["counted", "tally", "training"]

Integers = NDArray[np.int64]


def counted(sequences: Sequences, items: int, split: Split = "test") -> dict[str, Tally]:
    """How well each way of counting finds the split's targets, among so many items."""
    require_known(sequences)
    seen = training(sequences)
    popular = np.empty(items, np.int64)  # the place of every item
    popular[np.argsort(-np.bincount(seen.rows, minlength=items), kind="stable")] = np.arange(items)
    position = examples(sequences, split).position
    target, last = sequences.rows[position], sequences.rows[position - 1]
    start, after, _ = seen.transitions()
    return {
        "popular": tally(popular[target]),
        "followed": tally(_followed(start, after, popular, last, target)),
    }


def training(sequences: Sequences) -> Sequences:
    """Without the last two items of each, which are held out."""
    lengths = np.diff(sequences.starts)
    kept = np.arange(len(sequences.rows)) < np.repeat(sequences.starts[1:] - 2, lengths)
    return Sequences(sequences.rows[kept], np.cumsum([0, *np.maximum(lengths - 2, 0)]))


def _followed(start: Integers, after: Integers, popular: Integers, last: Integers, target: Integers) -> Integers:
    """The place of each target, from 0: among what followed `last` in the transitions, or behind all of that."""
    items = len(popular)
    key, count = np.unique(start * items + popular[after], return_counts=True)  # by item, then by popularity
    first = np.searchsorted(key, np.arange(items + 1) * items)  # where an item's followers begin
    place = np.empty(len(key) + 1, np.int64)  # of each follower, the most frequent first
    place[np.lexsort((key, -count, key // items))] = np.arange(len(key))
    wanted = last * items + popular[target]
    at = np.searchsorted(key, wanted)  # so many followers of earlier items, or more popular ones of this item
    known = np.append(key, -1)[at] == wanted
    return np.where(known, place[at] - first[last], first[last + 1] + popular[target] - at)


def tally(rank: Integers) -> Tally:
    """The figures of targets found at these places, counted from 0."""
    sums: dict[str, Any] = {}
    for cut in CUTS:
        hit = rank < cut
        values = {"recall": hit, "hit_rate": hit, "ndcg": hit / np.log2(rank + 2), "mrr": hit / (rank + 1)}
        sums |= {f"item_{name}@{cut}": float(value.sum()) for name, value in values.items()}
    return Tally(sums, len(rank))
