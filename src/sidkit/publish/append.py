"""Appending items to a registry: new ones get an ID, known ones keep theirs.

What is appended goes to a table of this connection first, batch by batch (`incoming.py`). One transaction then finds
out which items are known, gives the others a SID and a slot (`new_items.py`), and writes them with their generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError
from ..progress import Progress, Silent
from .incoming import ToAppend, incoming
from .new_items import publish_new, require_resolver
from .registry import now
from .tables import TEXTS, Generation, create_item_tables, drop_item_tables

if TYPE_CHECKING:
    from .database import Database
    from .registry import Registry

__all__ = ["Appended", "append"]


@dataclass(frozen=True)
class Appended:
    """What an append did."""

    generation: Generation | None  # None if there was nothing to do
    given: int  # items that came
    published: int = 0  # items that got an ID
    kept: int = 0  # items that have one since earlier
    differing: int = 0  # of those, items that came with another SID, as their vector changed or a policy moved them
    restored: int = 0  # of those, items that had been withdrawn
    moved: int = 0  # new items whose last token the policy changed
    shared: int = 0  # new items beyond the capacity of their SID, as their prefix is full
    cost: float = 0.0  # of moving, in units of what the last level minimises


def append(
    registry: Registry,
    given: ToAppend,
    tokenizer: tuple[str, str] | None = None,
    source: str = "",
    note: str = "",
    adopt: bool = False,
    progress: Progress | None = None,
) -> Appended:
    """Publish items as one generation. If all of them are published already, nothing changes.

    tokenizer   folder and digest of the one that made the SIDs; it must be that of the registry, unless adopt
    source      the name of what is appended
    """
    database, policy = registry.database, given.policy
    require_resolver(policy, given.resolver)
    with incoming(registry, given.batches, progress or Silent()) as (count, ids), database.writing():
        latest = registry.generation()
        folder, digest = tokenizer or (latest.tokenizer, latest.digest)
        if digest != latest.digest and not adopt:
            raise InputError(f"{registry.name} has adopted the tokenizer {latest.tokenizer} meanwhile; append again")
        _require_ids(registry, ids)
        number = latest.generation + 1
        kept, differing, restored = _take_known(database, ids, number)
        new = count - kept
        if not new and not restored:
            return Appended(None, count, kept=kept, differing=differing)
        added = publish_new(registry, ids, policy, given.resolver, number)
        how = (folder, digest, policy.name, policy.capacity, source)
        counts = (new, kept, restored, 0, added.moved, latest.items + new + restored)
        made = registry.add(Generation(number, "append", now(), *how, *counts, note))
    return Appended(made, count, new, kept, differing, restored, added.moved, added.shared, added.cost)


def _require_ids(registry: Registry, ids: str) -> None:
    """An error if the registry has ids of the other kind. The first append decides; tables are made for text."""
    database, known = registry.database, registry.ids
    if known is None:
        database.run("INSERT INTO registry (name, value) VALUES ('ids', ?)", ids)
        if ids != TEXTS:
            drop_item_tables(database)
            create_item_tables(database, ids, registry.keys.kind)
    elif known != ids:
        words = {TEXTS: "texts"}
        ours, theirs = words.get(known, "integers"), words.get(ids, "integers")
        raise InputError(f"the ids of {registry.name} are {ours}, those to append are {theirs}; give them as {ours}")


def _take_known(database: Database, ids: str, number: int) -> tuple[int, int, int]:
    """Take the items that are published already out of `incoming`, and mark those that were withdrawn as live again.

    Returns how many are known, how many of them came with another SID, and how many are live again.
    """
    with database.temporary("known", item=ids, differs="whole", withdrawn="whole"):
        last = "SELECT m.withdrawn FROM marks m WHERE m.item = p.item ORDER BY m.generation DESC LIMIT 1"
        database.run(
            "INSERT INTO known SELECT p.item, CASE WHEN i.sid = p.sid THEN 0 ELSE 1 END, "
            f"coalesce(({last}), 0) FROM incoming i JOIN published p ON p.item = i.item"
        )
        counted = database.rows("SELECT count(*), coalesce(sum(differs), 0), coalesce(sum(withdrawn), 0) FROM known")
        kept, differing, restored = map(int, counted[0])
        if kept:
            database.run("DELETE FROM incoming WHERE item IN (SELECT item FROM known)")
        if restored:
            database.run(f"INSERT INTO marks SELECT item, {number:d}, 0 FROM known WHERE withdrawn = 1 ORDER BY item")
    return kept, differing, restored
