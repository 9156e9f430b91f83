"""Figures by how often a target was seen in training: never, 1 to 4 times, 5 times or more.

An item that was never seen is out of reach of a model over item ids and of counting. One that has a semantic ID is not:
its tokens were learned on other items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from .ranking import CUTS

__all__ = ["SEEN", "figures_by_seen", "ranks_by_seen", "seen_group", "times_seen"]

SEEN = {"0": "never seen in training", "1-4": "seen 1 to 4 times", "5+": "seen 5 times or more"}


def times_seen(sequences: Sequences, items: int) -> NDArray[np.int64]:
    """(items,) how often each item is in the training part of the sequences."""
    return np.bincount(sequences.training().rows, minlength=items)


def seen_group(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index in SEEN of items that were seen so many times."""
    return (times >= 1).astype(np.int64) + (times >= 5)


def figures_by_seen(users: Mapping[str, int], sums: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """By group of SEEN: users, their share of all, and the mean figures. sums: of figures over the users of a group."""
    total = max(sum(users.values()), 1)
    return {
        name: {"users": users[name], "share": users[name] / total}
        | {figure: value / users[name] if users[name] else None for figure, value in sums[name].items()}
        for name in SEEN
    }


def ranks_by_seen(rank: NDArray[np.int64], times: NDArray[np.int64], share: Any = 1.0) -> dict[str, dict[str, Any]]:
    """The same of ranks, counted from 0, of targets that were seen `times` times; each counts with its share."""
    group = seen_group(times)
    users, sums = dict[str, int](), dict[str, dict[str, float]]()
    for index, name in enumerate(SEEN):
        within = group == index
        users[name], sums[name] = int(within.sum()), {}
        for cut in CUTS:
            hit = (within & (rank < cut)) * share
            sums[name] |= {f"recall@{cut}": float(hit.sum()), f"ndcg@{cut}": float((hit / np.log2(rank + 2)).sum())}
    return figures_by_seen(users, sums)
