"""One Parquet file: its columns of ids and vectors, its number of rows, its ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import InputError
from ...files.address import Location, for_arrow
from ...files.seal import check_seal_once
from ...files.text_notes import is_text_table
from ..columns import ID, VECTORS, Chosen, FileColumns, choose, choose_name, missing
from ..ids import is_id_type
from ..listing import readable
from .vectors import is_vector_type, value_type

__all__ = ["ID_NAME", "Part", "empty_ids", "examine", "first_values", "parquet_columns"]

READ = 1 << 20  # bytes fetched at once, so that no complete row group is in memory
ID_NAME = b"sidkit.id_column"  # the key of the note on the name that ids had in the file that this one was made from
SAMPLE = 1 << 16  # rows that a column is judged by
ROWS_PER_BYTE = 64  # a footer that announces more is wrong: ids alone take more room


@dataclass(frozen=True, eq=False)
class Part:
    """A file that has rows."""

    path: Location
    id_column: str
    column: str
    id_type: Any
    value_type: Any  # of one number of a vector
    groups: tuple[int, ...]  # rows of each row group
    chosen: tuple[Chosen, ...] = ()  # the columns of ids and vectors, and why
    id_name: str = ""  # the name that the column of ids had in the file that this one was made from, if any

    @property
    def rows(self) -> int:
        return sum(self.groups)

    @contextmanager
    def open(self) -> Iterator[Any]:
        with ExitStack() as stack:
            with readable(self.path):
                file = stack.enter_context(_opened(self.path))
            yield file

    def ids(self) -> list[Any]:
        """The id of every row, as pyarrow arrays of the type in the file (string views as large strings)."""
        with readable(self.path), self.open() as file:
            ids = file.read(columns=[self.id_column], use_threads=False).column(self.id_column)
            if str(ids.type) == "string_view":  # few of Arrow's functions take these
                ids = ids.cast(pa.large_string())
            ids.validate(full=True)  # an id that is not UTF-8 would fail much later
        if len(ids) != self.rows:
            raise InputError(f"cannot read {self.path}: it announces {self.rows} rows and holds {len(ids)} ids")
        return list(ids.chunks)


def examine(path: Location, id_column: str | None, column: str | None, first: Part | None) -> Part | None:
    """The columns and rows of a file, by its footer alone; None if it has no rows. Types must be those of `first`."""
    with readable(path):
        with _opened(path) as file:
            meta, schema = file.metadata, file.schema_arrow
        groups = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        if min(groups, default=0) < 0 or sum(groups) != meta.num_rows:
            raise ValueError(f"it announces {meta.num_rows} rows and row groups of {sum(groups)}")
        if meta.num_rows > ROWS_PER_BYTE * path.stat().st_size:
            raise ValueError(f"it announces {meta.num_rows} rows in {path.stat().st_size} bytes")
        types = {field.name: field.type for field in schema}
    if not meta.num_rows:
        return None
    if first:
        id_column, column = first.id_column, first.column
    columns = FileColumns(path.name, types, partial(first_values, path))
    chosen = _id_column(columns, id_column), _vector_column(columns, column)
    id_column, column = (str(one.column) for one in chosen)
    for name in (id_column, column):
        if schema.names.count(name) > 1:
            raise InputError(f"{path.name} has {schema.names.count(name)} columns named {name!r}; keep one")
    kinds = types[id_column], value_type(types[column])
    part = Part(path, id_column, column, *kinds, groups, chosen, _id_name(id_column, schema))
    if first:
        _require_same(id_column, part.id_type, path, first.id_type, first.path)
        _require_same(column, part.value_type, path, first.value_type, first.path)
    return part


def _id_name(id_column: str, schema: Any) -> str:
    """The name of the ids in the user's file: that of the column, or the one noted by a file that sidkit wrote."""
    noted = (schema.metadata or {}).get(ID_NAME)
    return noted.decode(errors="replace") if noted and id_column == "item_id" else id_column


def empty_ids(path: Location, id_column: str | None) -> Any:
    """No ids, of the type they have in a file without rows; None for a file with rows."""
    with readable(path), _opened(path) as file:
        if file.metadata.num_rows:
            return None
        types = {field.name: field.type for field in file.schema_arrow}
    name = choose_name(id_column, ID.names, {name: is_id_type(kind) for name, kind in types.items()})
    kind = types.get(name or "", pa.null())
    return pa.array([], kind if is_id_type(kind) else pa.string())


@contextmanager
def _opened(path: Location) -> Iterator[Any]:
    if isinstance(path, Path) and not is_text_table(path):
        check_seal_once(path)
        with pq.ParquetFile(path, buffer_size=READ, pre_buffer=False) as file:
            yield file
        return
    with for_arrow(path) as opened, pq.ParquetFile(opened, pre_buffer=True) as file:  # few large requests
        yield file


def parquet_columns(path: Location) -> FileColumns:
    """The columns of a Parquet file, by its footer."""
    with readable(path), _opened(path) as file:
        types = {field.name: field.type for field in file.schema_arrow}
    return FileColumns(path.name, types, partial(first_values, path))


def first_values(path: Location, column: str) -> Any:
    """The first values of a column of a Parquet file: at most SAMPLE."""
    with readable(path), _opened(path) as file:
        batches = file.iter_batches(SAMPLE, columns=[column], use_threads=False)
        first = next(batches, None)
    return pa.array([], pa.string()) if first is None else first.column(0)


def _id_column(file: FileColumns, wanted: str | None) -> Chosen:
    chosen = choose(file, ID, wanted)
    if chosen is None:
        raise missing(file, ID)
    return chosen


def _vector_column(file: FileColumns, wanted: str | None) -> Chosen:
    fits = {name: is_vector_type(kind) for name, kind in file.types.items()}
    usual = choose_name(None, VECTORS.names, fits)
    if wanted is None and (usual is None or not fits[usual]):
        floats = [n for n in fits if fits[n] and pa.types.is_floating(value_type(file.types[n]))]
        if len(floats) == 1:
            return Chosen(VECTORS, floats[0], "the only lists of numbers")
    chosen = choose(file, VECTORS, wanted)
    if chosen is None:
        raise missing(file, VECTORS)
    return chosen


def _require_same(column: str, mine: Any, path: Location, other: Any, first: Location) -> None:
    if mine != other:
        raise InputError(
            f"{column!r} is of {mine} in {path.name}, but of {other} in {first.name}; write all files with one schema"
        )
