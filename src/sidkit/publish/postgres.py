"""A registry on a server: PostgreSQL, by psycopg.

    postgresql://user@host:5432/database?schema=shop

The tables are in the schema `sidkit`, or in the one that the address names: several registries share a database.
Writers queue for a lock on the table of generations; readers are never blocked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import SpecError, StoreError, need
from .database import BATCH, Row

__all__ = ["PostgresDatabase", "is_postgres"]

SCHEMA = "sidkit"
REFUSED = "is append-only: what is published stays"


def is_postgres(address: str) -> bool:
    """Whether an address is that of a PostgreSQL server."""
    return address.startswith(("postgresql://", "postgres://"))


class PostgresDatabase:
    """A connection to a PostgreSQL server (`database.Database`)."""

    types = {"whole": "BIGINT", "text": 'TEXT COLLATE "C"', "bytes": "BYTEA"}  # noqa: RUF012

    def __init__(self, address: str, create: bool = False) -> None:
        self._psycopg = need("psycopg", "postgres", "a registry in PostgreSQL")
        address, self._schema = _without_schema(address)
        self.name = _shown(address, self._schema)
        with self._errors():
            self._connection = self._psycopg.connect(address, autocommit=True)
        if create:
            with self._errors():
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        self.run(f"SET search_path TO {self._schema}")
        self._cursors, self._writing = count(), False

    def run(self, sql: str, *values: Any) -> int:
        with self._errors():
            return int(self._connection.execute(_marked(sql), values).rowcount)

    def rows(self, sql: str, *values: Any) -> list[Row]:
        with self._errors():
            found: list[Row] = self._connection.execute(_marked(sql), values).fetchall()
            return found

    def stream(self, sql: str, *values: Any) -> Iterator[list[Row]]:
        with self._errors(), self._connection.cursor(name=f"sidkit_{next(self._cursors)}") as cursor:
            cursor.execute(_marked(sql), values)
            while batch := cursor.fetchmany(BATCH):
                yield batch

    def fill(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        with self._errors(), self._connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)

    @contextmanager
    def temporary(self, name: str, **columns: str) -> Iterator[None]:
        if not self._writing:
            self._require_idle()
        described = ", ".join(f"{column} {self.types[kind]} NOT NULL" for column, kind in columns.items())
        self.run(f"CREATE TEMP TABLE {name} ({described})")
        try:
            yield
        finally:
            if not self._failed():
                self.run(f"DROP TABLE IF EXISTS pg_temp.{name}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._require_idle()
        with self._transaction("BEGIN"):
            self.run("SET LOCAL synchronous_commit = on")
            if self.exists():
                self.run("LOCK TABLE generations IN EXCLUSIVE MODE")
            self._writing = True
            try:
                yield
            finally:
                self._writing = False

    def exists(self) -> bool:
        return self.rows("SELECT to_regclass(?)", f"{self._schema}.registry") != [(None,)]

    def create_table(self, name: str, columns: Mapping[str, str], *keys: str) -> None:
        described = [f"{column} {self.types[kind]} NOT NULL" for column, kind in columns.items()]
        unique = [f"UNIQUE ({key})" for key in keys[1:]]
        self.run(f"CREATE TABLE {name} ({', '.join([*described, f'PRIMARY KEY ({keys[0]})', *unique])})")
        self.run(
            f"CREATE OR REPLACE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{name} {REFUSED}'; END $$"
        )
        self.run(
            f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {name}_refuse()"
        )

    def close(self) -> None:
        self._connection.close()

    def _require_idle(self) -> None:
        if not self._idle():
            raise StoreError(f"{self.name} is being read by this connection; read to the end before writing")

    def _idle(self) -> bool:
        """Whether no transaction is open."""
        return bool(self._connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE)

    def _failed(self) -> bool:
        """Whether the connection is broken, or its transaction will be rolled back."""
        status = self._psycopg.pq.TransactionStatus
        return self._connection.info.transaction_status in (status.INERROR, status.UNKNOWN)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if not self._idle():  # part of a larger one
            yield
            return
        self.run(begin)
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if not self._connection.broken and not self._connection.closed:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise StoreError(f"{getattr(self, 'name', 'PostgreSQL')}: {reason}") from error


def _marked(sql: str) -> str:
    """A statement with the marks that psycopg knows."""
    return sql.replace("?", "%s")


def _without_schema(address: str) -> tuple[str, str]:
    """The address as PostgreSQL knows it, and the schema."""
    base, _, query = address.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = options.pop("schema", SCHEMA)
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", schema):
        raise SpecError(f"schema={schema!r} is not a name for a schema; use small letters, digits and _")
    return base + ("?" + urlencode(options) if options else ""), schema


def _shown(address: str, schema: str) -> str:
    """The address without user, password and options."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return f"postgresql://{host}{parts.path}" + (f"?schema={schema}" if schema != SCHEMA else "")
