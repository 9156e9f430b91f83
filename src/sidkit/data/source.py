"""The interface of every reader of embeddings: a Source whose rows are items."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..files.address import Location
from ..rows.sources import Source
from .columns import ID, Chosen

__all__ = ["Embeddings", "HasIds", "HasPaths", "chosen_columns", "id_name_of", "name_of", "paths_of"]


@runtime_checkable
class HasIds(Protocol):
    """A source whose rows have ids."""

    @property
    def ids(self) -> Any:
        """The id of every row, a pyarrow array of strings or integers; row numbers where the file has none."""


@runtime_checkable
class HasPaths(Protocol):
    """A source that reads files."""

    @property
    def paths(self) -> tuple[Location, ...]:
        """The files, in the order they are read."""


class Embeddings(Source, HasIds, HasPaths, Protocol):
    """A Source with the ids of its rows and the files they come from."""


@runtime_checkable
class _HasColumns(Protocol):
    """A source that reads columns of a file."""

    @property
    def chosen(self) -> tuple[Chosen, ...]: ...


@runtime_checkable
class _HasIdName(Protocol):
    """A source whose ids had a name in the file that it was made from, '' if they had none."""

    @property
    def id_name(self) -> str: ...


@runtime_checkable
class _HasSource(Protocol):
    """A source that wraps another, or rows that come from one (those of a cluster)."""

    @property
    def source(self) -> Any: ...


def paths_of(source: Any) -> tuple[Location, ...]:
    """The files that a source reads; () if it reads none."""
    return source.paths if isinstance(source, HasPaths) else ()


def name_of(identity: Any, row: str) -> str:
    """The name of a row for people: "item 'B00X' (row 12 of items.parquet)"."""
    return f"item {identity!r} ({row})"


def chosen_columns(source: Any) -> tuple[Chosen, ...]:
    """The columns that a source, or the source that it wraps, reads; none if it reads no file."""
    inner = _unwrapped(source)
    return inner.chosen if isinstance(inner, _HasColumns) else ()


def id_name_of(source: Any) -> str:
    """The name that the column of ids had in the user's file; '' where ids are row numbers."""
    inner = _unwrapped(source)
    if isinstance(inner, _HasIdName):
        return inner.id_name
    return next((one.column for one in chosen_columns(inner) if one.role is ID), None) or ""


def _unwrapped(source: Any) -> Any:
    while isinstance(source, _HasSource):
        source = source.source
    return source
