"""A mixture of Gaussians with diagonal covariance, fitted by EM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import like, namespace, pieces, widened
from ...errors import SpecError, StoreError
from ...files.folder import require_array
from ...geometry import Array, squared_length
from ...rows.seam import Rows, Sums
from ...rows.work import Work
from ..stage import FitContext
from .kmeans import Centroids, KMeans, check_size
from .loop import refine

__all__ = ["GMM", "Mixture"]

EMPTY = 1e-8  # a component with less mass keeps its parameters
RAREST = 1e-10  # the least weight of a component, so that its logarithm exists


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(x) = sum_k weight_k N(x | mean_k, diag(variance_k))."""

    means: NDArray[Any]  # (K, d)
    variances: NDArray[Any]  # (K, d)
    weights: NDArray[Any]  # (K,)
    likelihood: float = -np.inf  # mean log-likelihood of the rows under the parameters before the last update

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"centroids": self.means, "variances": self.variances, "weights": self.weights}

    def log_joint(self, x: Array) -> Array:
        """log weight_k + log N(x | k) in float64: (n, K).

        Expanded so that it is two matrix products: -1/2 x^2.(1/v) + x.(m/v) - 1/2 sum(m^2/v + log(2 pi v)).
        """
        means, variances, weights = (np.asarray(a, np.float64) for a in (self.means, self.variances, self.weights))
        constant = np.log(np.maximum(weights, RAREST)) - 0.5 * (
            means**2 / variances + np.log(2 * np.pi * variances)
        ).sum(axis=1)
        wide = widened(x)
        linear, square = like((means / variances).T, wide), like((-0.5 / variances).T, wide)
        return wide @ linear + (wide * wide) @ square + like(constant, wide)

    def assign(self, x: Array, codes: Array) -> Array:
        """The component with the largest posterior; ties to the lowest index."""
        best = [self.log_joint(piece).argmax(axis=1) for piece in pieces(x, len(self.means))]
        return namespace(x).concatenate(best)

    def costs(self, x: NDArray[Any], codes: Any = None) -> NDArray[np.float64]:
        """What `assign` minimises, -log weight_k N(x | k): (n, K)."""
        costs: NDArray[np.float64] = -self.log_joint(x)
        return costs

    def chosen(self, x: Array, codes: Array) -> Array:
        return like(self.means, x)[codes[:, -1]]


