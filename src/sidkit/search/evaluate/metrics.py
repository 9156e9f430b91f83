"""HitRate and MRR of item lists, one example per query-item pair, as sums and counts; and how sure a difference is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

__all__ = ["Difference", "Totals", "by_intent", "compare", "ranks_of", "totals"]

Integers = NDArray[np.int64]
BLOCK = 1 << 22  # numbers drawn at once


def ranks_of(lists: Any, targets: Any) -> Integers:
    """The rank of every pair's item in its list, from 1; 0 where it is absent: (n, m), (n,) -> (n,)."""
    rows, wanted = np.asarray(lists), np.asarray(targets)
    if rows.ndim != 2 or wanted.shape != rows.shape[:1]:
        raise InputError(f"lists of shape {rows.shape} do not fit targets of shape {wanted.shape}")
    hit = (rows == wanted[:, None]) & (rows >= 0)
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, 0)


@dataclass(frozen=True)
class Totals:
    """Sums over pairs; they add.

    pairs         how many
    hits          whose item is in the first `cut` of its list
    reciprocals   sum of 1 / rank over the hits
    """

    pairs: int
    hits: int
    reciprocals: float
    cut: int = 50

    @property
    def hit_rate(self) -> float:
        """hits / pairs; nan without pairs."""
        return self.hits / self.pairs if self.pairs else float("nan")

    @property
    def mrr(self) -> float:
        """reciprocals / pairs; nan without pairs."""
        return self.reciprocals / self.pairs if self.pairs else float("nan")

    def __add__(self, other: Totals) -> Totals:
        if self.cut != other.cut:
            raise InputError(f"totals at {self.cut} and at {other.cut} do not add")
        return Totals(self.pairs + other.pairs, self.hits + other.hits, self.reciprocals + other.reciprocals, self.cut)

    def figures(self) -> dict[str, float | int | None]:
        """Sums and rates by name, for a table or JSON; rates are None without pairs."""
        rates = (self.hit_rate, self.mrr) if self.pairs else (None, None)
        return {
            "pairs": self.pairs,
            "hits": self.hits,
            "reciprocals": self.reciprocals,
            f"hit_rate@{self.cut}": rates[0],
            f"mrr@{self.cut}": rates[1],
        }


def totals(ranks: Any, cut: int = 50) -> Totals:
    """The totals of ranks (n,) as `ranks_of` gives them."""
    ranks = np.asarray(ranks)
    inside = ranks[(ranks > 0) & (ranks <= cut)]
    return Totals(len(ranks), len(inside), float((1.0 / inside).sum()), cut)


def by_intent(ranks: Any, intent: Any, cut: int = 50) -> Mapping[str, Totals]:
    """The totals of all pairs ("all") and of each class of queries, in order of their names; "unknown" for null.

    intent: (n,) names of classes, such as precise, broad and weak.
    """
    ranks = np.asarray(ranks)
    names = np.array([name if name is not None else "unknown" for name in _plain(intent)], object)
    if len(names) != len(ranks):
        raise InputError(f"{len(names)} intents do not fit {len(ranks)} pairs")
    classes = {name: totals(ranks[names == name], cut) for name in sorted(set(names))}
    return {"all": totals(ranks, cut), **classes}


@dataclass(frozen=True)
class Difference:
    """How far system b is ahead of system a in a metric, on the same pairs.

    mean          mean of b - a over pairs
    low, high     95% interval of the mean, by a paired bootstrap over groups
    t, p_value    paired t-test over groups, two-sided; nan where all groups differ by the same
    groups        independent groups: queries where they are given, else pairs
    """

    mean: float
    low: float
    high: float
    t: float
    p_value: float
    groups: int


def compare(
    a: Any, b: Any, groups: Any = None, cut: int = 50, draws: int = 2000, seed: int = 0
) -> dict[str, Difference]:
    """Differences in HitRate and MRR between two systems: ranks (n,) of the same pairs.

    groups: (n,) numbers of queries or users whose pairs are not independent; they are drawn together.
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(f"ranks of shapes {first.shape} and {second.shape} are not of the same pairs")
    which = np.arange(len(first)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if which.shape != first.shape:
        raise InputError(f"{len(which)} groups do not fit {len(first)} pairs")
    count = np.bincount(which)
    gains = {
        f"hit_rate@{cut}": _hit(second, cut) - _hit(first, cut),
        f"mrr@{cut}": _reciprocal(second, cut) - _reciprocal(first, cut),
    }
    sums = {name: np.bincount(which, gain).astype(np.float64) for name, gain in gains.items()}
    means = _bootstrap(np.stack([count, *sums.values()]), draws, seed)
    return {name: _difference(total, count, means[:, column]) for column, (name, total) in enumerate(sums.items())}


def _bootstrap(sums: NDArray[np.float64], draws: int, seed: int) -> NDArray[np.float64]:
    """Means over pairs under draws of groups with replacement: counts and sums (1 + m, groups) -> (draws, m)."""
    rng, n = np.random.default_rng(seed), sums.shape[1]
    step = max(1, BLOCK // n)
    means = []
    for start in range(0, draws, step):
        drawn = rng.integers(n, size=(min(step, draws - start), n))
        count, *others = (row[drawn].sum(axis=1) for row in sums)
        means.append(np.stack([total / count for total in others], axis=1))
    return np.concatenate(means)


def _difference(total: NDArray[np.float64], count: Integers, means: NDArray[np.float64]) -> Difference:
    """The t-test is that of a ratio of sums: group residuals total - mean * count."""
    from scipy.stats import t as student

    n, mean = len(total), float(total.sum() / count.sum())
    residual = total - mean * count
    error = float(np.sqrt((residual @ residual) * n / max(n - 1, 1)) / count.sum())
    t = mean / error if error else float("nan")
    low, high = np.quantile(means, [0.025, 0.975])
    p_value = float(2.0 * student.sf(abs(t), n - 1)) if error else float("nan")
    return Difference(mean, float(low), float(high), t, p_value, n)


def _hit(ranks: Integers, cut: int) -> NDArray[np.float64]:
    return ((ranks > 0) & (ranks <= cut)).astype(np.float64)


def _reciprocal(ranks: Integers, cut: int) -> NDArray[np.float64]:
    return _hit(ranks, cut) / np.maximum(ranks, 1)


def _plain(values: Any) -> list[Any]:
    return list(values.to_pylist() if hasattr(values, "to_pylist") else values)
