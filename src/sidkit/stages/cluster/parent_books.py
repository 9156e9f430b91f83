"""The codebooks of all parents of a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...engine import native
from ...engine.arrays import like, namespace
from ...engine.native.parents import nearest_own as compiled_nearest_own
from ...engine.own import nearest_own
from ...engine.steps import CarryStep
from ...geometry import Array, residual, unit
from ...sids.crowded import slots_of
from .kmeans import Centroids
from .parent_index import ParentIndex

if TYPE_CHECKING:
    from .device_books import DeviceBooks

__all__ = ["ParentBooks"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ParentBooks:
    """The codebooks of all parents, one after the other, and a common one for parents that the fit did not have."""

    keys: Integers  # (P, tokens of a parent), sorted
    starts: Integers  # (P + 1,) where each parent's centroids begin
    centroids: NDArray[Any]  # (M, d)
    common: NDArray[Any]  # (K, d)
    _on_devices: dict[str, DeviceBooks] = field(default_factory=dict, repr=False)  # for this process alone

    def __reduce__(self) -> tuple[Any, ...]:
        return ParentBooks, (self.keys, self.starts, self.centroids, self.common)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"parents": self.keys, "starts": self.starts, "centroids": self.centroids, "common": self.common}

    def assign(self, x: Array, codes: Array) -> Array:
        """The nearest of the parent's centroids; under an unknown parent, the nearest of the common ones."""
        if not isinstance(x, np.ndarray):
            return self.on_device(x).assign(x, codes)
        parents = self.parents_of(codes)
        known = np.maximum(parents, 0)
        first, last = self.starts[known], self.starts[known + 1]
        code = nearest_own(x, self.centroids, first, np.where(parents < 0, 1, last - first))
        new = np.flatnonzero(parents < 0)
        if len(new):
            code[new] = self._assign_new(x[new])
        return code

    def settle(self, x: Array, codes: Array, keep: float, normalize: bool) -> tuple[Array, Array]:
        """`assign`, and `carry` with its answer, in one sweep where there are kernels."""
        if not native.ready(x) or self.centroids.dtype != np.float32:
            code = self.assign(x, codes)
            with_own = namespace(x).concatenate([codes, code[:, None]], axis=1)
            return code, self.carry(x, with_own, keep, normalize)
        parents = self.parents_of(codes)
        known, rest = np.maximum(parents, 0), np.empty(x.shape, np.float32)
        first = self.starts[known]
        code = compiled_nearest_own(x, self.centroids, first, self.starts[known + 1] - first, rest, keep, normalize)
        new = np.flatnonzero(parents < 0)
        if len(new):
            code[new] = self._assign_new(x[new])
            rest[new] = self._carry_new(x[new], code[new], keep, normalize)
        return code, rest

    def costs(self, x: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.float64]:
        """What `assign` minimises for rows with these earlier tokens: (n, K), infinite where a parent has no code."""
        out = np.full((len(x), len(self.common)), np.inf)
        parents = self.parents_of(codes)
        order = np.argsort(parents, kind="stable")
        values, first = np.unique(parents[order], return_index=True)
        for parent, rows in zip(values, np.split(order, first[1:]), strict=True):
            book = self.common if parent < 0 else self.centroids[self.starts[parent] : self.starts[parent + 1]]
            out[rows, : len(book)] = Centroids(book, "euclidean").costs(x[rows])
        return out

    def chosen(self, x: Array, codes: Array) -> Array:
        if not isinstance(x, np.ndarray):
            return self.on_device(x).chosen(x, codes)
        numbers, code = self._numbers(codes), codes[:, -1]
        known = (numbers >= 0)[:, None]
        return like(np.where(known, self.centroids[np.maximum(numbers, 0)], self.common[code]), x)

    def carry(self, x: Array, codes: Array, keep: float, normalize: bool) -> Array:
        """What is left of every row without its centroid: `chosen` and `geometry.residual` in one sweep."""
        if not native.ready(x) or self.centroids.dtype != np.float32:
            rest = residual(x, self.chosen(x, codes), keep)
            return unit(rest) if normalize else rest
        numbers = self._numbers(codes)
        step = CarryStep(self.centroids, keep, normalize, 0)
        out = native.carry(x, native.CarryChain([step]), np.maximum(numbers, 0).astype(np.int32)[:, None])
        new = np.flatnonzero(numbers < 0)
        if len(new):
            out[new] = self._carry_new(x[new], codes[new, -1], keep, normalize)
        return out

    def on_device(self, x: Array) -> DeviceBooks:
        """The same on the device of rows x, copied there once."""
        device = str(x.device)
        if device not in self._on_devices:
            from .device_books import DeviceBooks

            table = like(np.concatenate([self.centroids, self.common]), x.float())
            self._on_devices[device] = DeviceBooks.of(self.keys, self.starts, table, len(self.common))
        return self._on_devices[device]

    def keep_on_device(self, books: DeviceBooks) -> None:
        """Use these for rows of their device."""
        self._on_devices[str(books.table.device)] = books

    def parents_of(self, codes: NDArray[Any]) -> Integers:
        """The index of each row's parent, -1 if the fit did not have it."""
        return self._index.find(self.keys, codes[:, -self.keys.shape[1] :])

    def numbered(self, codes: NDArray[Any]) -> NDArray[Any]:
        """The last of these codes, dealt out in row order among the codes of the parent whose centroids are equal.

        A parent with few rows has each of them as a centroid, so that equal rows then have a code each, for as many as
        the fit had. codes: (n, tokens), those of a whole catalogue.
        """
        numbers, own = self._numbers(codes), np.array(codes[:, -1])
        parent_of = np.repeat(np.arange(len(self.keys)), np.diff(self.starts))
        vectors = np.ascontiguousarray(self.centroids).view(f"V{self.centroids[0].nbytes}")[:, 0]
        alike = np.unique(vectors, return_inverse=True)[1].reshape(-1) * len(self.keys) + parent_of
        order = np.argsort(alike, kind="stable")  # equal centroids side by side, their codes in order
        group = np.unique(alike, return_inverse=True)[1].reshape(-1)
        count = np.bincount(group)
        begin = np.cumsum(count) - count
        known = np.flatnonzero(numbers >= 0)
        mine = group[numbers[known]]
        place = slots_of(mine)
        given = order[begin[mine] + np.minimum(place, count[mine] - 1)]
        moved = place < count[mine]
        own[known[moved]] = (given - self.starts[parent_of[given]])[moved]
        return own

    def _numbers(self, codes: NDArray[Any]) -> Integers:
        """The index of the centroid that each row chose, its code being the last of codes; -1 under unknown parents."""
        parents = self.parents_of(codes[:, :-1])
        known = np.maximum(parents, 0)
        numbers = np.minimum(self.starts[known] + codes[:, -1], self.starts[known + 1] - 1)  # codes may be of others
        return np.where(parents < 0, -1, numbers)

    def _assign_new(self, x: Array) -> Array:
        """The nearest of the common centroids, for rows under parents that the fit did not have."""
        return nearest_own(x, self.common, np.zeros(len(x), np.int64), np.full(len(x), len(self.common)))

    def _carry_new(self, x: NDArray[Any], code: NDArray[Any], keep: float, normalize: bool) -> NDArray[Any]:
        rest = residual(x, like(self.common[code], x), keep)
        return np.asarray(unit(rest) if normalize else rest)

    @cached_property
    def _index(self) -> ParentIndex:
        return ParentIndex.of(self.keys)
