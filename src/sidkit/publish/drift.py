"""Whether new items are like those a tokenizer was fitted for: five tests, and what to do about it.

Each test compares a figure of the new items with the same figure of random draws from new and reference items together.
If both came from one source, every draw is as likely as the one at hand, so a p-value is exact whatever the figure and
the number of items (a permutation test). Holm's correction keeps the chance of any false alarm below alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..sids.prefixes import prefix_numbers
from ..sids.quality import gini
from .readings import Readings

__all__ = ["ADVICE", "DriftTest", "Watched", "watch"]

NEAR = 0.05  # the share of all items whose tokens count as near-ties
AFRESH = 1.5  # times the distortion of the reference, from which codes no longer mean what they did

ADVICE = {
    "append": "append: new items are like those of the fit",
    "refit-and-align": "refit and align: new items differ, but most codes keep their meaning",
    "refit-afresh": "refit afresh: new items are not described by these codes",
}

Indices = NDArray[np.int64]
Figure = Callable[[Indices], float]  # of the items with these numbers among all


@dataclass(frozen=True)
class DriftTest:
    """One figure of the reference and of the new items, and whether chance explains the difference."""

    name: str
    reference: float
    new: float
    p: float
    adjusted_p: float  # by Holm, for the number of tests
    drift: bool


@dataclass(frozen=True)
class Watched:
    """The outcome, ready for JSON as `to_plain`."""

    tests: tuple[DriftTest, ...]
    advice: str
    alpha: float
    tolerance: float
    items: int
    reference_items: int

    @property
    def drift(self) -> bool:
        return any(test.drift for test in self.tests)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self) | {"drift": self.drift, "tests": [asdict(test) for test in self.tests]}


def watch(
    reference: Readings, new: Readings, alpha: float = 0.01, tolerance: float = 0.02, draws: int = 999, seed: int = 0
) -> Watched:
    """Test new items against a reference of items that were not in the fit.

    alpha       the chance that any test reports drift where there is none is at most this
    tolerance   relative changes up to this are not called drift, however certain they are
    draws       random draws per test; the least p-value is 1 / (draws + 1)
    """
    if not 0 < alpha < 1 or tolerance < 0:
        raise SpecError(f"alpha must lie between 0 and 1 and tolerance from 0 on, not {alpha} and {tolerance}")
    tests = _tests(reference, new)
    if draws < len(tests) / alpha:
        raise SpecError(f"{draws} draws cannot show a p-value below {alpha} / {len(tests)}; take more")
    if reference.codes.shape[1] != new.codes.shape[1]:
        raise InputError(f"the reference has {reference.codes.shape[1]} tokens, the new items {new.codes.shape[1]}")
    r, m = len(reference), len(new)
    few = min(r, m)  # utilisation and Gini depend on the number of items, so both are shown for as many
    rng = np.random.default_rng(seed)
    found = []
    for name, (figure, sides) in tests.items():
        drawn = np.array([figure(rng.permutation(r + m)[:m]) for _ in range(draws)])
        p = _p_value(figure(np.arange(r, r + m)), drawn, sides)
        theirs, ours = (figure(start + rng.permutation(count)[:few]) for start, count in ((0, r), (r, m)))
        found.append((name, theirs, ours, p))
    adjusted = _holm([p for *_, p in found])
    made = tuple(
        DriftTest(name, theirs, ours, p, q, bool(q <= alpha and abs(ours - theirs) > tolerance * abs(theirs)))
        for (name, theirs, ours, p), q in zip(found, adjusted, strict=True)
    )
    return Watched(made, _advice(made), alpha, tolerance, m, r)


def _tests(reference: Readings, new: Readings) -> dict[str, tuple[Figure, int]]:
    """Name -> the figure, and on how many sides it is tested: more distortion is drift, less is not."""
    codes = np.concatenate([reference.codes, new.codes])
    sizes = [int(column.max()) + 1 for column in codes.T]
    levels = [np.unique(number, return_inverse=True)[1].ravel() for number in prefix_numbers(codes, sizes)]

    def utilisation(rows: Indices) -> float:
        return float(np.mean([np.count_nonzero(np.bincount(level[rows])) / len(rows) for level in levels]))

    def inequality(rows: Indices) -> float:
        counts = (np.bincount(level[rows]) for level in levels)
        return float(np.mean([gini(count[count > 0]) for count in counts]))

    tests: dict[str, tuple[Figure, int]] = {"utilisation": (utilisation, 2), "gini": (inequality, 2)}
    for name in ("distortion", "distance"):
        parts = getattr(reference, name), getattr(new, name)
        if parts[0] is not None and parts[1] is not None:
            tests[name] = (_mean_of(np.concatenate(parts)), 1)
    if reference.gaps is not None and new.gaps is not None:
        gaps = np.concatenate([reference.gaps, new.gaps])
        near = gaps <= np.quantile(gaps, NEAR, axis=0, method="lower")
        tests["near_ties"] = (_mean_of(near.mean(axis=1)), 1)
    return tests


def _mean_of(values: NDArray[np.float64]) -> Figure:
    return lambda rows: float(values[rows].mean())


def _p_value(ours: float, drawn: NDArray[np.float64], sides: int) -> float:
    """The share of draws, with the one at hand, that are at least as extreme."""
    above = (1 + np.count_nonzero(drawn >= ours)) / (len(drawn) + 1)
    below = (1 + np.count_nonzero(drawn <= ours)) / (len(drawn) + 1)
    return float(above) if sides == 1 else float(min(1.0, 2 * min(above, below)))


def _holm(p: list[float]) -> list[float]:
    """p-values such that rejecting those up to alpha has a chance of any error of at most alpha."""
    order = np.argsort(p)
    scaled = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in out]


def _advice(tests: tuple[DriftTest, ...]) -> str:
    if not any(test.drift for test in tests):
        return "append"
    ratios = [test.new / test.reference for test in tests if test.name in ("distortion", "distance") and test.reference]
    return "refit-afresh" if ratios and ratios[0] >= AFRESH else "refit-and-align"
