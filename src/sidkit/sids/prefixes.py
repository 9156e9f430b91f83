"""Prefixes of semantic IDs: as numbers, and as ranges of one sorted order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

__all__ = [
    "Branches",
    "PrefixIndex",
    "by_first_token",
    "prefix_mates",
    "prefix_numbers",
    "require_codes",
    "sid_numbers",
    "token_counts",
]

Integers = NDArray[np.int64]
AT_ONCE = 1 << 22  # rows whose prefixes are sorted together


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
    number = sid_numbers(codes, sizes)
    bits = len(codes).bit_length()
    if number.max() >= 1 << (63 - bits):
        return np.argsort(number, kind="stable")
    number <<= bits
    number |= np.arange(len(codes))
    number.sort()
    number &= (1 << bits) - 1
    return number


def prefix_numbers(codes: NDArray[Any], sizes: Sequence[int]) -> list[Integers]:
    """For every level, one number per row that is equal for rows with equal prefixes and sorts as prefixes do.

    Mixed radix while it fits 63 bits; beyond that prefixes are renumbered densely first.
    """
    return list(_numbers(codes, sizes))


def sid_numbers(codes: NDArray[Any], sizes: Sequence[int]) -> Integers:
    """The last of `prefix_numbers`, without the memory of the others."""
    number = np.zeros(len(codes), np.int64)
    for one in _numbers(codes, sizes):
        number = one
    return number


def _numbers(codes: NDArray[Any], sizes: Sequence[int]) -> Iterator[Integers]:
    number, limit = np.zeros(len(codes), np.int64), 1
    for level, size in enumerate(sizes):
        if limit * size >= 2**63:
            number = np.unique(number, return_inverse=True)[1].astype(np.int64)
            limit = len(codes)
        number = number * size
        number += codes[:, level]
        limit *= size
        yield number


def by_first_token(codes: NDArray[Any], sizes: Sequence[int], most: int | None = None) -> Iterator[Integers]:
    """Row numbers in parts: all rows of a few first tokens at a time, ascending, in the order of these tokens.

    No prefix is in two parts, so what is counted by prefix adds up over them, and memory holds one part. A part has at
    most `most` rows (AT_ONCE), or one token.
    """
    ends = np.cumsum(token_counts(codes[:, 0], sizes[0]))
    first = 0
    while first < len(ends):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + (most or AT_ONCE), "right")))
        if ends[last - 1] == len(codes) and done == 0:
            yield np.arange(len(codes))
        elif ends[last - 1] > done:
            yield np.flatnonzero((codes[:, 0] >= first) & (codes[:, 0] < last))
        first = last


def token_counts(column: NDArray[Any], size: int) -> Integers:
    """How many rows have each code of a level: (size,)."""
    counts = np.zeros(size, np.int64)
    for start in range(0, len(column), AT_ONCE):  # as `bincount` makes a copy in 64 bits
        counts += np.bincount(column[start : start + AT_ONCE], minlength=size)
    return counts


def prefix_mates(codes: NDArray[Any], sizes: Sequence[int], rows: Integers) -> Integers:
    """For some rows, how many of all rows have the same prefix, themselves included: (levels, rows)."""
    out = np.empty((len(sizes), len(rows)), np.int64)
    firsts = codes[rows, 0]
    for part in by_first_token(codes, sizes):
        tokens = codes[part, 0]
        mine = np.flatnonzero((firsts >= tokens.min()) & (firsts <= tokens.max()))
        if not len(mine):
            continue
        for level, number in enumerate(_numbers(np.concatenate([codes[rows[mine]], codes[part]]), sizes)):
            wanted, ordered = number[: len(mine)], np.sort(number[len(mine) :])
            low, high = (np.searchsorted(ordered, wanted, side) for side in ("left", "right"))
            out[level, mine] = high - low
    return out


def require_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """The codes as an array (n, levels), if they fit the sizes and there are any."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise InputError(f"codes of shape {array.shape} do not fit {len(sizes)} sizes")
    if 0 in array.shape:
        raise InputError("there are no codes to measure")
    for level, size in enumerate(sizes):
        if array[:, level].min() < 0 or array[:, level].max() >= size:
            raise InputError(f"some codes lie outside their codebook (sizes {tuple(sizes)})")
    return array
