"""Groups of texts described by words: those that a group shares, and those that distinguish it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .words import IDEOGRAPH, counts, tokens

__all__ = ["WordCounts"]

COMMON = 0.6  # share of rows that have a word which they share

Integers = NDArray[np.int64]


class WordCounts:
    """The words of a corpus, counted once, to describe groups of its texts.

    A group is an array of row numbers; only these rows are read. Single letters and bare numbers mean little to a
    reader and are not counted.
    """

    def __init__(self, texts: Iterable[str | None]) -> None:
        token, rows, vocabulary, n = tokens(texts)
        meaningful = np.array([_is_meaningful(word) for word in vocabulary], bool)
        used = meaningful[token] if len(token) else np.zeros(0, bool)
        self._count_all(token[used], rows[used], vocabulary, n)

    @classmethod
    def of_tokens(cls, tokens: Integers, rows: Integers, vocabulary: list[str], n: int) -> WordCounts:
        """Of texts that are split already: each word's index in the vocabulary, its row, and the number of texts."""
        made = cls.__new__(cls)
        made._count_all(tokens, rows, vocabulary, n)
        return made

    def _count_all(self, tokens: Integers, rows: Integers, vocabulary: list[str], n: int) -> None:
        self.vocabulary = vocabulary
        self.counts = counts(rows, tokens, n, len(vocabulary))
        self.totals = np.bincount(tokens, minlength=len(vocabulary))
        self.in_texts = np.bincount(self.counts.indices, minlength=len(vocabulary))

    def distinctive(self, rows: ArrayLike, top: int = 5, within: ArrayLike | None = None) -> list[str]:
        """The words that distinguish the rows from the other rows of `within` (default: of the corpus)."""
        inside = np.asarray(rows, np.int64)
        term, count = self._count(inside)
        if within is None:
            return self._top(term, count, self.totals[term] - count, int(self.totals.sum()), top)
        others, other_count = self._count(np.setdiff1d(np.asarray(within, np.int64), inside))
        total = int(count.sum() + other_count.sum())
        return self._top(term, count, _aligned(term, others, other_count), total, top)

    def contrast(self, groups: Sequence[ArrayLike], top: int = 3) -> list[list[str]]:
        """For each group the words that distinguish it from all other groups together."""
        if not groups:
            return []
        counted = [self._count(np.asarray(rows, np.int64)) for rows in groups]
        terms, which = np.unique(np.concatenate([t for t, _ in counted]), return_inverse=True)
        sums = np.bincount(which, np.concatenate([c for _, c in counted]), len(terms)).astype(np.int64)
        total = int(sums.sum())
        return [self._top(t, c, _aligned(t, terms, sums) - c, total, top) for t, c in counted]

    def shared(self, rows: ArrayLike, top: int = 5) -> list[str]:
        """The words that at least the share COMMON of the rows have, most informative first.

        Informative is: in many of the rows and in few texts of the corpus, (rows with it) * log(n / texts with it).
        """
        inside = np.unique(np.asarray(rows, np.int64))
        term, count = self._count(inside, once=True)
        common = count >= COMMON * len(inside) - 1e-9
        term, count = term[common], count[common]
        score = count * np.log(self.counts.shape[0] / self.in_texts[term])
        return [self.vocabulary[term[i]] for i in np.argsort(-score, kind="stable")[:top]]

    def _count(self, rows: Integers, once: bool = False) -> tuple[Integers, Integers]:
        """The terms of these rows, ascending, and how often they occur (in how many rows, if once)."""
        part = self.counts[np.unique(rows)]
        weight = None if once else part.data
        if part.nnz > len(self.vocabulary):
            sums = np.bincount(part.indices, weight, len(self.vocabulary)).astype(np.int64)
            term = np.flatnonzero(sums)
            return term, sums[term]
        term, which = np.unique(part.indices, return_inverse=True)
        return term.astype(np.int64), np.bincount(which, weight, len(term)).astype(np.int64)

    def _top(self, term: Integers, inside: Integers, outside: Integers, total: int, top: int) -> list[str]:
        """Terms by the z-score of their log-odds inside against outside (Monroe et al., "Fightin' Words", 2008).

        The Dirichlet prior of a word is its count inside and outside together, so that a word never seen outside
        is judged by how often it was seen inside. Less than half a standard error is not a difference.
        """
        prior = inside + outside
        n = int(inside.sum())
        here, there = (inside + prior).astype(np.float64), (outside + prior).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # a corpus of one word
            odds = np.log(here / (n + total - here)) - np.log(there / (2 * total - n - there))
        z = odds / np.sqrt(1.0 / here + 1.0 / there)
        best = np.argsort(-z, kind="stable")[:top]
        return [self.vocabulary[term[i]] for i in best if z[i] > 0.5]


def _aligned(wanted: Integers, terms: Integers, counts: Integers) -> Integers:
    """The counts of the wanted terms, zero for those not among terms (ascending)."""
    if not len(terms):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(terms, wanted), len(terms) - 1)
    return np.where(terms[at] == wanted, counts[at], 0).astype(np.int64)


def _is_meaningful(word: str) -> bool:
    return bool(re.match(f"[{IDEOGRAPH}]", word)) or (len(word) > 1 and any(map(str.isalpha, word)))
