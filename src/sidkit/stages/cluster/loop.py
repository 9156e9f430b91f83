"""The one fitting loop: draw a start, add up statistics over all rows, update, repeat.

A clusterer defines its statistics. They must add, so the loop does not know whether the rows are an array, a file
larger than memory, on a GPU or on a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...geometry import Array
from ...rows.seam import ReducesThere, Rows, Sums
from ..stage import FitContext

__all__ = ["Carries", "Cluster", "Clusterer", "Clusters", "HasCosts", "refine"]


class Clusters(Protocol):
    """A fitted clusterer."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...

    def assign(self, x: Array, codes: Array) -> Array:
        """The code of every row, given its earlier tokens: (n,)."""

    def chosen(self, x: Array, codes: Array) -> Array:
        """The centroid each row selected, its code being the last of codes: (n, d)."""


@runtime_checkable
class HasCosts(Protocol):
    """Clusters that can say what each code would cost a row, in units of what `assign` minimises."""

    def costs(self, x: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.float64]:
        """Of rows x whose earlier tokens are codes: (n, K), up to a constant per row; inf where there is no code."""


@runtime_checkable
class Carries(Protocol):
    """Clusters that compute residuals themselves, faster than by way of `chosen`."""

    def carry(self, x: Array, codes: Array, keep: float, normalize: bool) -> Array:
        """`geometry.residual` of rows x and the centroids they chose, scaled to length one if asked: (n, d)."""

    def settle(self, x: Array, codes: Array, keep: float, normalize: bool) -> tuple[Array, Array]:
        """`assign`, and `carry` with its answer."""


class Cluster(Protocol):
    """The interface of a clusterer in a level: a frozen dataclass that can be fitted and restored."""

    @property
    def size(self) -> int: ...

    def fit(self, rows: Rows, run: FitContext) -> Clusters: ...

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> Clusters: ...


AHEAD = 1  # passes that a device is told before the one before is looked at: a pass after the last changes nothing
C = TypeVar("C")  # the clusters between passes


class Clusterer(Protocol[C]):
    """A clustering method as statistics that add. Its state between passes is the clusters so far."""

    @property
    def iterations(self) -> int: ...

    @property
    def state(self) -> type[C]:
        """The dataclass of the clusters between passes: arrays, tuples of arrays, and numbers."""

    def start(self, rows: Rows, run: FitContext) -> C:
        """The clusters before the first pass."""

    def statistics(self, clusters: C, x: Array, codes: Array) -> Sums:
        """The contribution of a chunk of rows: arrays that add. The last is the objective, summed over rows."""

    def update(self, clusters: C, sums: Sums) -> C:
        """The next clusters."""

    def settled(self, before: C, after: C) -> Any:
        """Whether further passes would change nothing: a bool; of clusters on a device, a tensor there."""

    def finish(self, clusters: C, dtype: Any) -> C:
        """The clusters as they will be stored and used, in this dtype."""


@runtime_checkable
class HasSize(Protocol):
    """A clusterer that compares each row with one codebook, of this size."""

    @property
    def size(self) -> int: ...


@runtime_checkable
class HasPrecision(Protocol):
    """A clusterer whose statistics may be computed on a GPU from rows of fewer bits."""

    @property
    def precision(self) -> str: ...


@runtime_checkable
class StaysOnDevice(Protocol):
    """A clusterer whose clusters, between passes, can be tensors of the device that has the rows."""

    @property
    def stays_on_device(self) -> bool: ...


