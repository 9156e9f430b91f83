"""Collision policies for the items of a catalogue: a tokenizer says what each last code would cost a row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows, as_source
from ..errors import InputError, SpecError
from ..progress import Progress, Silent
from ..rows.scratch import checked_copy
from ..rows.sources import Source, is_slow
from ..sids.policies import Occupied, Policy, Resolved, resolve
from ..sids.spread import Costs
from ..stages.cluster.loop import HasCosts
from ..stages.level import FittedLevel, Level
from ..stages.stage import HasTokenCosts

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["can_spread", "copied_if_slow", "last_costs", "require_spreadable", "resolve_rows", "spread"]


def spread(
    fitted: FittedTokenizer, X: Any, codes: Any, progress: Progress | None = None, policy: str | Policy = "nearest"
) -> NDArray[np.int32]:
    """The codes (n, tokens) of rows X with as many different SIDs as the last level has room for."""
    return resolve_rows(fitted, X, codes, policy, progress=progress).codes


def resolve_rows(
    fitted: FittedTokenizer,
    X: Any,
    codes: Any,
    policy: str | Policy,
    taken: Occupied | None = None,
    weights: Any = None,
    rows: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Resolved:
    """Apply a collision policy to the codes (n, tokens) of rows X; see `sids.policies.resolve`.

    rows: the numbers of the rows of X that the codes belong to, where X has others as well.
    """
    policy = policy if isinstance(policy, Policy) else Policy(policy)
    costs = last_costs(fitted, X, codes, rows, progress) if policy.needs_costs else None
    return resolve(codes, fitted.sizes, policy, costs, taken, weights, progress)


def last_costs(
    fitted: FittedTokenizer,
    X: Any,
    codes: Any,
    rows: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Costs:
    """What each code of the last token costs the rows X with these codes: -cos, half the squared distance, ...."""
    last = require_spreadable(fitted)
    source = as_rows(X, "cpu", progress or Silent(), np.dtype(fitted.dtype), fitted.d)
    array, n = np.asarray(codes, np.int32), source.shape[0] if rows is None else len(rows)
    if array.shape != (n, len(fitted.sizes)):
        raise InputError(f"codes of shape {array.shape} do not fit {n} rows of {len(fitted.sizes)} tokens")

    def costs(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        x = source.take(numbers if rows is None else rows[numbers])
        return last.token_costs(_before_last(fitted, x, array[numbers]), array[numbers])[-1]

    return costs


def can_spread(fitted: FittedTokenizer) -> bool:
    """Whether the last stage can say what each code of its last token would cost a row."""
    last = fitted.stages[-1]
    return isinstance(last, HasTokenCosts) and (
        not isinstance(last, FittedLevel) or isinstance(last.clusters, HasCosts)
    )


def require_spreadable(fitted: FittedTokenizer) -> HasTokenCosts:
    """The last stage; an error unless it can say what each code of its last token would cost a row."""
    last, spec = fitted.stages[-1], fitted.spec.stages[-1]
    if isinstance(last, HasTokenCosts) and can_spread(fitted):
        return last
    kind = type(spec.cluster if isinstance(spec, Level) else spec).__name__
    raise SpecError(f"this tokenizer ends in {kind}, which cannot say what another last code would cost an item")


def copied_if_slow(X: Any, d: int, folder: Path | None, progress: Progress) -> Any:
    """Embeddings to be read in order and then by index: what is slow to read is checked and copied, once."""
    if not isinstance(X, str | os.PathLike | Source):
        return X
    source = as_source(X)
    as_rows(source, "cpu", progress, d=d, check="done")  # an error if the dimension is another
    if not is_slow(source):
        return source
    progress.start("check", source.shape[0])
    return checked_copy(source, folder, progress)


def _before_last(fitted: FittedTokenizer, x: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """The input of the last stage, for rows x with these codes."""
    done = 0
    for stage in fitted.stages[:-1]:
        done += len(stage.sizes)
        x = stage.carry(x, codes[:, :done])
    return x
