"""The counts of a fusion in a retriever's folder: three sparse tables and the popularity, in one safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from ..errors import StoreError
from ..measure.counting_tables import CountTables

__all__ = ["COUNTS", "read_counts", "write_counts"]

COUNTS = "counts.safetensors"
TABLES = ("followed", "flow", "together")


def write_counts(tables: CountTables, path: Path) -> None:
    arrays = {"popular": np.ascontiguousarray(tables.popular, np.int64)}
    for name in TABLES:
        table = getattr(tables, name)
        arrays |= {
            f"{name}.starts": table.indptr.astype(np.int64),
            f"{name}.items": table.indices.astype(np.int32),
            f"{name}.values": table.data.astype(np.float32),
        }
    path.write_bytes(save(arrays))  # save_file would keep the file to its owner


def read_counts(path: Path, items: int) -> CountTables:
    """The tables over so many items; an error if the file has others."""
    if not path.is_file():
        raise StoreError(f"there is no {path.name}")
    arrays = load_file(path)
    if arrays["popular"].shape != (items,):
        raise StoreError(f"{path.name} counts {len(arrays['popular'])} items, not {items}")
    followed, flow, together = (_table(arrays, name, items) for name in TABLES)
    return CountTables(followed, flow, together, arrays["popular"])


def _table(arrays: dict[str, Any], name: str, items: int) -> Any:
    from scipy.sparse import csr_array

    starts, columns, values = (arrays[f"{name}.{part}"] for part in ("starts", "items", "values"))
    ordered = len(starts) == items + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not ordered or starts[-1] != len(columns) or len(columns) != len(values):
        raise StoreError(f"the table {name!r} of {COUNTS} is not one of {items} items")
    if len(columns) and not (columns.min() >= 0 and columns.max() < items and np.isfinite(values).all()):
        raise StoreError(f"the table {name!r} of {COUNTS} names items outside the catalogue, or no numbers")
    return csr_array((values, columns, starts), shape=(items, items))