def refine(cluster: Clusterer[C], rows: Rows, run: FitContext) -> C:
    """Fit a clusterer to rows: `iterations` passes, fewer only if another would change nothing."""
    n, level = rows.shape[0], rows.width
    size = cluster.size if isinstance(cluster, HasSize) else 1
    precision = cluster.precision if isinstance(cluster, HasPrecision) else "fp32"
    rows.prepare(float(n) * rows.shape[1] * size * cluster.iterations)
    stays = isinstance(rows, ReducesThere) and isinstance(cluster, StaysOnDevice) and cluster.stays_on_device
    reduce, later, ahead = rows.reduce, _now, 0
    if stays and isinstance(rows, ReducesThere):
        reduce, later, ahead = rows.reduce_there, rows.later, AHEAD
    outcomes: deque[Callable[[], bool]] = deque()  # of the passes not looked at yet
    first, clusters = _resumed(cluster, run, level) or (0, cluster.start(rows, run))
    run.progress.start(f"level {level + 1}", n * (cluster.iterations - first))
    for done in range(first, cluster.iterations):
        with _resuming(run, _key(cluster, level), done == first):
            sums = reduce(partial(cluster.statistics, clusters), precision)
            before, clusters = clusters, cluster.update(clusters, sums)
        numbers = later(sums[-1][0], cluster.settled(before, clusters))
        outcomes.append(partial(_noted, run, done + 1, n, numbers))
        if len(outcomes) > ahead and outcomes.popleft()():
            run.progress.advance(n * (cluster.iterations - done - 1))
            outcomes.clear()
            break
        if run.checkpoint is not None and run.checkpoint.due():
            arrays, facts = unpacked(clusters)
            run.checkpoint.save(_key(cluster, level), arrays, {"done": done + 1, **facts})
    found = cluster.finish(clusters, rows.dtype)  # a device may still be at the last pass
    for outcome in outcomes:
        outcome()
    return found


def _now(*numbers: Any) -> Callable[[], list[float]]:
    """As `seam.ReducesThere.later`, of numbers on the host."""
    return lambda: [float(number) for number in numbers]


def _noted(run: FitContext, done: int, n: int, numbers: Callable[[], list[float]]) -> bool:
    """Whether the clusters settled in a pass, which is noted in the progress."""
    objective, settled = numbers()
    run.progress.note(f"pass {done}, objective {objective / n:.5f}")
    return bool(settled)


def unpacked(clusters: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The state between two passes, a dataclass, as arrays and plain numbers; fields that start with _ are left out."""
    arrays: dict[str, NDArray[Any]] = {}
    facts: dict[str, Any] = {}
    for part in fields(clusters):
        value = getattr(clusters, part.name)
        if part.name.startswith("_") or value is None:
            continue
        value = value.cpu().numpy() if hasattr(value, "cpu") else value
        if isinstance(value, np.ndarray):
            arrays[part.name] = value
        elif isinstance(value, tuple):
            arrays |= {f"{part.name}.{i}": array for i, array in enumerate(value)}
        else:
            facts[part.name] = value
    return arrays, facts


def repacked(kind: type[C], arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> C:
    """The inverse of `unpacked`."""
    values: dict[str, Any] = dict(facts)
    for name, array in arrays.items():
        field, dot, _ = name.partition(".")
        values[field] = (*values.get(field, ()), arrays[f"{field}.{len(values.get(field, ()))}"]) if dot else array
    return kind(**values)


def _key(cluster: Any, level: int) -> str:
    return f"level-{level + 1}-{type(cluster).__name__.lower()}"


def _resuming(run: FitContext, key: str, first: bool) -> AbstractContextManager[None]:
    """For a pass: errors of the first after a stop are of the saved state, if there is one."""
    return run.checkpoint.using(key) if first and run.checkpoint is not None else nullcontext()


def _resumed(cluster: Clusterer[C], run: FitContext, level: int) -> tuple[int, C] | None:
    """The number of passes that an interrupted fit had done, and its clusters after them; None if there was none."""
    key = _key(cluster, level)
    saved = run.checkpoint.load(key) if run.checkpoint is not None else None
    if saved is None or run.checkpoint is None:
        return None
    arrays, facts = saved
    with run.checkpoint.using(key):
        done = facts.pop("done")
        if type(done) is not int or not 0 <= done <= cluster.iterations:
            raise ValueError(f"{done!r} of {cluster.iterations} passes cannot be done")
        return done, repacked(cluster.state, arrays, facts)
