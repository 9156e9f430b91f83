"""Counts of items, queries and users, taken while the records of a log are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["EVENTS", "ItemCounters", "QueryCounts", "UserSet"]

EVENTS = ("shown", "clicked", "ordered")
COMPACT = 1 << 20  # rows of partial counts at which they are joined


class ItemCounters:
    """How often each item was shown, clicked and ordered.

    A record that does not have the items that were shown has shown at least those that were clicked.
    """

    def __init__(self, items: int) -> None:
        self.counts = {name: np.zeros(items, np.int64) for name in EVENTS}

    def add(self, event: str, rows: NDArray[np.int64], records: NDArray[np.int64]) -> None:
        """rows: the items, records: how many records each of them stands for."""
        np.add.at(self.counts[event], rows, records)


class QueryCounts:
    """How many records of each part have a query. Memory is that of the different queries."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._rows = self._seen = self._compacted = 0

    def add(self, queries: Any, train: NDArray[np.int64], test: NDArray[np.int64]) -> None:
        """queries: (n,) texts; train, test: (n,) the records of each part that a text stands for."""
        first = np.arange(self._seen, self._seen + len(train))
        self._seen += len(train)
        self._parts.append(
            _summed(pa.table({"query": queries, "train_records": train, "test_records": test, "first": first}))
        )
        self._rows += len(self._parts[-1])
        if self._rows > max(COMPACT, 2 * self._compacted):
            self._parts = [_summed(pa.concat_tables(self._parts))]
            self._rows = self._compacted = len(self._parts[0])

    def table(self) -> Any:
        """query_id, query, train_records, test_records: in the order in which queries first occurred."""
        if not self._parts:
            return None
        table = _summed(pa.concat_tables(self._parts)).sort_by("first").drop_columns(["first"])
        return table.add_column(0, "query_id", pa.array(np.arange(len(table))))


def _summed(table: Any) -> Any:
    sums = [("train_records", "sum"), ("test_records", "sum"), ("first", "min")]
    made = table.group_by("query", use_threads=False).aggregate(sums)
    return made.select(["query", "train_records_sum", "test_records_sum", "first_min"]).rename_columns(
        ["query", "train_records", "test_records", "first"]
    )


class UserSet:
    """The different users, in the order in which they first occurred."""

    def __init__(self, kind: Any) -> None:
        self._known = pa.array([], kind)

    def add(self, users: Any) -> None:
        fresh = pc.unique(pc.drop_null(users))
        fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=self._known)))
        self._known = pa.concat_arrays([self._known, fresh])

    def table(self) -> Any:
        return pa.table({"user": self._known})
