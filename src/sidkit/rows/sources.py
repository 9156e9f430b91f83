"""Sources: embeddings in memory or in files, and sources made of other sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..geometry import compute_dtype

__all__ = [
    "ArraySource",
    "Composed",
    "HasChecks",
    "HasSpeed",
    "Source",
    "Window",
    "Wrapped",
    "is_checked",
    "is_slow",
    "offers",
    "require_rows",
]


@runtime_checkable
class Source(Protocol):
    """Embeddings in memory or in files: read in order, or by the index of the row."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the chunks read, float32 or float64."""

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        """The rows from `start` on in order, `size` at a time (the last may be shorter)."""

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """The rows with these indices, in this order."""

    def name(self, row: int) -> str:
        """The name of this row for users: "row 12", "item 'B00X' (row 12 of items.parquet)"."""


@runtime_checkable
class HasSpeed(Protocol):
    """A source that knows whether it is slow to read; others are taken to be fast."""

    @property
    def slow(self) -> bool:
        """Whether reading takes so long that rows which are read often are worth a copy."""


def is_slow(source: Source) -> bool:
    return offers(source, HasSpeed) and source.slow  # type: ignore[attr-defined]


@runtime_checkable
class HasChecks(Protocol):
    """A source that knows whether its rows were checked; those of others were not."""

    @property
    def checked(self) -> bool:
        """Whether every row that it gives can be computed with."""


def is_checked(source: Source) -> bool:
    return offers(source, HasChecks) and source.checked  # type: ignore[attr-defined]


@runtime_checkable
class Composed(Protocol):
    """A source made of others, each of which can be checked or copied separately."""

    def through(self, f: Callable[[Source], Source]) -> Source:
        """The same source with f applied to each of its parts."""


_OFFERED: dict[tuple[type, Any], bool] = {}


def offers(value: object, protocol: Any) -> bool:
    """isinstance, remembered by type: before Python 3.12 a protocol takes as long to check as a row to encode."""
    key = type(value), protocol
    if key not in _OFFERED:
        _OFFERED[key] = isinstance(value, protocol)
    return _OFFERED[key]


@dataclass(frozen=True)
class ArraySource:
    """A matrix in memory, or memory-mapped: its chunks are cast as they are read."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return compute_dtype(self.array.dtype)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for first in range(start, len(self.array), size):
            yield self.array[first : first + size].astype(self.dtype, order="C", copy=False)

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.array[indices].astype(self.dtype, order="C", copy=False)

    def name(self, row: int) -> str:
        return f"row {row}"


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A source made of another one: a subclass changes some of it."""

    source: Source

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def slow(self) -> bool:
        return is_slow(self.source)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return self.source.chunks(size, start)

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.source.take(indices)

    def name(self, row: int) -> str:
        return self.source.name(row)


@dataclass(frozen=True, eq=False)
class Window(Wrapped):
    """Consecutive rows of a source, with indices from 0."""

    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, self.source.shape[1]

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        left = self.shape[0] - start
        for x in self.source.chunks(size, self.start + start):
            yield x[:left]
            left -= len(x)
            if left <= 0:
                return

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.source.take(indices + self.start)

    def name(self, row: int) -> str:
        return self.source.name(row + self.start)


def require_rows(indices: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The row indices, if all of them exist."""
    indices = np.asarray(indices, np.int64)
    outside = indices[(indices < 0) | (indices >= total)]
    if len(outside):
        raise InputError(f"there is no row {outside[0]}: rows are numbered 0 to {total - 1}")
    return indices
