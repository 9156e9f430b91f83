"""Rows: the only way an algorithm reaches its data.

    rows.sample(n, seed)    n rows, the same n wherever they live
    rows.take(indices)      the rows with these indices
    rows.reduce(f)          the sum over chunks of f(x, codes); f returns arrays that add, each half of the chunks first
    rows.map(stage)         the rows after a fitted stage: its tokens are computed once and stored,
                            what it passes on is rebuilt from them chunk by chunk
    rows.batches(n, seed)   shuffled minibatches

Residuals are not stored: a chunk is read, carried through the earlier stages with its codes, used and dropped. So
memory contains one chunk and a few bytes of codes per row, whatever N is and wherever the rows live; and at most 256 MB
of residuals where most are zero (`sparse.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..engine.steps import CarryStep
from ..geometry import Array

__all__ = [
    "CHUNK",
    "Carrier",
    "HasStages",
    "HasTaken",
    "MakesRows",
    "ReducesThere",
    "Rows",
    "Sums",
    "Taken",
    "add_in_tree",
    "choose",
    "leading_steps",
    "order_of",
    "smallest_code_dtype",
]


CHUNK = 1 << 14  # rows read at once


Sums = tuple[Any, ...]


class Carrier(Protocol):
    """The part of a fitted stage that Rows use."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codewords each of its tokens can take; () if it emits none."""

    def tokens(self, x: Array, codes: Array) -> Array:
        """Its tokens for rows x whose earlier tokens are codes: (n, len(sizes))."""

    def carry(self, x: Array, codes: Array) -> Array:
        """The rows after the stage, for rows x whose last codes are its tokens."""


class Taken(NamedTuple):
    """The effect of a stage that subtracts a vector and scales: `geometry.residual`, then length one.

    vectors: (K, d), chosen by the row's last code; (1, d), shared by all rows; or None; beside: makes them an array
    where rows like these are. Compiled kernels and the GPU's carry rows through several stages that have this as
    `taken` in one sweep.
    """

    vectors: NDArray[Any] | None
    keep: float
    normalize: bool
    book: Callable[[Array], Any] | None = None  # makes the codebook that decides its token, for rows like these
    beside: Callable[[Array], Array] | None = None


@runtime_checkable
class HasStages(Protocol):
    """Several fitted stages as one."""

    @property
    def stages(self) -> tuple[Carrier, ...]: ...


@runtime_checkable
class HasTaken(Protocol):
    """A fitted stage that may subtract a vector and scale; `taken` is None if it does something else."""

    @property
    def taken(self) -> Taken | None: ...


@runtime_checkable
class Rows(Protocol):
    """Rows wherever they live: one array, a file, a GPU, a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def width(self) -> int:
        """How many tokens the earlier stages have emitted."""

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]: ...

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]: ...

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        """The sum of f(x, codes) over chunks; a GPU may give f rows rounded to 16 bits if precision allows it."""

    def map(self, stage: Carrier) -> Rows: ...

    def batches(self, n: int, seed: Sequence[int], order: NDArray[np.int64] | None = None) -> Iterator[Array]:
        """All rows in the order of the seed, n at a time; order: `order_of` it, where it has been drawn already."""

    def codes(self) -> NDArray[np.int32]:
        """The tokens of the earlier stages: (n, width)."""

    def prepare(self, work: float) -> None:
        """Get ready for `work` multiply-adds, by compiling kernels if these pay for it."""


@runtime_checkable
class MakesRows(Protocol):
    """Rows that live elsewhere than in this process's memory, and can take a matrix there."""

    def rows_of(self, x: NDArray[Any]) -> Rows:
        """The rows of a matrix (n, d), where these rows live."""


@runtime_checkable
class ReducesThere(Protocol):
    """Rows of a device that can leave results there."""

    def reduce_there(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        """As `Rows.reduce`, its arrays on the device."""

    def column_sums(self) -> Array:
        """The sum of the rows, in float64: (d,)."""

    def later(self, *numbers: Array) -> Callable[[], list[float]]:
        """A call that waits for these numbers of the device, (), but for nothing it is told after this."""

    def take_different(self, indices: NDArray[np.int64]) -> Array | None:
        """As `Rows.take`, on the device; None if a row is zero or perhaps equal to another."""


def add_in_tree(parts: Iterator[Sums], count: int) -> Sums:
    """The sum of `count` parts, each half of them first: a machine that has one half gets the same bits for it."""
    if count < 2:
        return next(parts) if count else ()
    left = add_in_tree(parts, count // 2)
    right = add_in_tree(parts, count - count // 2)
    return tuple(a + b for a, b in zip(left, right, strict=True))


def leading_steps(stages: Sequence[Carrier], x: Array = None, books: bool = True) -> list[CarryStep]:
    """The leading stages that subtract a vector and scale, as steps; for rows like x, with codebooks if asked."""
    steps: list[CarryStep] = []
    seen = 0
    for stage in stages:
        taken = stage.taken if isinstance(stage, HasTaken) else None
        if taken is None or len(stage.sizes) > 1:
            break
        seen += len(stage.sizes)
        book = taken.book(x) if books and x is not None and taken.book is not None else None
        vectors = taken.vectors if x is None or taken.beside is None else taken.beside(x)
        steps.append(CarryStep(vectors, taken.keep, taken.normalize, seen - 1 if stage.sizes else -1, book))
    return steps


def choose(total: int, n: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """n different row indices below total, determined by the seed alone."""
    return np.random.default_rng(seed).choice(total, size=n, replace=False).astype(np.int64)


def order_of(total: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """All row indices in the order of an epoch of minibatches, determined by the seed alone."""
    return np.random.default_rng(seed).permutation(total)


def smallest_code_dtype(size: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below size."""
    return np.min_scalar_type(max(size - 1, 0))
