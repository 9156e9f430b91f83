"""Records in a new order, from more rows than memory holds: into buckets on disk, and each bucket in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...files.atomic import discard

__all__ = ["in_order"]

ROWS = 1 << 16  # of a bucket
BUCKETS = 64  # at most


def in_order(tables: Iterable[Any], position: NDArray[np.int64], scratch: Path, rows: int = ROWS) -> Iterator[Any]:
    """The rows of all tables, each at its position: (n,) the numbers 0 ... n - 1, in the order of the tables.

    Rows that are in order already pass through; a single bucket stays in memory.
    """
    if bool((position[1:] > position[:-1]).all()):
        yield from tables
        return
    size = max(rows, -(-len(position) // BUCKETS))
    if len(position) <= size:
        table = pa.concat_tables(list(tables)).combine_chunks()
        yield table.take(np.argsort(position))
        return
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        count = _fill(tables, position, size, scratch)
        for bucket in range(count):
            with pa.memory_map(str(scratch / f"{bucket}.arrow")) as file:
                table = pa.ipc.open_stream(file).read_all()
            yield table.take(np.argsort(table.column("position").to_numpy())).drop_columns(["position"])
    finally:
        discard(scratch)


def _fill(tables: Iterable[Any], position: NDArray[np.int64], size: int, scratch: Path) -> int:
    """Write every row to the bucket of its position; how many buckets there are."""
    count, start, writers = -(-len(position) // size), 0, dict[int, Any]()
    with ExitStack() as files:
        for table in tables:
            here = position[start : start + len(table)]
            start += len(table)
            table = table.append_column("position", pa.array(here))
            bucket = here // size
            for number in np.unique(bucket).tolist():
                part = table.filter(pa.array(bucket == number)).combine_chunks()
                if number not in writers:
                    sink = files.enter_context(pa.OSFile(str(scratch / f"{number}.arrow"), "wb"))
                    writers[number] = files.enter_context(pa.ipc.new_stream(sink, table.schema))
                writers[number].write_table(part)
    return count
