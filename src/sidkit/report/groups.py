"""Groups of items to show to a reader, chosen by fixed rules: crowded SIDs and a sample of the prefix tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.joined import texts_at
from ..embed.word_counts import WordCounts
from ..sids.prefixes import by_first_token, sid_numbers, token_counts
from ..sids.table import SidTable

__all__ = ["StoredTexts", "WordsAmong", "collision_groups", "largest_branches", "prefix_tree", "typical_prefixes"]

Integers = NDArray[np.int64]
GROUPS, PAIRS, TEXTS = 6, 4, 6  # collision groups of either kind, and texts shown of each
PREFIXES, BRANCHES, LEAVES = 4, 4, 3  # the sample of the tree
BACKGROUND = 20_000  # texts that words are weighed against


def typical_prefixes(table: SidTable, count: int) -> list[int]:
    """First tokens of typical size (within half of the median), evenly spaced over the codebook."""
    sizes = token_counts(table.codes[:, 0], table.sizes[0])
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


@dataclass(frozen=True)
class StoredTexts:
    """The texts of the items of a table, which stay in the items' file: those of a few rows are read when needed."""

    table: SidTable
    path: str | PathLike[str]
    column: str
    id_column: str

    def __len__(self) -> int:
        return len(self.table)

    def at(self, rows: Integers) -> list[str]:
        return texts_at(self.path, self.column, self.id_column, self.table.ids_of(rows))


class WordsAmong:
    """The words of groups of rows, weighed against a sample of all texts. Without texts there are no words.

    Counting the words of a million titles takes a minute; those of the rows shown and of a sample give the same answer.
    """

    def __init__(self, texts: Sequence[str] | StoredTexts | None, rows: Sequence[Integers], seed: int = 0) -> None:
        """texts: of all rows of the table; rows: the groups that will be asked about."""
        self.known = texts is not None
        if texts is not None:
            background = np.random.default_rng(seed).permutation(len(texts))[:BACKGROUND]
            self.rows = np.unique(np.concatenate([background, *rows]))
            if isinstance(texts, StoredTexts):
                self.texts = texts.at(self.rows)
            else:
                self.texts = [texts[int(row)] for row in self.rows]
            self.counts = WordCounts(self.texts)

    def shared(self, rows: Integers) -> list[str]:
        """The words that the rows share or, where there are none, those that distinguish them."""
        if not self.known or not len(rows):
            return []
        local = np.searchsorted(self.rows, rows)
        return self.counts.shared(local) or self.counts.distinctive(local)

    def contrast(self, groups: Sequence[Integers]) -> list[list[str]]:
        """For each group, the words that distinguish it from the others."""
        if not self.known:
            return [[] for _ in groups]
        return self.counts.contrast([np.searchsorted(self.rows, rows) for rows in groups])

    def texts_of(self, rows: Integers) -> dict[str, list[str]]:
        """{"texts": ...} of rows that were announced; empty without texts."""
        if not self.known:
            return {}
        return {"texts": [self.texts[at] for at in np.searchsorted(self.rows, rows).tolist()]}


def collision_groups(table: SidTable, texts: Sequence[str] | StoredTexts | None) -> list[dict[str, Any]]:
    """The most crowded SIDs, then SIDs with two items, evenly spaced over all of those."""
    crowded, pairs = _most_crowded(table)
    picks = np.arange(min(PAIRS, pairs)) * pairs // max(1, min(PAIRS, pairs))
    chosen = [*crowded, *(_pairs(table, picks, crowded) if len(picks) else ())]
    words = WordsAmong(texts if chosen else None, chosen)
    return [_group(table, rows, words) for rows in chosen]


def _most_crowded(table: SidTable) -> tuple[list[Integers], int]:
    """The rows of the GROUPS most crowded SIDs, and how many other SIDs have two items."""
    found: list[Integers] = []
    pairs = 0
    for order, starts, counts in _sids(table):
        pairs += int((counts == 2).sum())
        first = np.argsort(-counts, kind="stable")[:GROUPS]
        found += [order[starts[sid] : starts[sid] + counts[sid]] for sid in first if counts[sid] > 1]
        found = sorted(found, key=lambda rows: -len(rows))[:GROUPS]  # stable: SIDs that come first stay first
    return found, pairs - sum(len(rows) == 2 for rows in found)


def _pairs(table: SidTable, picks: Integers, crowded: Sequence[Integers]) -> Iterator[Integers]:
    """The rows of SIDs with two items that are not among the crowded ones, by their number among all such SIDs."""
    shown, done = {int(rows[0]) for rows in crowded}, 0
    for order, starts, counts in _sids(table):
        pairs = starts[counts == 2]
        pairs = pairs[[int(order[start]) not in shown for start in pairs]] if len(shown) and len(pairs) else pairs
        for pick in picks[(picks >= done) & (picks < done + len(pairs))] - done:
            yield order[pairs[pick] : pairs[pick] + 2]
        done += len(pairs)


def _sids(table: SidTable) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Rows in the order of their SIDs, where in it each SID starts, and its items: some first tokens at a time."""
    for rows in by_first_token(table.codes, table.sizes):
        numbers = sid_numbers(table.codes[rows], table.sizes)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) != 0])
        yield rows[order], starts, np.diff(np.r_[starts, len(order)])


def _group(table: SidTable, rows: Integers, words: WordsAmong) -> dict[str, Any]:
    group: dict[str, Any] = {
        "sid": table.template.write(table.codes[rows[0]].tolist()),
        "items": len(rows),
        "ids": table.ids_of(rows[:TEXTS]),
    }
    if words.known:
        group |= {"words": words.shared(rows)} | words.texts_of(rows[:TEXTS])
        group["different_texts"] = len(set(words.texts_of(rows)["texts"]))
    return group


def prefix_tree(table: SidTable, texts: Sequence[str] | StoredTexts | None) -> list[dict[str, Any]]:
    """A few first tokens of typical size, their largest branches and the branches of those, each with its words."""
    tops = [np.flatnonzero(table.codes[:, 0] == first) for first in typical_prefixes(table, PREFIXES)]
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
