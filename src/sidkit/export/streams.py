"""Rows of a table in batches, and files written batch by batch, so that the text of all rows is never in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..progress import Progress
from ..sids.table import SidTable
from ..sids.template import Template

__all__ = [
    "ITEM_IDS",
    "RowBatch",
    "batches",
    "list_column",
    "write_array",
    "write_item_ids",
    "write_object",
    "write_parquet",
    "write_text",
]

BATCH = 1 << 16  # rows
ITEM_IDS = "item_ids.parquet"  # row and item_id


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows start to start + len(codes) of a table."""

    start: int
    ids: Any  # a pyarrow array
    codes: NDArray[np.int32]

    @property
    def rows(self) -> Any:
        """The row numbers as pyarrow strings."""
        return pa.array(np.arange(self.start, self.start + len(self.codes))).cast(pa.string())

    def tokens(self, words: Sequence[Any]) -> list[Any]:
        """Per level, the word of every row; words: per level a pyarrow array of the words of all codes."""
        return [one.take(pa.array(column)) for one, column in zip(words, self.codes.T, strict=True)]


def batches(table: SidTable, progress: Progress | None = None) -> Iterator[RowBatch]:
    """All rows in order."""
    for start in range(0, len(table), BATCH):
        part = slice(start, start + BATCH)
        yield RowBatch(start, table.ids[part], np.ascontiguousarray(table.codes[part]))
        if progress is not None:
            progress.advance(len(table.codes[part]))


def quoted(form: Template, sizes: Sequence[int]) -> list[Any]:
    """Per level, the tokens of all codes as JSON strings."""
    return [
        pa.array([json.dumps(word, ensure_ascii=False) for word in form.words(level, size)])
        for level, size in enumerate(sizes)
    ]


def glued(*parts: Any) -> Any:
    """pyarrow strings, and plain ones that are the same in every row, joined row by row."""
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")


def between(columns: Sequence[Any], separator: str) -> list[Any]:
    """Columns with a separator between them, for `glued`."""
    return [part for column in columns for part in (separator, column)][1:]


def write_text(path: Path, parts: Iterable[str]) -> None:
    """A text file, part by part, with the same bytes on every system."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)


def write_object(path: Path, entries: Iterable[Sequence[str]]) -> None:
    """A JSON object on one line, as `json.dump` writes it, from lists of its `"key": value` entries."""
    write_text(path, _enclosed("{", entries, "}"))


def write_array(path: Path, entries: Iterable[Sequence[str]]) -> None:
    """A JSON array on one line, as `json.dump` writes it, from lists of its values."""
    write_text(path, _enclosed("[", entries, "]"))


def _enclosed(begin: str, entries: Iterable[Sequence[str]], end: str) -> Iterator[str]:
    yield begin
    first = True
    for part in entries:
        if len(part):
            yield ("" if first else ", ") + ", ".join(part)
            first = False
    yield end


def write_tokens_by_item(
    path: Path, table: SidTable, form: Template, progress: Progress | None = None, key: str = ""
) -> None:
    """{"0": ["<a_12>", "<b_3>", "<c_77>"], ...}: the tokens of every row under its number, after a prefix."""
    words = quoted(form, table.sizes)
    rows = batches(table, progress)
    write_object(
        path,
        (glued(f'"{key}', b.rows, '": [', *between(b.tokens(words), ", "), "]").to_pylist() for b in rows),
    )


def write_item_ids(folder: Path, table: SidTable, first: int = 0) -> None:
    """item_ids.parquet: row, counted from `first`, and item_id, for formats that know items by their number alone."""
    schema = pa.schema({"row": pa.int64(), "item_id": table.ids.type})
    write_parquet(
        folder / ITEM_IDS,
        schema,
        (
            pa.table([pa.array(first + np.arange(b.start, b.start + len(b.codes))), b.ids], schema=schema)
            for b in batches(table)
        ),
    )


def write_parquet(path: Path, schema: Any, parts: Iterable[Any]) -> None:
    """A Parquet file of several tables, in row groups of up to 2^20 rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting: list[Any] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for part in parts:
            waiting.append(part)
            if sum(map(len, waiting)) >= 1 << 20:
                file.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            file.write_table(pa.concat_tables(waiting))


def list_column(codes: NDArray[Any], kind: Any = None) -> Any:
    """Rows (n, levels) as a pyarrow array of lists, of int64 unless another kind is given."""
    kind = pa.int64() if kind is None else kind
    n, levels = codes.shape
    offsets = pa.array(np.arange(0, n * levels + 1, levels, dtype=np.int32)[: n + 1])
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(codes).ravel()).cast(kind))
