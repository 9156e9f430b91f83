"""The files of a retriever's folder, checked before they are used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..files.folder import file_inside, read_json, require_short_header
from ..files.manifest import MANIFEST, check_manifest, write_manifest
from ..files.unfinished import unfinished_folder

__all__ = ["FACTS", "TABLE", "WEIGHTS", "finish_folder", "read_facts"]

FORMAT = "sidkit-retriever"
FACTS, TABLE, WEIGHTS = "retriever.json", "sids.parquet", "model.safetensors"
ADVICE = "train it again, or fetch an undamaged copy"


def finish_folder(folder: Path, facts: dict[str, Any]) -> None:
    """Write the facts, then the digests of all files of the folder."""
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, **facts}, indent=1) + "\n", encoding="utf-8")
    write_manifest(folder, FORMAT)


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a folder whose files are all as they were written. Folders of older versions have no digests."""
    for name in (FACTS, TABLE, WEIGHTS):
        if not (folder / name).is_file():
            unfinished = unfinished_folder(folder)
            hint = f"; {unfinished} can be trained on with --resume" if unfinished.is_dir() else ""
            raise StoreError(f"{folder} is no trained retriever: no {name} in it{hint}")
        file_inside(folder, name, ADVICE)
    if (folder / MANIFEST).exists():
        check_manifest(folder, FORMAT, ADVICE)
    require_short_header(folder / WEIGHTS, ADVICE)
    facts = read_json(folder / FACTS, ADVICE)
    if not isinstance(facts, dict):
        raise StoreError(f"{folder / FACTS} does not describe a retriever; {ADVICE}")
    if facts.pop("format", None) is not None and not (folder / MANIFEST).exists():
        raise StoreError(f"{folder} holds no {MANIFEST}, so its files cannot be checked; {ADVICE}")
    return facts