@dataclass(frozen=True)
class GMM:
    """RQ-GMM's level: EM over a diagonal mixture, then a hard choice.

        gamma_ik = pi_k N(r_i | k) / sum_t pi_t N(r_i | t);   pi, mu, sigma^2: gamma-weighted moments
        token = argmax_k gamma_ik,   passed on: r - mu_token

    floor        smallest variance (the paper's 1e-6); iterations: at most this many EM passes (the paper's 30).
    tolerance    stop if the mean log-likelihood gains less. Inferred: scikit-learn's 1e-3.
    warm         k-means passes that give the first means. Inferred: 10.
    spread       first variances: of all rows ("rows", inferred) or within the k-means clusters ("clusters").
    skip_zero    as in `KMeans`.
    A component whose mass falls under 1e-8 keeps its parameters (inferred).
    """

    size: int
    iterations: int = 30
    floor: float = 1e-6
    tolerance: float = 1e-3
    warm: int = 10
    spread: Literal["rows", "clusters"] = "rows"
    skip_zero: bool = False

    def __post_init__(self) -> None:
        check_size(self.size)
        if not self.floor > 0:
            raise SpecError(f"the variance floor must be positive, not {self.floor}")
        if self.spread not in ("rows", "clusters"):
            raise SpecError(f"spread must be 'rows' or 'clusters', not {self.spread!r}")

    @property
    def state(self) -> type[Mixture]:
        return Mixture

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return run.check_starts(shape[0], (self.size,), level)

    def work(self) -> Work:
        return Work(float(self.iterations * self.size))

    def fit(self, rows: Rows, run: FitContext) -> Mixture:
        return refine(self, rows, run)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Mixture:
        shape = (self.size, d)
        means, variances = (require_array(arrays, name, shape) for name in ("centroids", "variances"))
        weights = require_array(arrays, "weights", (self.size,))
        if not (variances > 0).all() or (weights < 0).any():
            raise StoreError("tensors 'variances' and 'weights' hold negative numbers, or variances of zero")
        return Mixture(means, variances, weights)

    def start(self, rows: Rows, run: FitContext) -> Mixture:
        centroids = KMeans(self.size, "euclidean", iterations=self.warm, skip_zero=self.skip_zero).fit(rows, run)

        def moments(x: Array, codes: Array) -> Sums:
            return _added(_moments(self._first_share(piece, centroids), widened(piece)) for piece in self._pieces(x))

        mass, total, square = rows.reduce(moments)
        safe = np.maximum(mass, 1.0)[:, None]
        variances = np.maximum(square / safe - (total / safe) ** 2, self.floor)
        means = np.asarray(centroids.centroids, np.float64)
        return Mixture(means, np.broadcast_to(variances, means.shape).copy(), np.full(self.size, 1 / self.size))

    def statistics(self, clusters: Mixture, x: Array, codes: Array) -> Sums:
        return _added(self._expected(clusters, piece) for piece in self._pieces(x))

    def _expected(self, clusters: Mixture, x: Array) -> Sums:
        """The contribution of rows to the M step, and their log-likelihood."""
        x = x[(squared_length(x) > 0)[:, 0]] if self.skip_zero else x
        joint, xp = clusters.log_joint(x), namespace(x)
        peak = xp.amax(joint, axis=1, keepdims=True)
        share = xp.exp(joint - peak)
        total = share.sum(axis=1, keepdims=True)
        return *_moments(share / total, widened(x)), (xp.log(total) + peak).sum().reshape(1)

    def _first_share(self, x: Array, centroids: Centroids) -> Array:
        """All rows in one cluster, (n, 1), or each in the cluster of its centroid, (n, K)."""
        if self.spread == "rows":
            return like(np.ones((len(x), 1)), widened(x[:1]))
        return like(np.eye(self.size), widened(x[:1]))[centroids.assign(x, None)]

    def _pieces(self, x: Array) -> Iterator[Array]:
        return pieces(x, max(self.size, x.shape[1]))

    def update(self, clusters: Mixture, sums: Sums) -> Mixture:
        mass, total, square, likelihood = (np.asarray(part) for part in sums)
        if not mass.sum() > 0:  # all rows are zero and left out
            return clusters
        alive = (mass > EMPTY)[:, None]
        safe = np.where(alive, mass[:, None], 1.0)
        means = np.where(alive, total / safe, clusters.means)
        variances = np.where(alive, np.maximum(square / safe - means**2, self.floor), clusters.variances)
        n = mass.sum()
        return Mixture(means, variances, mass / n, float(likelihood[0]) / n)

    def settled(self, before: Mixture, after: Mixture) -> bool:
        return abs(after.likelihood - before.likelihood) < self.tolerance

    def finish(self, clusters: Mixture, dtype: Any) -> Mixture:
        """Means in the rows' dtype, as they are subtracted; variances and weights decide tokens and stay float64."""
        return replace(clusters, means=clusters.means.astype(dtype))


def _moments(share: Array, wide: Array) -> tuple[Any, Any, Any]:
    """Mass (K,), sum of x (K, d) and of x^2 (K, d), weighted by share (n, K)."""
    return share.sum(axis=0), share.T @ wide, share.T @ (wide * wide)


def _added(parts: Iterable[Sums]) -> Sums:
    """The sums of all parts."""
    return reduce(lambda a, b: tuple(p + q for p, q in zip(a, b, strict=True)), parts)
