"""The one fitting loop: draw a start, add up statistics over all rows, update, repeat.

A clusterer says what its statistics are; they must add, so the loop never knows whether the rows are an array, a
file larger than memory, a GPU or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from ..engine import native
from ..geometry import Array
from ..rows import Rows, Sums
from ..stage import Run

__all__ = ["Cluster", "Clusterer", "Clusters", "refine"]


class Clusters(Protocol):
    """A fitted clusterer."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...

    def assign(self, x: Array, codes: Array) -> Array:
        """The code of every row, given its earlier tokens: (n,)."""

    def chosen(self, x: Array, codes: Array) -> Array:
        """The centroid each row selected, its code being the last of codes: (n, d)."""


class Cluster(Protocol):
    """What a level needs of a clusterer: a frozen dataclass that can be fitted and restored."""

    @property
    def size(self) -> int: ...

    def fit(self, rows: Rows, run: Run) -> Clusters: ...

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Clusters: ...


C = TypeVar("C")  # the clusters between passes


class Clusterer(Protocol[C]):
    """How to cluster, as statistics that add. Its state between passes is the clusters so far."""

    @property
    def iterations(self) -> int: ...

    def start(self, rows: Rows, run: Run) -> C:
        """The clusters before the first pass."""

    def statistics(self, clusters: C, x: Array, codes: Array) -> Sums:
        """What a chunk of rows contributes: arrays that add. The last is the objective, summed over rows."""

    def update(self, clusters: C, sums: Sums) -> C:
        """The next clusters."""

    def settled(self, before: C, after: C) -> bool:
        """Whether further passes would change nothing."""

    def finish(self, clusters: C, dtype: Any) -> C:
        """The clusters as they will be stored and used, in this dtype."""


def refine(cluster: Clusterer[C], rows: Rows, run: Run) -> C:
    """Fit a clusterer to rows: exactly `iterations` passes, fewer only if another would change nothing."""
    n, level = rows.shape[0], rows.width
    native.prepare(float(n) * rows.shape[1] * getattr(cluster, "size", 1) * cluster.iterations)
    clusters = cluster.start(rows, run)
    run.progress.start(f"level {level + 1}", n * cluster.iterations)
    for done in range(cluster.iterations):
        sums = rows.reduce(partial(cluster.statistics, clusters))
        before, clusters = clusters, cluster.update(clusters, sums)
        run.progress.note(f"pass {done + 1}, objective {float(sums[-1][0]) / n:.5f}")
        if cluster.settled(before, clusters):
            run.progress.advance(n * (cluster.iterations - done - 1))
            break
    return cluster.finish(clusters, rows.dtype)
