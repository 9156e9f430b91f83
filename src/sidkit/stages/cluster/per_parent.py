"""A private codebook under every parent: OneSearch's "balanced" level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine import native
from ...engine.native.parents import families
from ...errors import SpecError
from ...files.folder import require_array
from ...rows.groups import GathersRows, GroupsRows, ranges
from ...rows.local import LocalRows
from ...rows.seam import CHUNK, Rows
from ...rows.sources import ArraySource
from ...rows.work import Work
from ..stage import FitContext
from .kmeans import KMeans, check_size
from .parent_books import ParentBooks
from .parent_index import distinct_parents
from .parent_starts import start_numbers

__all__ = ["ParentBooks", "PerParent"]

AT_ONCE = 1 << 18  # rows in memory while their parents are fitted

Integers = NDArray[np.int64]


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
        run.progress.start(f"level {rows.width + 1}", rows.shape[0])
        fit = BooksOfParents(self, run.seed, rows.width)
        if isinstance(rows, GathersRows) and rows.has_room(4 * rows.shape[0] * rows.shape[1]):
            from .device_parents import books_on_device

            return books_on_device(fit, rows, self._tokens(rows), spare, run.progress)
        if isinstance(rows, GroupsRows):  # the rows of a parent go to one of the processes that hold them
            keys, count = rows.group_counts(self._tokens(rows))
            books = rows.of_groups(fit, keys, count)
        else:
            keys, count, books = self._here(rows, fit, run)
        starts = np.concatenate([[0], np.cumsum(np.minimum(count, self.size))]).astype(np.int64)
        return ParentBooks(keys, starts, np.concatenate(books), spare)

    def _here(self, rows: Rows, fit: BooksOfParents, run: FitContext) -> tuple[Integers, Integers, list[NDArray[Any]]]:
        """The parents, their rows' counts and their codebooks, of rows brought here some parents at a time."""
        keys, parent_of = distinct_parents(rows.codes()[:, -self._tokens(rows) :])
        order = np.argsort(parent_of, kind="stable")
        count, books, done = np.bincount(parent_of, minlength=len(keys)), list[NDArray[Any]](), 0
        for first, last in ranges(count, AT_ONCE):
            numbers = order[done : done + int(count[first:last].sum())]
            books.append(fit(rows.take(numbers), count[first:last], first))
            done += len(numbers)
            run.progress.advance(len(numbers))
        return keys, count, books

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> ParentBooks:
        keys = require_array(arrays, "parents", (None, None), "i")
        starts = require_array(arrays, "starts", (len(keys) + 1,), "i")
        centroids = require_array(arrays, "centroids", (None, d))
        books = ParentBooks(keys, starts, centroids, require_array(arrays, "common", (self.size, d)))
        lengths = np.diff(starts)
        fitting = keys.size > 0 and keys.min() >= 0 and ((lengths >= 1) & (lengths <= self.size)).all()
        if not fitting or starts[0] != 0 or starts[-1] != len(centroids):
            raise SpecError("the parents' codebooks do not add up")
        return books

    def _tokens(self, rows: Any) -> int:
        """How many of the last tokens name the parent."""
        return int(rows.width) if self.parents == "prefix" else 1


@dataclass(frozen=True)
class BooksOfParents:
    """The codebooks of some parents from their rows, in whatever process has these."""

    level: PerParent
    seed: int
    width: int  # tokens before the level

    def __call__(self, x: NDArray[Any], count: Integers, first: int) -> NDArray[Any]:
        """x: the rows, parent after parent; count: of each parent; first: the number of the first parent."""
        size, ends = self.level.size, np.cumsum(count)
        small, lengths = count <= size, np.minimum(count, size)
        if small.all():
            return x
        books = np.empty((lengths.sum(), x.shape[1]), x.dtype)
        books[np.repeat(small, lengths)] = x[np.repeat(small, count)]
        places = np.cumsum(lengths) - lengths
        large = np.flatnonzero(~small)
        mine = x[np.repeat(~small, count)]
        numbers = start_numbers(mine, first + large, count[large], size, self.salt)
        starts = dict(zip(large.tolist(), mine[numbers], strict=True))
        together = [p for p in large.tolist() if count[p] <= CHUNK and native.ready(x)]
        for parent in set(large.tolist()).difference(together):
            own = x[ends[parent] - count[parent] : ends[parent]]
            books[places[parent] : places[parent] + size] = self.alone(LocalRows(ArraySource(own)), starts[parent])
        if together:  # all of them in one call of the compiled kernels
            spans = places[together][:, None] + np.arange(size)
            edges = np.stack([ends[together] - count[together], ends[together]], axis=1)
            begin = np.stack([starts[parent] for parent in together])
            books[spans] = families(x, edges, begin, self.level.iterations)
        return books

    def alone(self, rows: Rows, start: NDArray[Any]) -> NDArray[Any]:
        """The codebook of one parent with these rows and first centroids."""
        kmeans = KMeans(self.level.size, "euclidean", iterations=self.level.iterations)
        return kmeans.fit(rows, FitContext(starts={0: start})).centroids

    @property
    def salt(self) -> int:
        """What tells the draws of this fit from those of others."""
        return int(np.random.SeedSequence((self.seed, self.width)).generate_state(1, np.uint32)[0])
