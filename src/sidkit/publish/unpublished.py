"""Items that a registry does not have yet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .registry import Registry

__all__ = ["unpublished_rows"]

AT_ONCE = 500  # ids in one question


def unpublished_rows(registry: Registry, ids: Any, most: int, seed: int = 0) -> NDArray[np.int64]:
    """The row numbers of ids that were never published, ascending: all, or a random sample of `most`."""
    if registry.ids is None:
        return np.sort(np.random.default_rng(seed).permutation(len(ids))[:most])
    order = np.random.default_rng(seed).permutation(len(ids))
    found: list[int] = []
    for start in range(0, len(order), AT_ONCE):
        rows = order[start : start + AT_ONCE]
        items = [registry.id_of(ids[int(row)].as_py()) for row in rows]
        known = [item for item in items if item is not None]
        marks = ", ".join("?" * len(known))
        query = f"SELECT item FROM published WHERE item IN ({marks})"
        published = {row[0] for row in registry.database.rows(query, *known)} if known else set()
        found += [int(row) for row, item in zip(rows, items, strict=True) if item not in published]
        if len(found) >= most:
            break
    return np.sort(np.array(found[:most], np.int64))
