"""The prefix tree of the explorer: the items of a prefix are one range of the sorted order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..sids.prefixes import Branches, PrefixIndex

__all__ = ["Branches", "Tree"]


class Tree(PrefixIndex):
    """codes: (n, levels), and the catalogue's row of each."""

    def span(self, prefix: Sequence[int]) -> tuple[int, int] | None:
        """The range of a prefix, from and to, or None if no item has it."""
        low, high = self.range_of(prefix) if len(prefix) <= self.levels else (0, 0)
        return (low, high) if high > low else None

    def distinct(self, low: int, high: int) -> NDArray[np.int64]:
        """How many items each SID of a range has."""
        return self.branches(low, high, self.levels - 1).counts if self.levels else np.zeros(0, np.int64)
