"""A registry in a file: SQLite, which is part of Python.

Writers of all processes on a machine queue for one lock (BEGIN IMMEDIATE), readers are never blocked (WAL), and a
transaction that was acknowledged is on disk (synchronous FULL). Triggers refuse every change of a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import StoreError
from .database import BATCH, Row

__all__ = ["SqliteDatabase"]

WAIT = 600  # seconds that a writer waits for the others
CACHE = 256  # MiB of pages in memory, at most; a sort takes about twice as much beside them
REFUSED = "is append-only: what is published stays"


class SqliteDatabase:
    """A connection to a SQLite file (`database.Database`)."""

    types = {"whole": "INTEGER", "text": "TEXT", "bytes": "BLOB"}  # noqa: RUF012

    def __init__(self, path: Path, create: bool = False) -> None:
        self.name = str(path)
        if not create and not path.is_file():
            raise StoreError(f"no registry {path}; make one with: sidkit publish init {path} --tokenizer FOLDER")
        if create and not path.absolute().parent.is_dir():
            raise StoreError(f"cannot make {path}: there is no folder {path.absolute().parent}")
        with self._errors():
            uri = f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}"
            self._connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
            for setting in ("synchronous=FULL", f"cache_size=-{CACHE << 10}", "recursive_triggers=ON"):
                self._connection.execute(f"PRAGMA {setting}")
            if create:
                self._connection.execute("PRAGMA journal_mode=WAL")

    def run(self, sql: str, *values: Any) -> int:
        with self._errors():
            return self._connection.execute(sql, values).rowcount

    def rows(self, sql: str, *values: Any) -> list[Row]:
        with self._errors():
            return self._connection.execute(sql, values).fetchall()

    def stream(self, sql: str, *values: Any) -> Iterator[list[Row]]:
        with self._errors():
            cursor = self._connection.execute(sql, values)
            while batch := cursor.fetchmany(BATCH):
                yield batch

    def fill(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        with self._errors(), self._transaction("BEGIN"):
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns, strict=True))

    @contextmanager
    def temporary(self, name: str, **columns: str) -> Iterator[None]:
        described = ", ".join(f"{column} {self.types[kind]} NOT NULL" for column, kind in columns.items())
        self.run(f"CREATE TEMP TABLE {name} ({described})")
        try:
            yield
        finally:
            self.run(f"DROP TABLE IF EXISTS {name}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        if self._connection.in_transaction:
            raise StoreError(f"{self.name} is being read by this connection; read to the end before writing")
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    def exists(self) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'registry'"))

    def create_table(self, name: str, columns: Mapping[str, str], *keys: str) -> None:
        described = [f"{column} {self.types[kind]} NOT NULL" for column, kind in columns.items()]
        unique = [f"UNIQUE ({key})" for key in keys[1:]]
        rowid = "" if columns.get(keys[0]) == "whole" else ", WITHOUT ROWID"
        self.run(f"CREATE TABLE {name} ({', '.join([*described, f'PRIMARY KEY ({keys[0]})', *unique])}) STRICT{rowid}")
        refuse = f"BEGIN SELECT RAISE(ABORT, '{name} {REFUSED}'); END"
        for verb in ("UPDATE", "DELETE"):
            self.run(f"CREATE TRIGGER {name}_no_{verb.lower()} BEFORE {verb} ON {name} {refuse}")
        for number, key in enumerate(keys):  # INSERT OR REPLACE would delete a row without asking the trigger above
            same = " AND ".join(f"{column} = NEW.{column}" for column in key.split(", "))
            there = f"EXISTS (SELECT 1 FROM {name} WHERE {same})"
            self.run(f"CREATE TRIGGER {name}_no_replace_{number} BEFORE INSERT ON {name} WHEN {there} {refuse}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if self._connection.in_transaction:  # part of a larger one
            yield
            return
        with self._errors():
            self._connection.execute(begin)
        try:
            yield
            with self._errors():
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StoreError(f"{self.name}: another process was writing for {WAIT} seconds; try again") from error
            hint = "; is the disk full?" if "disk I/O" in str(error) else ""
            raise StoreError(f"{self.name}: {error}{hint}") from error
        except UnicodeDecodeError as error:  # names and messages of a damaged file
            raise StoreError(f"{self.name} is damaged: it contains text that is not UTF-8") from error
