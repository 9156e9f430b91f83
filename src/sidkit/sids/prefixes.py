"""Prefixes of semantic IDs: as numbers, and as ranges of one sorted order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

__all__ = ["Branches", "PrefixIndex", "prefix_numbers", "require_codes"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Branches:
    """The occupied prefixes one token longer than a given one: the token, the start of its range, its items."""

    codes: NDArray[np.int32]
    starts: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.codes)

    def pick(self, which: Integers | slice) -> Branches:
        return Branches(self.codes[which], self.starts[which], self.counts[which])

    def largest_first(self) -> Branches:
        return self.pick(np.argsort(-self.counts, kind="stable"))


class PrefixIndex:
    """Rows sorted by their codes, so that all rows with one prefix are a range of the order.

    rows     (n,) the row numbers, sorted by codes (n, levels); rows with equal codes stay in their order
    starts   per level, where in the order each occupied prefix of that many tokens starts, ascending
    tokens   per level, the last token of each of these prefixes

    A few bytes an item; every question is a binary search.
    """

    def __init__(self, codes: NDArray[np.int32], sizes: Sequence[int], rows: Integers | None = None) -> None:
        order = _order(codes, sizes)
        self.rows = order if rows is None else rows[order]
        starts, tokens = list[Integers](), list[NDArray[np.int32]]()
        begins = np.zeros(len(codes), bool)
        begins[:1] = True
        for level in range(len(sizes)):
            column = codes[order, level]
            begins[1:] |= column[1:] != column[:-1]
            starts.append(np.flatnonzero(begins))
            tokens.append(column[starts[-1]])
        self.starts, self.tokens = tuple(starts), tuple(tokens)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def levels(self) -> int:
        return len(self.starts)

    def range_of(self, prefix: Sequence[int]) -> tuple[int, int]:
        """The range of a prefix, from and to; from = to if no row has it."""
        low, high = 0, len(self)
        for level, code in enumerate(prefix):
            first, last = np.searchsorted(self.starts[level], (low, high))
            at = first + int(np.searchsorted(self.tokens[level][first:last], code))
            if at == last or self.tokens[level][at] != code:
                return 0, 0
            low = int(self.starts[level][at])
            high = int(self.starts[level][at + 1]) if at + 1 < last else high
        return low, high

    def branches(self, low: int, high: int, level: int) -> Branches:
        """How a range of a prefix divides at a level (from 0), in the order of tokens."""
        part = slice(*np.searchsorted(self.starts[level], (low, high)))
        starts = self.starts[level][part]
        return Branches(self.tokens[level][part], starts, np.diff(starts, append=high))

    def bounds(self, level: int) -> Integers:
        """The start of each prefix of a level (from 0), and the end: (prefixes + 1,)."""
        return np.append(self.starts[level], len(self))


def _order(codes: NDArray[np.int32], sizes: Sequence[int]) -> Integers:
    """The stable order of rows by their codes: an ordinary sort of code and row together if both fit an integer."""
    if not len(codes) or not sizes:
        return np.arange(len(codes))
    number = prefix_numbers(codes, sizes)[-1]
    bits = len(codes).bit_length()
    if number.max() >= 1 << (63 - bits):
        return np.argsort(number, kind="stable")
    keys = (number << bits) | np.arange(len(codes))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def prefix_numbers(codes: NDArray[Any], sizes: Sequence[int]) -> list[Integers]:
    """For every level, one number per row that is equal for rows with equal prefixes and sorts as prefixes do.

    Mixed radix while it fits 63 bits; beyond that prefixes are renumbered densely first.
    """
    numbers, number, limit = [], np.zeros(len(codes), np.int64), 1
    for level, size in enumerate(sizes):
        if limit * size >= 2**63:
            number = np.unique(number, return_inverse=True)[1].astype(np.int64)
            limit = len(codes)
        number = number * size + codes[:, level]
        limit *= size
        numbers.append(number)
    return numbers


def require_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """The codes as an array (n, levels), if they fit the sizes and there are any."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise InputError(f"codes of shape {array.shape} do not fit {len(sizes)} sizes")
    if 0 in array.shape:
        raise InputError("there are no codes to measure")
    if (array < 0).any() or (array >= np.asarray(sizes)).any():
        raise InputError(f"some codes lie outside their codebook (sizes {tuple(sizes)})")
    return array
