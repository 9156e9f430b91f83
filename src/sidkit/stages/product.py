"""Product quantization: the coordinates cut into blocks, one token per block, all decided in parallel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..engine import engine_of
from ..engine.arrays import like, namespace, pieces, widened
from ..errors import SpecError
from ..files.folder import require_array
from ..geometry import Array, squared_length
from ..rows.seam import Rows, Sums
from ..rows.work import Work
from .cluster.kmeans import Centroids, check_size
from .cluster.loop import refine
from .prepare import count_and_sum
from .stage import FitContext

__all__ = ["OPQ", "PQ", "FittedProduct", "blocks"]


def blocks(d: int, count: int) -> list[slice]:
    """d coordinates cut into contiguous blocks as even as can be, longer ones first: 128 in 3 is 43, 43, 42."""
    if count > d:
        raise SpecError(f"{d} dimensions cannot be cut into {count} blocks")
    ends = np.cumsum([d // count + (i < d % count) for i in range(count)])
    return [slice(int(end) - (d // count + (i < d % count)), int(end)) for i, end in enumerate(ends)]


@dataclass(frozen=True, eq=False)
class FittedProduct:
    """Rotated, centred rows and a codebook per block. Also the state between passes of a fit."""

    books: tuple[NDArray[Any], ...]  # (K_m, width of block m) each
    rotation: NDArray[Any] | None = None  # (d, d), y = R (x - mean)
    mean: NDArray[Any] | None = None  # (d,)
    passes: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(book) for book in self.books)

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        return list(self.books)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        books = {f"centroids{m}": book for m, book in enumerate(self.books)}
        if self.rotation is None or self.mean is None:
            return books
        return books | {"rotation": self.rotation, "mean": self.mean}

    def rotated(self, x: Array) -> Array:
        """y = R (x - mean), in float64 on the way so that a row's y does not depend on the rows beside it."""
        if self.rotation is None:
            return x
        example = widened(x[:1])
        mean, turn = like(np.asarray(self.mean), example), like(self.rotation.T, example)
        parts = [like((widened(some) - mean) @ turn, x) for some in pieces(x, x.shape[1])]
        return parts[0] if len(parts) == 1 else namespace(x).concatenate(parts)

    def tokens(self, x: Array, codes: Array) -> Array:
        y, xp = self.rotated(x), namespace(x)
        columns = [
            Centroids(book, "euclidean").assign(_block(y, block), codes)
            for book, block in zip(self.books, blocks(y.shape[1], len(self.books)), strict=True)
        ]
        return xp.stack(columns, axis=1)

    def carry(self, x: Array, codes: Array) -> Array:
        """What the centroids of all blocks leave of a row, in the coordinates it came in."""
        own, xp = codes[:, -len(self.books) :], namespace(x)
        y = xp.concatenate([like(book, x)[own[:, m]] for m, book in enumerate(self.books)], axis=1)
        if self.rotation is not None:
            y = y @ like(self.rotation, x) + like(np.asarray(self.mean), x)
        return x - y


@dataclass(frozen=True)
class PQ:
    """PQ-KMeans: Euclidean k-means in each block of coordinates (Jégou et al., 2011).

        token m = argmin_j |x_m - c_mj|^2

    Blocks are as even as can be when d is not divisible (inferred); the first size belongs to the first block.
    """

    sizes: tuple[int, ...]
    iterations: int = 25

    def __post_init__(self) -> None:
        _check(self.sizes)

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
        return FittedProduct(_books(arrays, self.sizes, d))

    def start(self, rows: Rows, run: FitContext) -> FittedProduct:
        cut = blocks(rows.shape[1], len(self.sizes))
        starts = (run.start_rows(rows, size, rows.width + m) for m, size in enumerate(self.sizes))
        return FittedProduct(tuple(x[:, block].astype(np.float64) for x, block in zip(starts, cut, strict=True)))

    def statistics(self, clusters: FittedProduct, x: Array, codes: Array) -> Sums:
        out: list[Any] = []
        for book, block in zip(clusters.books, blocks(x.shape[1], len(self.sizes)), strict=True):
            part = _block(x, block)
            out += _hard_sums(part, part, book)
        return *out, squared_length(x).sum().reshape(1)

    def update(self, clusters: FittedProduct, sums: Sums) -> FittedProduct:
        parts = zip(clusters.books, sums[:-1:2], sums[1:-1:2], strict=True)
        return replace(clusters, books=tuple(_means(book, mass, total) for book, mass, total in parts))

    def settled(self, before: FittedProduct, after: FittedProduct) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(before.books, after.books, strict=True))

    def finish(self, clusters: FittedProduct, dtype: Any) -> FittedProduct:
        return replace(clusters, books=tuple(book.astype(dtype) for book in clusters.books))


