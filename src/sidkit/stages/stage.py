"""A stage of a tokenizer, before and after fitting, and the context of a fit.

A stage maps (x, codes) to (x', codes'): a preparation changes x, a level appends one token and changes x, a suffix
appends tokens. Stages are frozen dataclasses of plain fields, so a tokenizer is a value that can be printed, compared,
hashed and written as JSON. Fitting one returns a `Fitted` stage: the same spec with arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..files.checkpoint import Checkpoint
from ..geometry import Array
from ..progress import Progress, Silent
from ..rows.digests import digests
from ..rows.seam import ReducesThere, Rows, choose

__all__ = [
    "UNKNOWN_LENGTH",
    "Checks",
    "Decodes",
    "FitContext",
    "FitsSeeds",
    "Fitted",
    "HasCodebooks",
    "HasTokenCosts",
    "Stage",
    "require_stages",
]


MOST_STAGES = 1 << 12
AT_ONCE = 1 << 23  # numbers in memory while first centroids are chosen
UNKNOWN_LENGTH = (
    "these codes do not tell how long residuals were: they are scaled to length one, and the rows before were not; "
    "decode a tokenizer whose rows are normalised first, or whose residuals are not"
)


@runtime_checkable
class Fitted(Protocol):
    """A fitted stage. `arrays` are all that it learned; `Stage.restore` rebuilds the stage from them."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each token it emits; () if it emits none."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...

    def tokens(self, x: Array, codes: Array) -> Array:
        """Its tokens for rows x whose earlier tokens are codes: (n, len(sizes))."""

    def carry(self, x: Array, codes: Array) -> Array:
        """The rows after the stage, for rows x whose last codes are its tokens."""


@runtime_checkable
class HasCodebooks(Protocol):
    """A fitted stage whose tokens stand for vectors."""

    @property
    def codebooks(self) -> Sequence[NDArray[Any]]:
        """(K, d) for each token, in the space the token is decided in."""


@runtime_checkable
class HasTokenCosts(Protocol):
    """A fitted stage that can say what each code of each of its tokens would cost a row, in what it minimises."""

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> Sequence[NDArray[np.float64]]:
        """(n, K) per token, given the tokens before it; codes: all tokens up to those of this stage."""


@runtime_checkable
class Decodes(Protocol):
    """A fitted stage that tells from tokens alone what its rows were."""

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        """The rows that reached it, as far as codes tell, in float64: (n, d).

        codes: all tokens up to its own; rest: the same of what it passed on, zero where nothing is known;
        of_length_one: whether the rows that reached it had length one.
        """


@runtime_checkable
class Stage(Protocol):
    """A stage to be fitted: a frozen dataclass."""

    def fit(self, rows: Rows, run: FitContext) -> Fitted: ...

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Fitted:
        """The fitted stage of these arrays, checked against this spec and the d of the rows that reach it."""


@runtime_checkable
class FitsSeeds(Protocol):
    """A stage that fits several seeds at once in less time than one after the other."""

    def fit_seeds(self, rows: Rows, runs: Sequence[FitContext]) -> Sequence[Fitted]:
        """One fitted stage per run. The runs differ in their seeds; each gives what it would give alone."""


def require_stages(stages: Sequence[Any]) -> None:
    """An error unless there are stages, and nothing else."""
    if not stages:
        raise SpecError("a tokenizer needs at least one stage")
    if len(stages) > MOST_STAGES:
        raise SpecError(f"a tokenizer has at most {MOST_STAGES:,} stages, not {len(stages):,}")
    for stage in stages:
        if not isinstance(stage, Stage):
            raise SpecError(f"{type(stage).__name__} is not a stage: it has no fit or no restore")
        if hasattr(stage, "size"):  # as every clusterer has
            raise SpecError(f"{type(stage).__name__} is not a stage but a clusterer; put it into a Level")


@runtime_checkable
class Checks(Protocol):
    """A stage, or the clusterer of one, that knows before a fit whether it can be fitted."""

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        """An error if rows of this shape, with `level` tokens so far, cannot be fitted; else their tokens afterwards.

        All stages are checked before the first is fitted, up to the first stage without this method.
        """


