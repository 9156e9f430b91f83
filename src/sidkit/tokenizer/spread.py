"""Spreading the items of a catalogue: a tokenizer's last level says what each of its codes costs a row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows, as_source
from ..errors import InputError, SpecError
from ..progress import Progress, Silent
from ..rows.scratch import checked_copy
from ..rows.sources import Source
from ..sids.spread import spread_codes
from ..stages.level import FittedLevel, Level

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["HasCosts", "copied_if_slow", "require_spreadable", "spread"]


@runtime_checkable
class HasCosts(Protocol):
    """Clusters that can say what each code would cost a row, in units of what `assign` minimises."""

    def costs(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """(n, d) -> (n, K), up to a constant per row."""


@runtime_checkable
class MayBeSlow(Protocol):
    """A source that knows whether reading takes so long that rows which are read often are worth a copy."""

    slow: bool


def spread(fitted: FittedTokenizer, X: Any, codes: Any, progress: Progress | None = None) -> NDArray[np.int32]:
    """The codes (n, tokens) of rows X with as many different SIDs as the last level has room for.

    Costs are what the level minimises when it assigns: -cos, or half the squared distance; see `spread_codes`.
    """
    clusters = require_spreadable(fitted)
    report = progress or Silent()
    rows = as_rows(X, "cpu", report, np.dtype(fitted.dtype), fitted.d)
    codes = np.asarray(codes, np.int32)
    if codes.shape != (rows.shape[0], len(fitted.sizes)):
        raise InputError(f"codes of shape {codes.shape} do not fit {rows.shape[0]} rows of {len(fitted.sizes)} tokens")

    def costs(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        return clusters.costs(_before_last(fitted, rows.take(numbers), codes[numbers]))

    return spread_codes(codes, fitted.sizes, costs, report)


def require_spreadable(fitted: FittedTokenizer) -> HasCosts:
    """The clusters of the last level; an error unless they can say what each code would cost a row."""
    last, spec = fitted.stages[-1], fitted.spec.stages[-1]
    if isinstance(last, FittedLevel) and isinstance(last.clusters, HasCosts):
        return last.clusters
    kind = type(spec.cluster if isinstance(spec, Level) else spec).__name__
    raise SpecError(f"only a last level of KMeans or Balanced can spread items; this tokenizer ends in {kind}")


def copied_if_slow(X: Any, d: int, folder: Path | None, progress: Progress) -> Any:
    """Embeddings to be read in order and then by number: what is slow to read is checked and copied, once."""
    if not isinstance(X, str | os.PathLike | Source):
        return X
    source = as_source(X)
    as_rows(source, "cpu", progress, d=d, check="done")  # an error if the dimension is another
    if not (isinstance(source, MayBeSlow) and source.slow):
        return source
    progress.start("check", source.shape[0])
    return checked_copy(source, folder, progress)


def _before_last(fitted: FittedTokenizer, x: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """What reaches the last stage of rows x with these codes."""
    done = 0
    for stage in fitted.stages[:-1]:
        done += len(stage.sizes)
        x = stage.carry(x, codes[:, :done])
    return x
