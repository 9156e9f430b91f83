"""How often each item was taken, from a Parquet file."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.ids import match, one_array, require_unique
from ..data.listing import files_of, readable
from ..errors import InputError
from ..files.address import for_arrow

__all__ = ["read_counts"]


def read_counts(path: str | PathLike[str], column: str, ids: Any, id_column: str) -> NDArray[np.int64]:
    """(items,) the counts in the order of ids; 0 where the file has none."""
    tables = []
    for file in files_of(path):
        with readable(file):
            names = pq.read_schema(for_arrow(file)).names
            if column not in names:
                raise InputError(f"no column {column!r} in {file} (columns: {', '.join(names)}); use --count-column")
            tables.append(pq.read_table(for_arrow(file), columns=[id_column, column]))
    table = pa.concat_tables(tables)
    counts = one_array(table.column(column))
    if not pa.types.is_integer(counts.type) or counts.null_count or (len(counts) and pc.min(counts).as_py() < 0):
        raise InputError(f"{column!r} in {path} holds {counts.type}; counts are whole numbers from 0, none missing")
    known = one_array(table.column(id_column))
    require_unique(known, id_column, lambda row: f"row {row} of {path}")
    rows = match(ids, known)
    values = np.append(counts.to_numpy(zero_copy_only=False).astype(np.int64), 0)
    return np.asarray(values[rows])
