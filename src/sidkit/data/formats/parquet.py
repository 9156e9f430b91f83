"""Parquet files, one after the other as if they were one table.

A file is opened when its rows are read, and decoded batch by batch, so memory holds a few chunks whatever the sizes
of files and row groups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import InputError
from ...files.address import Location
from ...rows.chunks import read_ahead, rechunked
from ...rows.seam import CHUNK
from ...rows.sources import require_rows
from ..columns import Chosen
from ..ids import require_unique, within_reach
from ..listing import readable
from ..source import name_of
from .parquet_file import Part, examine
from .vectors import Vectors

__all__ = ["ParquetEmbeddings", "open_parquet"]


@dataclass(frozen=True, eq=False)
class ParquetEmbeddings:
    """The vectors of one column, streamed, and the ids of another, in memory."""

    paths: tuple[Location, ...]
    parts: tuple[Part, ...]  # the files that have rows
    ids: Any  # None if they were not read
    vectors: Vectors
    slow = True  # to read: worth a copy if it is read often

    @property
    def shape(self) -> tuple[int, int]:
        return self._starts[-1], self.vectors.d

    @property
    def chosen(self) -> tuple[Chosen, ...]:
        """The columns of ids and vectors, and why."""
        return self.parts[0].chosen

    @property
    def id_name(self) -> str:
        """The name that the column of ids had in the user's file."""
        return self.parts[0].id_name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.vectors.dtype

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return read_ahead(self._chunks(size, start))

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        indices = require_rows(indices, self.shape[0])
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for part, (start, end) in zip(self.parts, pairwise(self._starts), strict=True):
            mine = slice(*np.searchsorted(ordered, [start, end]))
            if mine.start < mine.stop:
                out[order[mine]] = self._take(part, ordered[mine] - start)
        return out

    def read_ids(self, rows: NDArray[np.int64]) -> list[Any]:
        """The ids of these rows, read from the files that hold them."""
        names: dict[int, Any] = {}
        for part, (start, end) in zip(self.parts, pairwise(self._starts), strict=True):
            mine = rows[(rows >= start) & (rows < end)]
            if len(mine):
                ids = pa.chunked_array(part.ids()).take(pa.array(mine - start))
                names |= dict(zip(mine.tolist(), ids.to_pylist(), strict=True))
        return [names[row] for row in rows.tolist()]

    def name(self, row: int) -> str:
        name = row_name(self.parts, row)
        return name if self.ids is None else name_of(self.ids[row].as_py(), name)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(accumulate((part.rows for part in self.parts), initial=0))

    def _chunks(self, size: int, start: int) -> Generator[NDArray[Any], None, None]:
        parts = [(part, max(start - first, 0)) for part, first in zip(self.parts, self._starts, strict=False)]
        yield from rechunked((x for part, skip in parts if skip < part.rows for x in self._of(part, size, skip)), size)

    def _of(self, part: Part, size: int, skip: int) -> Iterator[NDArray[Any]]:
        """The vectors of one file from row `skip` on; row groups before it are not decoded."""
        starts = list(accumulate(part.groups, initial=0))
        group = bisect_right(starts, skip) - 1
        row = starts[group]
        with part.open() as file:
            for batch in _batches(file, part, size, self.vectors.column, list(range(group, len(part.groups)))):
                if row + len(batch) > skip:
                    yield self.vectors.of(batch, part.path, row)[max(skip - row, 0) :]
                row += len(batch)
        if row != part.rows:
            raise InputError(f"cannot read {part.path}: it announces {part.rows} rows and holds {row}")

    def _take(self, part: Part, ordered: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of one file, by ascending index: only the row groups that hold them are decoded."""
        out = np.empty((len(ordered), self.shape[1]), self.dtype)
        starts = list(accumulate(part.groups, initial=0))
        with part.open() as file:
            for group, (row, end) in enumerate(pairwise(starts)):
                done, stop = np.searchsorted(ordered, [row, end])
                if done == stop:
                    continue
                for batch in _batches(file, part, CHUNK, self.vectors.column, [group]):
                    upto = min(stop, np.searchsorted(ordered, row + len(batch)))
                    out[done:upto] = self.vectors.of(batch, part.path, row)[ordered[done:upto] - row]
                    row, done = row + len(batch), upto
                    if done == stop:
                        break
                if done != stop:
                    raise InputError(f"cannot read {part.path}: it announces {end} rows and holds {row}")
        return out


def open_parquet(
    paths: tuple[Location, ...], id_column: str | None, column: str | None, ids: bool = True
) -> ParquetEmbeddings:
    """Read every file's schema, the ids and the first vector, and nothing else."""
    parts: list[Part] = []
    for path in paths:
        part = examine(path, id_column, column, parts[0] if parts else None)
        if part is not None:
            parts.append(part)
    if not parts:
        raise InputError(f"there are no rows in {paths[0]}" + (f" and {len(paths) - 1} other files" * (len(paths) > 1)))
    return ParquetEmbeddings(paths, tuple(parts), _ids(parts) if ids else None, _first_vector(parts[0]))


def _ids(parts: Sequence[Part]) -> Any:
    ids = within_reach(pa.chunked_array([chunk for part in parts for chunk in part.ids()])).unify_dictionaries()
    require_unique(ids, parts[0].id_column, lambda row: row_name(parts, row))
    return ids


def row_name(parts: Sequence[Part], row: int) -> str:
    """row 12 of items.parquet"""
    for part in parts:
        if row < part.rows:
            return f"row {row} of {part.path.name}"
        row -= part.rows
    raise IndexError(row)


def _first_vector(part: Part) -> Vectors:
    with part.open() as file:
        for batch in _batches(file, part, 1, part.column):
            return Vectors.like(batch, part.path, part.column)
    raise InputError(f"cannot read {part.path}: it announces {part.rows} rows and holds none")


def _batches(file: Any, part: Part, size: int, column: str, groups: list[int] | None = None) -> Iterator[Any]:
    """A column, `size` rows at a time. One thread: there is one column to decode."""
    with readable(part.path):
        for batch in file.iter_batches(size, row_groups=groups, columns=[column], use_threads=False):
            yield batch.column(column)
