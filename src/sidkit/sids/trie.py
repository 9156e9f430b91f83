"""The prefix tree of a set of semantic IDs, in arrays: which codes may follow a prefix, and the items of each SID."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .prefixes import PrefixIndex
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
        rows = np.arange(len(table))
        if within is not None:
            chosen = np.asarray(within)
            rows = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
        if not len(rows):
            raise InputError("no items are left to choose from")
        index = PrefixIndex(table.codes[rows], table.sizes, rows)
        ends = [np.array([0, len(rows)]), *(index.bounds(level) for level in range(index.levels))]
        children = tuple(np.searchsorted(starts, above) for starts, above in zip(index.starts, ends[:-1], strict=True))
        codes = tuple(tokens.astype(np.int64) for tokens in index.tokens)
        return cls(table.sizes, codes, children, index.rows, ends[-1])

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
