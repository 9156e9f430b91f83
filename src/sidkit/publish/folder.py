"""Published generations as folders of Parquet files, for readers without a database.

    published/
      generation-000003/
        part-00000.parquet    item_id, codes, sid, slot; in the order of SIDs
        manifest.json         written last: a folder with it is complete

On this machine a folder appears when it is complete; other file systems have no such step.

Any command that reads SIDs reads such a folder. Folders can be deleted and written again, with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InputError, StoreError
from ..files.address import Location, replacing
from ..files.atomic import replace_folder
from ..files.folder import config_digest
from ..progress import Progress, Silent
from ..sids.origin import Origin
from ..sids.policies import with_counter
from ..sids.table import SidTable

if TYPE_CHECKING:
    from .registry import Registry
    from .tables import Generation

__all__ = ["MANIFEST", "Exported", "check_generation", "export_generation", "generation_folder"]

MANIFEST = "manifest.json"
FORMAT, VERSION = "sidkit-generation", 1
PART = 1 << 20  # rows of a file


@dataclass(frozen=True)
class Exported:
    """A generation as files."""

    folder: Location
    items: int
    files: int
    kept: bool  # it was there already


def generation_folder(output: Location, number: int) -> Location:
    return output / f"generation-{number:06}"


def export_generation(
    registry: Registry,
    output: Location,
    number: int | None = None,
    room: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a generation below the output folder, unless it is there complete.

    room: write the slot as one more token of this many values, so that no two items have the same SID.
    """
    at, report = registry.generation(number), progress or Silent()
    folder = generation_folder(output, at.generation)
    known = _read_manifest(folder)
    if known is not None:
        if known.get("registry") != registry.uuid:
            raise StoreError(f"{folder} is of another registry ({known.get('registry')}); name another folder")
        if known["sizes"] != [*registry.sizes, *([room] if room else [])]:
            raise StoreError(f"{folder} has SIDs of sizes {known['sizes']}; name another folder, or the --room it has")
        return Exported(folder, known["items"], len(known["files"]), True)
    report.start("export", at.items)
    if not isinstance(folder, Path):
        return _write(registry, at, folder, folder, room, report)
    with replace_folder(folder, drop={one.name for one in folder.iterdir()} if folder.is_dir() else ()) as temporary:
        return _write(registry, at, folder, temporary, room, report)


def _write(
    registry: Registry, at: Generation, folder: Location, target: Location, room: int | None, report: Progress
) -> Exported:
    """Write the files of a folder to the target, which takes its place."""
    files: dict[str, dict[str, Any]] = {}
    sizes: tuple[int, ...] = registry.sizes
    origin = Origin(tokenizer=at.tokenizer, tokenizer_digest=at.digest)
    for part in _parts(registry.batches(at.generation), PART):
        name = f"part-{len(files):05}.parquet"
        codes = part["codes"].combine_chunks().flatten().to_numpy().reshape(len(part), len(registry.sizes))
        if room:
            codes, sizes = with_counter(codes, part["slot"].to_numpy(), registry.sizes, room)
        table = SidTable(part["item_id"], codes, sizes, registry.template, origin)
        table.to_parquet(target / name, more=part.select(["slot"]))
        files[name] = {"rows": len(part), "sha256": _digest(target / name)}
        report.advance(len(part))
    if not files:
        raise InputError(f"generation {at.generation} of {registry.name} holds no items; there is nothing to export")
    items = sum(file["rows"] for file in files.values())
    if items != at.items:
        raise StoreError(f"{registry.name}: generation {at.generation} has {at.items} items, but {items} were read")
    facts = at.facts() | {"registry": registry.uuid, "sizes": sizes, "files": files}
    manifest: dict[str, Any] = {"format": FORMAT, "version": VERSION, **facts}
    manifest["sha256"] = config_digest(json.loads(json.dumps(manifest)))
    with replacing(target / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return Exported(folder, items, len(files), False)


def check_generation(folder: Location) -> Mapping[str, Any]:
    """The manifest of an exported generation; an error unless it is complete and its files are as they were written."""
    manifest = _read_manifest(folder)
    if manifest is None:
        raise StoreError(f"{folder} has no {MANIFEST}: it is not an exported generation, or its export was stopped")
    for name, file in manifest["files"].items():
        if not name.isprintable() or "/" in name or "\\" in name:
            raise StoreError(f"{folder / MANIFEST} names a file outside the folder: {name!r}")
        if not (folder / name).is_file() or _digest(folder / name) != file["sha256"]:
            raise StoreError(f"{folder / name} is missing or damaged; delete the folder and export it again")
    return manifest


def _parts(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """The batches as tables of this many rows."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= rows:
            table = pa.concat_tables(waiting)
            yield table.slice(0, rows)
            waiting = [table.slice(rows)]
    rest = pa.concat_tables(waiting) if waiting else ()
    if len(rest):
        yield rest


def _read_manifest(folder: Location) -> dict[str, Any] | None:
    """The manifest of a folder, None if it has none."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        with file.open("rb") as stream:
            manifest: dict[str, Any] = json.loads(stream.read())
        digest = manifest.pop("sha256")
        if (manifest["format"], manifest["version"]) != (FORMAT, VERSION) or digest != config_digest(manifest):
            raise ValueError("its checksum or its format is another")
        if type(manifest["items"]) is not int or type(manifest["sizes"]) is not list:
            raise ValueError("it does not count its items and sizes")
        if not all(type(file["rows"]) is int and type(file["sha256"]) is str for file in manifest["files"].values()):
            raise ValueError("it does not list its files")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{file} cannot be read: {error}; delete the folder and export it again") from error
    return manifest


def _digest(file: Location) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
