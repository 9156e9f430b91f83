"""What every reader of embeddings offers: a Source whose rows are items."""

from __future__ import annotations

from typing import Any, Protocol

from ..files.address import Location
from ..rows.sources import Source, Wrapped
from .columns import ID, Chosen

__all__ = ["Embeddings", "chosen_columns", "id_name_of", "name_of"]


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
    chosen: tuple[Chosen, ...] = getattr(_unwrapped(source), "chosen", ())
    return chosen


def id_name_of(source: Any) -> str:
    """The name that the column of ids had in the user's file; '' where ids are row numbers."""
    inner = _unwrapped(source)
    name = getattr(inner, "id_name", None)
    return str(name if name is not None else next((c.column for c in chosen_columns(inner) if c.role is ID), "") or "")


def _unwrapped(source: Any) -> Any:
    while isinstance(source, Wrapped):
        source = source.source
    return source
