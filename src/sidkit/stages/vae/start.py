"""The first codebooks: k-means on the residuals of one batch, level after level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rows.local import LocalRows
from ...rows.sources import ArraySource
from ..cluster.kmeans import KMeans
from ..stage import FitContext

__all__ = ["first_codebook", "spread_out"]


def first_codebook(
    r: NDArray[Any], size: int, iterations: int, seed: tuple[int, ...], named: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Euclidean k-means on residuals r (n, e): (size, e).

    It starts from a k-means++ draw, or from the residuals `named`, which then join r.
    Inferred: the public pipeline has scikit-learn's k-means here, in older versions the best of several draws.
    """
    numbers = np.arange(size) if named is not None else spread_out(r, size, seed)
    rows = LocalRows(ArraySource(r if named is None else np.concatenate([named, r])))
    clusters = KMeans(size, "euclidean", iterations=iterations, empty="split").fit(rows, FitContext(init=[numbers]))
    return clusters.centroids


def spread_out(r: NDArray[Any], size: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """Greedy k-means++: row numbers, each the best of 2 + ln(size) drawn by squared distance from those before it.

    Best is what leaves the smallest sum of squared distances, as in scikit-learn.
    """
    rng = np.random.default_rng(seed)
    x = r.astype(np.float64)
    square = (x * x).sum(axis=1)
    numbers = np.empty(size, np.int64)
    numbers[0] = rng.integers(len(x))
    far = ((x - x[numbers[0]]) ** 2).sum(axis=1)
    for j in range(1, size):
        reach = np.cumsum(far)
        drawn = np.searchsorted(reach, rng.random(2 + int(np.log(size))) * reach[-1], side="right")
        tries = np.minimum(drawn, len(x) - 1)  # all rows drawn already: the last one, again
        apart = square[tries, None] + square - 2 * (x[tries] @ x.T)  # (tries, n)
        left = np.minimum(far, apart.clip(min=0.0))
        best = left.sum(axis=1).argmin()
        numbers[j], far = tries[best], left[best]
    return numbers
