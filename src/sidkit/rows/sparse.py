"""Residuals of which most are zero, as of rows with a centroid of their own, kept from pass to pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import native
from ..engine.native.parents import busy_rows

__all__ = ["SparseChunks"]

Chunk = NDArray[Any]
Kept = tuple[int, NDArray[np.int64], Chunk]  # the rows of a chunk, which of them are not zero, and these

MOST = 256 << 20  # bytes that a process keeps in all
SHARE = 0.5  # of a chunk's rows that may be other than zero


class Room:
    """The bytes that are kept in this process."""

    def __init__(self) -> None:
        self.used, self._lock = 0, Lock()

    def take(self, size: int) -> bool:
        """Whether there was room for so many more."""
        with self._lock:
            enough = self.used + size <= MOST
            self.used += size * enough
        return enough

    def give(self, size: int) -> int:
        """Room for others; 0, which is what the giver has left."""
        with self._lock:
            self.used -= size
        return 0


ROOM = Room()


class SparseChunks:
    """The chunks of a pass over rows, as their rows that are not zero; nothing where these are too many."""

    def __init__(self) -> None:
        self._kept: list[Kept] | None = None
        self._pays = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process begins anew."""
        return SparseChunks, ()

    def recorded(self, chunks: Iterator[Chunk], n: int) -> Iterator[Chunk]:
        """The same chunks of n rows, which are known once the last has been taken."""
        kept: list[Kept] = []
        seen = size = 0
        try:
            for x in chunks:
                if self._pays:
                    busy = np.flatnonzero(_busy(x))
                    more, seen = len(busy) * x[:1].nbytes, seen + len(x)
                    self._pays = len(busy) <= SHARE * len(x) and ROOM.take(more)
                    if self._pays:
                        kept.append((len(x), busy, x[busy]))
                        size += more
                    else:
                        kept.clear()
                        size = ROOM.give(size)
                    if self._pays and seen == n and self._kept is None:
                        self._kept = kept
                        weakref.finalize(self, ROOM.give, size)
                yield x
        finally:
            if self._kept is not kept:
                ROOM.give(size)

    def replayed(self) -> Iterator[Chunk] | None:
        """The chunks once more, each in the memory of the one before; None where they are not known."""
        return self._replayed(self._kept) if self._kept else None

    def _replayed(self, kept: list[Kept]) -> Iterator[Chunk]:
        longest = max(n for n, _, _ in kept)
        x = np.zeros((longest, kept[0][2].shape[1]), kept[0][2].dtype)
        for n, busy, rows in kept:
            x[busy] = rows
            yield x[:n]
            x[busy] = 0


def _busy(x: Chunk) -> NDArray[np.bool_]:
    """Whether a row is anything but zero: (n,)."""
    return busy_rows(x) if native.ready(x) else np.asarray(x.any(axis=1))
