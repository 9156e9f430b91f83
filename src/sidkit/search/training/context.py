"""The context of a query: the user's earlier clicks, earlier queries, and a SID of the user.

Clicks and queries of all users lie in two arrays, user after user, each in the order of time. What came before an event
is then a range that ends where the event is: nothing is stored for an event but three numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bart.packing import Ragged, RaggedVectors
from .examples import join

__all__ = [
    "COUNTED",
    "LongHistory",
    "Past",
    "RecentQueries",
    "ShortHistory",
    "UserSids",
    "by_count",
    "past_of",
    "weighted_codes",
]

Integers = NDArray[np.int64]
COUNTED = 200  # latest clicks for a query, among which the most frequent items are taken


@dataclass(frozen=True, eq=False)
class Past:
    """The values before each of n events: values[first[i]:last[i]], oldest first."""

    values: Integers
    first: Integers  # (n,)
    last: Integers  # (n,)

    def latest(self, rows: Integers, count: int) -> tuple[Integers, Integers]:
        """The latest `count` values before these events, (len(rows), count), -1 for none; and their number (rows,)."""
        index = self.last[rows, None] - count + np.arange(count)
        exists = index >= self.first[rows, None]
        latest = np.where(exists, self.values[np.where(exists, index, 0)] if len(self.values) else -1, -1)
        return latest, (latest >= 0).sum(1)


def past_of(user: Integers, time: Integers, value_user: Integers, value_time: Integers, values: Integers) -> Past:
    """The values before each event, by user and time; values at the time of the event do not count.

    A user below 0 is nobody: such events have no past, and such values are left out. So are values below 0: items that
    are not in the catalogue.
    """
    kept = (value_user >= 0) & (values >= 0)
    users, times = np.concatenate([user, value_user[kept]]), np.concatenate([time, value_time[kept]])
    is_value = np.arange(len(users)) >= len(user)
    order = np.lexsort((is_value, times, users))  # of equal times, events come first
    before = np.cumsum(is_value[order])
    last = np.empty(len(users), np.int64)
    last[order] = before
    ordered = values[kept][order[is_value[order]] - len(user)]
    first = np.searchsorted(np.sort(value_user[kept]), user)
    nobody = user < 0
    return Past(ordered, np.where(nobody, 0, first), np.where(nobody, 0, last[: len(user)]))


@dataclass(frozen=True, eq=False)
class ShortHistory:
    """The SIDs of the latest items, oldest first, by event."""

    clicks: Past
    sids: NDArray[np.int32]  # (items, levels) tokens
    count: int = 5

    def take(self, rows: Integers) -> Ragged:
        items, count = self.clicks.latest(rows, self.count)
        return Ragged(self.sids[items[items >= 0]].ravel(), _starts(count * self.sids.shape[1]))


@dataclass(frozen=True, eq=False)
class LongHistory:
    """The vectors of the latest items, oldest first, by event; the first of each is of zeros, so none is empty."""

    clicks: Past
    vectors: NDArray[np.float32]  # (items, v)
    count: int = 50

    def take(self, rows: Integers) -> RaggedVectors:
        items, number = self.clicks.latest(rows, self.count)
        starts = _starts(number + 1)
        vectors = np.zeros((starts[-1], self.vectors.shape[1]), np.float32)
        of_item = np.ones(len(vectors), bool)
        of_item[starts[:-1]] = False
        vectors[of_item] = self.vectors[items[items >= 0]]
        return RaggedVectors(vectors, starts)


@dataclass(frozen=True, eq=False)
class RecentQueries:
    """The texts of the latest queries, oldest first, by event; a separator lies between two of them."""

    queries: Past
    texts: Ragged
    separator: int
    count: int = 3

    def take(self, rows: Integers) -> Ragged:
        recent, _ = self.queries.latest(rows, self.count)
        exists = recent >= 0
        parts = [Ragged(np.zeros(0, np.int32), np.zeros(len(rows) + 1, np.int64))]
        texts = Ragged(self.texts.tokens, np.append(self.texts.starts, self.texts.starts[-1]))  # -1: an empty one
        for i in range(self.count):
            follows = exists[:, i] & exists[:, :i].any(1)
            separators = np.full(follows.sum(), self.separator, np.int32)
            parts += [Ragged(separators, _starts(follows.astype(np.int64))), texts.take(recent[:, i])]
        return join(parts)


@dataclass(frozen=True, eq=False)
class UserSids:
    """A user as two SIDs, by event: of the latest items and of a longer history.

    A user without clicks takes the items that others clicked most for the query, where `others` are given; without
    those there is nothing.
    """

    clicks: Past
    codes: NDArray[np.int32]  # (items, levels)
    offsets: NDArray[np.int32]  # (levels,) the token of code 0
    short: int = 5
    long: int = 50
    others: Past | None = None

    def take(self, rows: Integers) -> Ragged:
        longest, _ = self.clicks.latest(rows, max(self.short, self.long))
        if self.others is not None:
            cold = np.flatnonzero((longest < 0).all(1))
            counted = by_count(self.others.latest(rows[cold], max(longest.shape[1], COUNTED))[0])
            longest[cold] = counted[:, counted.shape[1] - longest.shape[1] :]
        parts = []
        for count in (self.short, self.long):
            items = longest[:, longest.shape[1] - count :]
            known = (items >= 0).any(1)
            tokens = weighted_codes(self.codes, items) + self.offsets
            parts.append(Ragged(tokens[known].astype(np.int32).ravel(), _starts(known * tokens.shape[1])))
        return join(parts)


def by_count(items: Integers) -> Integers:
    """Items (n, count), -1 for none: those that occur most often to the right, each once; of equals the latest."""
    out = np.full_like(items, -1)
    for row, line in zip(out, items, strict=True):
        values, first, counts = np.unique(line[line >= 0][::-1], return_index=True, return_counts=True)
        ranked = values[np.lexsort((-first, counts))]
        row[len(row) - len(ranked) :] = ranked
    return out


def weighted_codes(codes: NDArray[np.int32], items: Integers) -> NDArray[np.int64]:
    """Items (n, count), oldest first and -1 for none, as one SID each: (n, levels).

    ceil(sum_i w_i code_i),   w_i = exp(sqrt(i)) / sum_j exp(sqrt(j)),   i = 1 for the oldest item there is
    """
    exists = items >= 0
    index = np.cumsum(exists, 1)
    weights = np.where(exists, np.exp(np.sqrt(index)), 0.0)
    weights /= np.maximum(weights.sum(1, keepdims=True), 1e-300)
    mean = np.einsum("nc,ncl->nl", weights, codes[np.where(exists, items, 0)].astype(np.float64))
    rounded: NDArray[np.int64] = np.ceil(mean - 1e-9).astype(np.int64)
    return rounded


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])
