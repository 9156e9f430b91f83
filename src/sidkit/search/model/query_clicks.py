"""What was clicked for a query: how a user without clicks is known, when the log is no longer there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...data.ids import require_utf8
from ...data.items import match
from ...data.listing import readable
from ...errors import StoreError
from ..align.pairs import normal_queries

__all__ = ["QueryClicks"]

ROWS = pa.list_(pa.int32())


@dataclass(frozen=True, eq=False)
class QueryClicks:
    """table: query, and the rows of the items clicked for it, those of most clicks last."""

    table: Any

    @classmethod
    def of(cls, queries: Sequence[str], rows: Sequence[NDArray[np.int64]]) -> QueryClicks:
        return cls(pa.table({"query": pa.array(queries, pa.string()), "items": pa.array(rows, ROWS)}))

    def rows(self, queries: Sequence[str]) -> list[NDArray[np.int64]]:
        """The rows of items for each query; none for one that is not known."""
        found = match(normal_queries(list(queries)), self.table.column("query"))
        lists = self.table.column("items").take(pa.array(found, mask=found < 0)).to_pylist()
        return [np.array(one or (), np.int64) for one in lists]

    def save(self, file: Path) -> None:
        pq.write_table(self.table, file, compression="zstd")

    @classmethod
    def load(cls, file: Path, items: int, advice: str) -> QueryClicks:
        """items: of the model, which every row is one of."""
        with readable(file):
            table = pq.read_table(file)
        kinds = {field.name: field.type for field in table.schema}
        if kinds.get("query") != pa.string() or kinds.get("items") != ROWS:
            raise StoreError(f"{file} does not hold queries and rows of items; {advice}")
        require_utf8(table.column("query"), "query", file)
        rows = pc.list_flatten(table.column("items"))
        if rows.null_count or (len(rows) and not 0 <= pc.min(rows).as_py() <= pc.max(rows).as_py() < items):
            raise StoreError(f"{file} names rows that are not among the {items:,} items; {advice}")
        return cls(table)
