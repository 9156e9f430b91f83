"""From generated SIDs to a list of items (paper, appendix C.2).

Every SID brings its best items, SIDs in the order of the beam; an item that comes twice keeps its first position, and
the list is cut. The order of the items of a SID:

    1  availability       1 where the item was shown in the window, else 0
    2  composite score    2 ctr cvr / (ctr + cvr), with s = smoothing and
                              T   = log((shown + s)(clicked + s)(ordered + s))
                              ctr = log(clicked + s) / T
                              cvr = log(ordered + s) / log(clicked + s)
    3  clicks, then orders, then the item id, ascending

The paper does not publish its composite; this one is OneSearch's calibrated reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.items import match, without_dictionary
from ...errors import InputError, SpecError
from ...sids.trie import Trie

__all__ = ["Counters", "ItemRanker", "Ranking", "composite", "first_of_each"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
BLOCK = 4096  # lists that are made at once


@dataclass(frozen=True)
class Ranking:
    """How the items of a SID are ranked and how many are taken.

    availability   whether items that were shown come first
    score          composite, ctr, cvr or none: what ranks items of equal availability, before clicks and orders
    smoothing      what is added to every count; above 1, so that no logarithm is 0
    per_sid        items of one SID at most
    cut            items of a list at most
    """

    availability: bool = True
    score: Literal["composite", "ctr", "cvr", "none"] = "composite"
    smoothing: float = 10.0
    per_sid: int = 5
    cut: int = 50

    def __post_init__(self) -> None:
        if self.score not in ("composite", "ctr", "cvr", "none"):
            raise SpecError(f"score must be composite, ctr, cvr or none, not {self.score!r}")
        if not 1.0 < self.smoothing < np.inf:
            raise SpecError(f"smoothing must be above 1 and finite, not {self.smoothing}")
        for name in ("per_sid", "cut"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Counters:
    """How often every item was shown, clicked and ordered in the training part of a log: (n,) each."""

    shown: Integers
    clicked: Integers
    ordered: Integers

    @classmethod
    def of(cls, table: Any, ids: Any) -> Counters:
        """The counters of items with these ids, from a shop's counters.parquet; 0 for items that it does not have."""
        rows = match(ids, table.column("item_id"))
        columns = []
        for name in ("shown", "clicked", "ordered"):
            values = np.append(table.column(name).to_numpy().astype(np.int64), 0)
            if values.min(initial=0) < 0:
                raise InputError(f"the counters hold {values.min()} in {name!r}; counts are at least 0")
            columns.append(values[rows])  # -1 takes the 0 at the end
        return cls(*columns)


def composite(counters: Counters, smoothing: float = 10.0) -> tuple[Floats, Floats, Floats]:
    """(score, ctr, cvr) of every item, (n,) each: the formulas above."""
    shown, clicked, ordered = (
        np.log(count + smoothing) for count in (counters.shown, counters.clicked, counters.ordered)
    )
    ctr = clicked / (shown + clicked + ordered)
    cvr = ordered / clicked
    return 2.0 * ctr * cvr / (ctr + cvr), ctr, cvr


@dataclass(frozen=True, eq=False)
class ItemRanker:
    """The item lists of beams, over the SIDs of a trie. Scores are computed once."""

    trie: Trie
    counters: Counters  # of every row of the table that the trie was made of
    ids: Any  # the item ids of the same rows
    ranking: Ranking = Ranking()

    @cached_property
    def ranks(self) -> Integers:
        """(n,) the rank of every item among all, 0 for the best."""
        ids = without_dictionary(self.ids if isinstance(self.ids, pa.Array | pa.ChunkedArray) else pa.array(self.ids))
        by_id = pc.rank(ids, tiebreaker="dense").to_numpy().astype(np.int64)
        counters = self.counters
        if not len(by_id) == len(counters.shown) > self.trie.rows.max():
            raise InputError(f"{len(by_id)} ids and {len(counters.shown)} counters do not fit the rows of the SIDs")
        scores = dict(zip(("composite", "ctr", "cvr"), composite(counters, self.ranking.smoothing), strict=True))
        score = scores.get(self.ranking.score, np.zeros(len(by_id)))
        available = (counters.shown > 0) & self.ranking.availability
        order = np.lexsort((by_id, -counters.ordered, -counters.clicked, -score, ~available))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

    @cached_property
    def best(self) -> Integers:
        """(leaves + 1, per_sid) the rows of the best items of every SID, best first, -1 where there are fewer.

        The last row, which leaf -1 takes, has no items.
        """
        trie, k = self.trie, self.ranking.per_sid
        leaf = np.repeat(np.arange(len(trie)), trie.counts)
        order = np.lexsort((self.ranks[trie.rows], leaf))
        position = np.arange(len(order)) - trie.bounds[leaf]  # rows of a leaf stay together, so leaf[order] == leaf
        best = np.full((len(trie) + 1, k), -1)
        best[leaf[position < k], position[position < k]] = trie.rows[order][position < k]
        return best

    def lists(self, leaves: Any) -> Integers:
        """Item rows of beams: leaves (n, beams), best first, -1 for none -> (n, cut), -1 where there are fewer."""
        leaves = np.asarray(leaves)
        out = np.empty((len(leaves), self.ranking.cut), np.int64)
        for start in range(0, len(leaves), BLOCK):
            rows = self.best[leaves[start : start + BLOCK]]
            out[start : start + BLOCK] = first_of_each(rows.reshape(len(rows), -1), self.ranking.cut)
        return out


def first_of_each(rows: Integers, cut: int) -> Integers:
    """Every list without its repeats and gaps, first occurrences in their order: (n, m) -> (n, cut), -1 at the end."""
    n, m = rows.shape
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, 1)
    first = np.ones((n, m), bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = np.zeros((n, m), bool)
    np.put_along_axis(keep, order, first & (ordered >= 0), 1)
    position = np.cumsum(keep, axis=1) - 1
    keep &= position < cut
    out = np.full((n, cut), -1, np.int64)
    line, column = np.nonzero(keep)
    out[line, position[line, column]] = rows[line, column]
    return out
