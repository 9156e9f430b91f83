"""The tables of a registry, the same in every database.

    registry      facts that never change: the format, the sizes and template of SIDs, the kind of ids
    generations   one row for every change: when, by which tokenizer and policy, and what it did
    published     item -> SID, its index among the items of that SID (slot), and the generation that published it
    marks         items withdrawn (1) or published again (0), and the generation that did so

Rows are only added. The state of any generation is therefore what the rows up to it say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from .database import Database

__all__ = ["INTEGERS", "TEXTS", "Generation", "create_item_tables", "create_tables", "drop_item_tables", "live"]

INTEGERS, TEXTS = "whole", "text"  # kinds of item ids


@dataclass(frozen=True)
class Generation:
    """A change of a registry, and its state after it."""

    generation: int  # from 0, which made the registry
    kind: str  # init, append or withdraw
    created: str  # 2026-03-01T09:30:00+00:00
    tokenizer: str  # its folder
    digest: str  # and what identifies it
    policy: str  # what an item got whose SID was taken
    capacity: int
    source: str  # what was appended, as it was named
    published: int  # items with a new SID
    kept: int  # items that had one already
    restored: int  # of those, items that were withdrawn before
    withdrawn: int
    moved: int  # new items whose last token the policy changed
    items: int  # that the registry has after it
    note: str

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def create_tables(database: Database, keys: str) -> None:
    """All tables, for text ids; keys: whole or bytes, the kind of SID keys."""
    database.create_table("registry", {"name": "text", "value": "text"}, "name")
    kinds = {"int": "whole", "str": "text"}
    columns = {field.name: kinds[str(field.type)] for field in fields(Generation)}
    database.create_table("generations", columns, "generation")
    create_item_tables(database, TEXTS, keys)


def create_item_tables(database: Database, ids: str, keys: str) -> None:
    """The tables of items, whose ids are of one kind."""
    columns = {"item": ids, "sid": keys, "slot": "whole", "generation": "whole"}
    database.create_table("published", columns, "item", "sid, slot")
    database.create_table("marks", {"item": ids, "generation": "whole", "withdrawn": "whole"}, "item, generation")


def drop_item_tables(database: Database) -> None:
    """Drop the tables of items before the first append, whose ids are of the other kind."""
    for table in ("published", "marks"):
        database.run(f"DROP TABLE {table}")


def live(generation: int, marks: bool = True) -> str:
    """The condition on a row p of `published` to be an item of a generation.

    marks: whether items were ever withdrawn; otherwise the condition is cheaper.
    """
    there = f"p.generation <= {generation:d}"
    if not marks:
        return there
    last = f"SELECT withdrawn FROM marks m WHERE m.item = p.item AND m.generation <= {generation:d}"
    return f"({there} AND coalesce(({last} ORDER BY m.generation DESC LIMIT 1), 0) = 0)"
