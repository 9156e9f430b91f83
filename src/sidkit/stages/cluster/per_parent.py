"""A private codebook under every parent: OneSearch's "balanced" level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import like, namespace, pieces, widened
from ...errors import SpecError
from ...files.folder import require_array
from ...geometry import Array, squared_length
from ...rows.local import LocalRows
from ...rows.seam import MakesRows, Rows
from ...rows.sources import ArraySource
from ...rows.work import Work
from ..stage import FitContext
from .kmeans import Centroids, KMeans, check_size

__all__ = ["ParentBooks", "PerParent"]

AT_ONCE = 1 << 18  # rows in memory while their parents are fitted
WORTH_MOVING = 1 << 28  # multiply-adds per pass from which a parent is fitted on the device of the rows

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ParentBooks:
    """The codebooks of all parents, one after the other, and a common one for parents that the fit did not have."""

    keys: Integers  # (P, 1 or 2) parents, sorted
    starts: Integers  # (P + 1,) where each parent's centroids begin
    centroids: NDArray[Any]  # (M, d)
    common: NDArray[Any]  # (K, d)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"parents": self.keys, "starts": self.starts, "centroids": self.centroids, "common": self.common}

    def assign(self, x: Array, codes: Array) -> Array:
        """The nearest of the parent's centroids; under an unknown parent, the nearest of the common ones."""
        if not isinstance(x, np.ndarray):
            return self._assign_at_once(x, codes)
        parents = self.parents_of(codes)
        out = np.empty(len(parents), np.int32)
        for parent, rows in _groups(parents):
            out[rows] = Centroids(self._book(parent), "euclidean").assign(x[rows], None)
        return out

    def _assign_at_once(self, x: Array, codes: Array) -> Array:
        """For a GPU: every row against the few centroids of its parent, in float64; the lowest index on ties."""
        xp, parents = namespace(x), self.parents_of(codes.cpu().numpy())
        parents = np.where(parents < 0, len(self.keys), parents)  # the common codebook as one more parent
        starts = np.append(self.starts, self.starts[-1] + len(self.common))
        first, last = (like(part, codes).long() for part in (starts[parents], starts[parents + 1] - 1))
        table = like(np.concatenate([self.centroids, self.common]), widened(x[:1]))
        half, slot = 0.5 * squared_length(table)[:, 0], xp.arange(len(self.common), device=x.device)
        best, done = [], 0
        for piece in pieces(x, len(slot) * x.shape[1]):
            rows = slice(done, done := done + len(piece))
            index = xp.minimum(first[rows, None] + slot, last[rows, None])  # past the end: the last one again
            score = (table[index] * widened(piece)[:, None, :]).sum(axis=2) - half[index]
            best.append(score.argmax(axis=1))
        return like(xp.concatenate(best), codes)

    def costs(self, x: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.float64]:
        """What `assign` minimises for rows with these earlier tokens: (n, K), infinite where a parent has no code."""
        out = np.full((len(x), len(self.common)), np.inf)
        for parent, rows in _groups(self.parents_of(codes)):
            book = self._book(parent)
            out[rows, : len(book)] = Centroids(book, "euclidean").costs(x[rows])
        return out

    def chosen(self, x: Array, codes: Array) -> Array:
        host = codes if isinstance(codes, np.ndarray) else codes.cpu().numpy()
        parents, code = self.parents_of(host[:, :-1]), host[:, -1]
        known = parents >= 0
        last = np.maximum(self.starts[parents + 1] - 1, 0)
        rows = np.minimum(self.starts[np.maximum(parents, 0)] + code, last)  # other codes may exceed a short parent
        centroids = np.where(known[:, None], self.centroids[np.where(known, rows, 0)], self.common[code])
        return like(centroids, x)

    def parents_of(self, codes: NDArray[Any]) -> Integers:
        """The index of each row's parent, -1 if the fit did not have it."""
        prefixes = codes[:, -self.keys.shape[1] :].astype(np.int64)
        known, wanted = (_as_one(keys) for keys in (self.keys, prefixes))
        index = np.searchsorted(known, wanted)
        index[index == len(known)] = 0
        return np.where(known[index] == wanted, index, -1)

    def _book(self, parent: int) -> NDArray[Any]:
        return self.common if parent < 0 else self.centroids[self.starts[parent] : self.starts[parent + 1]]


