"""Product quantization: the coordinates are cut into blocks; each block gives a token, independently of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine import engine_of, native
from ..engine.arrays import like, namespace, pieces, widened
from ..errors import SpecError
from ..files.folder import require_array
from ..geometry import Array, squared_length
from ..rows.seam import Rows, Sums
from ..rows.work import Work
from .cluster.kmeans import Centroids, check_size, means_of
from .cluster.loop import refine
from .stage import FitContext

if TYPE_CHECKING:
    from ..engine.native.turned import TurnedBooks

__all__ = [
    "PQ",
    "FittedProduct",
    "block_columns",
    "blocks",
    "check_sizes",
    "hard_sums",
    "read_books",
]


def blocks(d: int, count: int) -> list[slice]:
    """d coordinates cut into contiguous blocks of nearly equal width, wider ones first: 128 in 3 is 43, 43, 42."""
    if count > d:
        raise SpecError(f"{d} dimensions cannot be cut into {count} blocks")
    ends = np.cumsum([d // count + (i < d % count) for i in range(count)])
    return [slice(int(end) - (d // count + (i < d % count)), int(end)) for i, end in enumerate(ends)]


@dataclass(frozen=True, eq=False)
class FittedProduct:
    """A rotation, a mean and a codebook per block. Also the state between the passes of a fit."""

    books: tuple[NDArray[Any], ...]  # (K_m, width of block m) each
    rotation: NDArray[Any] | None = None  # (d, d), y = R (x - mean)
    mean: NDArray[Any] | None = None  # (d,)
    passes: int = 0
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)  # for this process alone

    def __reduce__(self) -> tuple[Any, ...]:
        return FittedProduct, (self.books, self.rotation, self.mean, self.passes)

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
        """y = R (x - mean), computed in float64 so that y does not depend on the other rows of a chunk."""
        if self.rotation is None:
            return x
        example = widened(x[:1])
        mean, turn = like(np.asarray(self.mean), example), like(self.rotation.T, example)
        parts = [like((widened(piece) - mean) @ turn, x) for piece in pieces(x, x.shape[1])]
        return parts[0] if len(parts) == 1 else namespace(x).concatenate(parts)

    def tokens(self, x: Array, codes: Array) -> Array:
        turned = self._turned() if native.ready(x) else None
        return self._decide(x) if turned is None else turned.tokens(x)

    def _decide(self, x: Array) -> Array:
        y, xp = self.rotated(x), namespace(x)
        columns = [
            Centroids(book, "euclidean").assign(block_columns(y, block), None)
            for book, block in zip(self.books, blocks(y.shape[1], len(self.books)), strict=True)
        ]
        return xp.stack(columns, axis=1)

    def _turned(self) -> TurnedBooks | None:
        """The codebooks for rows that are not rotated; None without a rotation. Made once."""
        if "turned" not in self._made:
            self._made["turned"] = None if self.rotation is None else self._turn_books(self.rotation)
        turned: TurnedBooks | None = self._made["turned"]
        return turned

    def _turn_books(self, rotation: NDArray[Any]) -> TurnedBooks | None:
        from ..engine.native.turned import TurnedBooks

        turn, mean = rotation.astype(np.float64), np.asarray(self.mean, np.float64)
        if np.abs(turn @ turn.T - np.eye(len(turn))).max() > 1e-6:  # of a file: the bounds hold for rotations alone
            return None
        return TurnedBooks(self.books, blocks(len(turn), len(self.books)), turn, mean, self._decide)

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[np.float64]]:
        y = self.rotated(x)
        cut = zip(self.books, blocks(y.shape[1], len(self.books)), strict=True)
        return [Centroids(book, "euclidean").costs(block_columns(y, block)) for book, block in cut]

    def carry(self, x: Array, codes: Array) -> Array:
        """The row minus the centroids of all blocks, in its original coordinates."""
        return x - self._chosen(codes, x)

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        return np.asarray(self._chosen(codes, rest) + rest)

    def _chosen(self, codes: Array, x: Array) -> Array:
        """The centroids of all blocks, in the original coordinates: an array like x."""
        tokens, xp = codes[:, -len(self.books) :], namespace(x)
        y = xp.concatenate([like(book, x)[tokens[:, m]] for m, book in enumerate(self.books)], axis=1)
        return y if self.rotation is None else y @ like(self.rotation, x) + like(np.asarray(self.mean), x)


@dataclass(frozen=True)
class PQ:
    """PQ-KMeans: Euclidean k-means in each block of coordinates (Jégou et al., 2011).

        token m = argmin_j |x_m - c_mj|^2

    If d is not divisible, the widths of blocks differ by one (inferred); the first size belongs to the first block.
    """

    sizes: tuple[int, ...]
    iterations: int = 25

    def __post_init__(self) -> None:
        check_sizes(self.sizes)

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
        return FittedProduct(read_books(arrays, self.sizes, d))

    def start(self, rows: Rows, run: FitContext) -> FittedProduct:
        cut = blocks(rows.shape[1], len(self.sizes))
        starts = (run.start_rows(rows, size, rows.width + m) for m, size in enumerate(self.sizes))
        return FittedProduct(tuple(x[:, block].astype(np.float64) for x, block in zip(starts, cut, strict=True)))

    def statistics(self, clusters: FittedProduct, x: Array, codes: Array) -> Sums:
        out: list[Any] = []
        for book, block in zip(clusters.books, blocks(x.shape[1], len(self.sizes)), strict=True):
            part = block_columns(x, block)
            out += hard_sums(part, part, book)
        return *out, squared_length(x).sum().reshape(1)

    def update(self, clusters: FittedProduct, sums: Sums) -> FittedProduct:
        parts = zip(clusters.books, sums[:-1:2], sums[1:-1:2], strict=True)
        return replace(clusters, books=tuple(means_of(mass, total, book) for book, mass, total in parts))

    def settled(self, before: FittedProduct, after: FittedProduct) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(before.books, after.books, strict=True))

    def finish(self, clusters: FittedProduct, dtype: Any) -> FittedProduct:
        return replace(clusters, books=tuple(book.astype(dtype) for book in clusters.books))


def hard_sums(part: Array, full: Array, book: NDArray[Any]) -> tuple[Any, Any]:
    """Mass and sum of the full rows by the centroid that is nearest to their part."""
    engine = engine_of(part)
    code = Centroids(book, "euclidean").assign(part, None)
    ones = np.ones((len(part), 1)) if isinstance(part, np.ndarray) else part.new_ones((len(part), 1))
    mass, total = engine.add_up(full, code[:, None], ones, len(book))
    return mass, total


def block_columns(x: Array, block: slice) -> Array:
    """The columns of a block, contiguous."""
    return np.ascontiguousarray(x[:, block]) if isinstance(x, np.ndarray) else x[:, block].contiguous()


def read_books(arrays: Mapping[str, NDArray[Any]], sizes: tuple[int, ...], d: int) -> tuple[NDArray[Any], ...]:
    """The stored codebooks of all blocks, checked."""
    cut = enumerate(zip(sizes, blocks(d, len(sizes)), strict=True))
    return tuple(require_array(arrays, f"centroids{m}", (size, b.stop - b.start)) for m, (size, b) in cut)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """An error unless there are sizes, and all are sizes of a codebook."""
    if not sizes:
        raise SpecError("product quantization needs at least one size")
    for size in sizes:
        check_size(size)
