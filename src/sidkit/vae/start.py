"""The first codebooks: k-means on the residuals of one batch, level after level (SPEC 1.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster.kmeans import KMeans
from ..rows import ArraySource, LocalRows
from ..stage import Run

__all__ = ["first_codebook", "spread_out"]


def first_codebook(
    r: NDArray[Any], size: int, iterations: int, seed: tuple[int, ...], named: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Euclidean k-means on residuals r (n, e): (size, e).

    It starts from a k-means++ draw, or from the residuals `named`, which then join r.
    Inferred: SPEC 1.2 has scikit-learn's k-means here, the best of several draws in older versions; this is one draw.
    """
    numbers = np.arange(size) if named is not None else spread_out(r, size, seed)
    rows = LocalRows(ArraySource(r if named is None else np.concatenate([named, r])))
    clusters = KMeans(size, "euclidean", iterations=iterations, empty="split").fit(rows, Run(init=[numbers]))
    return clusters.centroids


def spread_out(r: NDArray[Any], size: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """k-means++: row numbers, each drawn in proportion to its squared distance from those drawn before."""
    rng = np.random.default_rng(seed)
    x = r.astype(np.float64)
    numbers = np.empty(size, np.int64)
    numbers[0] = rng.integers(len(x))
    far = np.full(len(x), np.inf)
    for j in range(1, size):
        far = np.minimum(far, ((x - x[numbers[j - 1]]) ** 2).sum(axis=1))
        reach = np.cumsum(far)
        if reach[-1] > 0:
            numbers[j] = min(np.searchsorted(reach, rng.random() * reach[-1], side="right"), len(x) - 1)
        else:  # fewer different rows than codewords
            numbers[j] = rng.integers(len(x))
    return numbers
