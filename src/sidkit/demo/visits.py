"""Simulated visitors of the shop: what each of them looked at, in order.

A visitor mostly stays in a category, prefers one brand there, and otherwise popular items. From each category visitors
move to one particular other category, which a recommender can learn from the sequences.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["visits"]

STAYS, LOYAL, SHORTEST, MEAN = 0.75, 0.6, 4, 9.0


def visits(shop: Any, users: int = 2000, seed: int = 0) -> Any:
    """A pyarrow table of users: user_id, items (at least four different ids of the shop, in the order of visits)."""
    import pyarrow as pa

    rng = np.random.default_rng((seed, 1))
    ids = np.array(shop.column("item_id").to_pylist())
    brand = np.array(shop.column("brand").to_pylist())
    _, category = np.unique(shop.column("category").to_pylist(), return_inverse=True)
    appeal = 1.0 / (1.0 + rng.permutation(len(ids)))  # a few items are popular
    members = [np.flatnonzero(category == number) for number in range(category.max() + 1)]
    next_category = rng.permutation(len(members))
    crowd = np.array([appeal[rows].sum() for rows in members])

    @cache
    def options(here: int, favourite: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The items of a category, or of a brand in it, and up to which random number each is taken."""
        rows = members[here][brand[members[here]] == favourite] if favourite else members[here]
        ends = (appeal[rows] / appeal[rows].sum()).cumsum()
        return rows, ends / ends[-1:]

    def look(here: int, favourite: str) -> int:
        rows, ends = options(here, favourite)
        if not len(rows) or (favourite and rng.random() >= LOYAL):
            rows, ends = options(here, "")
        return int(rows[ends.searchsorted(rng.random(), side="right")])

    lists = []
    for _ in range(users):
        length = SHORTEST + int(rng.geometric(1 / (MEAN - SHORTEST)))
        rows, here, favourite = list[int](), int(rng.choice(len(members), p=crowd / crowd.sum())), ""
        for _ in range(4 * length):  # attempts: items seen before are skipped
            row = look(here, favourite)
            favourite = favourite or str(brand[row])
            if row not in rows:
                rows.append(row)
            if len(rows) == length:
                break
            if rng.random() > STAYS:
                here, favourite = int(next_category[here]), ""
        if len(rows) >= SHORTEST:
            lists.append(ids[rows].tolist())
    names = [f"U{number:05d}" for number in range(1, len(lists) + 1)]
    return pa.table({"user_id": names, "items": pa.array(lists, pa.list_(pa.string()))})
