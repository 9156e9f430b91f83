"""Predictions with intervals, from the differences of pairs of fits and from how many items were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .candidates import Candidate, CountedNdcg, Sizes
from .filling import Filling, log_odds, share_of

__all__ = ["Trial", "pairs_of", "predicted"]

# Standard difference of two fits of the same sizes on four public datasets, in log-odds and in log. Every interval
# counts it as PRIOR pairs.
USUAL = Filling(icr_per_sid=0.09, sids_per_item=0.09, largest_bucket=0.4)
PRIOR = 4
FAR = 3  # times USUAL: pairs that differ by more show a drift


@dataclass(frozen=True)
class Trial:
    """One or two fits of the same sizes, and the filling that either law predicts from each."""

    sizes: Sizes
    fitted_on: int
    fillings: list[tuple[Filling, Filling]]
    distinct: int  # SIDs counted
    independent: bool  # False where these are the first tokens of another trial
    counted: CountedNdcg | None = None

    @property
    def paired(self) -> bool:
        return len(self.fillings) == 2


def predicted(trials: Sequence[Trial], rows: int, growth: float) -> list[Candidate]:
    """Candidates where a full fit is on `rows` rows; intervals widen as pairs of fits differ.

    growth: items / items counted
    """
    std, quantile = _std_of_fits(trials), _quantile(PRIOR + pairs_of(trials))
    return [_candidate(trial, rows, growth, std, quantile) for trial in trials]


def _candidate(trial: Trial, rows: int, growth: float, std: Filling, quantile: float) -> Candidate:
    exact, drifts = trial.fitted_on == rows, False
    figures: dict[str, float] = {}
    for name in Filling._fields:
        laws = np.array(
            [[_to_line(name, getattr(law, name), trial.distinct) for law in both] for both in trial.fillings]
        )
        middle, apart = float(laws.mean()), float(np.abs(laws[:, 0] - laws[:, 1]).mean())
        sampling = growth * _sampling_variance(name, middle, trial.distinct)
        half = quantile * (getattr(std, name) ** 2 + sampling) ** 0.5 + apart / 2
        shift, further = _drift(name, laws.mean(axis=1), rows / trial.fitted_on)
        drifts |= shift != 0
        low, high = middle + shift - half + min(further, 0.0), middle + shift + half + max(further, 0.0)
        for end, value in (("", middle + shift), ("_low", low), ("_high", high)):
            figures[name + end] = getattr(trial.fillings[0][0], name) if exact else _from_line(name, value)
    made = Candidate(trial.sizes, sum(trial.sizes), trial.fitted_on, exact, drifts, **figures)  # type: ignore[arg-type]
    return replace(made, counted=trial.counted, shortened=not trial.independent)


def _drift(name: str, fits: NDArray[np.float64], growth: float) -> tuple[float, float]:
    """How far to move a prediction, and its worse end further, where the larger sample is much worse than the smaller.

    Then the catalogue has structure too fine for the sample, such as many small groups of items nearly alike, which
    larger samples keep finding. What the last doubling of rows did beyond chance (FAR times the usual difference) is
    assumed for every doubling up to all rows; at the worse end, all that it did.
    """
    worse = 1.0 if name == "largest_bucket" else -1.0
    chance = FAR * getattr(USUAL, name)
    excess = worse * float(fits[0] - fits[1]) - chance if len(fits) == 2 else 0.0
    if excess <= 0:
        return 0.0, 0.0
    doublings = float(np.log2(growth))
    return worse * excess * doublings, worse * chance * doublings


def _std_of_fits(trials: Sequence[Trial]) -> Filling:
    """The standard deviation of a prediction, per figure: the difference of a pair of fits / sqrt(2).

    Shares near 0 and 1 are left out: there the log-odds differ by chance alone.
    """
    stds = []
    for name in Filling._fields:
        pairs = [[float(np.mean([getattr(law, name) for law in both])) for both in trial.fillings] for trial in trials]
        differences = [
            _to_line(name, pair[0], 10**6) - _to_line(name, pair[1], 10**6)
            for pair in pairs
            if len(pair) == 2 and (name == "largest_bucket" or (0.05 < min(pair) and max(pair) < 0.99))
        ]
        square = PRIOR * getattr(USUAL, name) ** 2 + float(np.sum(np.square(differences)))
        stds.append(float(np.sqrt(square / (PRIOR + len(differences)) / 2)))
    return Filling(*stds)


def pairs_of(trials: Sequence[Trial]) -> int:
    """Number of independent pairs of fits; shorter SIDs share theirs with the longest."""
    return sum(trial.paired and trial.independent for trial in trials)


def _quantile(freedom: int) -> float:
    """90 % of a t distribution lie within plus and minus this."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.95))


def _sampling_variance(name: str, odds: float, distinct: int) -> float:
    """About the variance of log-odds that counting S distinct SIDs leaves: 1 / (S p (1 - p))."""
    share = share_of(odds)
    return 0.0 if name == "largest_bucket" else 1.0 / (distinct * share * (1.0 - share))


def _to_line(name: str, value: float, n: int) -> float:
    """A figure on the whole real line: the log-odds of a share of n; the log of a bucket."""
    return float(np.log(max(value, 1.0))) if name == "largest_bucket" else log_odds(value, n)


def _from_line(name: str, value: float) -> float:
    """The inverse of `_to_line`."""
    return float(max(np.exp(value), 1.0)) if name == "largest_bucket" else share_of(value)
