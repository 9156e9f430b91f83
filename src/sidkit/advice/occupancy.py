"""How full the SIDs are with fewer items, exactly, and with more, by two laws that mostly err on opposite sides.

Let alone(m) be the chance that an item is alone on its SID among m items. All of it follows from alone():
the m-th item finds its SID empty with just this chance, so distinct(m) = alone(1) + ... + alone(m), and
SIDs with one item / distinct SIDs = m alone(m) / distinct(m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Filling", "alone", "distinct", "filling", "log_odds", "share_of"]

STEPS = 64  # points at which a law is summed up
THINNINGS = 9


class Filling(NamedTuple):
    """What is predicted of SIDs: with one item / distinct, distinct / items, and most items on one."""

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
    """How many different SIDs m of the n items are expected to have: sum_s 1 - C(n - k_s, m) / C(n, m)."""
    size, often = np.unique(counts, return_counts=True)
    return float(often @ (1.0 - _avoided(int(counts.sum()), size, m)))


def _avoided(n: int, k: NDArray[Any], m: float) -> NDArray[np.float64]:
    """C(n - k, m) / C(n, m): the chance that a draw of m from n avoids all of k."""
    from scipy.special import gammaln

    left = np.maximum(n - k - m, 0)
    ways = gammaln(n - k + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(n - m + 1)
    return np.where(n - k >= m, np.exp(ways), 0.0)


def filling(counts: NDArray[Any], total: int, seed: int = 0) -> tuple[Filling, Filling]:
    """The filling of SIDs with `total` items, of which the n counted are a random part: by either law.

    steady    the log-odds of being alone go on falling as they did from n / 2 to n items; so does the growth of the
              largest bucket. Too few stay alone, as long as there is room.
    mixed     SIDs' shares of the items are Gamma-distributed, alone(m) = (1 + (m - 1) t)^-r, through the same two
              points; the largest bucket grows in proportion. Too many stay alone.

    Both first carry n^2 / total items on to n. As far as they promise too much there, as when SIDs run out, the first
    is taken down twice as far, so that their middle has it once. Both are the exact figures when total = n.
    """
    n = int(counts.sum())
    here = Filling(float((counts == 1).sum() / len(counts)), len(counts) / n, float(counts.max()))
    if total <= n:
        return here, here
    steady, mixed = _carried(counts, n, total)
    before = max(n * n // total, min(n, 16))
    for i, tried in enumerate(zip(*_carried(counts, before, n), strict=True)):
        promised = sum(log_odds(share, n) for share in tried) / 2 - log_odds(here[i], n)
        steady[i] = share_of(log_odds(steady[i], total) - 2 * max(promised, 0.0))
    rng, growth = np.random.default_rng(seed), total / n
    half = float(np.mean([rng.binomial(counts, 0.5).max() for _ in range(THINNINGS)]))
    slowly = here.largest_bucket * growth ** float(np.log2(max(here.largest_bucket / max(half, 1.0), 1.0)))
    return Filling(steady[0], steady[1], slowly), Filling(mixed[0], mixed[1], here.largest_bucket * growth)


def log_odds(share: float, many: int) -> float:
    """log p / (1 - p) of a share of so many, kept half of one from 0 and 1."""
    kept = min(max(share, 0.5 / many), 1.0 - 0.5 / many)
    return float(np.log(kept / (1.0 - kept)))


def share_of(odds: float) -> float:
    """The inverse of `log_odds`."""
    return float(1.0 / (1.0 + np.exp(-odds)))


def _carried(counts: NDArray[Any], n: int, total: int) -> tuple[list[float], list[float]]:
    """SIDs with one item / distinct and distinct / items with `total` items, from n of those counted: by either law."""
    points = [_point(counts, m) for m in (n // 2, n)]
    m = np.geomspace(n, total, STEPS)
    found = []
    for law in (_steady(*points), _mixed(*points)):
        share = law(m - 1.0)
        many = distinct(counts, n) + np.trapezoid(share, m)
        found.append([float(min(total * share[-1] / many, 1.0)), float(many / total)])
    return found[0], found[1]


def _point(counts: NDArray[Any], m: int) -> tuple[float, float]:
    """(m - 1, alone(m)). None seen among n is not a chance of none: half an item of n is taken to share, or not to."""
    n = int(counts.sum())
    return m - 1.0, min(max(alone(counts, m), 0.5 / n), 1.0 - 0.5 * m / n**2)


def _steady(first: tuple[float, float], last: tuple[float, float]) -> Any:
    (a, p), (b, q) = first, last
    odds = [np.log(1.0 / share - 1.0) for share in (p, q)]
    slope = (odds[1] - odds[0]) / np.log(b / a)
    return lambda m: 1.0 / (1.0 + np.exp(odds[1] + slope * np.log(m / b)))


def _mixed(first: tuple[float, float], last: tuple[float, float]) -> Any:
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
