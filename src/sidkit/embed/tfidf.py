"""tf-idf on its first singular directions, fitted on the texts themselves: no weights, no download, any language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError, StoreError
from .encoder import Encoder
from .text import directions, tfidf
from .words import words

__all__ = ["TfIdf"]

WIDTH = 256


class TfIdf(Encoder):
    """terms: v words and pairs of neighbouring words; idf: their weights, (v,); vectors: (v, d)."""

    kind = "tfidf"

    def __init__(self, terms: list[str], idf: NDArray[Any], vectors: NDArray[Any]) -> None:
        self.terms, self.idf, self.vectors = terms, idf, vectors
        self.d = int(vectors.shape[1])
        self._column = {term: column for column, term in enumerate(terms)}

    @classmethod
    def fit(cls, texts: Sequence[str | None], d: int | None = None, seed: int = 0) -> TfIdf:
        """Learn the words and directions of these texts; fewer than d dimensions where there are fewer words."""
        if d is not None and d < 1:
            raise SpecError(f"cannot embed texts in {d} dimensions; ask for at least 1")
        weights, terms = tfidf(texts)
        if not terms:
            raise InputError(f"no word occurs in two of the {len(texts):,} texts; tfidf has nothing to learn from")
        in_texts = np.bincount(weights.indices, minlength=len(terms))
        _, vectors = directions(weights.astype(np.float64), d or WIDTH, seed)
        idf = 1.0 + np.log((1.0 + len(texts)) / (1.0 + in_texts))
        return cls(terms, idf, vectors.astype(np.float32))

    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        from scipy import sparse

        columns = [self._known(text) for text in texts]
        rows = np.repeat(np.arange(len(texts)), [len(found) for found in columns])
        flat = np.array([column for found in columns for column in found], np.int64)
        shape = (len(texts), len(self.terms))
        weights = sparse.csr_matrix((np.ones(len(flat)), (rows, flat)), shape=shape)  # adds up repeated terms
        weights.data = (1.0 + np.log(weights.data)) * self.idf[weights.indices]
        projected: NDArray[Any] = weights @ self.vectors
        return projected

    def _known(self, text: str) -> list[int]:
        found = words(text)
        terms = [*found, *(f"{first} {second}" for first, second in pairwise(found))]
        return [self._column[term] for term in terms if term in self._column]

    @property
    def options(self) -> Mapping[str, Any]:
        return {}

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        listed = np.frombuffer("\n".join(self.terms).encode(), np.uint8)
        return {"terms": listed, "idf": self.idf, "vectors": self.vectors}

    @classmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TfIdf:
        terms = arrays["terms"].tobytes().decode().split("\n")
        if not len(terms) == len(arrays["idf"]) == len(arrays["vectors"]):
            raise StoreError(f"{len(terms)} terms, {len(arrays['idf'])} weights and {len(arrays['vectors'])} vectors")
        return cls(terms, arrays["idf"], arrays["vectors"])
