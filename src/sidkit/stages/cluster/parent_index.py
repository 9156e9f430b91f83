"""Which parent a row has: its last tokens, looked up among the parents of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ParentIndex", "distinct_parents"]

Integers = NDArray[np.int64]

MOST_NUMBERS = 1 << 62  # beyond, the tokens of a parent do not fit into one integer
DENSE = 1 << 22  # numbers up to which there is a table of all of them


def distinct_parents(codes: NDArray[np.integer[Any]]) -> tuple[Integers, Integers]:
    """The distinct rows of codes (n, w), sorted, and for every row the one that it is: (P, w), (n,)."""
    widths = codes.max(axis=0, initial=0).astype(np.int64) + 1
    if _product(widths) > MOST_NUMBERS:
        keys, parent_of = np.unique(codes.astype(np.int64), axis=0, return_inverse=True)
        return keys, parent_of.ravel()
    numbers, parent_of = np.unique(_as_one(codes, widths), return_inverse=True)
    keys = np.empty((len(numbers), len(widths)), np.int64)
    for column in range(len(widths) - 1, -1, -1):
        numbers, keys[:, column] = np.divmod(numbers, widths[column])
    return keys, parent_of.ravel()


@dataclass(frozen=True, eq=False)
class ParentIndex:
    """Parents by their tokens, as numbers of mixed radix: in a table of all numbers, or sorted where these are many."""

    widths: Integers  # (w,) codes of each token
    numbers: Integers | None  # (P,) sorted; None if tokens do not fit into one
    table: NDArray[np.int32] | None  # number -> parent, -1 where there is none; None if the numbers are too many

    @classmethod
    def of(cls, keys: Integers) -> ParentIndex:
        """The index of these parents (P, w), sorted."""
        widths = keys.max(axis=0, initial=0) + 1
        total = _product(widths)
        if total > MOST_NUMBERS:
            return cls(widths, None, None)
        numbers = _as_one(keys, widths)
        if total > max(DENSE, 4 * len(keys)):
            return cls(widths, numbers, None)
        table = np.full(total, -1, np.int32)
        table[numbers] = np.arange(len(keys))
        return cls(widths, numbers, table)

    def find(self, keys: Integers, codes: NDArray[np.integer[Any]]) -> Integers:
        """The index among `keys` of the parent with each row of codes (n, w), -1 where there is none."""
        if self.numbers is None:
            return _search(_as_bytes(keys), _as_bytes(codes.astype(np.int64)))
        columns = list(zip(codes.T, self.widths, strict=True))
        outside = any(c.min(initial=0) < 0 or c.max(initial=0) >= width for c, width in columns)
        if outside:  # rare: codes that no parent has
            inside = np.logical_and.reduce([(c >= 0) & (c < width) for c, width in columns])
            return np.where(inside, self.find(keys, np.where(inside[:, None], codes, keys[:1])), -1)
        wanted = _as_one(codes, self.widths)
        if self.table is not None:
            return self.table[wanted].astype(np.int64)
        return _search(self.numbers, wanted)


def _search(known: NDArray[Any], wanted: NDArray[Any]) -> Integers:
    index = np.searchsorted(known, wanted)
    index[index == len(known)] = 0
    return np.where(known[index] == wanted, index, -1)


def _product(widths: Integers) -> int:
    total = 1
    for width in widths.tolist():
        total *= width
    return total


def _as_one(codes: NDArray[np.integer[Any]], widths: Integers) -> Integers:
    """Rows of codes as one number each, which sorts as they do."""
    numbers = codes[:, 0].astype(np.int64)
    for column in range(1, len(widths)):
        numbers *= widths[column]
        numbers += codes[:, column]
    return numbers


def _as_bytes(keys: Integers) -> NDArray[Any]:
    """Rows of integers as one value each, which sorts as they do."""
    return np.ascontiguousarray(keys, dtype=">i8").view(f"V{8 * keys.shape[1]}").ravel()
