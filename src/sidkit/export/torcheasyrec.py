"""TorchEasyRec's bundle: one folder per generation, its manifest written last, each generation appended to another.

out/GENERATION/item_to_sid/part-0.parquet      item_id, origin_codebook, codebook, offset_codebook, index
out/GENERATION/sid_to_items/part-0.parquet     codebook, offset_codebook, itemids; a row per SID, ascending
out/GENERATION/delta_…                         the same of an appended generation: new items, SIDs that they touch
out/GENERATION/manifest.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.ids import match
from ..errors import InputError, SpecError
from ..sids.crowded import slots_of
from ..sids.prefixes import PrefixIndex
from .bundle import Bundle, read_bundle, read_generation
from .refusals import require_file_name, require_path, require_product, slots_in
from .streams import BATCH, list_column, write_parquet
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import offsets

__all__ = ["TARGET"]

GENERATION = ExportOption("generation", str, "0", "the name of the generation's folder")
SINCE = ExportOption("since", str, None, "the folder of the generation that this one is appended to")
CAPACITY = ExportOption("capacity", int, None, "most items of one SID [default: as many as there are]", 1)

Integers = NDArray[np.int64]


def write(job: ExportJob, folder: Path) -> None:
    table, name = job.table, require_file_name(job.options["generation"], "generation")
    if name.startswith("."):
        raise SpecError(f"--set generation must not begin with a dot, as {name!r} does")
    if job.output is not None and (job.output / name / "manifest.json").exists():
        raise InputError(f"{job.output / name} is published already; name another --set generation")
    require_product(table.sizes, "TorchEasyRec")
    since = job.options["since"]
    parent = read_generation(require_path(since, SINCE)) if since is not None else None
    slots, fresh = _slots(job, parent)
    most = max(int(slots.max()), parent.most if parent else 0)
    capacity = job.options["capacity"] or (max(parent.capacity, most) if parent else most)
    if most > capacity:
        raise InputError(f"{most:,} items share one SID, more than the capacity of {capacity:,}")
    root, index = folder / name, PrefixIndex(table.codes, table.sizes)
    artifacts = {"item_to_sid": _write_items(job, root / "item_to_sid", slots, np.arange(len(table)))}
    artifacts["sid_to_items"] = _write_sids(job, root / "sid_to_items", index, slots, None)
    if parent is not None:
        artifacts["delta_item_to_sid"] = _write_items(job, root / "delta_item_to_sid", slots, fresh)
        artifacts["delta_sid_to_items"] = _write_sids(job, root / "delta_sid_to_items", index, slots, fresh)
    manifest = {
        "bundle_uuid": _uuid(job, name, since),
        **({"since_bundle_uuid": parent.uuid} if parent else {}),
        "codebook": list(table.sizes),
        "capacity": capacity,
        "max_observed_items_per_sid": most,
        "item_id_type": str(table.ids.type),
        "artifacts": {key: {"save_type": "parquet", "rows": rows, "location": key} for key, rows in artifacts.items()},
    }
    (root / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _slots(job: ExportJob, parent: Bundle | None) -> tuple[Integers, Integers]:
    """The slot of every item in its SID, from 1, and the rows of items that the parent does not have.

    Published items keep their SID and slot; new ones follow them.
    """
    table = job.table
    if parent is None:
        return slots_in(table) + 1, np.arange(len(table))
    if parent.sizes != table.sizes:
        raise InputError(f"the generation before has sizes {parent.sizes}, these SIDs {table.sizes}")
    if parent.ids.type != table.ids.type:
        raise InputError(f"the generation before has ids of type {parent.ids.type}, these SIDs {table.ids.type}")
    rows = match(parent.ids, table.ids)
    if (rows < 0).any():
        lost = parent.ids[int(np.argmax(rows < 0))].as_py()
        raise InputError(f"item {lost!r} is published in the generation before and missing here; export all items")
    moved = (table.codes[rows] != parent.codes).any(axis=1)
    if moved.any():
        item = parent.ids[int(np.argmax(moved))].as_py()
        raise InputError(
            f"{int(moved.sum()):,} items have other SIDs than in the generation before (the first is {item!r}); "
            "published SIDs never move: write a full generation, without since"
        )
    slots = np.zeros(len(table), np.int64)
    slots[rows] = parent.slots
    fresh = np.flatnonzero(slots == 0)
    order = PrefixIndex(table.codes, table.sizes)
    bounds = order.bounds(len(table.sizes) - 1)
    group = np.empty(len(table), np.int64)
    group[order.rows] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    last = np.zeros(len(bounds) - 1, np.int64)
    np.maximum.at(last, group, slots)
    slots[fresh] = last[group[fresh]] + slots_of(group[fresh]) + 1
    return slots, fresh


def _write_items(job: ExportJob, folder: Path, slots: Integers, rows: Integers) -> int:
    table, kind = job.table, pa.list_(pa.int64())
    schema = pa.schema(
        {
            "item_id": table.ids.type,
            "origin_codebook": kind,
            "codebook": kind,
            "offset_codebook": kind,
            "index": pa.int64(),
        }
    )

    def parts() -> Iterator[Any]:
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            codes = table.codes[some].astype(np.int64)
            lists = list_column(codes), list_column(codes), list_column(codes + offsets(table.sizes))
            yield pa.table([table.ids.take(pa.array(some)), *lists, pa.array(slots[some])], schema=schema)

    write_parquet(folder / "part-0.parquet", schema, parts())
    return len(rows)


def _write_sids(job: ExportJob, folder: Path, index: PrefixIndex, slots: Integers, fresh: Integers | None) -> int:
    """A row per SID, ascending; of those that new items touch, if there are any."""
    table, kind = job.table, pa.list_(pa.int64())
    schema = pa.schema({"codebook": kind, "offset_codebook": kind, "itemids": pa.list_(table.ids.type)})
    bounds = index.bounds(len(table.sizes) - 1)
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ordered = index.rows[np.lexsort((slots[index.rows], group))]  # by SID, then by slot
    chosen = np.arange(len(bounds) - 1)
    if fresh is not None:
        is_fresh = np.zeros(len(table), bool)
        is_fresh[fresh] = True
        chosen = np.unique(group[is_fresh[ordered]])

    def parts() -> Iterator[Any]:
        for start in range(0, len(chosen), BATCH):
            some = chosen[start : start + BATCH]
            counts = bounds[some + 1] - bounds[some]
            ends = np.cumsum(counts)
            within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
            rows = ordered[np.repeat(bounds[some], counts) + within]
            codes = table.codes[ordered[bounds[some]]].astype(np.int64)
            ids = pa.ListArray.from_arrays(
                pa.array(np.concatenate([[0], ends]).astype(np.int32)), table.ids.take(pa.array(rows))
            )
            yield pa.table([list_column(codes), list_column(codes + offsets(table.sizes)), ids], schema=schema)

    write_parquet(folder / "part-0.parquet", schema, parts())
    return len(chosen)


def _uuid(job: ExportJob, name: str, since: str | None) -> str:
    """32 digits from what is written, so that the same export gives the same bundle."""
    table = job.table
    digest = hashlib.sha256(json.dumps([name, since, list(table.sizes), str(table.ids.type)]).encode())
    digest.update(np.ascontiguousarray(table.codes).tobytes())
    for start in range(0, len(table), BATCH):
        digest.update("\0".join(map(str, table.ids[start : start + BATCH].to_pylist())).encode())
    return digest.hexdigest()[:32]


TARGET = ExportTarget(
    "torcheasyrec",
    "TorchEasyRec",
    "GENERATION/: manifest.json, item_to_sid, sid_to_items, and after `since` their deltas",
    write,
    (GENERATION, SINCE, CAPACITY),
    read_bundle,
    "the folder of a generation",
    folder=True,
    appends=True,
)