@dataclass(frozen=True)
class FitContext:
    """The context of a fit, for all its stages: seed, initial rows that were requested, progress, device, checkpoint.

    Each level has its own seed (a level is the number of tokens emitted before), not each stage: dropping a preparation
    leaves the draws of every level unchanged, and ablations stay paired.
    """

    seed: int = 0
    init: Sequence[NDArray[np.integer[Any]]] | None = None
    progress: Progress = field(default_factory=Silent)
    device: str = "auto"
    checkpoint: Checkpoint | None = None  # the states of unfinished work
    starts: Mapping[int, NDArray[Any]] | None = None  # level -> the centroids (K, d) that start its codebook

    def seed_of(self, level: int) -> tuple[int, int]:
        return self.seed, level

    def start_rows(self, rows: Rows, size: int, level: int, there: bool = False) -> Any:
        """The rows that start a codebook of this size: those requested or given, or a draw with the level's seed.

        A draw takes distinct rows first, and zero rows last: of two equal centroids one would stay empty. there: they
        may stay on the device that has the rows.
        """
        n, drawn = rows.shape[0], 2 * size
        requested = self.requested_rows(n, size, level)
        if requested is not None:
            return rows.take(requested)
        if self.starts is not None and level in self.starts:
            return self._given(level, (size, rows.shape[1]))
        numbers = choose(n, min(n, drawn), self.seed_of(level))
        if there and isinstance(rows, ReducesThere):  # most draws are of different rows
            x = rows.take_different(numbers[:size])
            if x is not None:
                return x
        while True:
            x, distinct = _distinct_first(rows, numbers, size)
            if distinct >= size or drawn >= n:
                return x
            drawn *= 4  # most rows are copies
            numbers = choose(n, min(n, drawn), self.seed_of(level))

    def _given(self, level: int, shape: tuple[int, int]) -> NDArray[Any]:
        given = np.asarray((self.starts or {})[level])
        if given.shape != shape:
            raise SpecError(f"level {level + 1} needs {shape[0]} centroids of {shape[1]} dimensions, not {given.shape}")
        return given

    def check_starts(self, n: int, sizes: Sequence[int], level: int) -> int:
        """An error unless n rows can start codebooks of these sizes, from this level on; else the next level."""
        for m, size in enumerate(sizes):
            self.requested_rows(n, size, level + m)
        return level + len(sizes)

    def requested_rows(self, n: int, size: int, level: int) -> NDArray[np.int64] | None:
        """The row numbers that the user gave to start a codebook of this size, or None."""
        if n < size:
            raise SpecError(
                f"cannot draw {size} initial centroids from {n} rows; use codebooks of at most {n}, or give more rows"
            )
        if self.init is None or level >= len(self.init) or self.init[level] is None:
            return None
        numbers = np.asarray(self.init[level])
        if numbers.shape != (size,) or numbers.dtype.kind not in "iu":
            raise SpecError(
                f"init for level {level + 1} needs {size} row numbers, one per centroid; "
                f"got shape {numbers.shape} of {numbers.dtype}"
            )
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= n:
            raise SpecError(f"init for level {level + 1} names rows outside 0..{n - 1}")
        return numbers.astype(np.int64)


def _distinct_first(rows: Rows, numbers: NDArray[np.int64], size: int) -> tuple[NDArray[Any], int]:
    """The first rows of a draw, repeated rows and zeros last: (size, d); and the number of rows before those.

    A part of the rows is in memory at a time, and no more are looked at than needed.
    """
    first = others = np.empty((0, rows.shape[1]), rows.dtype)
    start, step = 0, size  # most draws are of different rows, of which the first `size` will do
    while start < len(numbers):
        x = np.concatenate([first, rows.take(numbers[start : start + step])])
        new = np.asarray(x.any(axis=1))
        new[new] = _is_first(x[new])
        first = x[new]
        if len(first) >= size:
            return first[:size], size
        others = np.concatenate([others, x[~new][: size - len(others)]])
        start, step = start + step, max(size, AT_ONCE // rows.shape[1])
    return np.concatenate([first, others])[:size], len(first)


def _is_first(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether no row before is equal, for every row."""
    _, first, copy_of = np.unique(digests(x), return_index=True, return_inverse=True)
    same = first[copy_of]
    copies = np.flatnonzero(same != np.arange(len(x)))
    if not np.array_equal(x[copies], x[same[copies]]):  # two rows of one digest
        first = np.unique(x + 0.0, axis=0, return_index=True)[1]
    is_first = np.zeros(len(x), bool)
    is_first[first] = True
    return is_first
