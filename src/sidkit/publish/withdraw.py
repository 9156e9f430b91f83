"""Withdrawing items, or all that a generation published: they are gone from the catalogue, and their IDs stay taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .registry import now
from .tables import TEXTS, Generation, live

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["withdraw_generation", "withdraw_items"]


def withdraw_items(registry: Registry, items: Sequence[Any], note: str = "") -> Generation | None:
    """Withdraw items, as one generation; None if all were withdrawn before. An item that is unknown is an error."""
    database = registry.database
    known = [registry.id_of(item) for item in dict.fromkeys(items)]
    strange = [item for item, one in zip(dict.fromkeys(items), known, strict=True) if one is None]
    with database.temporary("named", item=registry.ids or TEXTS), database.writing():
        database.fill("named", ([one for one in known if one is not None],))
        missing = "SELECT n.item FROM named n WHERE NOT EXISTS (SELECT 1 FROM published p WHERE p.item = n.item)"
        strange += [item for (item,) in database.rows(f"{missing} ORDER BY n.item LIMIT 4")]
        if strange:
            shown = ", ".join(map(repr, strange[:3])) + (", …" if len(strange) > 3 else "")
            raise InputError(f"{registry.name} has no item {shown}; nothing was withdrawn")
        return _mark(registry, "p.item IN (SELECT item FROM named)", "", note)


def withdraw_generation(registry: Registry, target: int, note: str = "") -> Generation | None:
    """Withdraw the items that a generation published: a rollback that gives no ID away."""
    with registry.database.writing():
        if registry.generation(target).kind != "append":
            raise InputError(f"generation {target} of {registry.name} published no items")
        return _mark(registry, f"p.generation = {target:d}", f"generation {target}", note)


def _mark(registry: Registry, which: str, source: str, note: str) -> Generation | None:
    """Mark the live ones of some items as withdrawn; inside a transaction."""
    latest = registry.generation()
    number = latest.generation + 1
    marked = registry.database.run(
        f"INSERT INTO marks SELECT p.item, {number:d}, 1 FROM published p "
        f"WHERE {which} AND {live(latest.generation)} ORDER BY p.item"
    )
    if not marked:
        return None
    counts = {"published": 0, "kept": 0, "restored": 0, "withdrawn": marked, "moved": 0}
    change = {"generation": number, "kind": "withdraw", "created": now(), "source": source, "note": note}
    return registry.add(replace(latest, **change, **counts, items=latest.items - marked))  # type: ignore[arg-type]
