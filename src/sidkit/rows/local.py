"""Rows: the only way an algorithm reaches its data.

    rows.sample(n, seed)    n rows, the same n wherever they live
    rows.take(numbers)      the rows with these numbers
    rows.reduce(f)          the sum over chunks of f(x, codes); f returns arrays that add, halves of the chunks first
    rows.map(stage)         the rows after a fitted stage: its tokens are computed once and kept,
                            what it passes on is rebuilt from them chunk by chunk
    rows.batches(n, seed)   shuffled minibatches

Residuals are never stored: a chunk is read, carried through the stages so far with the codes at hand, used and
dropped. So memory holds one chunk and a few bytes of codes a row, whatever N is and wherever the rows live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..engine import native
from ..geometry import Array, compute_dtype
from ..progress import Progress, Silent

__all__ = [
    "ArraySource",
    "Carrier",
    "LocalRows",
    "Rows",
    "Source",
    "Taken",
    "Wrapped",
    "add_in_tree",
    "choose",
    "leading_steps",
    "smallest_code_dtype",
]

CHUNK = 1 << 14  # rows read at once

Sums = tuple[Any, ...]


@runtime_checkable
class Source(Protocol):
    """Embeddings as they lie in memory or in files: read in order, or by row number."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the chunks read, float32 or float64."""

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        """The rows from `start` on in order, `size` at a time (the last may be shorter)."""

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The rows with these numbers, in this order."""

    def name(self, row: int) -> str:
        """What a user calls this row: "row 12", "item 'B00X' (row 12 of items.parquet)"."""


class Carrier(Protocol):
    """What Rows need of a fitted stage."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each token it emits can take; () when it emits none."""

    def tokens(self, x: Array, codes: Array) -> Array:
        """Its tokens for rows x whose earlier tokens are codes: (n, len(sizes))."""

    def carry(self, x: Array, codes: Array) -> Array:
        """What it passes on for rows x, its own tokens being the last of codes."""


class Taken(NamedTuple):
    """What a stage passes on, where it is a vector taken away and a scaling: `geometry.residual`, then length one.

    vectors: (K, d) with the row's last code, (1, d) shared by all rows, or None. A fitted stage that has this as
    `taken` can be carried through by compiled kernels, several stages in one sweep.
    """

    vectors: NDArray[Any] | None
    keep: float
    normalize: bool
    book: Callable[[Array], Any] | None = None  # the codebook that decides its token, ready for rows like these


class Rows(Protocol):
    """Rows wherever they live: one array, a file, a GPU, a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def width(self) -> int:
        """How many tokens the stages so far have emitted."""

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]: ...

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]: ...

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        """The sum of f(x, codes) over chunks; a GPU may hand f rows rounded to 16 bits if precision allows."""

    def map(self, stage: Carrier) -> Rows: ...

    def batches(self, n: int, seed: Sequence[int]) -> Iterator[Array]: ...

    def codes(self) -> NDArray[np.int32]:
        """All tokens so far: (n, width)."""

    def prepare(self, work: float) -> None:
        """Get ready for so many multiply-adds, by compiling kernels if they pay for it."""


@dataclass(frozen=True)
class ArraySource:
    """A matrix in memory, or memory-mapped: chunks are cut out of it and cast as they are read."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return compute_dtype(self.array.dtype)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for first in range(start, len(self.array), size):
            yield self.array[first : first + size].astype(self.dtype, order="C", copy=False)

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return self.array[numbers].astype(self.dtype, order="C", copy=False)

    def name(self, row: int) -> str:
        return f"row {row}"


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A source made of another one: all is the other's but what a subclass says."""

    source: Source

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def slow(self) -> bool:
        """Whether reading takes so long that rows which are read often are worth a copy."""
        return getattr(self.source, "slow", False)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return self.source.chunks(size, start)

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return self.source.take(numbers)

    def name(self, row: int) -> str:
        return self.source.name(row)


