"""Tables as files, in the format that the ending of the name says: Parquet, CSV, TSV or JSON lines.

    with table_writer(locate("sids.csv"), schema) as write:
        write(part)                                # Arrow tables of that schema

`text_tables.py` reads what is written as text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import pyarrow as pa

from .address import Location, replacing
from .seal import sealed_writer
from .text_notes import DELIMITERS, JSON_LINES, beside, digest_of, is_text_table, notes_of, raw_notes

__all__ = ["table_writer", "write_table"]


@contextmanager
def table_writer(path: Location, schema: Any, **options: Any) -> Iterator[Callable[[Any], None]]:
    """A function that writes Arrow tables of the schema, one after the other; the file appears whole or not at all.

    options: of pyarrow's ParquetWriter.
    """
    if not is_text_table(path):
        with replacing(path) as temporary, sealed_writer(temporary, schema, **options) as file:
            yield file.write_table
        return
    with replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            yield _text_writer(stream, path.suffix.lower(), schema)
        texts = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
        notes = notes_of(path.name, digest_of(temporary), texts, schema.metadata or {})
        _write_notes(path, {**notes, "before": raw_notes(path)})  # whichever of the two texts a reader finds has notes
    _write_notes(path, notes)


def _write_notes(path: Location, notes: Mapping[str, Any]) -> None:
    with replacing(beside(path)) as temporary:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")


def write_table(path: Location, table: Any, **options: Any) -> None:
    """Write an Arrow table; notes on it are the metadata of its schema."""
    with table_writer(path, table.schema, **options) as write:
        write(table)


def _text_writer(stream: TextIO, ending: str, schema: Any) -> Callable[[Any], None]:
    if ending in JSON_LINES:

        def write_lines(table: Any) -> None:
            for row in table.to_pylist():
                stream.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")

        return write_lines
    writer = csv.writer(stream, delimiter=DELIMITERS[ending], lineterminator="\n")
    writer.writerow(schema.names)

    def write_rows(table: Any) -> None:
        writer.writerows(zip(*(_cells(column) for column in table.columns), strict=True))

    return write_rows


def _cells(column: Any) -> list[Any]:
    """The values of a column as they are in a cell: lists and structures as JSON."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_nested(column.type):
        return values
    return [None if value is None else json.dumps(value, ensure_ascii=False, default=str) for value in values]
