"""Items as integers, for formats that know them by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError
from .streams import write_item_ids
from .target import ExportJob, ExportOption

__all__ = ["NUMBERED", "item_numbers"]

NUMBERED = ExportOption("numbered", bool, False, "count the items from 1; item_ids.parquet says which is which")


def item_numbers(job: ExportJob, folder: Path, reader: str) -> NDArray[np.int64]:
    """The ids as int64, or the numbers that the option asks for; an error if the ids are no integers."""
    table = job.table
    if job.options["numbered"]:
        write_item_ids(folder, table, first=1)
        return np.arange(1, len(table) + 1)
    if not pa.types.is_integer(table.ids.type):
        raise InputError(
            f"{reader} knows items by integers, and these ids are {table.ids.type} (the first is "
            f"{table.ids[0].as_py()!r}); count them with --set numbered=true, or export to a target that takes any id"
        )
    if pc.max(table.ids).as_py() > 2**63 - 1:
        raise InputError(f"{reader} stores ids in 64 bits with a sign, and {pc.max(table.ids).as_py()} does not fit")
    return np.asarray(table.ids.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
