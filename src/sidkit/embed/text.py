"""Texts to vectors by linear algebra alone.

    tfidf          texts -> a sparse matrix of weighted words and word pairs
    directions     its first right singular vectors
    embed_texts    tf-idf rows projected on these directions, and scaled to length one

A text may be None, which counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ..errors import SpecError
from ..geometry import unit
from .words import checked, counts, tokens, words

__all__ = ["directions", "embed_texts", "tfidf"]


def tfidf(texts: Iterable[str | None], min_count: int = 2, max_features: int = 50_000) -> tuple[Any, list[str]]:
    """A (n, v) float32 csr matrix with rows of length one, and its v words and pairs of neighbouring words.

        (1 + log count) * (1 + log((1 + n) / (1 + texts that have it)))

    Kept are terms of at least min_count texts, the max_features most frequent of them, most frequent first.
    The row of a text that has none of them is zero.
    """
    token, rows, vocabulary, n = tokens(texts)
    adjacent = rows[:-1] == rows[1:]
    pairs, which = np.unique(token[:-1][adjacent] * len(vocabulary) + token[1:][adjacent], return_inverse=True)
    first, second = np.divmod(pairs, max(1, len(vocabulary)))
    counted = sparse.hstack(
        [counts(rows, token, n, len(vocabulary)), counts(rows[:-1][adjacent], which, n, len(pairs))], "csr"
    )
    in_texts = np.bincount(counted.indices, minlength=counted.shape[1])

    def term(i: int) -> str:
        j = i - len(vocabulary)
        return vocabulary[i] if j < 0 else f"{vocabulary[first[j]]} {vocabulary[second[j]]}"

    frequent = np.flatnonzero(in_texts >= min_count)
    named = sorted((-int(in_texts[i]), term(int(i)), int(i)) for i in frequent)[:max_features]
    selected = np.array([i for _, _, i in named], np.int64)
    weighted = counted[:, selected].astype(np.float64)
    weighted.sort_indices()
    idf = 1.0 + np.log((1.0 + n) / (1.0 + in_texts[selected]))
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
    # Not scipy's exact solver, as for co-occurrence: on 20,000 titles that takes four times as long. The spectrum of
    # tf-idf is flat, so the last directions differ between the two; encoders that were saved are fitted with these.
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

    With fewer than d texts or known words the remaining columns are zero. A text without known words (it is empty, or
    no other text has any of its words) gets a pseudo-random direction decided by its words and the seed, so that rows
    are never zero and equal texts have equal rows.
    """
    if d < 1:
        raise SpecError(f"cannot embed texts in {d} dimensions; ask for at least 1")
    texts = list(checked(texts))
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
