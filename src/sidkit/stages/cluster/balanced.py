"""k-means with clusters of about equal size, in the fit and when encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine import engine_of
from ...errors import SpecError
from ...files.folder import require_array
from ...geometry import Array
from ...rows.seam import Rows, Sums
from ...rows.work import Work
from ..stage import FitContext
from .kmeans import Centroids, check_size, means_of
from .loop import refine

__all__ = ["Balanced", "Priced"]


TINY = 1e-30  # the least temperature whose inverse float32 can represent
NEAR = 8  # candidates among which a row is divided while prices move
WIDE, NARROW = 0.1, 0.01  # the temperature of these shares, in mean squared distances, at the first and last pass


@dataclass(frozen=True, eq=False)
class Priced:
    """Centroids with prices: a row goes where |r - c|^2 / 2 + price is least. Also the state between passes."""

    centroids: NDArray[Any]  # (K, d)
    prices: NDArray[np.float64]  # (K,)
    unit: float = 0.0  # the mean of |r - c|^2 / 2 at the first pass: the natural scale of a price
    passes: int = 0

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"centroids": self.centroids, "prices": self.prices}

    @cached_property
    def points(self) -> Centroids:
        return Centroids(self.centroids, "euclidean", -self.prices)

    def assign(self, x: Array, codes: Array) -> Array:
        return self.points.assign(x, codes)

    def costs(self, x: NDArray[Any], codes: Any = None) -> NDArray[np.float64]:
        return self.points.costs(x)

    def chosen(self, x: Array, codes: Array) -> Array:
        return self.points.chosen(x, codes)


@dataclass(frozen=True)
class Balanced:
    """Capacity-balanced k-means: every cluster should have about n / size rows.

        z = argmin_j |r - c_j|^2 / 2 + p_j

    The prices p are the dual variables of the size constraint, computed as in Sinkhorn's algorithm: every row is shared
    out among its nearest centroids at a falling temperature, and a cluster's price moves by
    temperature * log(mass / target). Masses add, so this streams and distributes like any k-means. Encoding uses the
    same prices, so tokens stay balanced on rows like those of the fit. (OneRec's version fills clusters greedily, in
    order, and cannot encode a new row.)

    iterations   passes that move centroids and prices;   settle: further passes that move prices alone.
    """

    size: int
    iterations: int = 25
    settle: int = 50

    def __post_init__(self) -> None:
        check_size(self.size)
        if self.iterations < 0 or self.settle < 0:
            raise SpecError("iterations and settle cannot be negative")

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return run.check_starts(shape[0], (self.size,), level)

    def work(self) -> Work:
        return Work(float(self.iterations * self.size))

    def fit(self, rows: Rows, run: FitContext) -> Priced:
        return refine(_Loop(self), rows, run)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Priced:
        centroids = require_array(arrays, "centroids", (self.size, d))
        return Priced(centroids, require_array(arrays, "prices", (self.size,)))


@dataclass(frozen=True)
class _Loop:
    """The passes of a `Balanced` fit, for `refine`."""

    spec: Balanced

    @property
    def iterations(self) -> int:
        return self.spec.iterations + self.spec.settle

    @property
    def state(self) -> type[Priced]:
        return Priced

    def start(self, rows: Rows, run: FitContext) -> Priced:
        centroids = run.start_rows(rows, self.spec.size, rows.width).astype(np.float64)
        state = Priced(centroids, np.zeros(self.spec.size))
        distance, count = rows.reduce(partial(_distance, state))
        return replace(state, unit=float(distance[0]) / float(count[0]))

    def temperature(self, passes: int) -> float:
        return float(WIDE * (NARROW / WIDE) ** (passes / max(self.iterations - 1, 1)))

    def statistics(self, clusters: Priced, x: Array, codes: Array) -> Sums:
        """The shares of each centroid in its nearest rows; while centroids move, also its mass and sum of rows."""
        engine, book = engine_of(x), clusters.points.book(x)
        steep = 1.0 / max(self.temperature(clusters.passes) * clusters.unit, TINY)
        shares, _, objective = engine.soft_sums(x, book, min(NEAR, self.spec.size), steep, 0.5, "fp32")
        if clusters.passes >= self.spec.iterations:
            return shares, objective
        mass, total, _ = engine.soft_sums(x, book, 1, steep, 0.5, "fp32")
        return shares, mass, total, objective

    def update(self, clusters: Priced, sums: Sums) -> Priced:
        shares, centroids = np.asarray(sums[0]), clusters.centroids
        if clusters.passes < self.spec.iterations:
            centroids = means_of(sums[1], sums[2], centroids)
        fullness = shares * self.spec.size / shares.sum()
        move = self.temperature(clusters.passes) * clusters.unit * np.log(fullness + 0.01)
        return Priced(centroids, clusters.prices + move, clusters.unit, clusters.passes + 1)

    def settled(self, before: Priced, after: Priced) -> bool:
        return False

    def finish(self, clusters: Priced, dtype: Any) -> Priced:
        return Priced(clusters.centroids.astype(dtype), clusters.prices)


def _distance(clusters: Priced, x: Array, codes: Array) -> Sums:
    """The sum of |r - c|^2 / 2 over a chunk, and its number of rows."""
    _, _, objective = engine_of(x).soft_sums(x, clusters.points.book(x), 1, 1.0, 0.5, "fp32")
    return -objective, np.array([float(len(x))])
