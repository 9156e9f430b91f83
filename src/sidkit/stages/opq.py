"""OPQ: product quantization after a learned rotation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..engine import engine_of
from ..engine.arrays import like, namespace
from ..engine.threads import one_blas_thread
from ..errors import SpecError
from ..files.folder import require_array
from ..geometry import Array, squared_length
from ..rows.seam import Rows, Sums
from ..rows.work import Work
from .cluster.kmeans import means_of
from .cluster.loop import refine
from .prepare import mean_of
from .product import FittedProduct, blocks, check_sizes, read_books
from .stage import FitContext

__all__ = ["OPQ", "procrustes"]

SMALL = 512  # dimensions up to which one thread multiplies and factorises as fast as several


@dataclass(frozen=True)
class OPQ:
    """OPQ-KMeans: a rotation and block codebooks, refined alternately (Ge et al., 2013, non-parametric).

        y = R (x - mean);   codebooks: k-means on the blocks of y;   R = argmin |R X - Y^|^2, orthogonal Procrustes

    A pass sums full rows by the centroid of each block, which gives both the codebooks and X Y^T: one pass over the
    data is one k-means step and, at the end of an alternation, the best rotation for it.

    alternations   updates of the rotation (the paper's 25).
    first, steps   k-means steps before the first update and for each. Inferred: 25 and 1 (faiss: 40 and 4).
    rotation       the first R: "random" (QR of a Gaussian, as faiss) or "identity".
    tie            if X Y^T has no full rank (64 codewords over 64-wide halves), R is not determined: this share of
                   its Frobenius norm pulls the free directions to their previous values.
    """

    sizes: tuple[int, ...]
    alternations: int = 25
    first: int = 25
    steps: int = 1
    rotation: Literal["random", "identity"] = "random"
    tie: float = 1e-6

    def __post_init__(self) -> None:
        check_sizes(self.sizes)
        if self.steps < 1 or self.first < 0 or self.alternations < 0:
            raise SpecError("OPQ needs at least one k-means step per alternation, and no negative counts")
        if not 0 <= self.tie <= 1e9:
            raise SpecError(f"tie must lie between 0 and 1e9, not {self.tie}")
        if self.rotation not in ("random", "identity"):
            raise SpecError(f"rotation must start 'random' or 'identity', not {self.rotation!r}")

    @property
    def iterations(self) -> int:
        return self.first + self.alternations * self.steps

    @property
    def precision(self) -> str:
        """What a GPU may give the passes of a fit: float16 rows, where these suit."""
        return "half"

    @property
    def state(self) -> type[FittedProduct]:
        return FittedProduct

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        blocks(shape[1], len(self.sizes))
        return run.check_starts(shape[0], self.sizes, level)

    def work(self) -> Work:
        return Work(self.iterations * sum(self.sizes) / len(self.sizes))

    def fit(self, rows: Rows, run: FitContext) -> FittedProduct:
        return refine(self, rows, run)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedProduct:
        turn, mean = require_array(arrays, "rotation", (d, d)), require_array(arrays, "mean", (d,))
        return FittedProduct(read_books(arrays, self.sizes, d), turn, mean)

    def start(self, rows: Rows, run: FitContext) -> FittedProduct:
        d = rows.shape[1]
        cut = blocks(d, len(self.sizes))
        mean = mean_of(rows)
        turn = np.eye(d)
        if self.rotation == "random":
            turn, r = np.linalg.qr(np.random.default_rng(run.seed_of(rows.width)).normal(size=(d, d)))
            turn = turn * np.sign(np.diag(r))
        state = FittedProduct((), turn, mean)
        starts = (run.start_rows(rows, size, rows.width + m).astype(np.float64) for m, size in enumerate(self.sizes))
        books = tuple(state.rotated(x)[:, block] for x, block in zip(starts, cut, strict=True))
        return replace(state, books=books)

    def statistics(self, clusters: FittedProduct, x: Array, codes: Array) -> Sums:
        if not isinstance(x, np.ndarray):
            from ..engine.cuda.turned import turned_sums

            turn, mean = np.asarray(clusters.rotation), np.asarray(clusters.mean)
            sums = turned_sums(x, clusters.books, blocks(x.shape[1], len(clusters.books)), turn, mean)
            return *(part for pair in sums for part in pair), _lost(clusters, x, sums)
        mean = like(np.asarray(clusters.mean), x)
        sums = engine_of(x).hard_sums(x, clusters.tokens(x, codes), self.sizes, mean)
        return *(part for pair in sums for part in pair), _lost(clusters, x, sums)

    def update(self, clusters: FittedProduct, sums: Sums) -> FittedProduct:
        with one_blas_thread(len(np.asarray(clusters.rotation)) <= SMALL):
            return self._updated(clusters, sums)

    def _updated(self, clusters: FittedProduct, sums: Sums) -> FittedProduct:
        mass, total = [np.asarray(m) for m in sums[:-1:2]], [np.asarray(t) for t in sums[1:-1:2]]
        turn, cut = np.asarray(clusters.rotation), blocks(total[0].shape[1], len(self.sizes))
        books = tuple(
            means_of(m, (t @ turn.T)[:, block], book)
            for book, m, t, block in zip(clusters.books, mass, total, cut, strict=True)
        )
        done = clusters.passes + 1
        if done > self.first and (done - self.first) % self.steps == 0:
            product = np.concatenate([t.T @ book for t, book in zip(total, books, strict=True)], axis=1)
            turn = procrustes(product, turn, self.tie)
        return replace(clusters, books=books, rotation=turn, passes=done)

    def settled(self, before: FittedProduct, after: FittedProduct) -> bool:
        return False

    def finish(self, clusters: FittedProduct, dtype: Any) -> FittedProduct:
        books = tuple(book.astype(dtype) for book in clusters.books)
        return FittedProduct(books, np.asarray(clusters.rotation), np.asarray(clusters.mean))


def _lost(clusters: FittedProduct, x: Array, sums: Sequence[tuple[Any, Any]]) -> Array:
    """The squared distance between y and its codewords, summed over the rows x, from their sums: (1,).

    |y - c|^2 = |x - mean|^2 - 2 y.c + |c|^2, of which the sums of rows have all but the length of x.
    """
    xp, total = namespace(x), sums[0][1]
    mean, turn = (like(np.asarray(part), total) for part in (clusters.mean, clusters.rotation))
    if xp is np:  # not by BLAS, whose threads wait for each other longer than this takes
        square = np.einsum("ij,ij->i", x, x).sum(dtype=np.float64)
    else:
        square = xp.linalg.vector_norm(x, dtype=xp.float32) ** 2
    lost = square - (2 * total.sum(axis=0) + len(x) * mean) @ mean
    for book, block, (mass, part) in zip(clusters.books, blocks(len(turn), len(sums)), sums, strict=True):
        codewords = like(book, total)
        lost = lost + mass @ squared_length(codewords)[:, 0] - 2 * ((part @ turn[block].T) * codewords).sum()
    return lost.reshape(1)


def procrustes(product: NDArray[np.float64], before: NDArray[np.float64], tie: float) -> NDArray[np.float64]:
    """The orthogonal R with the largest trace(R product); of several, the nearest to `before`."""
    u, _, vt = np.linalg.svd(product + tie * np.linalg.norm(product) * before.T)
    turn: NDArray[np.float64] = (u @ vt).T
    return turn
