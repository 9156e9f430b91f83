"""Prefixes as runs: with the items sorted by SID, everything under a prefix is one stretch of the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..sids.prefixes import prefix_numbers

__all__ = ["Branches", "Tree"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Branches:
    """The occupied prefixes one token longer than a given one: token, where its run starts, how many items."""

    codes: NDArray[np.int32]
    starts: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.codes)

    def pick(self, which: Integers | slice) -> Branches:
        return Branches(self.codes[which], self.starts[which], self.counts[which])

    def largest_first(self) -> Branches:
        return self.pick(np.argsort(-self.counts, kind="stable"))


class Tree:
    """codes: (n, levels) and the catalogue's row of each. A few bytes an item; every question is a binary search."""

    def __init__(self, codes: NDArray[np.int32], sizes: Sequence[int], rows: Integers) -> None:
        order = np.argsort(prefix_numbers(codes, sizes)[-1], kind="stable")
        self.rows, self.codes, self.levels = rows[order], codes[order], len(sizes)
        begins = np.zeros(len(codes), bool)
        begins[:1] = True
        self.starts: list[Integers] = []
        for column in self.codes.T:
            begins[1:] |= column[1:] != column[:-1]
            self.starts.append(np.flatnonzero(begins))

    def __len__(self) -> int:
        return len(self.rows)

    def span(self, prefix: Sequence[int]) -> tuple[int, int] | None:
        """The run of a prefix, from and to, or None where no item has it."""
        low, high = 0, len(self)
        if len(prefix) > self.levels:
            return None
        for level, code in enumerate(prefix):
            found = self.branches(low, high, level)
            at = int(np.searchsorted(found.codes, code))
            if at == len(found) or found.codes[at] != code:
                return None
            low = int(found.starts[at])
            high = low + int(found.counts[at])
        return (low, high) if high > low else None

    def branches(self, low: int, high: int, level: int) -> Branches:
        """How a run divides at a level (from 0), in the order of tokens."""
        a, b = np.searchsorted(self.starts[level], (low, high))
        starts = self.starts[level][a:b]
        return Branches(self.codes[starts, level], starts, np.diff(starts, append=high))

    def distinct(self, low: int, high: int) -> Integers:
        """How many items each SID of a run has."""
        return self.branches(low, high, self.levels - 1).counts if self.levels else np.zeros(0, np.int64)
