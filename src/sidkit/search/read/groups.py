"""Rows with the same values, as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["first_rows", "groups_of"]


def groups_of(*columns: Any) -> NDArray[np.int64]:
    """Numbers 0, 1, ... of the different values of columns, in the order in which they first occur."""
    names = [f"column {i}" for i in range(len(columns))]
    rows = pa.array(np.arange(len(columns[0])))
    table = pa.table([*columns, rows], names=[*names, "row"])
    groups = table.group_by(names, use_threads=False).aggregate([("row", "min"), ("row", "list")]).sort_by("row_min")
    members = groups.column("row_list")
    numbers = np.empty(len(rows), np.int64)
    counts = pc.list_value_length(members).to_numpy()
    numbers[pc.list_flatten(members).to_numpy()] = np.repeat(np.arange(len(groups)), counts)
    return numbers


def first_rows(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of every group."""
    return np.unique(groups, return_index=True)[1]
