"""Groups of items to show to a reader, chosen by fixed rules: crowded SIDs and a sample of the prefix tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embed.word_counts import WordCounts
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable

__all__ = ["WordsAmong", "collision_groups", "largest_branches", "prefix_tree", "typical_prefixes"]

Integers = NDArray[np.int64]
GROUPS, PAIRS, TEXTS = 6, 4, 6  # collision groups of either kind, and texts shown of each
PREFIXES, BRANCHES, LEAVES = 4, 4, 3  # the sample of the tree
BACKGROUND = 20_000  # texts that words are weighed against


def typical_prefixes(table: SidTable, count: int) -> list[int]:
    """First tokens of typical size (within half of the median), evenly spaced over the codebook."""
    sizes = np.bincount(table.codes[:, 0], minlength=table.sizes[0])
    median = np.median(sizes[sizes > 0])
    typical = np.flatnonzero((sizes > 0) & (np.abs(sizes - median) <= median / 2))
    chosen = typical if len(typical) else np.flatnonzero(sizes)
    return sorted({int(chosen[i * len(chosen) // count]) for i in range(count)})


def largest_branches(table: SidTable, rows: Integers, level: int, count: int) -> list[Integers]:
    """The rows split by their token of a level (from 0): the largest groups first, equal ones by code."""
    tokens = table.codes[rows, level]
    counts = np.bincount(tokens)
    largest = np.argsort(-counts, kind="stable")[:count]
    return [rows[tokens == code] for code in largest if counts[code]]


class WordsAmong:
    """The words of groups of rows, weighed against a sample of all texts. Without texts there are no words.

    Counting the words of a million titles takes a minute; those of the rows shown and of a sample give the same answer.
    """

    def __init__(self, texts: Sequence[str] | None, rows: Sequence[Integers], seed: int = 0) -> None:
        """texts: of all rows of the table; rows: the groups that will be asked about."""
        self.texts = texts
        if texts is not None:
            background = np.random.default_rng(seed).permutation(len(texts))[:BACKGROUND]
            self.rows = np.unique(np.concatenate([background, *rows]))
            self.counts = WordCounts([texts[int(row)] for row in self.rows])

    def shared(self, rows: Integers) -> list[str]:
        """The words that the rows share or, where there are none, those that distinguish them."""
        if self.texts is None or not len(rows):
            return []
        local = np.searchsorted(self.rows, rows)
        return self.counts.shared(local) or self.counts.distinctive(local)

    def contrast(self, groups: Sequence[Integers]) -> list[list[str]]:
        """For each group, the words that distinguish it from the others."""
        if self.texts is None:
            return [[] for _ in groups]
        return self.counts.contrast([np.searchsorted(self.rows, rows) for rows in groups])

    def texts_of(self, rows: Integers) -> dict[str, list[str]]:
        """{"texts": ...} of these rows; empty without texts."""
        return {} if self.texts is None else {"texts": [self.texts[int(row)] for row in rows]}


def collision_groups(table: SidTable, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """The most crowded SIDs, then SIDs with two items, evenly spaced over all of those."""
    numbers = prefix_numbers(table.codes, table.sizes)[-1]
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) != 0])
    counts = np.diff(np.r_[starts, len(order)])
    crowded = np.argsort(-counts, kind="stable")[:GROUPS]
    pairs = np.setdiff1d(np.flatnonzero(counts == 2), crowded)
    pairs = pairs[np.arange(min(PAIRS, len(pairs))) * len(pairs) // max(1, min(PAIRS, len(pairs)))]
    chosen = [order[starts[g] : starts[g] + counts[g]] for g in (*crowded, *pairs) if counts[g] > 1]
    words = WordsAmong(texts if chosen else None, chosen)
    return [_group(table, rows, words) for rows in chosen]


def _group(table: SidTable, rows: Integers, words: WordsAmong) -> dict[str, Any]:
    group: dict[str, Any] = {
        "sid": table.template.write(table.codes[rows[0]].tolist()),
        "items": len(rows),
        "ids": table.ids.take(rows[:TEXTS]).to_pylist(),
    }
    if words.texts is not None:
        group |= {"words": words.shared(rows)} | words.texts_of(rows[:TEXTS])
        group["different_texts"] = len({words.texts[int(row)] for row in rows})
    return group


def prefix_tree(table: SidTable, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """A few first tokens of typical size, their largest branches and the branches of those, each with its words."""
    tops = [table.rows_of((first,)) for first in typical_prefixes(table, PREFIXES)]
    words = WordsAmong(texts, tops)
    return [_branch(table, rows, 1, words.shared(rows), words) for rows in tops]


def _branch(table: SidTable, rows: Integers, depth: int, telling: list[str], words: WordsAmong) -> dict[str, Any]:
    prefix = table.template.write_prefix(table.codes[rows[0], :depth].tolist(), len(table.sizes))
    branch: dict[str, Any] = {"prefix": prefix, "items": len(rows), "words": telling}
    if depth == min(3, len(table.sizes)):
        return branch | words.texts_of(rows[:2])
    parts = largest_branches(table, rows, depth, BRANCHES if depth == 1 else LEAVES)
    branch["branches_in_all"] = len(np.unique(table.codes[rows, depth]))
    branch["branches"] = [
        _branch(table, part, depth + 1, apart, words) for part, apart in zip(parts, words.contrast(parts), strict=True)
    ]
    return branch
