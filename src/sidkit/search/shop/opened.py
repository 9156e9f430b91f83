"""A shop on disk: checked when it is opened, read table by table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...data.ids import require_utf8
from ...data.listing import readable
from ...errors import InputError, did_you_mean
from ...files.folder import check_digest
from ...files.seal import check_seal_once
from .layout import FACTS, FORMAT, OPTIONAL, TABLES, VERSION, Keys, is_key, schema

__all__ = ["Shop"]

ADVICE = "make shops with `sidkit search read` or `sidkit search simulate`"


@dataclass(frozen=True, eq=False)
class Shop:
    """A folder in the layout of a shop. Tables are read when they are first asked for."""

    folder: Path
    facts: dict[str, Any]  # shop.json
    keys: Keys  # types of the ids

    @classmethod
    def open(cls, folder: str | Path) -> Shop:
        """The shop in a folder, once its format, tables, columns, types and row counts are as they should be."""
        folder = Path(folder)
        facts = _facts(folder)
        for name in TABLES:
            if name not in facts["tables"] and name not in OPTIONAL:
                raise InputError(f"{folder / FACTS} lists no table {name!r}; {ADVICE}")
        schemas = {name: _schema(folder, name, rows) for name, rows in facts["tables"].items()}
        keys = Keys(*(_key(folder, schemas, *at) for at in (("items", "item_id"), ("log", "user"), ("log", "session"))))
        for name, stored in schemas.items():
            _check(folder / f"{name}.parquet", stored, schema(name, keys))
        return cls(folder, facts, keys)

    def has(self, table: str) -> bool:
        """Whether there is such a table; `click`, `order` and `relevance` may be missing."""
        return table in self.facts["tables"]

    def rows(self, table: str) -> int:
        """The number of rows of a table, 0 where it is missing."""
        return int(self.facts["tables"].get(table, 0))

    def table(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """A table, or some of its columns, in memory."""
        path = self._path(name)
        with readable(path):
            table = pq.read_table(path, columns=None if columns is None else list(columns))
        _require_texts(table, path)
        return table

    def batches(
        self, name: str, columns: Sequence[str] | None = None, split: str | None = None, rows: int = 1 << 16
    ) -> Iterator[Any]:
        """The same as record batches of at most `rows` rows; with `split` those records of the log alone."""
        path = self._path(name)
        wanted = None if columns is None else list(dict.fromkeys([*columns, *(["split"] if split else [])]))
        with readable(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(rows, columns=wanted):
                _require_texts(batch, path)
                if split:
                    batch = batch.filter(pc.equal(batch.column("split"), split))
                    batch = batch if columns is None else batch.select(list(columns))
                if len(batch):
                    yield batch

    @cached_property
    def items(self) -> Any:
        return self.table("items")

    @cached_property
    def users(self) -> Any:
        return self.table("users")

    @cached_property
    def counters(self) -> Any:
        return self.table("counters")

    @cached_property
    def queries(self) -> Any:
        return self.table("queries")

    def log(self, split: str | None = None, columns: Sequence[str] | None = None) -> Any:
        """The records of the log, or of one split, in order of time."""
        if split not in (None, "train", "test"):
            raise InputError(f"a split is 'train' or 'test', not {split!r}")
        parts = list(self.batches("log", columns, split))
        names = columns or TABLES["log"]
        every = schema("log", self.keys)
        return pa.Table.from_batches(parts, pa.schema([every.field(name) for name in names]))

    def pairs(self, kind: str) -> Any:
        """The test set of `click` or `order`: query-item pairs."""
        return self.table(kind)

    def _path(self, name: str) -> Path:
        if name not in TABLES:
            raise InputError(f"a shop has no table {name!r}{did_you_mean(name, TABLES)} (tables: {', '.join(TABLES)})")
        if not self.has(name):
            notes = "; ".join(self.facts.get("notes", ())) or "its source has none"
            raise InputError(f"the shop {self.folder} has no {name}.parquet: {notes}")
        return self.folder / f"{name}.parquet"


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / FACTS
    if not path.is_file():
        raise InputError(f"{folder} is not a shop: it has no {FACTS}; {ADVICE}")
    with readable(path):
        facts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InputError(f"{path} is not of the format {FORMAT}; {ADVICE}")
    if facts.get("version") != VERSION:
        raise InputError(f"{path} has version {facts.get('version')!r}; this sidkit reads version {VERSION}")
    with readable(path):
        check_digest(facts, path, ADVICE)
    tables = facts.get("tables")
    if not isinstance(tables, dict) or not all(isinstance(rows, int) for rows in tables.values()):
        raise InputError(f"{path} does not list its tables and their rows; {ADVICE}")
    facts["tables"] = {name: rows for name, rows in tables.items() if name in TABLES}
    return facts


def _schema(folder: Path, name: str, rows: int) -> Any:
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise InputError(f"{path} is missing, though {FACTS} lists it; {ADVICE}")
    with readable(path):
        check_seal_once(path)
    with readable(path), pq.ParquetFile(path) as file:
        stored, counted = file.schema_arrow, file.metadata.num_rows
    if counted != rows:
        raise InputError(f"{path} has {counted:,} rows, but {FACTS} counts {rows:,}; {ADVICE}")
    return stored


def _require_texts(table: Any, path: Path) -> None:
    for name in table.schema.names:
        require_utf8(table.column(name), name, path)


def _key(folder: Path, schemas: dict[str, Any], table: str, column: str) -> Any:
    """The type of ids that a column has; `_check` refuses a column that is missing."""
    at = schemas[table].get_field_index(column)
    kind = schemas[table].field(at).type if at >= 0 else pa.string()
    if not is_key(kind):
        raise InputError(f"{column!r} in {folder / table}.parquet is {kind}; ids of a shop are string or int64")
    return kind


def _check(path: Path, stored: Any, wanted: Any) -> None:
    for field in wanted:
        at = stored.get_field_index(field.name)
        if at < 0:
            listed = ", ".join(stored.names)
            raise InputError(f"no column {field.name!r} in {path} (columns: {listed}); {ADVICE}")
        if not stored.field(at).type.equals(field.type):
            raise InputError(f"{field.name!r} in {path} is {stored.field(at).type}, expected {field.type}; {ADVICE}")
