"""An array as its file describes it, before any of it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...files.address import Location, Remote

__all__ = ["BFLOAT16", "Order", "Stored", "mapped"]

Order: TypeAlias = Literal["C", "F"]
BFLOAT16 = np.dtype("V2")  # what numpy writes for it, having no such type


@dataclass(frozen=True)
class Stored:
    """Its shape, its type, and how to load it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: a type that is not read
    label: str  # the type as a user knows it
    load: Callable[[], Any]

    @property
    def numeric(self) -> bool:
        """Whether it can be turned into float32 or float64 without losing its meaning."""
        if self.dtype is None or self.dtype.itemsize > 8:
            return False
        return self.dtype.kind in "fiu" or self.dtype == BFLOAT16


def mapped(
    path: Location, shape: tuple[int, ...], dtype: np.dtype[Any], label: str, offset: int, end: int, order: Order = "C"
) -> Stored:
    """An array stored uncompressed between two offsets of a file, to be memory-mapped."""
    size = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not 0 <= offset <= offset + size <= end:
        raise ValueError(f"an array of shape {shape} and type {label} does not fit in its {end - offset} bytes")

    def load() -> Any:
        if isinstance(path, Remote):
            if order == "F" and len(shape) > 1:
                raise ValueError("it is stored by columns; save it with np.save(file, np.ascontiguousarray(array))")
            return RemoteRows(path, shape, dtype, offset)
        return np.asarray(np.memmap(path, dtype, "r", offset, shape, order))

    return Stored(shape, dtype, label, load)


@dataclass(frozen=True)
class RemoteRows:
    """Rows of a file on another file system, fetched when they are indexed, as those of a NumPy array are."""

    path: Remote
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        with self.path.open() as file:
            if isinstance(rows, slice):
                start, stop, _ = rows.indices(len(self))
                return self._fetched(file, start, max(stop - start, 0))
            parts = [self._fetched(file, int(row), 1) for row in rows]
        return np.concatenate(parts) if parts else np.empty((0, *self.shape[1:]), self.dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype)

    def _fetched(self, file: Any, row: int, count: int) -> NDArray[Any]:
        size = prod(self.shape[1:]) * self.dtype.itemsize
        data = file.read_at(count * size, self.offset + row * size)
        return np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])
