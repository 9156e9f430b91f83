"""Sources without some of their rows: those that a caller names, or those that cannot be computed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..files.address import Location
from ..progress import Progress
from ..rows.checks import find_bad_rows
from ..rows.chunks import rechunked
from ..rows.scratch import Copy
from ..rows.sources import Source, Wrapped, require_rows
from .source import Embeddings, HasIds, paths_of

__all__ = ["GoodRows", "Without", "good_rows", "without"]


def without(source: Source, rows: Sequence[int] | NDArray[np.int64]) -> Embeddings:
    """The source without these rows. The others get new indices and keep their ids and names."""
    return Without(source, np.unique(require_rows(np.asarray(rows, np.int64), source.shape[0])))


@dataclass(frozen=True, eq=False)
class Without(Wrapped):
    """All rows of a source but the dropped ones."""

    dropped: NDArray[np.int64]  # ascending

    @property
    def identity(self) -> bytes:
        """Digest of the dropped rows, which must be unchanged for a run to resume."""
        return sha256(self.dropped.tobytes()).digest()

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape[0] - len(self.dropped), self.source.shape[1]

    @property
    def paths(self) -> tuple[Location, ...]:
        return paths_of(self.source)

    @cached_property
    def ids(self) -> Any:
        left = np.ones(self.source.shape[0], bool)
        left[self.dropped] = False
        ids = self.source.ids if isinstance(self.source, HasIds) else None
        return pa.array(np.flatnonzero(left)) if ids is None else ids.filter(pa.array(left))

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return rechunked(self._left(size, start), size) if start < self.shape[0] else iter(())

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.source.take(self._original(require_rows(indices, self.shape[0])))

    def name(self, row: int) -> str:
        return self.source.name(int(self._original(np.asarray([row]))[0]))

    def _original(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices in the source: higher by the number of rows dropped before them."""
        left_before = self.dropped - np.arange(len(self.dropped))
        original: NDArray[np.int64] = indices + np.searchsorted(left_before, indices, side="right")
        return original

    def _left(self, size: int, start: int) -> Iterator[NDArray[Any]]:
        start = int(self._original(np.asarray([start]))[0])
        for x in self.source.chunks(size, start):
            first, last = np.searchsorted(self.dropped, [start, start + len(x)])
            yield np.delete(x, self.dropped[first:last] - start, axis=0) if first < last else x
            start += len(x)


def good_rows(source: Embeddings, folder: Path | None, progress: Progress) -> GoodRows:
    """The rows of a source that can be computed with. The source is read once, however often these are.

    Rows that are slow to read are copied in passing to a scratch file in the folder, if there is room.
    """
    copy = Copy(source, folder)
    bad = find_bad_rows(source, progress, copy.add)
    good = without(source, sorted(bad)) if bad else source
    return GoodRows(copy.of(good), good.ids, good.paths, bad)


@dataclass(frozen=True, eq=False)
class GoodRows(Wrapped):
    """Rows that were checked, and need not be checked again."""

    ids: Any
    paths: tuple[Location, ...]
    bad: Mapping[int, str]  # row of the source -> what is wrong with it, of those left out
    checked = True
