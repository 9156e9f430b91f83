"""A level clusters the rows, emits the cluster as a token, and passes on the residual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..geometry import Array, residual, restored, squared_length, unit
from ..rows.seam import Rows, Taken
from ..rows.work import Work, work_of
from .cluster.kmeans import Centroids
from .cluster.loop import Carries, Cluster, Clusters, HasCosts
from .stage import UNKNOWN_LENGTH, Checks, FitContext

__all__ = ["PROJECT", "SUBTRACT", "FittedLevel", "Level", "Residual"]


@dataclass(frozen=True)
class Residual:
    """What a level passes on (paper, Eq. 23): r - [keep c + (1 - keep) (r.c / |c|^2) c], scaled to length one if asked.

    keep = 0 projects the selected centroid out, keep = 1 subtracts it; the retention study lies in between.
    """

    keep: float = 0.0
    normalize: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.keep <= 1.0:
            raise SpecError(f"keep must lie between 0 (project) and 1 (subtract), not {self.keep}")

    def __call__(self, r: Array, c: Array) -> Array:
        rest = residual(r, c, self.keep)
        return unit(rest) if self.normalize else rest


PROJECT = Residual(keep=0.0, normalize=True)
SUBTRACT = Residual(keep=1.0, normalize=False)


@dataclass(frozen=True)
class Level:
    """One token: a clusterer and the rule for the residual."""

    cluster: Cluster
    rule: Residual = PROJECT

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return self.cluster.check(shape, level, run) if isinstance(self.cluster, Checks) else level + 1

    def work(self) -> Work:
        return work_of(self.cluster)

    def fit(self, rows: Rows, run: FitContext) -> FittedLevel:
        return FittedLevel(self, self.cluster.fit(rows, run))

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedLevel:
        return FittedLevel(self, self.cluster.restore(arrays, d))


@dataclass(frozen=True, eq=False)
class FittedLevel:
    spec: Level
    clusters: Clusters

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.spec.cluster.size,)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return self.clusters.arrays

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        return [self.clusters.arrays["centroids"]]

    def tokens(self, x: Array, codes: Array) -> Array:
        return self.clusters.assign(x, codes)[:, None]

    def settle(self, x: Array, codes: Array) -> tuple[Array, Array]:
        """`tokens`, and `carry` with them, in one call."""
        if isinstance(self.clusters, Carries):
            code, rest = self.clusters.settle(x, codes, self.spec.rule.keep, self.spec.rule.normalize)
            return code[:, None], rest
        tokens = self.tokens(x, codes)
        return tokens, self.spec.rule(x, self.clusters.chosen(x, tokens))

    def token_costs(self, x: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[np.float64]]:
        if not isinstance(self.clusters, HasCosts):
            raise SpecError(f"{type(self.spec.cluster).__name__} cannot say what each of its codes would cost a row")
        return [self.clusters.costs(x, codes[:, :-1])]

    def carry(self, x: Array, codes: Array) -> Array:
        if isinstance(self.clusters, Carries):
            return self.clusters.carry(x, codes, self.spec.rule.keep, self.spec.rule.normalize)
        return self.spec.rule(x, self.clusters.chosen(x, codes))

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        """c + rest; what was scaled to length one is scaled back, by the length that c tells on average."""
        c = self.clusters.chosen(rest, codes)
        if not self.spec.rule.normalize:
            return np.asarray(c + rest)
        if not of_length_one:
            raise SpecError(UNKNOWN_LENGTH)
        if squared_length(c).max(initial=0.0) > 1.0 + 1e-6:
            raise SpecError(
                "these centroids are not the means of rows of length one, as they are longer, so codes do not tell how "
                "long residuals were"
            )
        return np.asarray(restored(c, rest, self.spec.rule.keep))

    @property
    def taken(self) -> Taken | None:
        if not isinstance(self.clusters, Centroids):
            return None
        c, rule = self.clusters, self.spec.rule
        return Taken(c.centroids, rule.keep, rule.normalize, c.book, c.beside)
