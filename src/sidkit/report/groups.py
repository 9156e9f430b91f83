"""Groups of items worth showing to a person, chosen by fixed rules: crowded SIDs and a sample of the prefix tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embed.word_counts import WordCounts
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable
from ..sids.template import TEMPLATES

__all__ = ["WordsAmong", "collision_groups", "largest_branches", "prefix_tree", "sid_string", "typical_prefixes"]

Integers = NDArray[np.int64]
GROUPS, PAIRS, TEXTS = 6, 4, 6  # collision groups of either kind, and texts shown of each
PREFIXES, BRANCHES, LEAVES = 4, 4, 3  # the sample of the tree
BACKGROUND = 20_000  # texts that words are weighed against


def sid_string(codes: Iterable[int]) -> str:
    """<a_12><b_3> for (12, 3)."""
    form = TEMPLATES["letters"]
    return "".join(form.words(level, int(code) + 1)[-1] for level, code in enumerate(codes))


def typical_prefixes(table: SidTable, many: int) -> list[int]:
    """First tokens of typical size (within half of the median), spread evenly over the codebook."""
    sizes = np.bincount(table.codes[:, 0], minlength=table.sizes[0])
    middle = np.median(sizes[sizes > 0])
    middling = np.flatnonzero((sizes > 0) & (np.abs(sizes - middle) <= middle / 2))
    chosen = middling if len(middling) else np.flatnonzero(sizes)
    return sorted({int(chosen[i * len(chosen) // many]) for i in range(many)})


def largest_branches(table: SidTable, rows: Integers, level: int, many: int) -> list[Integers]:
    """The rows split by their token of a level (from 0): the largest groups first, equal ones by code."""
    tokens = table.codes[rows, level]
    counts = np.bincount(tokens)
    largest = np.argsort(-counts, kind="stable")[:many]
    return [rows[tokens == code] for code in largest if counts[code]]


class WordsAmong:
    """WordCounts over some rows and a background, asked by row numbers of the whole table.

    Counting the words of a million titles takes a minute; the rows that are shown and a sample tell the same.
    """

    def __init__(self, texts: Sequence[str], rows: Integers, seed: int = 0) -> None:
        drawn = np.random.default_rng(seed).permutation(len(texts))[:BACKGROUND]
        self.rows = np.union1d(rows, drawn)
        self.counts = WordCounts([texts[int(row)] for row in self.rows])

    def shared(self, rows: Integers) -> list[str]:
        """What the rows have in common or, failing that, what sets them apart."""
        local = np.searchsorted(self.rows, rows)
        return self.counts.shared(local) or self.counts.distinctive(local)

    def contrast(self, groups: Sequence[Integers]) -> list[list[str]]:
        return self.counts.contrast([np.searchsorted(self.rows, rows) for rows in groups])


def collision_groups(table: SidTable, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """The most crowded SIDs, then SIDs with two items spread evenly over all of those."""
    numbers = prefix_numbers(table.codes, table.sizes)[-1]
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) != 0])
    counts = np.diff(np.r_[starts, len(order)])
    crowded = np.argsort(-counts, kind="stable")[:GROUPS]
    pairs = np.setdiff1d(np.flatnonzero(counts == 2), crowded)
    pairs = pairs[np.arange(min(PAIRS, len(pairs))) * len(pairs) // max(1, min(PAIRS, len(pairs)))]
    chosen = [order[starts[g] : starts[g] + counts[g]] for g in (*crowded, *pairs) if counts[g] > 1]
    words = WordsAmong(texts, np.concatenate(chosen)) if texts is not None and chosen else None
    return [_group(table, rows, texts, words) for rows in chosen]


def _group(table: SidTable, rows: Integers, texts: Sequence[str] | None, words: WordsAmong | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sid": sid_string(table.codes[rows[0]]),
        "items": len(rows),
        "ids": table.ids.take(rows[:TEXTS]).to_pylist(),
    }
    if texts is not None and words is not None:
        found["words"] = words.shared(rows)
        found["texts"] = [texts[int(row)] for row in rows[:TEXTS]]
        found["different_texts"] = len({texts[int(row)] for row in rows})
    return found


def prefix_tree(table: SidTable, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """A few first tokens of typical size, their largest branches and those branches' own, with telling words."""
    tops = [table.rows_of((first,)) for first in typical_prefixes(table, PREFIXES)]
    words = WordsAmong(texts, np.concatenate(tops)) if texts is not None else None
    told = [words.shared(rows) if words else [] for rows in tops]
    return [_branch(table, rows, 1, own, texts, words) for rows, own in zip(tops, told, strict=True)]


def _branch(
    table: SidTable, rows: Integers, depth: int, own: list[str], texts: Sequence[str] | None, words: WordsAmong | None
) -> dict[str, Any]:
    found: dict[str, Any] = {"prefix": sid_string(table.codes[rows[0], :depth]), "items": len(rows), "words": own}
    if depth == min(3, len(table.sizes)):
        return found | ({"texts": [texts[int(row)] for row in rows[:2]]} if texts is not None else {})
    branches = largest_branches(table, rows, depth, BRANCHES if depth == 1 else LEAVES)
    told = words.contrast(branches) if words else [[] for _ in branches]
    found["branches_in_all"] = len(np.unique(table.codes[rows, depth]))
    found["branches"] = [
        _branch(table, branch, depth + 1, apart, texts, words) for branch, apart in zip(branches, told, strict=True)
    ]
    return found
