"""What counting knows about the next item, as sparse tables over items, for many users at once.

    followed   how often an item came right after another
    flow       how often it came after another within WINDOW steps, each time divided by their number; over the root of
               how often either was taken
    together   the cosine of who took both items
    popular    how often an item was taken

Of flow and together a history adds up its items, each divided by how long ago it was.

`counting.py` ranks by these tables; a retriever fuses them with its own probabilities (`retriever/fusion.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences

__all__ = ["CountTables", "entries_of", "largest_of_rows"]

Integers = NDArray[np.int64]
NEAREST = 200  # other items that are kept for every item, the nearest
LATEST = 200  # items of a sequence that count as taken together, at most
BLOCK = 4096  # items whose neighbours are counted at once
WINDOW = 5  # steps within which an item flows into another


@dataclass(frozen=True, eq=False)
class CountTables:
    """followed, flow, together: sparse (items, items), by the item before; popular: (items,)."""

    followed: Any
    flow: Any
    together: Any
    popular: Integers

    @classmethod
    def of(cls, seen: Sequences, items: int, nearest: int = NEAREST) -> CountTables:
        """Count sequences, all of them: give `sequences.training()`."""
        from scipy.sparse import coo_array

        before, after, _ = seen.transitions()
        pairs = coo_array((np.ones(len(before), np.float32), (before, after)), (items, items)).tocsr()  # adds up
        popular = np.bincount(seen.rows, minlength=items)
        return cls(pairs, _flow(seen, popular, nearest), _together(seen.tail(LATEST), items, nearest), popular)

    def __len__(self) -> int:
        return len(self.popular)

    def after(self, last: Integers) -> Any:
        """(n, items) how often each item came right after the last item of each of n users, sparse."""
        return self.followed[last]

    def near(self, rows: Integers, position: Integers, length: Integers) -> Any:
        """(n, items) how near each item is to the histories rows[position - length : position], sparse."""
        return self.histories(rows, position, length) @ self.together

    def histories(self, rows: Integers, position: Integers, length: Integers) -> Any:
        """(n, items) what is in the histories rows[position - length : position], over how long ago it was, sparse."""
        from scipy.sparse import csr_array

        ago = np.concatenate([np.arange(n, 0, -1) for n in length.tolist()] or [np.zeros(0, np.int64)])
        item = rows[np.repeat(position, length) - ago]
        starts = np.concatenate([[0], np.cumsum(length)])
        history = csr_array(((1 / ago).astype(np.float32), item, starts), shape=(len(length), len(self)))
        history.sum_duplicates()
        return history


def _flow(seen: Sequences, popular: Integers, nearest: int) -> Any:
    """What comes after an item within WINDOW steps, sparse; of every row the largest, and no item with itself."""
    from scipy.sparse import coo_array

    which = np.repeat(np.arange(len(seen)), np.diff(seen.starts))
    parts: list[tuple[Any, ...]] = []
    for step in range(1, min(WINDOW, len(which) - 1) + 1):
        before, after = seen.rows[:-step], seen.rows[step:]
        counts = (which[:-step] == which[step:]) & (before != after)
        parts.append((before[counts], after[counts], np.full(int(counts.sum()), 1 / step)))
    before, after, value = (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else [which[:0]] * 3
    root = 1 / np.sqrt(popular + 1.0)
    weighed = (value * root[before] * root[after]).astype(np.float32)
    return largest_of_rows(coo_array((weighed, (before, after)), (len(popular), len(popular))).tocsr(), nearest)


def _together(seen: Sequences, items: int, nearest: int) -> Any:
    """The cosine of who took both items, sparse; of every row the nearest, and no item with itself."""
    from scipy.sparse import csr_array, vstack

    shape = (len(seen), items)
    taken = csr_array((np.ones(len(seen.rows), np.float32), seen.rows, seen.starts), shape=shape)
    taken.sum_duplicates()
    taken.data[:] = 1.0  # however often
    by_item = taken.T.tocsr()
    norm = 1 / np.sqrt(np.maximum(np.diff(by_item.indptr), 1)).astype(np.float32)
    parts = []
    for start in range(0, items, BLOCK):
        part = (by_item[start : start + BLOCK] @ taken).tocsr()
        row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)) + start
        part.data = np.where(row == part.indices, 0, part.data * norm[row] * norm[part.indices]).astype(np.float32)
        part.eliminate_zeros()
        parts.append(largest_of_rows(part, nearest))
    return vstack(parts, format="csr")


def largest_of_rows(table: Any, most: int) -> Any:
    """A sparse table with the `most` largest values of every row; of equal values, those of earlier columns."""
    from scipy.sparse import csr_array

    lengths = np.diff(table.indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((table.indices, -table.data, row))
    kept = order[np.arange(len(row)) - table.indptr[row] < most]
    kept.sort()
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))])
    return csr_array((table.data[kept], table.indices[kept], starts), shape=table.shape)


def entries_of(table: Any) -> tuple[Integers, Integers, NDArray[np.float64]]:
    """A sparse table as (row, column, value) of its entries."""
    row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    return row, table.indices.astype(np.int64), table.data.astype(np.float64)
