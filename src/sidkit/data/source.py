"""What every reader of embeddings offers: a Source whose rows are items."""

from __future__ import annotations

from typing import Any, Protocol

from ..files.address import Location
from ..rows.sources import Source, Wrapped
from .columns import Chosen

__all__ = ["Embeddings", "chosen_columns", "name_of"]


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


def chosen_columns(source: Any) -> tuple[Chosen, ...]:
    """The columns that a source, or the source that it wraps, reads; none if it reads no file."""
    while isinstance(source, Wrapped):
        source = source.source
    chosen: tuple[Chosen, ...] = getattr(source, "chosen", ())
    return chosen
