"""Embeddings and their encoder as one pair, whatever happens while they are written.

    with Unfinished(output, resume) as unfinished:
        ...                                        # the encoder is in unfinished/encoder
        begin(unfinished)
        write_vectors(..., note(unfinished))       # this rename decides: from here on the new pair is valid
        place(unfinished / "encoder", output)

The file of the vectors notes the digest of its encoder. A writer that was killed between the two leaves the new encoder
in the unfinished folder: `encoder_of` finds it there, and the next `sidkit embed` moves it to its place first.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from ..data.listing import readable
from ..errors import SidkitError, StoreError
from ..files.atomic import replace_file, replace_folder
from ..files.text_notes import is_text_table, read_notes
from ..files.unfinished import unfinished_folder
from .encoder import FORMAT

__all__ = ["STAGED", "begin", "beside", "complete", "encoder_of", "note", "place", "require_pair"]

KEY = b"sidkit.encoder"
STAGED, BEGUN = "encoder", "writing"  # in the unfinished folder
ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl")


def beside(embeddings: str | Path) -> Path:
    """Where `sidkit embed` saves the encoder of a file: shop.parquet -> shop.encoder."""
    return Path(embeddings).with_suffix(".encoder")


def begin(unfinished: Path) -> None:
    """Note that the output is about to be replaced."""
    with replace_file(unfinished / BEGUN) as temporary:
        temporary.write_text("the output is being written\n", encoding="utf-8")


def note(unfinished: Path) -> dict[bytes, bytes]:
    """The entry of the vectors' metadata that names the encoder in the unfinished folder."""
    return {KEY: str(FORMAT.read_config(unfinished / STAGED)["sha256"]).encode()}


def place(staged: Path, embeddings: Path) -> None:
    """Copy an encoder beside its embeddings, in one step."""
    with replace_folder(beside(embeddings)) as temporary:
        for name in (FORMAT.config, FORMAT.tensors):
            shutil.copyfile(staged / name, temporary / name)


def complete(embeddings: Path) -> None:
    """Put the encoder in its place, if a writer of these embeddings was killed just before it did."""
    staged = unfinished_folder(embeddings) / STAGED
    noted = _noted(embeddings)
    if noted is not None and noted == _digest(staged) != _digest(beside(embeddings)):
        place(staged, embeddings)


def encoder_of(embeddings: str | Path) -> Path:
    """The folder of the encoder that made these embeddings; an error if it is not there."""
    path = Path(embeddings)
    unfinished, folder, noted = unfinished_folder(path), beside(path), _noted(path)
    if noted is None:
        _require_whole(path)
        return folder
    if noted == _digest(folder):
        return folder
    if noted == _digest(unfinished / STAGED):
        return unfinished / STAGED
    if folder.is_dir():
        raise StoreError(f"{folder} is not the encoder that made {path}; embed the items again")
    return folder


def require_pair(folder: Path) -> Path:
    """The folder of an encoder, or that of the one which takes its place by a write that was stopped halfway.

    An error if embeddings of its name were all made by another encoder.
    """
    files = [file for ending in ENDINGS if (file := folder.with_suffix(ending)).is_file()]
    if folder.suffix != ".encoder" or not files:
        return folder
    noted = [file for file in files if _noted(file) is not None]
    for file in set(files) - set(noted):
        _require_whole(file)
    if not noted or any(_noted(file) == _digest(folder) for file in noted):
        return folder
    return encoder_of(noted[0])


def _require_whole(path: Path) -> None:
    """An error for a table in text whose notes a stopped run has not written: its encoder is not known."""
    if path.is_file() and is_text_table(path) and (unfinished_folder(path) / BEGUN).exists():
        raise StoreError(f"a run was stopped while it wrote {path}; end it with: sidkit embed ... --resume")


def _noted(embeddings: Path) -> str | None:
    """The digest of the encoder that a file of embeddings notes; None if it notes none or cannot be read."""
    found: bytes | None = None
    with suppress(SidkitError):
        if not embeddings.is_file():
            return None
        if is_text_table(embeddings):
            notes = read_notes(embeddings)
            found = notes.metadata.get(KEY) if notes is not None else None
        else:
            with readable(embeddings):
                found = (pq.read_schema(embeddings).metadata or {}).get(KEY)
    return None if found is None else found.decode(errors="replace")


def _digest(folder: Path) -> str | None:
    """The digest of an encoder's folder; None if there is none."""
    with suppress(SidkitError):
        return str(FORMAT.read_config(folder)["sha256"])
    return None
