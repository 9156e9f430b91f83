"""What a registry asks of a database. SQLite and PostgreSQL answer; the statements are the same for both.

Values in statements are question marks. Tables of one connection alone (`temporary`) hold what an append brings until
its transaction writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

__all__ = ["BATCH", "Database"]

BATCH = 1 << 16  # rows read or written at once

Row = tuple[Any, ...]


class Database(Protocol):
    """One connection to a database with a registry."""

    name: str  # for messages, without a password

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement: how many rows it wrote."""

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """All rows of a query."""

    def stream(self, sql: str, *values: Any) -> Iterator[list[Row]]:
        """The rows of a query, BATCH at a time."""

    def fill(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        """Insert many rows, given by columns, as fast as the database can."""

    def temporary(self, name: str, **columns: str) -> AbstractContextManager[None]:
        """A table that only this connection sees, gone at the end; columns: name=whole, text or bytes."""

    def reading(self) -> AbstractContextManager[None]:
        """All queries inside see one state."""

    def writing(self) -> AbstractContextManager[None]:
        """A transaction of the only writer: others wait, and it is written as a whole, or not at all."""

    def exists(self) -> bool:
        """Whether there are tables of a registry."""

    def create_table(self, name: str, columns: Mapping[str, str], *keys: str) -> None:
        """An append-only table: its rows can be neither changed nor deleted nor replaced.

        columns: name -> whole, text or bytes; keys: the columns of the primary key, and of other unique ones.
        """

    def close(self) -> None:
        """End the connection."""
