"""A dataset as a folder: items.parquet, sequences.parquet and dataset.json, written in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import StoreError
from ...files.atomic import replace_folder
from ...files.ours import require_own_folder
from ...files.seal import sealed_writer
from .core import CoreEvents

__all__ = ["ItemText", "require_dataset_folder", "write_dataset"]

FACTS = "dataset.json"
FORMAT = "sidkit-dataset"


@dataclass(frozen=True)
class ItemText:
    """What is told of an item; None where the files do not tell it."""

    text: str
    title: str | None = None
    brand: str | None = None
    category: str | None = None


def require_dataset_folder(output: Path, *inputs: Path) -> None:
    """Refuse to overwrite a folder with other files in it, or with files that are read."""
    for one in inputs:
        if output.exists() and output.resolve() in (one.resolve(), *one.resolve().parents):
            raise StoreError(f"{one} is read from {output}; write to another folder")
    require_own_folder(output, "dataset", FACTS)


def write_dataset(
    output: Path, events: CoreEvents, texts: Mapping[str, ItemText], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the folder. texts: by the id of the item; all that is in dataset.json is returned."""
    told = [texts[item] for item in events.item_ids]
    items = {
        "item": pa.array(np.arange(len(told), dtype=np.int32)),
        "raw_id": pa.array(events.item_ids, pa.string()),
        **{
            name: pa.array([_utf8(getattr(one, name)) for one in told], pa.string())
            for name in ("title", "brand", "category", "text")
        },
    }
    starts = pa.array(events.starts.astype(np.int32))
    sequences = {
        "user": pa.array(np.arange(len(events.user_ids), dtype=np.int32)),
        "raw_id": pa.array(events.user_ids, pa.string()),
        "items": pa.ListArray.from_arrays(starts, pa.array(events.item)),
        "times": pa.ListArray.from_arrays(starts, pa.array(events.time)),
    }
    counts = {"users": len(events.user_ids), "items": len(told), "interactions": len(events.item)}
    written = {"format": FORMAT, "version": 1, **counts, "rounds": events.rounds, **facts}
    with replace_folder(output) as folder:
        for name, columns in (("items", items), ("sequences", sequences)):
            table = pa.table(columns).replace_schema_metadata({b"sidkit.dataset": json.dumps(counts).encode()})
            with sealed_writer(folder / f"{name}.parquet", table.schema, compression="zstd") as file:
                file.write_table(table)
        (folder / FACTS).write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


def _utf8(text: str | None) -> str | None:
    """A text that can be stored: halves of surrogate pairs, which JSON can hold, become question marks."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
