"""Preparations: what happens to embeddings before the first token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import engine_of
from ..engine.arrays import like
from ..errors import SpecError
from ..files.folder import require_array
from ..geometry import Array, residual, restored, unit
from ..rows.seam import ReducesThere, Rows, Taken
from .stage import UNKNOWN_LENGTH, FitContext

__all__ = ["FittedNormalize", "FittedRemoveMean", "Normalize", "RemoveMean", "mean_of", "normalize_if"]


@dataclass(frozen=True)
class Normalize:
    """Rows scaled to length one."""

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return level

    def fit(self, rows: Rows, run: FitContext) -> FittedNormalize:
        return FittedNormalize()

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedNormalize:
        return FittedNormalize()


@dataclass(frozen=True)
class FittedNormalize:
    @property
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}

    def tokens(self, x: Array, codes: Array) -> Array:
        return codes[:, :0]

    def carry(self, x: Array, codes: Array) -> Array:
        return unit(x)

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        """The direction; no code contains a length."""
        return rest

    @property
    def taken(self) -> Taken:
        return Taken(None, 0.0, True)


def normalize_if(wanted: bool) -> tuple[Normalize, ...]:
    """The first stages of a recipe that has rows of length one as an option."""
    return (Normalize(),) if wanted else ()


@dataclass(frozen=True)
class RemoveMean:
    """Global component removal: the mean row is projected out of every row (paper, Eqs. 8 and 9).

        mu = mean of x,   r = norm(x - (x.mu / |mu|^2) mu)

    A zero mean removes nothing. A row that is parallel to the mean becomes zero.
    """

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return level

    def fit(self, rows: Rows, run: FitContext) -> FittedRemoveMean:
        run.progress.start("mean", rows.shape[0])
        return FittedRemoveMean(mean_of(rows).astype(rows.dtype))

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedRemoveMean:
        return FittedRemoveMean(require_array(arrays, "mean", (d,)))


@dataclass(frozen=True, eq=False)
class FittedRemoveMean:
    mean: NDArray[Any]  # (d,)

    @property
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"mean": self.mean}

    def tokens(self, x: Array, codes: Array) -> Array:
        return codes[:, :0]

    def carry(self, x: Array, codes: Array) -> Array:
        return unit(residual(x, like(self.mean, x)[None, :], keep=0.0))

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        if not of_length_one:
            raise SpecError(UNKNOWN_LENGTH)
        return np.asarray(restored(self.mean.astype(np.float64)[None, :], rest, keep=0.0))

    @property
    def taken(self) -> Taken:
        return Taken(self.mean[None, :], 0.0, True)


def mean_of(rows: Rows) -> NDArray[np.float64]:
    """The mean row, in float64: (d,)."""
    if isinstance(rows, ReducesThere):
        total, count = rows.column_sums().cpu().numpy(), rows.shape[0]
    else:
        (count,), total = rows.reduce(_count_and_sum)
    return np.asarray(total / count)


def _count_and_sum(x: Array, codes: Array) -> tuple[Any, Any]:
    """The number of rows, and their sum in float64: (1,), (d,)."""
    return np.array([float(len(x))]), engine_of(x).column_sums(x)
