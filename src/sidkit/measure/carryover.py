"""Residual carryover: how much of the selected centroid's direction is left after a level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..data.inputs import as_rows
from ..errors import SpecError
from ..geometry import Array, expected_abs_cosine, residual, squared_length
from ..stages.level import FittedLevel
from ..stages.stage import Fitted
from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["carryover"]


def carryover(fitted: FittedTokenizer, X: Any) -> dict[str, Any]:
    """The mean relative carryover of every level, over rows X (paper, Eq. 4 and Appendix D).

        m = |alpha - rho| / |r - c|,   alpha = r.c / |c|,   rho = |c|

    per_level    per level, what subtracting the whole centroid would leave along it, as in the paper
    passed_on    what the tokenizer's residual rule leaves along it: |r'.c| / (|r'| |c|); zero for projection
    isotropic    E|cos| of two random directions, for scale

    Rows whose residual is zero are left out of a level's mean.
    """
    rows = as_rows(X)
    levels = []
    for stage in fitted.stages:
        rows = rows.map(_Emit(stage))
        if isinstance(stage, FittedLevel):
            sums = rows.reduce(partial(_measure, stage))
            levels.append([float(total[0]) / max(float(count[0]), 1.0) for total, count in (sums[:2], sums[2:])])
        rows = rows.map(_PassOn(stage))
    if not levels:
        raise SpecError("carryover needs residual levels; this tokenizer has none")
    return {
        "per_level": [level[0] for level in levels],
        "passed_on": [level[1] for level in levels],
        "isotropic": expected_abs_cosine(fitted.d),
    }


@dataclass(frozen=True)
class _Emit:
    """The first half of a stage: it appends the tokens and leaves the rows unchanged."""

    stage: Fitted

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.stage.sizes

    def tokens(self, x: Array, codes: Array) -> Array:
        return self.stage.tokens(x, codes)

    def carry(self, x: Array, codes: Array) -> Array:
        return x


@dataclass(frozen=True)
class _PassOn:
    """The second half: it appends no tokens and changes the rows as the stage does."""

    stage: Fitted
    sizes: tuple[int, ...] = ()

    def tokens(self, x: Array, codes: Array) -> Array:
        return codes[:, :0]

    def carry(self, x: Array, codes: Array) -> Array:
        return self.stage.carry(x, codes)


def _measure(stage: FittedLevel, x: Array, codes: Array) -> tuple[Any, ...]:
    """Sums and counts of both ratios over a chunk."""
    c = stage.clusters.chosen(x, codes)
    return (*_share_along(residual(x, c, 1.0), c), *_share_along(residual(x, c, stage.spec.rule.keep), c))


def _share_along(left: Array, c: Array) -> tuple[Any, Any]:
    """Sum over rows of |left.c| / (|left| |c|), and the number of rows where it is defined."""
    scale = (squared_length(left) * squared_length(c))[:, 0] ** 0.5
    defined = scale > 0
    share = np.abs((left * c).sum(axis=-1))[defined] / scale[defined]
    return np.array([share.sum(dtype=np.float64)]), np.array([float(defined.sum())])
