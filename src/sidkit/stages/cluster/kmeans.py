"""k-means: hard or top-k soft, by cosine or by Euclidean distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...engine import engine_of
from ...engine.arrays import like, namespace, widened
from ...errors import SpecError
from ...files.folder import require_array
from ...geometry import Array
from ...rows.seam import Rows, Sums
from ...rows.work import Work
from ..stage import FitContext
from .loop import refine

__all__ = ["Centroids", "KMeans", "Metric", "check_size", "means_of"]

Metric = Literal["cosine", "euclidean"]


@dataclass(frozen=True, eq=False)
class Centroids:
    """K centroids and the metric by which rows are compared with them."""

    centroids: NDArray[Any]  # (K, d); between the passes of a fit on a GPU, a tensor there
    metric: Metric
    bonus: NDArray[Any] | None = None  # (K,) added to euclidean scores
    _books: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"centroids": self.centroids}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the centroids alone: prepared codebooks belong to the machine that made them."""
        return Centroids, (self.centroids, self.metric, self.bonus)

    def book(self, x: Array) -> Any:
        """The codebook prepared for rows like x, once per dtype and device."""
        kind = f"{x.dtype}@{'cpu' if isinstance(x, np.ndarray) else x.device}"
        if kind not in self._books:
            self._books[kind] = engine_of(x).book(self.beside(x), self.metric, x, self.bonus)
        return self._books[kind]

    def beside(self, x: Array) -> Array:
        """The centroids where rows like x are: (K, d); a device gets them once."""
        if isinstance(x, np.ndarray):
            return self.centroids
        kind = f"centroids@{x.device}"
        if kind not in self._books:
            self._books[kind] = namespace(x).as_tensor(self.centroids).to(x.device)
        return self._books[kind]

    def assign(self, x: Array, codes: Array) -> Array:
        """The code of every row (paper, Eq. 13); exact ties go to the lowest index."""
        return engine_of(x).nearest(x, self.book(x))

    def costs(self, x: NDArray[Any], codes: Any = None) -> NDArray[np.float64]:
        """The cost that `assign` minimises, up to a constant per row: (n, K), in float64."""
        book = self.book(x)
        costs: NDArray[np.float64] = -(x.astype(np.float64) @ book.exact.T + book.exact_offset)
        return costs

    def chosen(self, x: Array, codes: Array) -> Array:
        return like(self.beside(x), x)[codes[:, -1]]


