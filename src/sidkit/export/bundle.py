"""Reading a generation of TorchEasyRec's bundle, checked by its rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.formats.vectors import is_list
from ..data.ids import is_id_type, one_array, require_utf8
from ..data.listing import readable
from ..errors import InputError, count_of
from ..files.folder import read_json
from ..sids.prefixes import prefix_numbers
from ..sids.sizes import as_sizes
from ..sids.table import SidTable
from .imports import Foreign, matrix_of
from .vocabulary import offsets

__all__ = ["Bundle", "read_bundle", "read_generation"]

REQUIRED = {"bundle_uuid", "codebook", "capacity", "max_observed_items_per_sid", "artifacts"}
KINDS = {
    "bundle_uuid": str,
    "codebook": list,
    "capacity": int,
    "max_observed_items_per_sid": int,
    "artifacts": dict,
}
LARGEST = 1 << 31
KNOWN = REQUIRED | {"since_bundle_uuid", "item_id_type"}


@dataclass(frozen=True, eq=False)
class Bundle:
    """The items of a generation."""

    uuid: str
    sizes: tuple[int, ...]
    capacity: int
    most: int  # items that share one SID
    ids: Any
    codes: NDArray[np.int32]
    slots: NDArray[np.int64]  # the slot of each item in its SID, from 1


def read_bundle(path: Path, how: Foreign) -> SidTable:
    """The SIDs of a generation."""
    bundle = read_generation(path.parent if path.name == "manifest.json" else path)
    return SidTable(bundle.ids, bundle.codes, bundle.sizes)


def read_generation(folder: Path) -> Bundle:
    """A generation whose manifest, rows and both artifacts agree; an error names what does not."""
    manifest = _manifest(folder)
    sizes = as_sizes(manifest["codebook"])
    items = _artifact(folder, manifest, "item_to_sid", ("item_id", "codebook", "offset_codebook", "index"))
    codes = matrix_of(items.column("codebook"), folder)
    shifted = matrix_of(items.column("offset_codebook"), folder)
    if codes.shape[1] != len(sizes) or codes.shape != shifted.shape or (shifted != codes + offsets(sizes)).any():
        raise InputError(f"{folder}: offset_codebook is not codebook plus the sizes before; the sizes are {sizes}")
    ids, index = one_array(items.column("item_id")), one_array(items.column("index"))
    if ids.null_count or index.null_count or not pa.types.is_integer(index.type) or not is_id_type(ids.type):
        raise InputError(f"{folder}: every item needs an id and an index from 1")
    slots = index.to_numpy().astype(np.int64)
    if (slots < 1).any():
        raise InputError(f"{folder}: every item needs an id and an index from 1")
    _check_sids(folder, manifest, sizes, len(ids))
    most = int(slots.max(initial=0))
    if most > manifest["max_observed_items_per_sid"] or most > manifest["capacity"]:
        raise InputError(f"{folder}: an item has index {most}, more than the manifest allows")
    return Bundle(
        manifest["bundle_uuid"], sizes, manifest["capacity"], manifest["max_observed_items_per_sid"], ids,
        codes.astype(np.int32), slots,
    )  # fmt: skip


def _manifest(folder: Path) -> dict[str, Any]:
    file = folder / "manifest.json"
    if not file.is_file():
        whole = sorted(one.parent for one in folder.glob("*/manifest.json"))
        hint = f"; it holds {count_of(len(whole), 'generation')}, such as {whole[-1]}" if whole else ""
        raise InputError(f"{folder} holds no manifest.json: it is not a complete generation{hint}")
    manifest = read_json(file, "export it again")
    if not isinstance(manifest, dict) or not REQUIRED <= set(manifest) or not set(manifest) <= KNOWN:
        raise InputError(f"{file} must have the keys {', '.join(sorted(REQUIRED))}, and no unknown ones")
    for key, kind in KINDS.items():
        if type(manifest[key]) is not kind:
            raise InputError(f"{file}: {key} must be {kind.__name__}, not {str(manifest[key])[:60]!r}")
    if any(not 0 < size < LARGEST for size in as_sizes(manifest["codebook"])):
        raise InputError(f"{file}: sizes must lie between 1 and {LARGEST:,}, not {str(manifest['codebook'])[:60]}")
    return manifest


def _artifact(folder: Path, manifest: dict[str, Any], name: str, columns: tuple[str, ...]) -> Any:
    facts = manifest["artifacts"].get(name)
    if not isinstance(facts, dict) or facts.get("save_type") != "parquet":
        raise InputError(f"{folder} has no {name} in Parquet; other forms are not read")
    files = sorted((folder / name).glob("part-*.parquet"))
    with readable(folder / name):
        table = pa.concat_tables([pq.read_table(file, columns=list(columns)) for file in files])
    for column in columns:
        require_utf8(table.column(column), column, folder / name)
    if len(table) != facts.get("rows"):
        raise InputError(f"{folder / name} has {len(table):,} rows, its manifest says {facts.get('rows')}")
    return table


def _check_sids(folder: Path, manifest: dict[str, Any], sizes: tuple[int, ...], items: int) -> None:
    """One row per SID, strictly ascending, with as many ids as there are items."""
    table = _artifact(folder, manifest, "sid_to_items", ("codebook", "itemids"))
    codes = matrix_of(table.column("codebook"), folder)
    if codes.shape[1] != len(sizes):
        raise InputError(f"{folder / 'sid_to_items'} has SIDs of {codes.shape[1]} levels, not {len(sizes)}")
    numbers = prefix_numbers(codes, sizes)[-1]
    if (np.diff(numbers) <= 0).any():
        raise InputError(f"{folder / 'sid_to_items'} must have a row per SID, ascending")
    if not is_list(table.column("itemids").type):
        raise InputError(f"{folder / 'sid_to_items'} has itemids that are no lists")
    listed = sum(len(chunk.flatten()) for chunk in table.column("itemids").chunks)
    if listed != items:
        raise InputError(f"{folder}: sid_to_items lists {listed:,} items, item_to_sid has {items:,}")
