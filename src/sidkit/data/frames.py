"""Data frames and columns of pandas, polars and Arrow as embeddings. None of these packages is imported here.

A frame has a column of vectors, or a number in every column but that of ids. A single column contains lists of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError
from ..files.address import Location
from ..rows.sources import require_rows
from .columns import ID, VECTORS, Chosen, FileColumns, choose, missing
from .formats.vectors import Vectors, is_vector_type
from .ids import is_id_type, one_array, require_unique
from .source import name_of

__all__ = ["FrameEmbeddings", "frame_columns", "has_columns", "is_frame", "open_frame"]

PACKAGES = ("pandas", "polars", "pyarrow")
FRAME, COLUMN = Path("the data frame"), Path("the column")  # names for messages
SAMPLE = 1 << 16  # rows that a column is judged by
UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True, eq=False)
class FrameEmbeddings:
    """A matrix made of a frame, with the ids of its rows."""

    array: NDArray[Any]  # (n, d), float32 or float64
    given: Any = None  # a pyarrow array of ids
    chosen: tuple[Chosen, ...] = ()
    paths: tuple[Location, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @cached_property
    def ids(self) -> Any:
        if self.given is None:
            return pa.array(np.arange(len(self.array), dtype=np.int64))
        column = next(one.column for one in self.chosen if one.role is ID)
        require_unique(self.given, str(column), lambda row: f"row {row} of {FRAME}")
        return self.given

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for first in range(start, len(self.array), size):
            yield self.array[first : first + size]

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.array[require_rows(indices, self.shape[0])]

    def name(self, row: int) -> str:
        name = f"row {row}"
        return name if self.given is None else name_of(self.given[row].as_py(), name)


def is_frame(X: Any) -> bool:
    """Whether this is a frame or a column of pandas, polars or Arrow."""
    return type(X).__module__.partition(".")[0] in PACKAGES


def has_columns(X: Any) -> bool:
    """Whether this is a frame, and not one column."""
    return hasattr(type(X), "columns")


def frame_columns(X: Any) -> dict[str, Any]:
    """The columns of a frame as pyarrow arrays, by name; those that Arrow cannot represent are left out."""
    if type(X).__name__ == "LazyFrame":
        raise InputError("a polars LazyFrame has no rows yet; give frame.collect()")
    if isinstance(X, pa.Table | pa.RecordBatch):
        return {name: _plain(column) for name, column in zip(X.schema.names, X.columns, strict=True)}
    if hasattr(X, "to_arrow"):  # polars
        return frame_columns(X.to_arrow())
    columns = {str(name): X[name] for name in X.columns}
    if len(columns) < X.shape[1]:
        raise InputError(f"{FRAME} has several columns of one name (columns: {', '.join(map(str, X.columns))})")
    arrow = {name: _arrow(column) for name, column in columns.items()}
    return {name: column for name, column in arrow.items() if column is not None}


def open_frame(X: Any, id_column: str | None = None, column: str | None = None) -> FrameEmbeddings:
    """The embeddings in a frame, or in a column of lists, with their ids.

    Where no column is known to have ids, they are the index of a pandas frame, unless it counts the rows; else row
    numbers.
    """
    if not has_columns(X):
        return FrameEmbeddings(_rows(_column(X), COLUMN, "embedding"))
    columns, index = frame_columns(X), _index(X)
    types = {name: one.type for name, one in columns.items()}
    file = FileColumns(str(FRAME), types, lambda name: one_array(columns[name].slice(0, SAMPLE)))
    chosen = None if id_column in index else choose(file, ID, id_column)
    ids = chosen or Chosen(ID, next(iter(index), None))
    vectors = choose(file, VECTORS, column)
    if vectors is None:
        lists = [name for name, one in columns.items() if is_vector_type(one.type)]
        vectors = Chosen(VECTORS, lists[0]) if len(lists) == 1 else None
    values = (columns if chosen else index).get(str(ids.column))
    given = None if values is None else one_array(values)
    if vectors is not None:
        return FrameEmbeddings(_rows(columns[str(vectors.column)], FRAME, str(vectors.column)), given, (ids, vectors))
    others = {name: one for name, one in columns.items() if not chosen or name != chosen.column}
    return FrameEmbeddings(_numbers(others, file), given, (ids,))


def _index(X: Any) -> dict[str, Any]:
    """The index of a pandas frame, by its name or as "index"; nothing where it only counts the rows."""
    index = getattr(X, "index", None)
    if index is None or type(index).__name__ == "RangeIndex":
        return {}
    values = _arrow(index.to_series())
    return {} if values is None or not is_id_type(values.type) else {str(index.name or "index"): values}


def _column(X: Any) -> Any:
    """A pyarrow array of lists."""
    array = X if isinstance(X, pa.Array | pa.ChunkedArray) else X.to_arrow() if hasattr(X, "to_arrow") else _arrow(X)
    if array is None or not is_vector_type(array.type):
        kind = getattr(X, "dtype", None) if array is None else array.type
        raise InputError(f"{COLUMN} holds {kind}, expected lists of numbers")
    return array


def _plain(column: Any) -> Any:
    """String views, which polars gives and few of Arrow's functions take, as strings."""
    return column.cast(pa.large_string()) if str(column.type) == "string_view" else column


def _arrow(series: Any) -> Any:
    """A pandas column as a pyarrow array, or None."""
    try:
        return pa.Array.from_pandas(series)
    except UNREADABLE:
        return None


def _rows(column: Any, name: Path, title: str) -> NDArray[Any]:
    """Lists as the rows of a matrix."""
    if not len(column):
        raise InputError(f"there are no rows in {name}")
    array = one_array(column)
    return np.ascontiguousarray(Vectors.like(array.slice(0, 1), name, title).of(array, name, 0))


def _numbers(columns: Mapping[str, Any], file: FileColumns) -> NDArray[Any]:
    """A frame with a dimension in every column."""
    texts = [name for name, one in columns.items() if not _is_number(one.type)]
    if texts or not columns:
        raise missing(file, VECTORS)
    nulls = [name for name, one in columns.items() if one.null_count]
    if nulls:
        raise InputError(f"{nulls[0]!r} in {FRAME} has missing values")
    matrix = np.stack([np.asarray(one.to_numpy(zero_copy_only=False)) for one in map(one_array, columns.values())], 1)
    return matrix.astype(np.float64 if matrix.dtype == np.float64 else np.float32, copy=False)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
