"""What changed between two generations of a registry. IDs never move: items come, go and come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError
from .registry import PublishedItem
from .tables import live

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["PUBLISHED", "RESTORED", "WITHDRAWN", "Change", "changes"]

PUBLISHED, RESTORED, WITHDRAWN = "published", "restored", "withdrawn"


@dataclass(frozen=True)
class Change:
    """An item that one generation has and the other has not."""

    what: str  # PUBLISHED, RESTORED or WITHDRAWN
    item: PublishedItem


def changes(registry: Registry, before: int, after: int) -> Iterator[Change]:
    """The items that differ, in the order of SIDs."""
    before, after = registry.generation(before).generation, registry.generation(after).generation
    if before > after:
        raise InputError(f"name the older generation first: {after} {before}")
    was, is_now = (f"CASE WHEN {live(one)} THEN 1 ELSE 0 END" for one in (before, after))
    since = f"generation > {before:d} AND {{}}generation <= {after:d}"
    candidates = f"p.{since.format('p.')} OR p.item IN (SELECT item FROM marks WHERE {since.format('')})"
    query = (
        "SELECT item, sid, slot, generation, was FROM ("
        f"SELECT p.item, p.sid, p.slot, p.generation, {was} AS was, {is_now} AS now FROM published p "
        f"WHERE {candidates}) AS states WHERE was <> now ORDER BY sid, slot"
    )
    with registry.database.reading():
        for rows in registry.database.stream(query):
            codes = registry.keys.codes_of([row[1] for row in rows]).tolist()
            for (item, _, slot, generation, was_live), code in zip(rows, codes, strict=True):
                what = WITHDRAWN if was_live else RESTORED if generation <= before else PUBLISHED
                yield Change(what, PublishedItem(item, tuple(code), slot, generation))
