"""Codebooks that someone else fitted, as a tokenizer like any other.

    fitted = Given.residual([C1, C2, C3])                   # OpenOneRec's and other plain RQ-KMeans centroids
    fitted = Given.product([C1, C2], rotation=R)            # PQ or OPQ codebooks
    fitted = Given.faiss(faiss.read_index("rq.index"))      # a Residual- or ProductQuantizer, or an index of one

What comes back encodes, saves, loads and reports. faiss encodes residual quantizers with a beam by default; sidkit
decides level by level, so its codes equal faiss's at beam size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..geometry import compute_dtype
from ..stages.cluster.kmeans import Centroids, KMeans, Metric
from ..stages.level import FittedLevel, Level, Residual
from ..stages.prepare import FittedNormalize, FittedRemoveMean, Normalize, RemoveMean
from ..stages.product import OPQ, PQ, FittedProduct, blocks
from ..stages.stage import Fitted, Stage
from .tokenizer import FittedTokenizer, Tokenizer

__all__ = ["Given"]


class Given:
    """Ways to bring codebooks in. All return a FittedTokenizer."""

    @staticmethod
    def residual(
        codebooks: Sequence[Any],
        metric: Metric = "euclidean",
        rule: Residual = Residual(1.0, False),  # noqa: B008 - a frozen value
        mean: Any = None,
        normalize: bool = False,
    ) -> FittedTokenizer:
        """Levels with these centroids, (K, d) each, compared by metric and taken away by rule.

        mean: where given, its component is projected out first; normalize: rows are scaled to length one before all.
        """
        books = [_matrix(book, f"codebook {i + 1}") for i, book in enumerate(codebooks)]
        d = _common([book.shape[1] for book in books])
        dtype = books[0].dtype
        spec: list[Stage] = [Normalize()] if normalize else []
        done: list[Fitted] = [FittedNormalize()] if normalize else []
        if mean is not None:
            spec.append(RemoveMean())
            done.append(FittedRemoveMean(np.asarray(mean, dtype).reshape(d)))
        for book in books:
            level = Level(KMeans(len(book), metric, iterations=0), rule)
            spec.append(level)
            done.append(FittedLevel(level, Centroids(book, metric)))
        return FittedTokenizer(Tokenizer(tuple(spec), "given"), tuple(done), d, dtype.name, 0)

    @staticmethod
    def product(codebooks: Sequence[Any], rotation: Any = None, mean: Any = None) -> FittedTokenizer:
        """Blocks with these centroids, (K, width) each, of y = R (x - mean)."""
        books = tuple(_matrix(book, f"codebook {i + 1}") for i, book in enumerate(codebooks))
        d = sum(book.shape[1] for book in books)
        widths = [block.stop - block.start for block in blocks(d, len(books))]
        if [book.shape[1] for book in books] != widths:
            raise InputError(f"the codebooks are {[b.shape[1] for b in books]} wide; blocks of {d} should be {widths}")
        sizes = tuple(len(book) for book in books)
        if rotation is None:
            stage: Stage = PQ(sizes, iterations=0)
            done = FittedProduct(books)
        else:
            stage = OPQ(sizes, alternations=0, first=0)
            turn = _matrix(rotation, "the rotation")
            if turn.shape != (d, d):
                raise InputError(f"the rotation has shape {turn.shape}; the codebooks need ({d}, {d})")
            centre = np.zeros(d) if mean is None else np.asarray(mean, np.float64).reshape(d)
            done = FittedProduct(books, turn.astype(np.float64), centre)
        return FittedTokenizer(Tokenizer((stage,), "given"), (done,), d, books[0].dtype.name, 0)

    @staticmethod
    def faiss(quantizer: Any) -> FittedTokenizer:
        """A faiss ResidualQuantizer, ProductQuantizer, or an index that holds one (IndexResidualQuantizer, IndexPQ)."""
        inner = getattr(quantizer, "rq", None) or getattr(quantizer, "pq", None) or quantizer
        kind = type(inner).__name__
        flat = _numbers(inner, "codebooks" if kind == "ResidualQuantizer" else "centroids")
        if kind == "ResidualQuantizer":
            bits = [inner.nbits.at(level) for level in range(inner.M)]
            ends = np.cumsum([2**bit for bit in bits])
            return Given.residual(np.split(flat.reshape(-1, inner.d), ends[:-1]))
        if kind == "ProductQuantizer":
            return Given.product(list(flat.reshape(inner.M, inner.ksub, inner.dsub)))
        raise InputError(f"cannot take codebooks from a faiss {kind}; give a ResidualQuantizer or a ProductQuantizer")


def _numbers(quantizer: Any, field: str) -> NDArray[np.float32]:
    if not hasattr(quantizer, field):
        raise InputError(f"cannot take codebooks from {type(quantizer).__name__}; it has no {field}")
    from importlib import import_module

    flat: NDArray[np.float32] = import_module("faiss").vector_to_array(getattr(quantizer, field)).copy()
    return flat


def _matrix(array: Any, what: str) -> NDArray[Any]:
    if type(array).__module__.partition(".")[0] == "torch":
        array = array.detach().cpu().float().numpy()
    found = np.asarray(array)
    if found.ndim != 2 or found.size == 0 or found.dtype.kind not in "fiu":
        raise InputError(f"{what} must be a matrix (K, d) of numbers; got {found.dtype} {found.shape}")
    if not np.isfinite(found).all():
        raise InputError(f"{what} holds NaN or infinity")
    return np.ascontiguousarray(found, compute_dtype(found.dtype))


def _common(widths: list[int]) -> int:
    if not widths or len(set(widths)) != 1:
        raise InputError(f"residual codebooks must all have the same d; got {widths}")
    return widths[0]
