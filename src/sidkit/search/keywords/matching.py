"""Keywords in texts, and vectors that take them in (OneSearch's keyword enhancement).

    e = normalise((1 - weight) * raw + weight * mean of the vectors of the text's keywords)

A row whose text has no keyword keeps its vector. `dictionary.py` makes a dictionary from a catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, SpecError, need
from ...geometry import unit
from .words import is_unspaced, normal

__all__ = ["Matcher", "fuse", "require_share"]


class Matcher:
    """Finds the keywords of a dictionary in texts, all in one pass over a text (Aho-Corasick).

    Case and punctuation do not count. A keyword matches whole words, except where its script has no blanks between
    words. Of overlapping keywords the longest is taken: one that is part of another match of the text is dropped.
    """

    def __init__(self, keywords: Sequence[str]) -> None:
        library = need("ahocorasick", "search", "finding keywords")
        self.keywords = tuple(keywords)
        self._patterns: dict[str, int] = {}
        for number, keyword in enumerate(self.keywords):
            words = normal(keyword)
            if words:
                self._patterns.setdefault(_bounded(words), number)
        if not self._patterns:
            raise InputError("the dictionary has no keywords")
        self._automaton = library.Automaton()
        for pattern in self._patterns:
            self._automaton.add_word(pattern, pattern)
        self._automaton.make_automaton()

    def find(self, text: str | None) -> list[int]:
        """The numbers of the keywords in a text, longest first."""
        matches = {pattern for _, pattern in self._automaton.iter(f" {normal(text or '')} ")}
        longest: list[str] = []
        for pattern in sorted(matches, key=lambda one: (-len(one), one)):
            if not any(pattern in other for other in longest):
                longest.append(pattern)
        return [self._patterns[pattern] for pattern in longest]

    def matrix(self, texts: Sequence[str | None]) -> Any:
        """Which keywords are in which texts: a sparse matrix (texts, keywords) of ones."""
        from scipy.sparse import csr_array

        matches = [self.find(text) for text in texts]
        starts = np.cumsum([0, *map(len, matches)])
        columns = np.fromiter((number for one in matches for number in one), np.int64, int(starts[-1]))
        shape = len(matches), len(self.keywords)
        return csr_array((np.ones(len(columns), np.float32), columns, starts), shape)


def fuse(raw: NDArray[Any], matches: Any, vectors: NDArray[Any], weight: float = 0.5) -> NDArray[np.float32]:
    """Rows (n, d) with the mean of their keywords' vectors mixed in, at length one; rows without keywords as they are.

    matches: (n, k), sparse, ones where row i has keyword j; vectors: (k, d).
    """
    require_share(weight)
    if matches.shape != (len(raw), len(vectors)):
        raise InputError(f"matches of shape {matches.shape} do not fit {len(raw)} rows and {len(vectors)} keywords")
    count = np.diff(matches.indptr)
    fused = np.array(raw, np.float32)
    has = np.flatnonzero(count)
    mean = (matches[has] @ np.asarray(vectors, np.float32)) / count[has, None].astype(np.float32)
    fused[has] = unit((1.0 - weight) * fused[has] + weight * mean)
    return fused


def require_share(weight: float) -> None:
    if not 0.0 <= weight <= 1.0:
        raise SpecError(f"the weight of keywords must lie between 0 and 1, not {weight}")


def _bounded(words: str) -> str:
    """The pattern of a keyword: with a blank at each end that must not lie within a word."""
    first = "" if is_unspaced(words[0]) else " "
    last = "" if is_unspaced(words[-1]) else " "
    return f"{first}{words}{last}"
