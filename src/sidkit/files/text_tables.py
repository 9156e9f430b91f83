"""CSV, TSV and JSON lines, read as Parquet: every reader of Parquet files reads them too.

    pq.ParquetFile(parquet_of(Path("items.csv")))

CSV has no types. A column is read as whole numbers only if writing them again gives the same text, so ids such as 00123
stay texts; as numbers if all its values are; as lists if all its values are written in brackets. Everything else is
text. The table is in memory: large data belong in Parquet.
"""

from __future__ import annotations

import csv
import gzip
import json
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .text_notes import DELIMITERS, read_notes, text_ending

if TYPE_CHECKING:
    from .address import Location

__all__ = ["parquet_of"]

WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]+)?$|^[nN]a[nN]$"
LIST = r"^\s*\[[\s\S]*\]\s*$"
BLOCK = 1 << 26  # bytes of JSON that are parsed at once; a row must fit


def parquet_of(path: Location) -> Any:
    """The table as a Parquet file in memory; converted once, until the file changes."""
    stat = path.stat()
    return pa.BufferReader(_converted(path, stat.st_size, stat.st_mtime))


@lru_cache(maxsize=4)
def _converted(path: Location, size: int, changed: float) -> Any:
    notes, ending = read_notes(path), text_ending(path.name)
    with path.open("rb") as stream:
        data = stream.read()
    if data[:4] == b"PAR1":
        return pa.py_buffer(data)
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    texts = notes.texts if notes else ()
    table = _read_csv(data, DELIMITERS[ending], texts) if ending in DELIMITERS else _read_json(data)
    sink = pa.BufferOutputStream()
    metadata = (notes.metadata if notes else None) or None
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="lz4", row_group_size=1 << 16)
    return sink.getvalue()


def _read_json(data: bytes) -> Any:
    from pyarrow.json import ReadOptions, read_json

    if data.lstrip()[:1] == b"[":
        raise ValueError("it is one JSON list; JSON lines have an object on every line")
    table = read_json(BytesIO(data), read_options=ReadOptions(block_size=BLOCK))
    return table.cast(pa.schema([pa.field(field.name, _kept(field.type)) for field in table.schema]))


def _kept(kind: Any) -> Any:
    """The type that a column is kept as: vectors as float32, and text where there is no value at all."""
    if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type):
        return pa.list_(pa.float32())
    return pa.string() if pa.types.is_null(kind) else kind


def _read_csv(data: bytes, delimiter: str, texts: tuple[str, ...]) -> Any:
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

    if not data.strip():
        raise ValueError("it is empty")
    head = data[: data.find(b"\n") + 1 or None].decode("utf-8-sig").rstrip("\r\n")
    delimiter = _delimiter(head, delimiter)
    names = next(csv.reader([head], delimiter=delimiter), [])
    for name in names:
        if not name.strip() or names.count(name) > 1:
            what = f"the column {name!r} twice" if name.strip() else "a column without a name"
            raise ValueError(f"its first line names {what}; it must name every column once")
    table = read_csv(
        BytesIO(data),
        ReadOptions(block_size=1 << 24),
        ParseOptions(delimiter=delimiter, newlines_in_values=True),
        ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    )
    columns = [
        column if name in texts else _typed(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _delimiter(head: str, usual: str) -> str:
    """The usual one; where the first line has none of it, a semicolon, tab or bar if there is one."""
    return next((sign for sign in (usual, ";", "\t", "|") if sign in head), usual)


def _typed(column: Any) -> Any:
    """Texts as numbers or lists, where all of them are; an empty text is then no value."""
    filled = pc.not_equal(column, "")
    some = column.filter(filled)
    if not len(some):
        return column
    for pattern, kind in ((WHOLE, pa.int64()), (NUMBER, pa.float64())):
        if pc.all(pc.match_substring_regex(some, pattern)).as_py():
            return pc.if_else(filled, column, pa.scalar(None, pa.string())).cast(kind)
    if pc.all(pc.match_substring_regex(some, LIST)).as_py():
        try:
            lists = pa.array([_list(text) for text in column.to_pylist()])
            return pa.chunked_array([lists.cast(_kept(lists.type))])
        except (ValueError, TypeError, pa.ArrowException):
            return column
    return column


def _list(text: str) -> list[Any] | None:
    """[1, 2] and ["A", "B"] as JSON, ['A', 'B'] as Python, and [0.1 0.2] as numpy writes them."""
    if not text:
        return None
    try:
        value = json.loads(text)
        return value if isinstance(value, list) else None
    except ValueError:
        inner = text.strip()[1:-1]
    if "'" not in inner and "," not in inner:
        return [float(part) for part in inner.split()]
    return next(csv.reader([inner.replace("\n", " ")], quotechar="'", skipinitialspace=True), [])
