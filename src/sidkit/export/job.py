"""Writing an export: a folder that appears whole, with a record of what it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from .. import __version__
from ..errors import InputError, StoreError
from ..files.atomic import replace_folder
from ..files.folder import check_digest, read_json, with_digest
from ..files.ours import require_own_folder
from ..sids.table import SidTable
from .registry import target_named
from .streams import BATCH, batches
from .target import RECORD, ExportJob, ExportTarget

__all__ = ["adds_to", "check_export", "check_output", "export"]

FORMAT = "sidkit-export"
VERSION = 1
LIMIT = 1 << 24  # bytes of a record that is read


def export(name: str, job: ExportJob, output: str | Path) -> dict[str, Any]:
    """Write what the target reads into a folder, in one step; the record of what was written.

    An export that the folder held before is replaced. Files of others are never touched: a folder that holds any, and
    no export, is refused.
    """
    target, output = target_named(name), Path(output)
    job = replace(job, options=target.settings(job.options), output=output)
    if job.sids is not None and not len(job.sids):
        raise InputError("there are no items to export")
    if job.sids is not None and job.fitted is not None and job.fitted.sizes != job.sids.sizes:
        raise InputError(f"the tokenizer makes SIDs of sizes {job.fitted.sizes}, but these have {job.sids.sizes}")
    _check_joined(job)
    with replace_folder(output, drop=_replaced(output, target)) as folder:
        job.progress.start(target.name, 0 if job.sids is None else len(job.sids))
        target.write(job, folder)
        record = _record(target.name, job, folder)
        (folder / RECORD).write_text(json.dumps(with_digest(record), indent=2) + "\n", encoding="utf-8")
    return record


def check_output(output: Path) -> None:
    """An error if the folder holds other things and no export."""
    require_own_folder(output, "export", RECORD)


def adds_to(output: Path, target: ExportTarget) -> bool:
    """Whether an export into this folder is added to the one in it, instead of replacing it."""
    return target.appends and (output / RECORD).is_file() and _read_record(output)["target"] == target.name


def _replaced(output: Path, target: ExportTarget) -> set[str]:
    """The files and folders of an earlier export that the new one replaces."""
    check_output(output)
    if not (output / RECORD).is_file():
        return set()
    if adds_to(output, target):
        return {RECORD}
    record = _read_record(output)
    return {RECORD, *(Path(name).parts[0] for name in record["files"])}


def _check_joined(job: ExportJob) -> None:
    """A note on items without a text and events without an item; an error if no item has a text."""
    if job.titles is not None:
        items, parts = len(job.table), range(0, len(job.table), BATCH)
        bare = sum(pc.sum(pc.equal(job.titles[start : start + BATCH], "")).as_py() for start in parts)
        if bare == items:
            raise InputError(
                "no item has a text: the ids of --items must be those of the SIDs (--id-column), and --text its column"
            )
        if bare:
            job.note(f"{bare:,} of {items:,} items have no text")
    if job.visits is not None and (lost := int((job.visits.rows < 0).sum())):
        job.note(f"{lost:,} events of items without a SID are left out")


def check_export(folder: str | Path) -> dict[str, Any]:
    """The record of an exported folder; an error that names the first file that is missing or was changed."""
    folder = Path(folder)
    record = _read_record(folder)
    for name, facts in record["files"].items():
        file = folder / name
        if not name.isprintable():
            raise StoreError(f"{folder / RECORD} names {name!r}, which is no file of an export; export again")
        if not file.resolve().is_relative_to(folder.resolve()):
            raise StoreError(f"{folder / RECORD} names a file outside the folder: {name!r}")
        if not file.is_file():
            raise StoreError(f"{folder} holds no {name}, which its {RECORD} names; export again")
        if not isinstance(facts, dict) or _digest(file) != facts.get("sha256"):
            raise StoreError(f"{file} was changed after it was exported: its SHA-256 is not the one in {RECORD}")
    return record


def _read_record(folder: Path) -> dict[str, Any]:
    record = read_json(folder / RECORD, "export again", LIMIT)
    if not isinstance(record, dict) or record.get("format") != FORMAT or not isinstance(record.get("files"), dict):
        raise StoreError(f"{folder / RECORD} is not the record of an export; export again")
    if record.get("version") != VERSION:
        raise StoreError(f"{folder / RECORD} has version {record.get('version')!r}; this sidkit reads {VERSION}")
    check_digest(record, folder / RECORD, "export again")
    return record


def _record(name: str, job: ExportJob, folder: Path) -> dict[str, Any]:
    """What was written, from what, with digests."""
    made_from: dict[str, Any] = {"files": dict(job.names)} if job.names else {}
    if job.sids is not None:
        made_from |= _facts_of(job.sids)
    if job.fitted is not None:
        made_from |= {"tokenizer": {"recipe": job.fitted.spec.name, "digest": job.fitted.digest}}
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": name,
        "sidkit": __version__,
        "from": made_from,
        "options": {key: value for key, value in job.options.items() if value is not None},
        "notes": list(job.notes),
        "files": {
            file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": _digest(file)}
            for file in files
        },
    }


def _facts_of(table: SidTable) -> Mapping[str, Any]:
    return {
        "items": len(table),
        "sizes": list(table.sizes),
        "template": asdict(table.template),
        "origin": {key: value for key, value in asdict(table.origin).items() if value},
        "sids_sha256": _content_digest(table),
    }


def _content_digest(table: SidTable) -> str:
    """SHA-256 of sizes, ids and codes, whatever file they came from."""
    digest = hashlib.sha256(json.dumps([str(table.ids.type), *table.sizes]).encode())
    for rows in batches(table):
        digest.update("\0".join(map(str, rows.ids.to_pylist())).encode(errors="surrogatepass"))
        digest.update(rows.codes.astype("<i4").tobytes())
    return digest.hexdigest()


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
