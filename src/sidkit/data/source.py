"""What every reader of embeddings offers: a Source whose rows are items."""

from __future__ import annotations

from typing import Any, Protocol

from ..files.address import Location
from ..rows.sources import Source

__all__ = ["Embeddings", "name_of"]


class Embeddings(Source, Protocol):
    """A Source with the ids of its rows and the files they come from."""

    @property
    def ids(self) -> Any:
        """The id of every row, a pyarrow array of strings or integers; row numbers where the file has none."""

    @property
    def paths(self) -> tuple[Location, ...]:
        """The files, in the order they are read."""


def name_of(identity: Any, row: str) -> str:
    """The name of a row for people: "item 'B00X' (row 12 of items.parquet)"."""
    return f"item {identity!r} ({row})"