@dataclass(frozen=True)
class KMeans:
    """K centroids refined by weighted means over each row's top-k nearest centroids (paper, Eqs. 10 to 12).

        w_ij = exp(beta s_ij) / sum over the top k of exp(beta s_it),   c_j = sum_i w_ij r_i / sum_i w_ij

    top_k = 1 is ordinary k-means. s is the cosine, or for euclidean -scale |r - c|^2.

    scale      the paper leaves open how soft weights score Euclidean distance; 1/2 makes s equal to the cosine,
               up to a constant, if rows and centroids have length one.
    empty      a centroid that is in no row's top k stays where it is ("keep"; the paper is silent), or moves next to
               the centroid with the largest mass, both nudged by 1/1024 ("split", as faiss does).
    skip_zero  zero rows do not count in the means: among rows of length one they would pull a Euclidean centroid
               towards the origin, which is nearer to most rows than any centroid of length one.
    precision  how a GPU scores rows while fitting ("fp16" and "bf16" if rows have length one); tokens are decided in
               float32 and float64 in any case, and the CPU always computes in float32 or float64.
    """

    size: int
    metric: Metric = "cosine"
    top_k: int = 1
    beta: float = 15.0
    iterations: int = 25
    scale: float = 0.5
    empty: Literal["keep", "split"] = "keep"
    skip_zero: bool = False
    precision: Literal["fp16", "bf16", "tf32", "fp32"] = "fp16"

    def __post_init__(self) -> None:
        check_size(self.size)
        if self.metric not in ("cosine", "euclidean"):
            raise SpecError(f"metric must be 'cosine' or 'euclidean', not {self.metric!r}")
        if self.empty not in ("keep", "split"):
            raise SpecError(f"empty must be 'keep' or 'split', not {self.empty!r}")
        if self.precision not in ("fp16", "bf16", "tf32", "fp32"):
            raise SpecError(f"precision must be 'fp16', 'bf16', 'tf32' or 'fp32', not {self.precision!r}")
        if self.top_k < 1:
            raise SpecError(f"top_k must be at least 1, not {self.top_k}")
        if not (self.beta > 0 and np.isfinite(self.beta)):
            raise SpecError(f"beta must be positive and finite, not {self.beta}")
        if self.iterations < 0:
            raise SpecError(f"iterations cannot be negative ({self.iterations})")

    @property
    def stays_on_device(self) -> bool:
        return self.empty == "keep"

    @property
    def state(self) -> type[Centroids]:
        return Centroids

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> int:
        return run.check_starts(shape[0], (self.size,), level)

    def work(self) -> Work:
        return Work(float(self.iterations * self.size), self.top_k)

    def fit(self, rows: Rows, run: FitContext) -> Centroids:
        return refine(self, rows, run)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Centroids:
        return Centroids(require_array(arrays, "centroids", (self.size, d)), self.metric)

    def start(self, rows: Rows, run: FitContext) -> Centroids:
        first = run.start_rows(rows, self.size, rows.width, there=self.stays_on_device)
        return Centroids(widened(first), self.metric)

    def statistics(self, clusters: Centroids, x: Array, codes: Array) -> Sums:
        engine = engine_of(x)
        k = min(self.top_k, self.size)
        sums: Sums = engine.soft_sums(x, clusters.book(x), k, self.beta, self.scale, self.precision, self.skip_zero)
        return sums

    def update(self, clusters: Centroids, sums: Sums) -> Centroids:
        means = means_of(sums[0], sums[1], clusters.centroids)
        return Centroids(_split(means, np.asarray(sums[0])) if self.empty == "split" else means, self.metric)

    def settled(self, before: Centroids, after: Centroids) -> Any:
        if isinstance(after.centroids, np.ndarray):
            return np.array_equal(before.centroids, after.centroids)
        return (like(before.centroids, after.centroids) == after.centroids).all()

    def finish(self, clusters: Centroids, dtype: Any) -> Centroids:
        if isinstance(clusters.centroids, np.ndarray):
            return Centroids(clusters.centroids.astype(dtype), self.metric)
        return _of_device(clusters.centroids, self.metric, dtype)


def check_size(size: int) -> None:
    """A codebook has between 1 and 2^31 - 1 codewords."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 1 <= size < 2**31:
        raise SpecError(f"a codebook size must be a whole number from 1 on, not {size!r}")


def means_of(mass: Any, total: Any, before: NDArray[Any]) -> NDArray[np.float64]:
    """The weighted means total (K, d) / mass (K,); a centroid without mass stays as it was before.

    Of tensors, a tensor where they are.
    """
    if not isinstance(mass, np.ndarray):
        xp, mass = namespace(mass), mass[:, None]
        means: NDArray[np.float64] = xp.where(mass > 0, total / xp.where(mass > 0, mass, 1.0), like(before, total))
        return means
    mass, total = np.asarray(mass)[:, None], np.asarray(total)
    return np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), before)


def _of_device(centroids: Any, metric: Metric, dtype: Any) -> Centroids:
    """Centroids of a device, on the host in this dtype, and still there."""
    import torch

    from ...engine.cuda.to_host import later

    there = centroids.to(getattr(torch, np.dtype(dtype).name))
    return Centroids(later(there)(), metric, _books={f"centroids@{there.device}": there})


def _split(means: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every centroid without mass becomes a nudged twin of the heaviest one."""
    means, mass = means.copy(), mass.copy()
    nudge = np.where(np.arange(means.shape[1]) % 2 == 0, 1 / 1024, -1 / 1024)
    for j in np.flatnonzero(mass <= 0):
        donor = int(mass.argmax())
        means[j] = means[donor] * (1 + nudge)
        means[donor] *= 1 - nudge
        mass[j] = mass[donor] = mass[donor] / 2
    return means
