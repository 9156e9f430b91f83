"""The initial codebooks: k-means on the residuals of one batch, level after level. Imported by fits only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...rows.local import LocalRows
from ...rows.seam import Rows
from ...rows.sources import ArraySource
from ..cluster.kmeans import KMeans
from ..stage import FitContext
from .network import Network, sizes_of
from .settings import Training
from .torch_layers import as_rows

__all__ = ["initial_codebook", "kmeans_plus_plus", "start_codebooks"]


@torch.no_grad()  # type: ignore[untyped-decorator]
def start_codebooks(network: Network, plan: Training, rows: Rows, run: FitContext) -> None:
    """k-means on the residuals of a run's first batch, or of drawn rows, at each level in turn."""
    seed, device = run.seed_of(rows.width), network.weights["codebook.0"].device
    if plan.init_rows:
        first = rows.sample(min(plan.init_rows, rows.shape[0]), seed)
    else:
        first = next(iter(rows.batches(plan.batch, (*seed, 0))))
    x = as_rows(first, device)[None]
    for level, size in enumerate(sizes_of(network)):
        r, named, token = network.residual(x, level)[0], None, rows.width + level
        if run.init is not None and token < len(run.init) and run.init[token] is not None:
            requested = as_rows(run.start_rows(rows, size, token), device)[None]
            named = network.residual(requested, level)[0].cpu().numpy()
        book = initial_codebook(r.cpu().numpy(), size, plan.init_iterations, run.seed_of(token), named)
        network.weights[f"codebook.{level}"].copy_(torch.tensor(book)[None])


def initial_codebook(
    r: NDArray[Any], size: int, iterations: int, seed: tuple[int, ...], named: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Euclidean k-means on residuals r (n, e): (size, e).

    It starts from a k-means++ draw, or from the residuals `named`, which are then added to r.
    Inferred: the public pipeline uses scikit-learn's k-means here, in older versions the best of several draws.
    """
    chosen = np.arange(size) if named is not None else kmeans_plus_plus(r, size, seed)
    rows = LocalRows(ArraySource(r if named is None else np.concatenate([named, r])))
    clusters = KMeans(size, "euclidean", iterations=iterations, empty="split").fit(rows, FitContext(init=[chosen]))
    return clusters.centroids


def kmeans_plus_plus(r: NDArray[Any], size: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """Greedy k-means++: row indices, each the best of 2 + ln(size) drawn by squared distance from those before it.

    The best leaves the smallest sum of squared distances, as in scikit-learn.
    """
    rng = np.random.default_rng(seed)
    x = r.astype(np.float64)
    square = (x * x).sum(axis=1)
    chosen = np.empty(size, np.int64)
    chosen[0] = rng.integers(len(x))
    nearest = ((x - x[chosen[0]]) ** 2).sum(axis=1)  # (n,): squared distance to the nearest row chosen so far
    for j in range(1, size):
        cumulated = np.cumsum(nearest)
        drawn = np.searchsorted(cumulated, rng.random(2 + int(np.log(size))) * cumulated[-1], side="right")
        tries = np.minimum(drawn, len(x) - 1)  # all distances are zero: the last row, again
        distance = square[tries, None] + square - 2 * (x[tries] @ x.T)  # (tries, n)
        after = np.minimum(nearest, distance.clip(min=0.0))
        best = after.sum(axis=1).argmin()
        chosen[j], nearest = tries[best], after[best]
    return chosen
