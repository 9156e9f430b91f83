"""Predictions with intervals: how far pairs of fits differ, and what counting a part of the items leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .candidates import Candidate, Sizes
from .occupancy import Filling, log_odds, share_of

__all__ = ["Run", "judged", "pairs_of"]

# How far two fits of the same sizes differ on four public datasets, in log-odds and in log; as good as PRIOR pairs.
USUAL = Filling(icr_per_sid=0.09, sids_per_item=0.09, largest_bucket=0.4)
PRIOR = 4
FAR = 3


@dataclass(frozen=True)
class Run:
    """What one or two fits of the same sizes say, by either law."""

    sizes: Sizes
    fitted_on: int
    fillings: list[tuple[Filling, Filling]]
    distinct: int  # SIDs counted
    whole: bool  # not the first tokens of another

    @property
    def paired(self) -> bool:
        return len(self.fillings) == 2


def judged(runs: Sequence[Run], n: int, counted: int) -> list[Candidate]:
    """Candidates for n items with their intervals, wider the more the pairs of fits differ."""
    spread, sure = _spread(runs), _quantile(PRIOR + pairs_of(runs))
    return [_candidate(run, n, n / counted, spread, sure) for run in runs]


def _candidate(run: Run, n: int, growth: float, spread: Filling, sure: float) -> Candidate:
    exact, drifts = run.fitted_on == n, False
    figures: dict[str, float] = {}
    for name in Filling._fields:
        laws = np.array([[_open(name, getattr(law, name), run.distinct) for law in both] for both in run.fillings])
        middle, apart = float(laws.mean()), float(np.abs(laws[:, 0] - laws[:, 1]).mean())
        drawn = growth * _drawn(name, middle, run.distinct)
        half = sure * (getattr(spread, name) ** 2 + drawn) ** 0.5 + apart / 2
        shift, further = _drift(name, laws.mean(axis=1), n / run.fitted_on)
        drifts |= shift != 0
        low, high = middle + shift - half + min(further, 0.0), middle + shift + half + max(further, 0.0)
        for end, value in (("", middle + shift), ("_low", low), ("_high", high)):
            figures[name + end] = getattr(run.fillings[0][0], name) if exact else _closed(name, value)
    return Candidate(run.sizes, sum(run.sizes), run.fitted_on, exact, drifts, **figures)


def _drift(name: str, fits: NDArray[np.float64], growth: float) -> tuple[float, float]:
    """How far to move a prediction, and its worse end further, where the larger sample is much worse than the smaller.

    Then the catalogue has structure too fine for the sample, such as many small groups of items nearly alike, which
    larger samples go on to find. What the last doubling of rows did beyond chance (FAR times the usual difference) is
    taken to happen at every doubling up to all rows; at the worse end, all that it did.
    """
    worse = 1.0 if name == "largest_bucket" else -1.0
    chance = FAR * getattr(USUAL, name)
    more = worse * float(fits[0] - fits[1]) - chance if len(fits) == 2 else 0.0
    if more <= 0:
        return 0.0, 0.0
    doublings = float(np.log2(growth))
    return worse * more * doublings, worse * chance * doublings


def _spread(runs: Sequence[Run]) -> Filling:
    """The standard deviation of a prediction, per figure: pairs of fits differ by sqrt(2) times as much.

    Shares near 0 and 1 are left out: there the log-odds differ by chance alone.
    """
    found = []
    for name in Filling._fields:
        pairs = [[float(np.mean([getattr(law, name) for law in both])) for both in run.fillings] for run in runs]
        apart = [
            _open(name, pair[0], 10**6) - _open(name, pair[1], 10**6)
            for pair in pairs
            if len(pair) == 2 and (name == "largest_bucket" or (0.05 < min(pair) and max(pair) < 0.99))
        ]
        square = PRIOR * getattr(USUAL, name) ** 2 + float(np.sum(np.square(apart)))
        found.append(float(np.sqrt(square / (PRIOR + len(apart)) / 2)))
    return Filling(*found)


def pairs_of(runs: Sequence[Run]) -> int:
    """Pairs of independent fits; shorter SIDs share theirs with the longest."""
    return sum(run.paired and run.whole for run in runs)


def _quantile(freedom: int) -> float:
    """What 90 % of a t distribution lie within."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.95))


def _drawn(name: str, odds: float, distinct: int) -> float:
    """About the variance of log-odds that comes of counting so many SIDs: 1 / (S p (1 - p))."""
    share = share_of(odds)
    return 0.0 if name == "largest_bucket" else 1.0 / (distinct * share * (1.0 - share))


def _open(name: str, value: float, many: int) -> float:
    """Log-odds of a share of so many; the log of a bucket."""
    return float(np.log(max(value, 1.0))) if name == "largest_bucket" else log_odds(value, many)


def _closed(name: str, value: float) -> float:
    return float(max(np.exp(value), 1.0)) if name == "largest_bucket" else share_of(value)