@dataclass(frozen=True)
class PerParent:
    """The third level of RQ-OPQ: a separate Euclidean k-means under each parent prefix.

    A parent with at most `size` rows gives each row a separate code, in row order, and the row as its centroid, so that
    the residual is zero; a larger parent is clustered. Equal rows take the first of their codes: the release numbers
    rows, but a token here is a function of the row and its prefix. The statistics of this level do not add: the rows of
    a parent are fitted together in memory. Tokens are local codes 0..size-1.

    parents    "prefix": all tokens so far (inferred to be what the paper used); "last": the last token alone.
    Rows under an unknown parent take the nearest centroid of a codebook fitted to all rows (inferred).
    """

    size: int
    iterations: int = 25
    parents: Literal["prefix", "last"] = "prefix"

    def __post_init__(self) -> None:
        check_size(self.size)
        if self.parents not in ("prefix", "last"):
            raise SpecError(f"parents must be 'prefix' or 'last', not {self.parents!r}")

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        if level == 0:
            raise SpecError("a level with a codebook per parent cannot be the first")
        return run.check_starts(shape[0], (min(self.size, shape[0]),), level)

    def work(self) -> Work:
        return Work(float(self.iterations * self.size))

    def fit(self, rows: Rows, run: FitContext) -> ParentBooks:
        self.check(rows.shape, rows.width, run)
        common = KMeans(min(self.size, rows.shape[0]), "euclidean", iterations=self.iterations).fit(rows, run)
        spare = np.resize(common.centroids, (self.size, rows.shape[1]))  # fewer rows than codes: repeat
        keys, parent_of = np.unique(self._parents(rows.codes()), axis=0, return_inverse=True)
        order = np.argsort(parent_of.ravel(), kind="stable")
        count = np.bincount(parent_of.ravel(), minlength=len(keys))
        run.progress.start(f"level {rows.width + 1}", rows.shape[0])
        books: list[NDArray[Any]] = []
        for first, last, numbers in _batches(count, order):
            x = rows.take(numbers)
            ends = np.cumsum(count[first:last])
            for parent, (start, end) in enumerate(zip(ends - count[first:last], ends, strict=True), first):
                books.append(self._cluster(x[start:end], rows, run, parent))
            run.progress.advance(len(x))
        starts = np.concatenate([[0], np.cumsum([len(book) for book in books])]).astype(np.int64)
        return ParentBooks(keys.astype(np.int64), starts, np.concatenate(books), spare)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> ParentBooks:
        keys = require_array(arrays, "parents", (None, None), "i")
        starts = require_array(arrays, "starts", (len(keys) + 1,), "i")
        centroids = require_array(arrays, "centroids", (None, d))
        books = ParentBooks(keys, starts, centroids, require_array(arrays, "common", (self.size, d)))
        lengths = np.diff(starts)
        fitting = len(keys) > 0 and ((lengths >= 1) & (lengths <= self.size)).all()
        if not fitting or starts[0] != 0 or starts[-1] != len(centroids):
            raise SpecError("the parents' codebooks do not add up")
        return books

    def _parents(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        return codes if self.parents == "prefix" else codes[:, -1:]

    def _cluster(self, x: NDArray[Any], rows: Rows, run: FitContext, parent: int) -> NDArray[Any]:
        if len(x) <= self.size:
            return x
        seed = FitContext(seed=int(np.random.SeedSequence((run.seed, rows.width, parent)).generate_state(1)[0]))
        large = len(x) * x.shape[1] * self.size >= WORTH_MOVING
        children = rows.rows_of(x) if large and isinstance(rows, MakesRows) else LocalRows(ArraySource(x))
        return KMeans(self.size, "euclidean", iterations=self.iterations).fit(children, seed).centroids


def _groups(numbers: Integers) -> Iterator[tuple[int, Integers]]:
    """(number, the rows that have it) for every distinct number."""
    order = np.argsort(numbers, kind="stable")
    values, first = np.unique(numbers[order], return_index=True)
    for value, rows in zip(values, np.split(order, first[1:]), strict=True):
        yield int(value), rows


def _batches(count: Integers, order: Integers) -> Iterator[tuple[int, int, Integers]]:
    """(first parent, last parent + 1, their rows), as many parents at a time as have AT_ONCE rows together."""
    ends = np.cumsum(count)
    first, done = 0, 0
    while first < len(count):
        last = max(first + 1, int(np.searchsorted(ends, done + AT_ONCE, "right")))
        yield first, last, order[done : ends[last - 1]]
        first, done = last, int(ends[last - 1])


def _as_one(keys: Integers) -> NDArray[Any]:
    """Rows of integers as one value each that sorts as they do."""
    big_endian = np.ascontiguousarray(keys, dtype=">i8")
    return big_endian.view(f"V{8 * keys.shape[1]}").ravel() if keys.shape[1] > 1 else keys[:, 0]
