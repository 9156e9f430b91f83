"""The median price of every item, from more rows than memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["counted_prices", "median_prices", "weighted_medians"]

ROWS = 1 << 23  # of counted prices that are in memory at once


def counted_prices(table: Any) -> Any:
    """item, price, count: how often each price of an item occurs in a table of item and price. No price is left out."""
    known = table.filter((table["price"].is_valid()).combine_chunks())
    known = known.filter(known["price"].to_numpy() > 0)
    counts = known.group_by(["item", "price"], use_threads=False).aggregate([([], "count_all")])
    return counts.select(["item", "price", "count_all"]).rename_columns(["item", "price", "count"])


def median_prices(tables: Callable[[], Iterator[Any]], items: NDArray[np.int64]) -> NDArray[np.float64]:
    """The median price of every item, NaN where there is none.

    tables: item, price, count; asked for once per pass. Passes take a share of the items each, so that at most about
    ROWS rows are in memory.
    """
    rows = sum(len(table) for table in tables())
    passes = max(1, -(-rows // ROWS))
    prices = np.full(len(items), np.nan)
    order = np.argsort(items, kind="stable")
    for number in range(passes):
        parts = []
        for table in tables():
            columns = [table.column(name).to_numpy() for name in ("item", "price", "count")]
            chosen = columns[0] % passes == number
            parts.append([column[chosen] for column in columns])
        item, price, count = (np.concatenate([part[i] for part in parts]) for i in range(3))
        known, medians = weighted_medians(item, price, count)
        at = np.minimum(np.searchsorted(items, known, sorter=order), len(items) - 1)
        there = items[order[at]] == known
        prices[order[at[there]]] = medians[there]
    return prices


def weighted_medians(
    item: NDArray[np.int64], price: NDArray[np.float64], count: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The different items, and the median of the prices of each, every price taken `count` times."""
    order = np.lexsort((price, item))
    item, price, count = item[order], price[order], count[order]
    known, first = np.unique(item, return_index=True)
    if not len(known):
        return known, np.zeros(0)
    ends = np.cumsum(count)
    before = ends[first] - count[first]
    total = np.add.reduceat(count, first)
    middle = [price[np.searchsorted(ends, before + k, side="right")] for k in ((total - 1) // 2, total // 2)]
    return known, (middle[0] + middle[1]) / 2
