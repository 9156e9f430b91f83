"""Two tokenizers on the same items: what one separates and the other merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.items import match
from ..errors import InputError
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable
from .groups import WordsAmong

__all__ = ["Division", "aligned", "branches_of", "contrast"]

Integers = NDArray[np.int64]


def aligned(a: SidTable, b: SidTable) -> tuple[SidTable, SidTable, Integers]:
    """Both tables over the items they share, in the order of a, and the rows of a that those are."""
    rows = match(a.ids, b.ids)
    both = np.flatnonzero(rows >= 0)
    if not len(both):
        raise InputError(f"the two tables share no item (one starts with {a.ids[0]}, the other with {b.ids[0]})")
    ids = a.ids.take(both)
    of_a = SidTable(ids, a.codes[both], a.sizes, a.template)
    return of_a, SidTable(ids, b.codes[rows[both]], b.sizes, b.template), both


def contrast(
    a: SidTable, b: SidTable, texts: Sequence[str] | None = None, groups: int = 2
) -> dict[str, int | list[dict[str, Any]]]:
    """What b separates of what a merges: tables of the same items in the same order.

    pairs_merged       pairs of items with one SID under a
    pairs_separated    those of them that b gives different SIDs
    items_separated    items that share a SID under a and are alone on theirs under b
    groups             the SIDs of a whose items b separates into most pairs: see `branches_of`
    """
    division = Division(prefix_numbers(a.codes, a.sizes)[-1], prefix_numbers(b.codes, b.sizes)[-1])
    separated = choose_two(division.items) - division.pairs_kept
    most = np.argsort(-separated, kind="stable")[:groups]
    split = [division.rows(group) for group in most if separated[group] > 0]
    words = WordsAmong(texts if split else None, split)
    return {
        "pairs_merged": int(choose_two(division.items).sum()),
        "pairs_separated": int(separated.sum()),
        "items_separated": int(division.alone[division.items > 1].sum()),
        "groups": [
            {
                "sid": a.template.write(a.codes[rows[0]].tolist()),
                "items": len(rows),
                "branches": branches_of(b, rows, words),
            }
            for rows in split
        ],
    }


class Division:
    """The groups of rows with equal `first` numbers, ascending, and how `second` numbers divide each.

    items        per group, its rows
    parts        the different second numbers among them
    smallest     rows of the smallest part
    pairs_kept   pairs of rows with equal second numbers as well
    alone        rows whose second number no other row has
    """

    def __init__(self, first: Integers, second: Integers) -> None:
        _, self.group, self.items = np.unique(first, return_inverse=True, return_counts=True)
        _, other, sharing = np.unique(second, return_inverse=True, return_counts=True)
        joint, count = np.unique(self.group * np.int64(len(sharing)) + other, return_counts=True)
        group = joint // len(sharing)
        self.parts = np.bincount(group)
        self.smallest = np.full(len(self.items), len(first))
        np.minimum.at(self.smallest, group, count)
        self.pairs_kept = np.bincount(group, choose_two(count)).astype(np.int64)
        self.alone = np.bincount(self.group, sharing[other] == 1).astype(np.int64)

    def rows(self, group: int) -> Integers:
        return np.flatnonzero(self.group == group)


def choose_two(count: Integers) -> Integers:
    """The number of pairs among `count` rows."""
    pairs: Integers = count * (count - 1) // 2
    return pairs


def branches_of(table: SidTable, rows: Integers, words: WordsAmong) -> list[Mapping[str, Any]]:
    """The SIDs that a table gives these rows, the largest first, with the words that distinguish each."""
    numbers = prefix_numbers(table.codes[rows], table.sizes)[-1]
    parts = sorted((rows[numbers == number] for number in np.unique(numbers)), key=len, reverse=True)
    return [
        {
            "sid": table.template.write(table.codes[part[0]].tolist()),
            "codes": table.codes[part[0]].tolist(),
            "items": len(part),
            "ids": table.ids.take(part).to_pylist(),
            "words": apart,
        }
        | words.texts_of(part)
        for part, apart in zip(parts, words.contrast(parts), strict=True)
    ]
