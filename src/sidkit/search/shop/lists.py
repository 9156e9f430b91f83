"""Lists of items as flat arrays: the values of all lists end to end, and the length of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["flat", "lists"]


def flat(column: Any) -> tuple[Any, NDArray[np.int64]]:
    """The values of a column of lists, and how many each row has; a missing list has none."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_null(column.type):
        return pa.array([], pa.int64()), np.zeros(len(column), np.int64)
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pc.list_flatten(column), lengths.astype(np.int64)


def lists(values: Any, lengths: NDArray[np.int64], missing: NDArray[np.bool_] | None = None) -> Any:
    """A column of lists: each takes its number of values; a list that is missing is null."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    offsets = pa.array(ends, pa.int32())
    if missing is None or not missing.any():
        return pa.ListArray.from_arrays(offsets, values)
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(missing))
