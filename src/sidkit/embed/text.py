"""Texts to vectors, and groups of texts back to words.

    words          a text's words
    tfidf          texts -> a sparse matrix of weighted words and word pairs
    directions     its first right singular vectors, by a randomised subspace iteration
    embed_texts    tf-idf rows projected on these directions, and scaled to length one
    WordCounts     which words a group of texts shares, and which set it apart

A text may be None, which counts as empty.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

from ..errors import InputError, SpecError
from ..geometry import unit

__all__ = ["WordCounts", "directions", "embed_texts", "tfidf", "words"]

IDEOGRAPH = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
MARK = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e01-\u0e4e"  # vowel signs and accents are not \w to `re`
LETTER = rf"(?:[^\W_{IDEOGRAPH}]|[{MARK}])"
WORD = re.compile(rf"[{IDEOGRAPH}]|\d+\.\d+{LETTER}*|(?!(?<=\w['’])s\b){LETTER}+(?:-{LETTER}+)*")
STOP_WORDS = """
    a an and are as at be by for from has have in into is it its no not of on or that the their this to was were
    will with you your
"""
STOP = frozenset(STOP_WORDS.split())

Integers = NDArray[np.int64]


def words(text: str) -> list[str]:
    """The words of a text, lower-cased, without a few English stop words.

    A Chinese character or a Japanese kana is a word of its own; usb-c and 1.5l stay whole; a possessive 's is
    dropped.
    """
    return [word for word in WORD.findall(unicodedata.normalize("NFKC", text).lower()) if word not in STOP]


def tfidf(texts: Iterable[str | None], min_count: int = 2, max_features: int = 50_000) -> tuple[Any, list[str]]:
    """A (n, v) float32 csr matrix with rows of length one, and its v words and pairs of neighbouring words.

        (1 + log count) * (1 + log((1 + n) / (1 + texts that have it)))

    Kept are terms of at least min_count texts, the max_features most frequent of them, most frequent first.
    The row of a text that has none of them is zero.
    """
    tokens, rows, vocabulary, n = _tokens(texts)
    adjacent = rows[:-1] == rows[1:]
    pairs, which = np.unique(tokens[:-1][adjacent] * len(vocabulary) + tokens[1:][adjacent], return_inverse=True)
    first, second = np.divmod(pairs, max(1, len(vocabulary)))
    counts = sparse.hstack(
        [_counts(rows, tokens, n, len(vocabulary)), _counts(rows[:-1][adjacent], which, n, len(pairs))], "csr"
    )
    in_texts = np.bincount(counts.indices, minlength=counts.shape[1])

    def term(i: int) -> str:
        j = i - len(vocabulary)
        return vocabulary[i] if j < 0 else f"{vocabulary[first[j]]} {vocabulary[second[j]]}"

    frequent = np.flatnonzero(in_texts >= min_count)
    named = sorted((-int(in_texts[i]), term(int(i)), int(i)) for i in frequent)[:max_features]
    kept = np.array([i for _, _, i in named], np.int64)
    weighted = counts[:, kept].astype(np.float64)
    weighted.sort_indices()
    idf = 1.0 + np.log((1.0 + n) / (1.0 + in_texts[kept]))
    weighted.data = (1.0 + np.log(weighted.data)) * idf[weighted.indices]
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    weighted.data /= np.repeat(lengths, np.diff(weighted.indptr))
    return weighted.astype(np.float32), [word for _, word, _ in named]


def directions(a: Any, d: int, seed: int = 0, iterations: int = 5) -> tuple[NDArray[Any], NDArray[Any]]:
    """The d largest singular values of a, (n, v) dense or sparse, and their right singular vectors, (v, d).

    Subspace iteration z <- span(a' a z) from a random start with a few spare columns, then the exact answer within
    that subspace. LU keeps the columns apart as well as QR would, and faster. Each vector's largest entry is
    positive, so that equal input gives equal signs. Fewer than d come back when n or v is smaller.
    """
    n, v = a.shape
    d = min(d, n, v)
    z = np.random.default_rng(seed).standard_normal((v, min(d + 16, n, v)))
    for _ in range(iterations):
        z = linalg.lu(a.T @ (a @ z), permute_l=True)[0]
    projected = a @ z
    squares, turn = linalg.eigh(projected.T @ projected, z.T @ z)
    largest = np.argsort(-squares, kind="stable")[:d]
    vectors = z @ turn[:, largest]
    peak = np.abs(vectors).argmax(axis=0)
    vectors *= np.where(np.take_along_axis(vectors, peak[None], axis=0) < 0, -1.0, 1.0)
    return np.sqrt(np.maximum(squares[largest], 0.0)), vectors


def embed_texts(texts: Iterable[str | None], d: int = 128, seed: int = 0) -> NDArray[np.float32]:
    """Texts as (n, d) float32 rows of length one: tf-idf projected on its first d singular directions.

    With fewer than d texts or known words the columns left over are zero. A text of which nothing is left (it is
    empty, or no other text has any of its words) gets a pseudo-random direction decided by its words and the
    seed, so that rows are never zero and equal texts stay equal.
    """
    if d < 1:
        raise SpecError(f"cannot embed texts in {d} dimensions; ask for at least 1")
    texts = list(_checked(texts))
    weights, _ = tfidf(texts)
    x = np.zeros((len(texts), d))
    if weights.nnz:
        weights = weights.astype(np.float64)
        _, vectors = directions(weights, d, seed)
        x[:, : vectors.shape[1]] = weights @ vectors
    for i in np.flatnonzero((x * x).sum(axis=1) < 1e-12):
        key = blake2b(" ".join(words(texts[i] or "")).encode(), digest_size=8).digest()
        x[i] = np.random.default_rng([seed, int.from_bytes(key)]).standard_normal(d)
    embedded: NDArray[np.float32] = unit(x).astype(np.float32)
    return embedded


class WordCounts:
    """The words of a corpus, counted once, for questions about groups of its texts.

    A question reads only the rows it is about. Groups are arrays of row numbers. Single letters and bare numbers
    tell a reader little and are not counted.
    """

    def __init__(self, texts: Iterable[str | None]) -> None:
        tokens, rows, vocabulary, n = _tokens(texts)
        telling = np.array([_telling(word) for word in vocabulary], bool)
        kept = telling[tokens] if len(tokens) else np.zeros(0, bool)
        self._count_all(tokens[kept], rows[kept], vocabulary, n)

    @classmethod
    def of_tokens(cls, tokens: Integers, rows: Integers, vocabulary: list[str], n: int) -> WordCounts:
        """Of texts that are cut already: each word's number, the text it is in, the words by number, how many texts."""
        counts = cls.__new__(cls)
        counts._count_all(tokens, rows, vocabulary, n)
        return counts

    def _count_all(self, tokens: Integers, rows: Integers, vocabulary: list[str], n: int) -> None:
        self.vocabulary = vocabulary
        self.counts = _counts(rows, tokens, n, len(vocabulary))
        self.totals = np.bincount(tokens, minlength=len(vocabulary))
        self.in_texts = np.bincount(self.counts.indices, minlength=len(vocabulary))

    def distinctive(self, rows: ArrayLike, top: int = 5, within: ArrayLike | None = None) -> list[str]:
        """The words that set the rows apart from the other rows of `within` (default: of the corpus)."""
        inside = np.asarray(rows, np.int64)
        term, count = self._count(inside)
        if within is None:
            return self._top(term, count, self.totals[term] - count, int(self.totals.sum()), top)
        others, other_count = self._count(np.setdiff1d(np.asarray(within, np.int64), inside))
        total = int(count.sum() + other_count.sum())
        return self._top(term, count, _aligned(term, others, other_count), total, top)

    def contrast(self, groups: Sequence[ArrayLike], top: int = 3) -> list[list[str]]:
        """For each group the words that set it apart from the other groups taken together."""
        if not groups:
            return []
        counted = [self._count(np.asarray(rows, np.int64)) for rows in groups]
        terms, which = np.unique(np.concatenate([t for t, _ in counted]), return_inverse=True)
        sums = np.bincount(which, np.concatenate([c for _, c in counted]), len(terms)).astype(np.int64)
        total = int(sums.sum())
        return [self._top(t, c, _aligned(t, terms, sums) - c, total, top) for t, c in counted]

    def shared(self, rows: ArrayLike, top: int = 5, share: float = 0.6) -> list[str]:
        """The words that at least this share of the rows have, most informative first.

        Informative is: in many of the rows and in few texts of the corpus, (rows with it) * log(n / texts with it).
        """
        inside = np.unique(np.asarray(rows, np.int64))
        term, count = self._count(inside, once=True)
        common = count >= share * len(inside) - 1e-9
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


def _checked(texts: Iterable[str | None]) -> Iterable[str | None]:
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings, not one string; put it in a list")
    return texts


def _tokens(texts: Iterable[str | None]) -> tuple[Integers, Integers, list[str], int]:
    """Every word as a number, the row each is in, the words by number (most frequent first), and how many rows."""
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    found, lengths = array("q"), array("q")
    for text in _checked(texts):
        tokens = [number[word] for word in words(text or "")]
        found.extend(tokens)
        lengths.append(len(tokens))
    seen = np.array(found, np.int64)
    names = list(number)
    often = np.bincount(seen, minlength=len(names))
    order = sorted(range(len(names)), key=lambda i: (-often[i], names[i]))
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank[seen], np.repeat(np.arange(len(lengths)), lengths), [names[i] for i in order], len(lengths)


def _counts(rows: Integers, terms: Integers, n: int, v: int) -> Any:
    """How often each row has each term: (n, v) csr."""
    return sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, terms)), shape=(n, v))


def _aligned(wanted: Integers, terms: Integers, counts: Integers) -> Integers:
    """The counts of the wanted terms, zero for those not among terms (ascending)."""
    if not len(terms):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(terms, wanted), len(terms) - 1)
    return np.where(terms[at] == wanted, counts[at], 0).astype(np.int64)


def _telling(word: str) -> bool:
    return bool(re.match(f"[{IDEOGRAPH}]", word)) or (len(word) > 1 and any(map(str.isalpha, word)))
