"""Ids that stay in the files of their SIDs until they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.listing import readable
from ..files.address import Location, for_arrow

__all__ = ["StoredIds"]

BATCH = 1 << 17  # rows


@dataclass(frozen=True)
class StoredIds:
    """The ids of some files, one after the other. They were read before, and are known to be different."""

    files: tuple[Location, ...]
    rows: tuple[int, ...]  # of each file
    type: Any

    def __len__(self) -> int:
        return sum(self.rows)

    def batches(self) -> Iterator[Any]:
        """All ids in order, a pyarrow array at a time."""
        for file in self.files:
            yield from _batches(file)

    def read(self) -> Any:
        """All ids, in chunks."""
        return pa.chunked_array(list(self.batches()), self.type)

    def take(self, rows: NDArray[np.int64]) -> list[Any]:
        """The ids of these rows, from the files that hold them."""
        rows = np.asarray(rows, np.int64)
        names: dict[int, Any] = {}
        for file, (start, end) in zip(self.files, pairwise(accumulate(self.rows, initial=0)), strict=True):
            wanted = np.unique(rows[(rows >= start) & (rows < end)])
            for batch in _batches(file) if len(wanted) else ():
                mine = wanted[: np.searchsorted(wanted, start + len(batch))]
                names |= zip(mine.tolist(), batch.take(pa.array(mine - start)).to_pylist(), strict=True)
                wanted, start = wanted[len(mine) :], start + len(batch)
                if not len(wanted):
                    break
        return [names[row] for row in rows.tolist()]


def _batches(file: Location) -> Iterator[Any]:
    with readable(file), pq.ParquetFile(for_arrow(file)) as opened:
        for batch in opened.iter_batches(BATCH, columns=["item_id"]):
            yield batch.column("item_id")
