"""Items that share a semantic ID, told apart by codes of their last level that nobody under their prefix has taken.

Nearest centroids give several items one SID while most codes under their prefix stay unused. Whoever encodes a whole
catalogue at once can do better: under each prefix the last tokens are dealt out together, an assignment problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows
from ..errors import InputError, SpecError
from ..progress import Progress, Silent
from .prefixes import prefix_numbers

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["require_spreadable", "spread"]

AT_ONCE = 1 << 22  # costs held at once: 32 MB

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]


def spread(fitted: FittedTokenizer, X: Any, codes: Any, progress: Progress | None = None) -> Codes:
    """The codes (n, tokens) of rows X with as many different SIDs as the last level has room for.

    All tokens but the last stay. Under a prefix where items collide, the last tokens become those that
    - are all different, or use all K codes of the last level where there are more than K items;
    - add least to what the level minimises when it assigns: -cos, or half the squared distance.
    Prefixes without collisions keep their tokens, and so do items that have to share. Of a prefix with more than
    AT_ONCE / K items (16,384 for 256 codes) only so many, the first, may be moved.
    """
    require_spreadable(fitted)
    costs_of = fitted.stages[-1].clusters.costs  # type: ignore[attr-defined]
    report = progress or Silent()
    rows = as_rows(X, "cpu", report, np.dtype(fitted.dtype), fitted.d)
    out = np.array(codes, np.int32)
    if out.shape != (rows.shape[0], len(fitted.sizes)):
        raise InputError(f"codes of shape {out.shape} do not fit {rows.shape[0]} rows of {len(fitted.sizes)} tokens")
    groups = _colliding(out, fitted.sizes)
    report.start("spread", sum(map(len, groups)))
    for together in _batches(groups, max(fitted.sizes[-1], AT_ONCE // fitted.sizes[-1])):
        some = np.concatenate(together)
        costs = costs_of(_reaching_the_last(fitted, rows.take(some), out[some]))
        for group, part in zip(together, np.split(costs, np.cumsum([len(g) for g in together])[:-1]), strict=True):
            out[group, -1] = _dealt(part, out[group, -1])
        report.advance(len(some))
    return out


def require_spreadable(fitted: FittedTokenizer) -> None:
    """An error unless the last stage is a level that can say what each of its codes would cost a row."""
    last = fitted.stages[-1]
    if not hasattr(getattr(last, "clusters", None), "costs"):
        ending = fitted.spec.stages[-1]
        kind = type(getattr(ending, "cluster", ending)).__name__
        raise SpecError(f"only a last level of KMeans or Balanced can spread items; this tokenizer ends in {kind}")


def _colliding(codes: Codes, sizes: tuple[int, ...]) -> list[Integers]:
    """The rows of each prefix under which two rows have the same last token, in order."""
    parent, full = [np.zeros(len(codes), np.int64), *prefix_numbers(codes, sizes)][-2:]
    _, which, count = np.unique(full, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(np.isin(parent, parent[count[which] > 1]))
    rows = rows[np.argsort(parent[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(parent[rows])) + 1) if len(rows) else []


def _batches(groups: list[Integers], limit: int) -> Iterator[list[Integers]]:
    """Groups, as many at a time as have `limit` rows; a larger one is cut to its first."""
    held, together = 0, list[Integers]()
    for group in groups:
        if together and held + len(group) > limit:
            yield together
            held, together = 0, []
        together.append(group[:limit])
        held += len(group)
    if together:
        yield together


def _reaching_the_last(fitted: FittedTokenizer, x: NDArray[Any], codes: Codes) -> NDArray[Any]:
    """What the last stage gets of rows x with these codes."""
    seen = 0
    for stage in fitted.stages[:-1]:
        seen += len(stage.sizes)
        x = stage.carry(x, codes[:, :seen])
    return x


def _dealt(costs: NDArray[np.float64], tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """New last tokens for the rows of a prefix: costs (n, K), tokens those they have (n,).

    Every row gets a code of its own; or, with more rows than codes, every code one row, and the others stay.
    """
    from scipy.optimize import linear_sum_assignment

    row, code = linear_sum_assignment(costs - np.take_along_axis(costs, tokens[:, None], 1))
    out = tokens.copy()
    out[row] = code
    return out
