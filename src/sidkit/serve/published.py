"""Items and SIDs by look-up: in memory from a table of SIDs, or in a registry."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import InputError
from ..publish.registry import Registry, open_registry
from ..sids.origin import Origin
from ..sids.table import SidTable
from ..sids.template import Template, read_sid

__all__ = ["Listed", "Published", "PublishedRegistry", "PublishedTable", "open_published", "prefix_of"]


class Listed(NamedTuple):
    """Items of a prefix: how many there are, and some of them with their codes."""

    total: int
    items: list[tuple[Any, tuple[int, ...]]]


class Published(Protocol):
    """Where items and their SIDs are looked up."""

    sizes: tuple[int, ...]
    template: Template

    @property
    def origin(self) -> Origin: ...

    def __len__(self) -> int: ...

    def codes_of(self, items: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """The codes of each item, None if it is not known."""

    def items_of(self, prefix: Sequence[int], limit: int, offset: int) -> Listed:
        """Items whose SID starts with these codes."""


class PublishedTable:
    """A table of SIDs."""

    def __init__(self, table: SidTable) -> None:
        self.table, self.sizes, self.template, self.origin = table, table.sizes, table.template, table.origin
        table.row_of("")  # builds the index of ids
        table.rows_of([0])  # and that of prefixes

    def __len__(self) -> int:
        return len(self.table)

    def codes_of(self, items: Sequence[Any]) -> list[tuple[int, ...] | None]:
        return [self.table.sid_of(item) for item in items]

    def items_of(self, prefix: Sequence[int], limit: int, offset: int) -> Listed:
        rows = self.table.rows_of(prefix)
        shown = rows[offset : offset + limit]
        ids = self.table.ids.take(shown).to_pylist()
        return Listed(len(rows), list(zip(ids, map(tuple, self.table.codes[shown].tolist()), strict=True)))


class PublishedRegistry:
    """The latest generation of a registry. Each thread has a connection of its own."""

    def __init__(self, address: str) -> None:
        self.address, self.connections = address, threading.local()
        registry = self._registry()
        self.sizes, self.template = registry.sizes, registry.template

    @property
    def origin(self) -> Origin:
        latest = self._registry().generation()
        return Origin(tokenizer=latest.tokenizer, tokenizer_digest=latest.digest)

    def __len__(self) -> int:
        return self._registry().generation().items

    def codes_of(self, items: Sequence[Any]) -> list[tuple[int, ...] | None]:
        found = [self._registry().find(item) for item in items]
        return [None if one is None or one.withdrawn is not None else one.codes for one in found]

    def items_of(self, prefix: Sequence[int], limit: int, offset: int) -> Listed:
        registry = self._registry()
        items = registry.under(prefix, limit=offset + limit)[offset:]
        return Listed(registry.count(prefix), [(one.item, one.codes) for one in items])

    def _registry(self) -> Registry:
        if not hasattr(self.connections, "registry"):
            self.connections.registry = open_registry(self.address)
        registry: Registry = self.connections.registry
        return registry


def open_published(address: str) -> Published:
    """A registry of `sidkit publish`, or a file of SIDs in memory."""
    if address.startswith(("postgresql://", "postgres://")) or _is_sqlite(address):
        return PublishedRegistry(address)
    return PublishedTable(SidTable.from_parquet(address))


def _is_sqlite(address: str) -> bool:
    try:
        with Path(address).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def prefix_of(text: Any, published: Published) -> tuple[int, ...]:
    """The codes that a request names: a list of integers, or a SID or prefix as text."""
    if isinstance(text, str):
        prefix = read_sid(text, published.template)
    elif isinstance(text, list) and all(type(code) is int and code >= 0 for code in text):
        prefix = tuple(text)
    else:
        raise InputError("a prefix is a list of codes from 0, or a SID or the first tokens of one as text")
    if len(prefix) > len(published.sizes):
        raise InputError(f"{len(prefix)} codes asked for, but these SIDs have {len(published.sizes)}")
    return prefix
