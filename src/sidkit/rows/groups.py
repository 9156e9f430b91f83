"""Rows in groups: those whose last tokens are the same. Rows of a group can be brought together wherever rows live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["GathersRows", "GroupsRows", "OfGroups", "as_one", "find_groups", "group_counts", "ranges"]

Integers = NDArray[np.int64]
OfGroups = Callable[[NDArray[Any], Integers, int], NDArray[Any]]  # rows group after group, their counts, first group


@runtime_checkable
class GroupsRows(Protocol):
    """Rows that are divided among processes, and can be brought together group by group where there is room."""

    def group_counts(self, tokens: int) -> tuple[Integers, Integers]:
        """The different values of the last `tokens` tokens, sorted, (G, tokens), and how many rows have each, (G,)."""

    def of_groups(self, f: OfGroups, keys: Integers, counts: Integers) -> list[NDArray[Any]]:
        """f of some groups at a time, in order: their rows, group after group, the rows of each in their order."""


@runtime_checkable
class GathersRows(Protocol):
    """Rows of a device, which sorts them by group there."""

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit on the device, twice."""

    def grouped(self, tokens: int) -> tuple[Integers, Integers, Any]:
        """As `group_counts`, and the numbers of all rows, group after group, on the device."""

    def gathered(self, numbers: Any) -> Any:
        """The rows with these numbers, on the device."""


def group_counts(codes: NDArray[Any]) -> tuple[Integers, Integers]:
    """The different rows of codes (n, tokens), sorted, and how often each occurs."""
    keys, counts = np.unique(codes, axis=0, return_counts=True)
    return keys.astype(np.int64), counts.astype(np.int64)


def find_groups(keys: Integers, codes: NDArray[Any]) -> Integers:
    """The number of each row's group among the sorted keys, by its last tokens: (n,); -1 where it has none."""
    known, wanted = as_one(keys), as_one(codes[:, -keys.shape[1] :].astype(np.int64))
    index = np.searchsorted(known, wanted)
    index[index == len(known)] = 0
    return np.where(known[index] == wanted, index, -1)


def as_one(keys: Integers) -> NDArray[Any]:
    """Rows of integers as one value each that sorts as they do."""
    big_endian = np.ascontiguousarray(keys, dtype=">i8")
    return big_endian.view(f"V{8 * keys.shape[1]}").ravel() if keys.shape[1] > 1 else keys[:, 0]


def ranges(counts: Integers, most: int) -> Sequence[tuple[int, int]]:
    """Consecutive groups, first and last + 1, as many at a time as have `most` rows together, or one group."""
    ends, cut = np.cumsum(counts), list[tuple[int, int]]()
    first = done = 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, done + most, "right")))
        cut.append((first, last))
        first, done = last, int(ends[last - 1])
    return cut
