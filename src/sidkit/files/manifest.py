"""The SHA-256 of every file of a folder that another library wrote, in one more file: sidkit.json.

write_manifest(folder, "sidkit-retriever")      once all other files are there
check_manifest(folder, "sidkit-retriever", "train it again")
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ..errors import StoreError
from .folder import config_digest, file_inside, read_json

__all__ = ["MANIFEST", "check_manifest", "write_manifest"]

MANIFEST = "sidkit.json"
VERSION = 1


def write_manifest(folder: Path, kind: str) -> None:
    """Note the digests of the files that are in the folder now; files added later are not checked."""
    digests = {file.name: _digest(file) for file in sorted(folder.iterdir()) if file.is_file()}
    manifest = {"format": kind, "version": VERSION, "files": digests}
    manifest["sha256"] = config_digest(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def check_manifest(folder: Path, kind: str, advice: str) -> None:
    """An error that names the first file which is missing, or differs from what was written."""
    file = file_inside(folder, MANIFEST, advice)
    manifest = read_json(file, advice)
    digest = manifest.pop("sha256", None) if isinstance(manifest, dict) else None
    if digest is None or digest != config_digest(manifest):
        raise StoreError(f"{file} is damaged: its checksum differs; {advice}")
    digests = manifest.get("files")
    if (manifest.get("format"), manifest.get("version")) != (kind, VERSION) or not isinstance(digests, dict):
        raise StoreError(f"{file} is not version {VERSION} of {kind!r}; {advice}")
    for name, expected in digests.items():
        if Path(name).name != name:
            raise StoreError(f"{file} names a file outside the folder: {name!r}; {advice}")
        if _digest(file_inside(folder, name, advice)) != expected:
            raise StoreError(f"{folder / name} is damaged: its SHA-256 is not the one in {MANIFEST}; {advice}")


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
