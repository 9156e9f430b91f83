"""The semantic IDs of a catalogue: published items keep theirs, new ones get theirs by a collision policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.ids import match
from ..errors import InputError
from ..progress import Progress
from ..sids.policies import Occupied, Policy, Resolved, with_counter
from .spread import resolve_rows

if TYPE_CHECKING:
    from ..sids.table import SidTable
    from .tokenizer import FittedTokenizer

__all__ = ["ROOM", "Settled", "default_policy", "published_slots", "settle"]

ROOM = 256  # values of the counter


@dataclass(frozen=True, eq=False)
class Settled:
    """The codes (n, tokens) of a catalogue after a policy, their sizes, and what it did, ready for JSON."""

    codes: NDArray[np.int32]
    sizes: tuple[int, ...]
    facts: dict[str, Any]


def default_policy(published: SidTable | None, sizes: Sequence[int]) -> str:
    """The policy where none is named: nothing moves, but new items beside published ones take free codes.

    Published SIDs with a counter, one token more than the tokenizer gives, get another counter.
    """
    if published is None:
        return "keep"
    return "counter" if has_counter(published, sizes) else "nearest"


def settle(
    fitted: FittedTokenizer,
    X: Any,
    ids: Any,
    codes: Any,
    policy: Policy,
    published: SidTable | None = None,
    weights: Any = None,
    room: int = ROOM,
    rows: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Settled:
    """Give SIDs to the items `ids` with the codes (n, tokens) of rows X by a policy.

    published   items that keep their SIDs; those that are not among `ids` keep their slots as well
    weights     (n,) popularity, for the policy 'popular'
    room        values of the counter, for the policy 'counter'
    rows        (n,) the row of X of every item, where these are not the rows of X in order
    """
    out, sizes = np.array(codes, np.int32), tuple(fitted.sizes)
    taken, row = None, np.full(len(out), -1)
    if published is not None:
        taken, row = published_slots(published, sizes), match(ids, published.ids)
        room = published.sizes[-1] if has_counter(published, sizes) else room
    new = np.flatnonzero(row < 0)
    weights = None if weights is None else np.asarray(weights)[new]
    made = resolve_rows(fitted, X, out[new], policy, taken, weights, new if rows is None else rows[new], progress)
    slots = np.zeros(len(out), np.int64)
    out[new], slots[new] = made.codes, made.slots
    if taken is not None:
        old = row >= 0
        out[old], slots[old] = taken.codes[row[old]], taken.slots[row[old]]
    facts = _facts(policy, made, len(out), taken)
    if policy.name == "counter":
        out, sizes = with_counter(out, slots, sizes, room)
    return Settled(out, sizes, facts)


def has_counter(published: SidTable, sizes: Sequence[int]) -> bool:
    """Whether published SIDs have one token more than a tokenizer of these sizes gives."""
    return len(published.sizes) == len(sizes) + 1 and published.sizes[:-1] == tuple(sizes)


def published_slots(published: SidTable, sizes: Sequence[int]) -> Occupied:
    """SIDs and slots of published items. The slot is their counter, if they have one; else it is counted in order."""
    if has_counter(published, sizes):
        return Occupied(published.codes[:, :-1], published.codes[:, -1].astype(np.int64))
    if published.sizes != tuple(sizes):
        raise InputError(f"published SIDs have sizes {published.sizes}, but this tokenizer makes {tuple(sizes)}")
    return Occupied.of(published.codes, sizes)


def _facts(policy: Policy, made: Resolved, items: int, taken: Occupied | None) -> dict[str, Any]:
    moved, new = int(made.moved.sum()), len(made.codes)
    return {
        "policy": policy.name,
        "capacity": policy.capacity if policy.needs_costs else None,
        "items": items,
        "published": 0 if taken is None else len(taken.codes),
        "kept": items - new,
        "new": new,
        "moved": moved,
        "sharing": made.shared,
        "added_cost": made.cost,
        "added_cost_per_new_item": made.cost / new if new else 0.0,
        "added_cost_per_moved_item": made.cost / moved if moved else 0.0,
        "greedy_added_cost": made.greedy_cost,
    }
