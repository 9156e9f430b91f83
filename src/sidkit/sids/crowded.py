"""Prefixes under which a SID has too many items, and the slots of items: their indices among the items of their SID."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .prefixes import prefix_numbers

__all__ = ["Crowd", "Crowds", "crowded", "slots_of"]

Integers = NDArray[np.int64]


class Crowd(NamedTuple):
    """Rows of one prefix that may move, in the order in which they choose, and how much room each last code has.

    Where only items beyond the capacity may move, those for which no code can have room are left out.
    """

    rows: Integers
    room: Integers


@dataclass(frozen=True, eq=False)
class Crowds:
    """The crowds of all prefixes, made one at a time. total: the rows that may move."""

    rows: Integers  # those of crowded prefixes, by prefix and order; what is taken has negative numbers
    bounds: Integers  # where each prefix starts, and the end
    tokens: NDArray[np.int32]  # the last token of each of these rows
    movable: NDArray[np.bool_]
    size: int
    capacity: int
    everyone: bool

    @property
    def total(self) -> int:
        return int(self.movable.sum())

    def __iter__(self) -> Iterator[Crowd]:
        for start, stop in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            movable = self.movable[start:stop]
            stay = np.bincount(self.tokens[start:stop][~movable], minlength=self.size)
            room = np.maximum(self.capacity - stay, 0)
            rows = self.rows[start:stop][movable]
            rows = rows if self.everyone else rows[: room.sum()]
            if len(rows):
                yield Crowd(rows, room)


def crowded(
    codes: NDArray[np.int32],
    sizes: Sequence[int],
    capacity: int = 1,
    taken: NDArray[Any] | None = None,
    order: Integers | None = None,
    everyone: bool = False,
) -> Crowds:
    """Prefixes with an item beyond the capacity of its SID; with `everyone` all their items may move, not only those.

    codes (n, levels) of items that may move; taken (m, levels) of items that stay and come first; order: the first row
    chooses first.
    """
    given = np.empty((0, len(sizes)), np.int32) if taken is None else np.asarray(taken, np.int32)
    m, both = len(given), np.concatenate([given, codes])
    rank = np.arange(-m, len(codes))
    if order is not None:
        rank[m:][order] = np.arange(len(codes))
    parent, full = [np.zeros(len(both), np.int64), *prefix_numbers(both, sizes)][-2:]
    beyond = slots_of(full, np.argsort(rank, kind="stable")) >= capacity
    beyond[:m] = False
    rows = np.flatnonzero(np.isin(parent, parent[beyond]))
    rows = rows[np.lexsort((rank[rows], parent[rows]))]
    movable = (rows >= m) if everyone else beyond[rows]
    starts = np.flatnonzero(np.diff(parent[rows], prepend=-1))
    return Crowds(rows - m, np.append(starts, len(rows)), both[rows, -1], movable, int(sizes[-1]), capacity, everyone)


def slots_of(number: Integers, order: Integers | None = None) -> Integers:
    """(n,) the index of each row among the rows with the same number, from 0, in this order of rows."""
    rows = np.arange(len(number)) if order is None else order
    rows = rows[np.argsort(number[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(number[rows], prepend=-1))
    out = np.empty(len(rows), np.int64)
    out[rows] = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    return out
