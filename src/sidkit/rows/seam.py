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
    "Rows",
    "Sums",
    "Taken",
    "add_in_tree",
    "choose",
    "leading_steps",
    "smallest_code_dtype",
]


CHUNK = 1 << 14  # rows read at once


Sums = tuple[Any, ...]


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


@runtime_checkable
class HasStages(Protocol):
    """Several fitted stages as one."""

    @property
    def stages(self) -> tuple[Carrier, ...]: ...


@runtime_checkable
class HasTaken(Protocol):
    """A fitted stage that is a vector taken away and a scaling; None where this one is not."""

    @property
    def taken(self) -> Taken | None: ...


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


@runtime_checkable
class MakesRows(Protocol):
    """Rows that live elsewhere than in this process's memory, and can take a matrix there."""

    def rows_of(self, x: NDArray[Any]) -> Rows:
        """The rows of a matrix (n, d), where these rows live."""


def add_in_tree(parts: Iterator[Sums], count: int) -> Sums:
    """The sum of so many parts, each half of them first. A machine that has one half gets the same bits for it."""
    if count < 2:
        return next(parts) if count else ()
    left = add_in_tree(parts, count // 2)
    right = add_in_tree(parts, count - count // 2)
    return tuple(a + b for a, b in zip(left, right, strict=True))


def leading_steps(stages: Sequence[Carrier], x: Array = None) -> list[CarryStep]:
    """The stages that are a vector taken away, up to the first that is not; with their codebooks if x is given."""
    steps: list[CarryStep] = []
    seen = 0
    for stage in stages:
        taken = stage.taken if isinstance(stage, HasTaken) else None
        if taken is None or len(stage.sizes) > 1:
            break
        seen += len(stage.sizes)
        book = taken.book(x) if x is not None and taken.book is not None else None
        steps.append(CarryStep(taken.vectors, taken.keep, taken.normalize, seen - 1 if stage.sizes else -1, book))
    return steps


def choose(total: int, n: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """n different row numbers below total, decided by the seed alone."""
    return np.random.default_rng(seed).choice(total, size=n, replace=False).astype(np.int64)


def smallest_code_dtype(size: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below size."""
    return np.min_scalar_type(max(size - 1, 0))
