"""A simulated shop, written as a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import SpecError
from ...progress import Progress, Silent
from ..shop import Draft, Keys, write_shop
from ..shop.split import require_share, time_boundary
from .engine import build_index
from .items import SLOTS, Traits, draw_items, leaf_shares
from .log import Scene, draw_log
from .people import draw_people, users_table
from .sessions import draw_records
from .world import make_world

__all__ = ["ShopPlan", "Simulation", "simulate_shop"]

FEWEST = 200  # items: each category should have some


@dataclass(frozen=True)
class ShopPlan:
    """The size of a simulation. rows: searches; users: people who search."""

    items: int
    rows: int
    users: int
    seed: int = 0
    test_share: float = 0.1
    pairs: int = 30_000

    @classmethod
    def of(cls, items: int, rows: int | None = None, users: int | None = None, **others: Any) -> ShopPlan:
        """Two searches per item and one user per twelve searches, unless they are given."""
        rows = 2 * items if rows is None else rows
        return cls(items, rows, max(1, rows // 12) if users is None else users, **others)

    def __post_init__(self) -> None:
        for name, value, least in (("items", self.items, FEWEST), ("rows", self.rows, 2), ("users", self.users, 1)):
            if value < least:
                raise SpecError(f"--{name} must be at least {least}, not {value}")
        require_share(self.test_share)
        if self.pairs < 1:
            raise SpecError(f"--pairs must be at least 1, not {self.pairs}")


class Simulation:
    """The tables of a plan. Items come first: the log is drawn from their traits."""

    def __init__(self, plan: ShopPlan) -> None:
        self.plan = plan
        self.people = draw_people(plan.users, plan.seed)
        self._traits: list[Traits] = []
        world = make_world(plan.seed)
        self.world = world
        self.records = draw_records(plan.rows, self.people, world, leaf_shares(plan.seed), plan.seed)
        self.test_from = time_boundary(self.records.time, plan.test_share)

    def items(self) -> Iterator[Any]:
        for table, traits in draw_items(self.plan.items, self.plan.seed):
            self._traits.append(traits)
            yield table

    def log(self) -> Iterator[Any]:
        traits = Traits.joined(self._traits)
        self._traits.clear()
        records = self.records.within(np.unique(traits.words[:, SLOTS.index("leaf")]))
        index = build_index(traits, self.plan.seed)
        yield from draw_log(Scene(records, index, self.people, self.world, self.plan.seed), self.test_from)

    def users(self) -> Any:
        return users_table(self.people)


def simulate_shop(output: Path, plan: ShopPlan, progress: Progress | None = None) -> dict[str, Any]:
    """Write the shop of a plan; the facts of its shop.json. The same plan gives the same bytes."""
    made = Simulation(plan)
    facts = {
        "source": {"kind": "simulate", "items": plan.items, "rows": plan.rows, "users": plan.users},
        "split": {"by": "time", "test_share": plan.test_share, "test_from": made.test_from},
    }
    draft = Draft(
        Keys(pa.string()),
        made.items(),
        made.log(),
        [made.users()],
        pairs=plan.pairs,
        seed=plan.seed,
        facts=facts,
        rows=(plan.items, plan.rows),
    )
    return write_shop(output, draft, progress or Silent())
