"""New items of a registry: each gets a SID, and its index among the items of that SID (slot).

Policies that move nothing are one statement of the database. Others read what is published under the prefixes of the
new items, and choose other last tokens (`sids/policies.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..sids.policies import Occupied, Policy, Resolved

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["NewItems", "Resolver", "publish_new", "require_resolver"]

AT_ONCE = 1 << 17  # new items for which a policy is called

# (codes of new items, their rows in what is appended, what is published) -> their SIDs and slots
Resolver = Callable[[NDArray[np.int32], NDArray[np.int64], Occupied], Resolved]


@dataclass(frozen=True)
class NewItems:
    """The counts of new items, by what the policy did to them."""

    moved: int  # those with another last token
    shared: int  # those beyond the capacity of their SID
    cost: float  # of moving, in units of what the last level minimises


def require_resolver(policy: Policy, resolver: Resolver | None) -> None:
    """An error if a policy needs the vectors of items, and there are none."""
    if policy.needs_costs and resolver is None:
        raise SpecError(
            f"the policy {policy.name!r} moves items to other codes and needs their vectors; "
            "append embeddings rather than SIDs, or choose --policy keep"
        )


def publish_new(registry: Registry, ids: str, policy: Policy, resolver: Resolver | None, number: int) -> NewItems:
    """Write the items of `incoming` to `published`, as this generation; inside a transaction."""
    database = registry.database
    with database.temporary("resolved", item=ids, sid=registry.keys.kind, slot="whole"):
        if policy.needs_costs and resolver is not None:
            counts = _resolve(registry, resolver)
        else:
            taken = "SELECT max(p.slot) + 1 FROM published p WHERE p.sid = i.sid"
            rank = "row_number() OVER (PARTITION BY i.sid ORDER BY i.row) - 1"
            database.run(f"INSERT INTO resolved SELECT i.item, i.sid, coalesce(({taken}), 0) + {rank} FROM incoming i")
            shared = database.rows("SELECT count(*) FROM resolved WHERE slot >= ?", policy.capacity)
            counts = NewItems(0, int(shared[0][0]), 0.0)
        database.run(f"INSERT INTO published SELECT item, sid, slot, {number:d} FROM resolved ORDER BY item")
    return counts


def _resolve(registry: Registry, resolver: Resolver) -> NewItems:
    """Fill `resolved` by a policy that may move items: prefix after prefix, so that memory does not grow with them."""
    database, keys = registry.database, registry.keys
    moved, shared, cost = 0, 0, 0.0
    with database.temporary("touched", lowest=keys.kind, highest=keys.kind):
        for items, rows, codes in _by_prefix(registry):
            resolved = resolver(codes, rows, _occupied(registry, codes))
            database.fill("resolved", (items, keys.of(resolved.codes), resolved.slots.tolist()))
            moved, shared, cost = moved + int(resolved.moved.sum()), shared + resolved.shared, cost + resolved.cost
    return NewItems(moved, shared, cost)


def _by_prefix(registry: Registry) -> Iterator[tuple[list[Any], NDArray[np.int64], NDArray[np.int32]]]:
    """Items, rows and codes of `incoming`, about AT_ONCE at a time: all of a prefix together, in the order they came.

    A prefix is all tokens but the last. Policies treat each by itself.
    """
    waiting: list[Any] = []
    for batch in chain(registry.database.stream("SELECT item, row, sid FROM incoming ORDER BY sid, row"), [[]]):
        waiting += batch
        codes = registry.keys.codes_of([sid for _, _, sid in waiting])
        if batch:
            starts = np.flatnonzero((codes[1:, :-1] != codes[:-1, :-1]).any(axis=1)) + 1
            ready = int(starts[-1]) if len(starts) and len(waiting) >= AT_ONCE else 0
        else:
            ready = len(waiting)
        if ready:
            rows = np.array([row for _, row, _ in waiting[:ready]], np.int64)
            order = np.argsort(rows)
            yield [waiting[at][0] for at in order.tolist()], rows[order], codes[:ready][order]
            waiting = waiting[ready:]


def _occupied(registry: Registry, codes: NDArray[np.int32]) -> Occupied:
    """What is published under the prefixes of these codes."""
    database, keys = registry.database, registry.keys
    spans = [keys.span(prefix) for prefix in np.unique(codes[:, :-1], axis=0).tolist()]
    database.run("DELETE FROM touched")
    database.fill("touched", tuple(zip(*spans, strict=True)))
    near = "SELECT p.sid, p.slot FROM touched t JOIN published p ON p.sid BETWEEN t.lowest AND t.highest"
    parts = [tuple(zip(*batch, strict=True)) for batch in database.stream(near)]
    taken = [keys.codes_of(sids) for sids, _ in parts]
    slots = [np.array(slots, np.int64) for _, slots in parts]
    return Occupied(np.concatenate([codes[:0], *taken]), np.concatenate([np.empty(0, np.int64), *slots]))