@dataclass(frozen=True)
class OPQ:
    """OPQ-KMeans: a rotation and block codebooks, refined in turns (Ge et al., 2013, non-parametric).

        y = R (x - mean);   codebooks: k-means on the blocks of y;   R = argmin |R X - Y^|^2, orthogonal Procrustes

    The sums that a pass adds are full rows under each block's codeword, which give both the codebooks and X Y^T:
    one pass over the data is one k-means step and, at the end of a turn, the best rotation for it.

    alternations   turns of the rotation (the paper's 25).
    first, steps   k-means steps before the first turn and in each turn. Inferred: 25 and 1 (faiss: 40 and 4).
    rotation       where R starts: "random" (QR of a Gaussian, as faiss) or "identity".
    tie            where X Y^T has no full rank (64 codewords over 64-wide halves) R is not determined: this share of
                   its Frobenius norm pulls the free directions to where they were.
    """

    sizes: tuple[int, ...]
    alternations: int = 25
    first: int = 25
    steps: int = 1
    rotation: Literal["random", "identity"] = "random"
    tie: float = 1e-6

    def __post_init__(self) -> None:
        _check(self.sizes)
        if self.steps < 1 or self.first < 0 or self.alternations < 0:
            raise SpecError("OPQ needs at least one k-means step a turn, and no negative counts")
        if self.rotation not in ("random", "identity"):
            raise SpecError(f"rotation must start 'random' or 'identity', not {self.rotation!r}")

    @property
    def iterations(self) -> int:
        return self.first + self.alternations * self.steps

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
        return FittedProduct(_books(arrays, self.sizes, d), turn, mean)

    def start(self, rows: Rows, run: FitContext) -> FittedProduct:
        d = rows.shape[1]
        cut = blocks(d, len(self.sizes))
        count, total = rows.reduce(count_and_sum)
        turn = np.eye(d)
        if self.rotation == "random":
            turn, r = np.linalg.qr(np.random.default_rng(run.seed_of(rows.width)).normal(size=(d, d)))
            turn = turn * np.sign(np.diag(r))
        state = FittedProduct((), turn, np.asarray(total) / np.asarray(count))
        starts = (run.start_rows(rows, size, rows.width + m).astype(np.float64) for m, size in enumerate(self.sizes))
        books = tuple(state.rotated(x)[:, block] for x, block in zip(starts, cut, strict=True))
        return replace(state, books=books)

    def statistics(self, clusters: FittedProduct, x: Array, codes: Array) -> Sums:
        y, centred = clusters.rotated(x), x - like(np.asarray(clusters.mean), x)
        out: list[Any] = []
        for book, block in zip(clusters.books, blocks(x.shape[1], len(self.sizes)), strict=True):
            out += _hard_sums(_block(y, block), centred, book)
        return *out, squared_length(y).sum().reshape(1)

    def update(self, clusters: FittedProduct, sums: Sums) -> FittedProduct:
        mass, total = [np.asarray(m) for m in sums[:-1:2]], [np.asarray(t) for t in sums[1:-1:2]]
        turn, cut = np.asarray(clusters.rotation), blocks(total[0].shape[1], len(self.sizes))
        books = tuple(
            _means(book, m, (t @ turn.T)[:, block])
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


def procrustes(product: NDArray[np.float64], before: NDArray[np.float64], tie: float) -> NDArray[np.float64]:
    """The orthogonal R with the largest trace(R product), nearest to `before` where that leaves it open."""
    u, _, vt = np.linalg.svd(product + tie * np.linalg.norm(product) * before.T)
    turn: NDArray[np.float64] = (u @ vt).T
    return turn


def _hard_sums(part: Array, full: Array, book: NDArray[Any]) -> tuple[Any, Any]:
    """Mass and sum of the full rows under the codeword nearest to each part of a row."""
    engine = engine_of(part)
    code = Centroids(book, "euclidean").assign(part, None)
    ones = np.ones((len(part), 1)) if isinstance(part, np.ndarray) else part.new_ones((len(part), 1))
    mass, total = engine.add_up(full, code[:, None], ones, len(book))
    return mass, total


def _means(book: NDArray[Any], mass: Any, total: Any) -> NDArray[np.float64]:
    alive = (np.asarray(mass) > 0)[:, None]
    return np.where(alive, np.asarray(total) / np.where(alive, np.asarray(mass)[:, None], 1.0), book)


def _block(x: Array, block: slice) -> Array:
    return np.ascontiguousarray(x[:, block]) if isinstance(x, np.ndarray) else x[:, block].contiguous()


def _books(arrays: Mapping[str, NDArray[Any]], sizes: tuple[int, ...], d: int) -> tuple[NDArray[Any], ...]:
    cut = enumerate(zip(sizes, blocks(d, len(sizes)), strict=True))
    return tuple(require_array(arrays, f"centroids{m}", (size, b.stop - b.start)) for m, (size, b) in cut)


def _check(sizes: tuple[int, ...]) -> None:
    if not sizes:
        raise SpecError("product quantization needs at least one size")
    for size in sizes:
        check_size(size)
