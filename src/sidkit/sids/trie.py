"""The valid prefixes of a set of semantic IDs, compactly: what may follow what, and which items a SID stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .prefixes import prefix_numbers
from .table import SidTable

__all__ = ["Trie"]


@dataclass(frozen=True, eq=False)
class Trie:
    """One node per occupied prefix, level by level, sorted; the nodes of the last level are the SIDs ("leaves").

    codes[l]      (nodes of level l,) the last code of each prefix
    children[l]   (nodes of level l - 1, + 1) the children of node i are nodes children[l][i] to children[l][i + 1]
    rows          item rows, those of a SID together: leaf i has rows[bounds[i]:bounds[i + 1]]
    """

    sizes: tuple[int, ...]
    codes: tuple[NDArray[np.int64], ...]
    children: tuple[NDArray[np.int64], ...]
    rows: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, table: SidTable, within: Any = None) -> Trie:
        """The SIDs of a table, or of a part of its items: `within` holds row numbers or is a mask over rows."""
        rows = np.arange(len(table)) if within is None else np.asarray(within)
        rows = np.flatnonzero(rows) if rows.dtype == bool else np.unique(rows)
        if not len(rows):
            raise InputError("no items are left to choose from")
        rows = rows[np.lexsort(table.codes[rows].T[::-1])]  # stable: rows of one SID stay in table order
        numbers = prefix_numbers(table.codes[rows], table.sizes)
        codes, children, above = [], [], np.zeros(len(rows), np.int64)
        for level, number in enumerate(numbers):
            _, first, node = np.unique(number, return_index=True, return_inverse=True)
            codes.append(table.codes[rows[first], level].astype(np.int64))
            children.append(np.searchsorted(above[first], np.arange(above[-1] + 2)))
            above = node
        bounds = np.searchsorted(above, np.arange(above[-1] + 2))
        return cls(table.sizes, tuple(codes), tuple(children), rows, bounds)

    def __len__(self) -> int:
        """Distinct SIDs."""
        return len(self.codes[-1])

    @property
    def counts(self) -> NDArray[np.int64]:
        """(leaves,) items per SID."""
        return np.diff(self.bounds)

    def items(self, leaf: int) -> NDArray[np.int64]:
        """The rows of the items of a SID, in table order."""
        return self.rows[self.bounds[leaf] : self.bounds[leaf + 1]]

    def leaf_of(self, table_rows: int) -> NDArray[np.int64]:
        """(table_rows,) the leaf of every row of the table, -1 for rows that are not in the trie."""
        leaves = np.full(table_rows, -1)
        leaves[self.rows] = np.repeat(np.arange(len(self)), self.counts)
        return leaves
