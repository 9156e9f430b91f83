"""BM25 over the texts of items: what most search engines rank by.

The bm25s library computes the score of every term in every text, which is all that BM25 needs: the score of a query is
a sum over its terms. Many queries at once are one sparse product, some forty times as fast as one query at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, need
from ...progress import Progress, Silent
from ..keywords.words import terms

__all__ = ["BM25"]

BLOCK = 256  # queries scored at once


class BM25:
    """An index of item texts (Lucene's variant).

    score(q, d) = sum over the terms t of q of idf(t) tf / (tf + k1 (1 - b + b |d| / mean |d|)),
    idf(t) = log(1 + (N - df + 0.5) / (df + 0.5))
    """

    def __init__(self, texts: Sequence[str | None], k1: float = 1.5, b: float = 0.75) -> None:
        from scipy.sparse import csr_array

        library = need("bm25s", "search", "BM25")
        documents = [terms(text or "") for text in texts]
        self._vocabulary: dict[str, int] = {}
        number = self._vocabulary.setdefault
        ids = [[number(term, len(self._vocabulary)) for term in document] for document in documents]
        if not self._vocabulary:
            raise InputError("none of the items has a text that BM25 could index")
        index = library.BM25(method="lucene", k1=k1, b=b)
        index.index((ids, dict(self._vocabulary)), create_empty_token=False, show_progress=False)
        scores, shape = index.scores, (len(self._vocabulary), len(documents))
        self._scores = csr_array((scores["data"], scores["indices"], scores["indptr"]), shape)  # (terms, items)

    def top(self, queries: Sequence[str | None], k: int = 50, progress: Progress | None = None) -> NDArray[np.int64]:
        """The rows of the k best items of every query, best first, ties to the lowest row: (n, k).

        -1 where fewer items have a term of the query.
        """
        report = progress or Silent()
        report.start("BM25", len(queries))
        asked = self._terms_of(queries)
        out = np.full((len(queries), k), -1, np.int64)
        for start in range(0, len(queries), BLOCK):
            product = asked[start : start + BLOCK] @ self._scores
            for row, (low, high) in enumerate(zip(product.indptr[:-1], product.indptr[1:], strict=True), start):
                best = _best(product.indices[low:high], product.data[low:high], k)
                out[row, : len(best)] = best
            report.advance(product.shape[0])
        return out

    def _terms_of(self, queries: Sequence[str | None]) -> Any:
        """How often every term occurs in every query: a sparse matrix (queries, terms)."""
        from scipy.sparse import csr_array

        known = [[self._vocabulary[t] for t in terms(query or "") if t in self._vocabulary] for query in queries]
        starts = np.cumsum([0, *map(len, known)])
        columns = np.fromiter((term for one in known for term in one), np.int64, int(starts[-1]))
        return csr_array((np.ones(len(columns), np.float32), columns, starts), (len(known), len(self._vocabulary)))


def _best(rows: NDArray[Any], scores: NDArray[Any], k: int) -> NDArray[Any]:
    """The rows of the k largest scores, best first, ties to the lowest row."""
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[scores >= least], scores[scores >= least]
    best: NDArray[Any] = rows[np.lexsort((rows, -scores))[:k]]
    return best
