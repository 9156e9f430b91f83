"""A place for every new item: its SID, and its number among the items of that SID (slot)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..progress import Progress

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Placed", "Placing", "place"]


@dataclass(frozen=True)
class Placing:
    """The policy for SIDs that are taken."""

    policy: str = "keep"
    capacity: int = 1


@dataclass(frozen=True)
class Placed:
    """What the policy did: new items with another last token, items beyond the capacity, the cost of moving."""

    moved: int = 0
    shared: int = 0
    cost: float = 0.0


def place(registry: Registry, placing: Placing, number: int, progress: Progress) -> Placed:
    """Write the items of `incoming` to `published`; inside a transaction."""
    taken = "SELECT max(p.slot) + 1 FROM published p WHERE p.sid = i.sid"
    rank = "row_number() OVER (PARTITION BY i.sid ORDER BY i.row) - 1"
    registry.database.run(
        f"INSERT INTO published SELECT i.item, i.sid, coalesce(({taken}), 0) + {rank}, {number:d} "
        "FROM incoming i ORDER BY i.item"
    )
    return Placed()
