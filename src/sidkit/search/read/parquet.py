"""Parquet files that users name: columns by their usual names, rows in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...data.columns import choose_name, no_such
from ...data.ids import is_id_type
from ...data.items import without_dictionary
from ...data.listing import files_of, readable
from ...errors import InputError
from ...files.address import Location, for_arrow

__all__ = ["NamedFile", "as_key", "open_file"]

BATCH = 1 << 16


@dataclass(frozen=True)
class NamedFile:
    """A Parquet file, folder or glob of them, with the same columns in all."""

    path: str
    files: tuple[Location, ...]
    types: dict[str, Any]
    rows: int

    @property
    def name(self) -> str:
        return Path(self.path).name or self.path

    def column(self, wanted: str | None, usual: Sequence[str], option: str) -> str:
        """The column that was named, or the first of the usual names that is there."""
        name = self.find(wanted, usual, option)
        if name is None:
            raise no_such("column", usual[0], self.name, dict.fromkeys(self.types, True), option)
        return name

    def find(self, wanted: str | None, usual: Sequence[str], option: str) -> str | None:
        """The same for a column that may be missing."""
        if wanted is not None and wanted not in self.types:
            raise no_such("column", wanted, self.name, dict.fromkeys(self.types, True), option)
        return choose_name(wanted, usual, dict.fromkeys(self.types, True))

    def require_key(self, column: str) -> Any:
        """The type of ids that a column has in a shop: string or int64."""
        kind = self.types[column]
        if not is_id_type(kind):
            raise InputError(f"{column!r} in {self.name} is {kind}; ids must be strings or integers")
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.int64() if pa.types.is_integer(value) else pa.string()

    def batches(self, columns: Sequence[str], rows: int = BATCH) -> Iterator[Any]:
        """The rows of all files as tables of these columns."""
        for file in self.files:
            with readable(file), pq.ParquetFile(for_arrow(file)) as opened:
                for batch in opened.iter_batches(rows, columns=list(dict.fromkeys(columns))):
                    yield pa.Table.from_batches([batch])

    def table(self, columns: Sequence[str]) -> Any:
        """All rows at once."""
        parts = list(self.batches(columns))
        return pa.concat_tables(parts).combine_chunks()


def open_file(path: str | Path) -> NamedFile:
    """The columns and the number of rows at a path; no rows are an error."""
    files = files_of(path)
    types: dict[str, Any] = {}
    rows = 0
    for file in files:
        with readable(file), pq.ParquetFile(for_arrow(file)) as opened:
            columns = {field.name: field.type for field in opened.schema_arrow}
            rows += opened.metadata.num_rows
        if types and list(columns) != list(types):
            raise InputError(
                f"the files of {path} differ in their columns: {', '.join(types)} and {', '.join(columns)}"
            )
        types = columns
    if not rows:
        raise InputError(f"{path} holds no rows")
    return NamedFile(str(path), files, types, rows)


def as_key(column: Any, kind: Any, name: str) -> Any:
    """A column of ids, or of lists of them, as the type it has in a shop. name: of its file, for an error."""
    try:
        return without_dictionary(column).cast(kind)
    except pa.ArrowException as error:
        raise InputError(f"ids of {name} are {column.type}, and cannot be read as {kind}: {error}") from error
