"""A Parquet file written in row groups of one size, however its tables come."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from ...files.seal import sealed_writer

__all__ = ["ROWS", "RowGroups"]

ROWS = 1 << 15  # of a row group


class RowGroups:
    """Tables are collected until they fill a row group; so neither memory nor bytes depend on how they were cut.

    Columns that the schema does not name are left out, or with `further` kept, if the first table has them.
    """

    def __init__(self, path: Path, schema: Any, further: bool = False) -> None:
        self.path, self.schema, self.further, self.rows = path, schema, further, 0
        self._waiting: list[Any] = []
        self._count = 0
        self._open = ExitStack()
        self._file: Any = None

    def __enter__(self) -> RowGroups:
        return self

    def write(self, table: Any) -> None:
        if self._file is None:
            self._start(table)
        table = table.select(self.schema.names).cast(self.schema)
        self.rows += len(table)
        self._waiting.append(table)
        self._count += len(table)
        while self._count >= ROWS:
            self._flush(ROWS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self._file is None:
                self._start(self.schema.empty_table())
            if self._count:
                self._flush(self._count)
        self._open.__exit__(kind, error, trace)

    def _start(self, table: Any) -> None:
        for column in table.schema:
            if self.further and column.name not in self.schema.names:
                self.schema = self.schema.append(column)
        self._file = self._open.enter_context(sealed_writer(self.path, self.schema, compression="zstd"))

    def _flush(self, rows: int) -> None:
        waiting = pa.concat_tables(self._waiting)
        self._file.write_table(waiting.slice(0, rows).combine_chunks(), row_group_size=rows)
        self._waiting = [waiting.slice(rows)]
        self._count -= rows