@dataclass(frozen=True)
class LocalRows:
    """Rows of one machine: a source, the stages they went through, and the codes these gave."""

    source: Source
    stages: tuple[Carrier, ...] = ()
    columns: tuple[NDArray[Any], ...] = ()  # one (n,) array of codes per token
    chunk: int = CHUNK
    progress: Progress = field(default_factory=Silent)
    cast: np.dtype[Any] | None = None  # the dtype to compute in, if not the source's own

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.cast or self.source.dtype

    @property
    def width(self) -> int:
        return len(self.columns)

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]:
        return self.take(choose(self.shape[0], n, seed))

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        x: NDArray[Any] = self._carried(self.source.take(numbers), self._codes_of(numbers))
        return x

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        return add_in_tree(self._parts(f), -(-self.shape[0] // self.chunk))

    def map(self, stage: Carrier) -> LocalRows:
        columns = [np.empty(self.shape[0], smallest_code_dtype(size)) for size in stage.sizes]
        if columns:
            for rows, x in self._chunks():
                tokens = stage.tokens(x, self._codes_of(rows))
                for j, column in enumerate(columns):
                    column[rows] = tokens[:, j]
                self.progress.advance(len(x))
        return replace(self, stages=(*self.stages, stage), columns=(*self.columns, *columns))

    def batches(self, n: int, seed: Sequence[int]) -> Iterator[Array]:
        order = np.random.default_rng(seed).permutation(self.shape[0])
        for start in range(0, len(order), n):
            yield self.take(order[start : start + n])

    def codes(self) -> NDArray[np.int32]:
        return self._codes_of(slice(None))

    def prepare(self, work: float) -> None:
        native.prepare(work)

    def _parts(self, f: Callable[[Array, Array], Sums]) -> Iterator[Sums]:
        for rows, x in self._chunks():
            part = f(x, self._codes_of(rows))
            self.progress.advance(len(x))
            yield part

    def _chunks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        start = 0
        for x in self.source.chunks(self.chunk):
            rows = slice(start, start + len(x))
            yield rows, self._carried(x, self._codes_of(rows))
            start += len(x)

    def _carried(self, x: NDArray[Any], codes: NDArray[np.int32]) -> NDArray[Any]:
        done, x = 0, x.astype(self.dtype, copy=False)
        if self.stages and native.ready(x):
            done, chain = self._chain
            x = native.carry(x, chain, codes) if done else x
        seen = sum(len(stage.sizes) for stage in self.stages[:done])
        for stage in self.stages[done:]:
            seen += len(stage.sizes)
            x = stage.carry(x, codes[:, :seen])
        return x

    @cached_property
    def _chain(self) -> tuple[int, native.Chain]:
        """How many stages, from the first on, one sweep of the kernels can do, and how."""
        steps = leading_steps(self.stages)
        return len(steps), native.Chain(steps)

    def _codes_of(self, rows: Any) -> NDArray[np.int32]:
        n = len(range(*rows.indices(self.shape[0]))) if isinstance(rows, slice) else len(rows)
        out = np.empty((n, self.width), np.int32)
        for j, column in enumerate(self.columns):
            out[:, j] = column[rows]
        return out


def add_in_tree(parts: Iterator[Sums], count: int) -> Sums:
    """The sum of so many parts, each half of them first. A machine that has one half gets the same bits for it."""
    if count < 2:
        return next(parts) if count else ()
    left = add_in_tree(parts, count // 2)
    right = add_in_tree(parts, count - count // 2)
    return tuple(a + b for a, b in zip(left, right, strict=True))


def leading_steps(stages: Sequence[Carrier], x: Array = None) -> list[native.Step]:
    """The stages that are a vector taken away, up to the first that is not; with their codebooks if x is given."""
    steps: list[native.Step] = []
    seen = 0
    for stage in stages:
        taken: Taken | None = getattr(stage, "taken", None)
        if taken is None or len(stage.sizes) > 1:
            break
        seen += len(stage.sizes)
        book = taken.book(x) if x is not None and taken.book is not None else None
        steps.append(native.Step(taken.vectors, taken.keep, taken.normalize, seen - 1 if stage.sizes else -1, book))
    return steps


def choose(total: int, n: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """n different row numbers below total, decided by the seed alone."""
    return np.random.default_rng(seed).choice(total, size=n, replace=False).astype(np.int64)


def smallest_code_dtype(size: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below size."""
    return np.min_scalar_type(max(size - 1, 0))
