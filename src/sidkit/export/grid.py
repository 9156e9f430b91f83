"""GRID's tensor: int64, a column per item and a row per level, then a row that tells items with one SID apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import need
from .imports import read_tensor
from .refusals import require_file_name, shares_of, slots_in
from .streams import ITEM_IDS, write_item_ids
from .target import ExportJob, ExportOption, ExportTarget

__all__ = ["TARGET", "write_tensor"]

FILE = ExportOption("file", str, "merged_predictions_tensor.pt", "the name of the tensor's file")


def write(job: ExportJob, folder: Path) -> None:
    table, name = job.table, require_file_name(job.options["file"], "file", ITEM_IDS)
    shares = shares_of(table)
    apart = np.where(shares > 1, slots_in(table) + 1, 0)  # 0 where the SID is the item's alone, else 1, 2, …
    write_tensor(folder / name, np.concatenate([table.codes.T, apart[None, :]]))
    write_item_ids(folder, table)
    widest = max(table.sizes)
    if apart.max() >= widest:
        job.note(
            f"{shares.max():,} items share one SID, so GRID takes every level to be {apart.max() + 1:,} wide instead "
            f"of {widest:,}, unless its width is configured; `sidkit encode --spread` avoids that"
        )


def write_tensor(path: Path, array: NDArray[Any]) -> None:
    """A contiguous int64 tensor, which `torch.load(path, weights_only=True)` reads."""
    torch = need("torch", "torch", "writing a .pt file")
    torch.save(torch.from_numpy(np.ascontiguousarray(array, np.int64)), path)


TARGET = ExportTarget(
    "grid",
    "GRID",
    "merged_predictions_tensor.pt: int64 (levels + 1, items); item_ids.parquet",
    write,
    (FILE,),
    read_tensor,
    "a .pt tensor (levels or levels + 1, items)",
)
