"""How full SIDs are: with fewer items exactly, with more items by two laws that mostly err on opposite sides.

Let alone(m) be the chance that an item is alone on its SID among m items. Everything follows from it: the m-th item
finds its SID empty with this chance, so distinct(m) = alone(1) + ... + alone(m), and
SIDs with one item / distinct SIDs = m alone(m) / distinct(m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Filling", "alone", "distinct", "filling", "log_odds", "share_of"]

STEPS = 64  # points at which a law is integrated
THINNINGS = 9  # random halves of the items that the largest bucket is measured in


class Filling(NamedTuple):
    """The figures that are predicted: SIDs with one item / distinct, distinct / items, most items on one SID."""

    icr_per_sid: float
    sids_per_item: float
    largest_bucket: float


def alone(counts: NDArray[Any], m: float) -> float:
    """The chance that an item is alone on its SID among m of the n items, drawn without replacement.

    sum_s k_s / n  C(n - k_s, m - 1) / C(n - 1, m - 1)      over SIDs s with k_s items
    """
    size, often = np.unique(counts, return_counts=True)
    n = int(counts.sum())
    return float((often * size / n) @ _avoided(n - 1, size - 1, m - 1))


def distinct(counts: NDArray[Any], m: float) -> float:
    """The expected number of different SIDs of m of the n items: sum_s 1 - C(n - k_s, m) / C(n, m)."""
    size, often = np.unique(counts, return_counts=True)
    return float(often @ (1.0 - _avoided(int(counts.sum()), size, m)))


def _avoided(n: int, k: NDArray[Any], m: float) -> NDArray[np.float64]:
    """C(n - k, m) / C(n, m): the chance that a draw of m from n avoids all of k."""
    from scipy.special import gammaln

    left = np.maximum(n - k - m, 0)
    log_chance = gammaln(n - k + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(n - m + 1)
    return np.where(n - k >= m, np.exp(log_chance), 0.0)


def filling(counts: NDArray[Any], total: int, seed: int = 0) -> tuple[Filling, Filling]:
    """The filling of SIDs with `total` items, of which the n counted are a random sample: by either law.

    steady    the log-odds of being alone keep falling as they did from n / 2 to n items; so does the growth of the
              largest bucket. It leaves too few items alone, as long as SIDs do not run out.
    mixed     SIDs' shares of the items are Gamma-distributed, alone(m) = (1 + (m - 1) t)^-r, through the same two
              points; the largest bucket grows in proportion. It leaves too many items alone.

    Both laws are first tried from n^2 / total items to n. Where their mean is too high there, as when SIDs run out, the
    first is lowered by twice the excess, so that their mean is lowered by it. With total = n both figures are exact.
    """
    n = int(counts.sum())
    here = Filling(float((counts == 1).sum() / len(counts)), len(counts) / n, float(counts.max()))
    if total <= n:
        return here, here
    steady, mixed = _extrapolated(counts, n, total)
    before = max(n * n // total, min(n, 16))
    for i, tried in enumerate(zip(*_extrapolated(counts, before, n), strict=True)):
        excess = sum(log_odds(share, n) for share in tried) / 2 - log_odds(here[i], n)
        steady[i] = share_of(log_odds(steady[i], total) - 2 * max(excess, 0.0))
    rng, growth = np.random.default_rng(seed), total / n
    half = float(np.mean([rng.binomial(counts, 0.5).max() for _ in range(THINNINGS)]))
    steady_bucket = here.largest_bucket * growth ** float(np.log2(max(here.largest_bucket / max(half, 1.0), 1.0)))
    return Filling(steady[0], steady[1], steady_bucket), Filling(mixed[0], mixed[1], here.largest_bucket * growth)


def log_odds(share: float, n: int) -> float:
    """log p / (1 - p) of a share of n, where p is at least half of one of n away from 0 and 1."""
    p = min(max(share, 0.5 / n), 1.0 - 0.5 / n)
    return float(np.log(p / (1.0 - p)))


def share_of(odds: float) -> float:
    """The inverse of `log_odds`."""
    return float(1.0 / (1.0 + np.exp(-odds)))


def _extrapolated(counts: NDArray[Any], n: int, total: int) -> tuple[list[float], list[float]]:
    """SIDs with one item / distinct and distinct / items with `total` items, from n of those counted: by either law."""
    points = [_point(counts, m) for m in (n // 2, n)]
    m = np.geomspace(n, total, STEPS)
    shares = []
    for law in (_steady(*points), _mixed(*points)):
        share = law(m - 1.0)
        sids = distinct(counts, n) + np.trapezoid(share, m)
        shares.append([float(min(total * share[-1] / sids, 1.0)), float(sids / total)])
    return shares[0], shares[1]


def _point(counts: NDArray[Any], m: int) -> tuple[float, float]:
    """(m - 1, alone(m)). None seen among n does not mean never: half an item of n is taken to share, or not to."""
    n = int(counts.sum())
    return m - 1.0, min(max(alone(counts, m), 0.5 / n), 1.0 - 0.5 * m / n**2)


def _steady(first: tuple[float, float], last: tuple[float, float]) -> Any:
    """alone(m) by steady log-odds through two points, as a function of m - 1."""
    (a, p), (b, q) = first, last
    odds = [np.log(1.0 / share - 1.0) for share in (p, q)]
    slope = (odds[1] - odds[0]) / np.log(b / a)
    return lambda m: 1.0 / (1.0 + np.exp(odds[1] + slope * np.log(m / b)))


def _mixed(first: tuple[float, float], last: tuple[float, float]) -> Any:
    """alone(m) by the Gamma mixture through two points, as a function of m - 1."""
    from scipy.optimize import brentq

    (a, p), (b, q) = first, last

    def scale(r: float) -> float:
        return float(np.expm1(-np.log(q) / r) / b)

    def miss(log_r: float) -> float:
        r = float(np.exp(log_r))
        return float(r * np.log1p(a * scale(r)) + np.log(p))

    low, high = float(np.log(max(-np.log(q) / 600.0, 1e-9))), 12.0
    signs = miss(low), miss(high)
    best = brentq(miss, low, high) if signs[0] * signs[1] < 0 else (low if abs(signs[0]) < abs(signs[1]) else high)
    r = float(np.exp(best))
    return lambda m: (1.0 + m * scale(r)) ** -r
