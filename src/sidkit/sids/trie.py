"""The prefix tree of a set of semantic IDs, in arrays: which codes may follow a prefix, and the items of each SID."""

from __future__ import annotations

from collections.abc import Sequence
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

    Indices have four bytes where they fit, and may be mapped from a file (`decoding/catalogue.py`).
    """

    sizes: tuple[int, ...]
    codes: tuple[NDArray[np.int32], ...]
    children: tuple[NDArray[Any], ...]
    rows: NDArray[Any]
    bounds: NDArray[Any]

    @classmethod
    def of(cls, table: SidTable, within: Any = None) -> Trie:
        """The SIDs of a table, or of a part of its items: `within` holds row numbers or is a mask over rows."""
        if within is None:
            return cls.of_codes(table.codes, table.sizes)
        chosen = np.asarray(within)
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
        return cls.of_codes(table.codes[rows], table.sizes, rows)

    @classmethod
    def of_codes(cls, given: NDArray[Any], sizes: Sequence[int], rows: NDArray[np.int64] | None = None) -> Trie:
        """The SIDs with these codes (n, levels). rows: their row numbers, if not 0, 1, 2 …"""
        if not len(given):
            raise InputError("no items are left to choose from")
        index = PrefixIndex(given, sizes, rows)
        ends = [np.array([0, len(given)]), *(index.bounds(level) for level in range(index.levels))]
        children = tuple(np.searchsorted(starts, above) for starts, above in zip(index.starts, ends[:-1], strict=True))
        codes = tuple(tokens.astype(np.int32, copy=False) for tokens in index.tokens)
        return cls(tuple(sizes), codes, tuple(map(_narrow, children)), _narrow(index.rows), _narrow(ends[-1]))

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

    def leaves(self, codes: Any) -> NDArray[np.int64]:
        """codes: (..., levels) -> (...) the leaf of every SID, -1 where no item has it."""
        codes = np.asarray(codes, np.int64)
        node, known = np.zeros(codes.shape[:-1], np.int64), np.ones(codes.shape[:-1], bool)
        for level, (own, children) in enumerate(zip(self.codes, self.children, strict=True)):
            code, low, end = codes[..., level], children[node].astype(np.int64), children[node + 1].astype(np.int64)
            high = end
            for _ in range(int(np.max(end - low, initial=0)).bit_length()):
                middle = (low + high) // 2
                below = (own[np.minimum(middle, len(own) - 1)] < code) & (low < high)
                low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
            node = np.minimum(low, len(own) - 1)
            known &= (low < end) & (own[node] == code)
            node = np.where(known, node, 0)
        return np.where(known, node, -1)

    def leaf_of(self, table_rows: int) -> NDArray[np.int64]:
        """(table_rows,) the leaf of every row of the table, -1 for rows that are not in the trie."""
        leaves = np.full(table_rows, -1)
        leaves[self.rows] = np.repeat(np.arange(len(self)), self.counts)
        return leaves

    def alive(self, within: Any) -> tuple[NDArray[np.bool_], ...]:
        """Per level, which nodes lead to an item of a part of the catalogue: a mask over its rows, or row numbers.

        A few milliseconds for a million items, so that a change of stock needs no new trie.
        """
        chosen = np.asarray(within)
        if chosen.dtype != bool:
            rows, chosen = chosen, np.zeros(int(self.rows.max()) + 1, bool)
            chosen[rows[(rows >= 0) & (rows < len(chosen))]] = True
        leads = [np.logical_or.reduceat(chosen[self.rows], self.bounds[:-1])]
        for children in self.children[:0:-1]:
            leads.insert(0, np.logical_or.reduceat(leads[0], children[:-1]))
        if not leads[0].any():
            raise InputError("no items are left to choose from")
        return tuple(leads)


def _narrow(indices: NDArray[np.int64]) -> NDArray[Any]:
    """With four bytes an index, if the largest fits."""
    return indices.astype(np.int32) if not len(indices) or indices.max() < 1 << 31 else indices
