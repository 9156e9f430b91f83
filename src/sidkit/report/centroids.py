"""All levels' centroids on one plane (the paper's t-SNE figure)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.threads import one_blas_thread
from ..errors import SpecError, need

__all__ = ["METHODS", "joint_map", "near_twins"]

METHODS = ("auto", "tsne", "pca")
MOST = 4096  # centroids drawn, of all codebooks together: 1024-512-128 of two tokenizers are 3,328
TWIN = 0.1  # of the median distance: centroids that close repeat each other


def joint_map(
    codebooks: Sequence[NDArray[Any]], method: str = "auto", seed: int = 0
) -> tuple[list[NDArray[np.float64]], str]:
    """Per codebook, the points of its centroids on a plane, all from one fit; and the name of the method.

    auto is t-SNE where scikit-learn is installed, else the first two principal components. Zero centroids are left out;
    of more than MOST others a random sample is shown, of the larger codebooks alone and of each equally many, so that
    MOST are shown. There are no points where codebooks have different dimensions.
    """
    if method not in METHODS:
        raise SpecError(f"the map can be drawn by {', '.join(METHODS)}, not {method!r}")
    if len({book.shape[1] for book in codebooks}) != 1:
        return [], ""
    rng = np.random.default_rng(seed)
    books = [np.asarray(book, np.float64) for book in codebooks]
    books = [book[np.abs(book).sum(axis=1) > 0] for book in books]
    most = _most_of_each([len(book) for book in books])
    samples = [_sample(book, most, rng) for book in books]
    centroids = np.concatenate(samples)
    if len(centroids) < 3:
        return [], ""
    by_tsne = method == "tsne" or (method == "auto" and find_spec("sklearn") is not None)
    points = _tsne(centroids, seed) if by_tsne and len(centroids) >= 10 else _pca(centroids)
    ends = np.cumsum([len(sample) for sample in samples])
    return np.split(points, ends[:-1]), "t-SNE" if by_tsne else "PCA"


def _most_of_each(sizes: Sequence[int]) -> int:
    """The largest number c for which min(size, c), summed over the sizes, is at most MOST."""
    left = MOST
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            return share
        left -= size
    return MOST


def _sample(book: NDArray[np.float64], most: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return book if len(book) <= most else book[np.sort(rng.choice(len(book), most, replace=False))]


def _tsne(x: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    manifold = need("sklearn.manifold", "report", "the t-SNE map")
    model = manifold.TSNE(perplexity=min(30.0, (len(x) - 1) / 3), init="pca", random_state=seed)
    with one_blas_thread():  # the points are too few for two
        points = model.fit_transform(x)
    return np.asarray(points, np.float64)


def _pca(x: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = x - x.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    points = centred @ axes.T
    return points if points.shape[1] == 2 else np.column_stack([points, np.zeros(len(x))])


def near_twins(codebook: NDArray[Any]) -> float:
    """The share of centroids, zero ones aside, that have another within TWIN of the median distance of all pairs."""
    book = np.asarray(codebook, np.float64)
    book = book[np.abs(book).sum(axis=1) > 0]
    if len(book) < 3:
        return 0.0
    lengths, nearest, middle = (book**2).sum(axis=1), np.empty(len(book)), np.empty(len(book))
    for row, centroid in enumerate(book):
        squared = np.maximum(lengths + lengths[row] - 2 * (book @ centroid), 0.0)
        squared[row] = np.inf
        nearest[row], middle[row] = squared.min(), np.median(squared)
    return float((nearest < TWIN**2 * np.median(middle)).mean())
