"""What is noted beside a table in text: what Parquet would keep in its metadata.

The notes are in NAME.sidkit.json, with the SHA-256 of the text, by which a file that was changed since is recognised:
its notes are then left alone. While a file is being replaced, they contain those on what was there before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .address import Location

__all__ = [
    "DELIMITERS",
    "JSON_LINES",
    "TextNotes",
    "beside",
    "digest_of",
    "is_text_table",
    "notes_of",
    "raw_notes",
    "read_notes",
    "text_ending",
]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")  # a file that is written is named by the first
FORMAT = "sidkit-notes"
MOST = 1 << 20  # bytes of notes


class TextNotes(NamedTuple):
    """The metadata of a table's schema, and the columns that are texts, whatever they look like."""

    metadata: dict[bytes, bytes]
    texts: tuple[str, ...]


def is_text_table(path: Location) -> bool:
    """Whether a file has the name of a table in text, compressed by gzip or not."""
    return text_ending(path.name) in (*DELIMITERS, *JSON_LINES)


def text_ending(name: str) -> str:
    """The ending of a name, without .gz: .csv of items.csv and of items.csv.gz."""
    return PurePath(name.lower().removesuffix(".gz")).suffix


def beside(path: Location) -> Location:
    """The file of the notes on a file."""
    return path.parent / f"{path.name}.sidkit.json"


def notes_of(name: str, digest: str, texts: list[str], metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The notes, for JSON."""
    plain = {key.decode(): value.decode() for key, value in metadata.items()}
    return {"format": FORMAT, "file": name, "sha256": digest, "texts": texts, "metadata": plain}


def read_notes(path: Location) -> TextNotes | None:
    """The notes on a file; None if there are none, or if the file was changed since."""
    try:
        notes = raw_notes(path)
        if notes is None:
            return None
        metadata = {str(key).encode(): str(value).encode() for key, value in notes["metadata"].items()}
        return TextNotes(metadata, tuple(map(str, notes["texts"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def raw_notes(path: Location) -> dict[str, Any] | None:
    """The notes on a file as they are in JSON; None if there are none on the file as it is."""
    file = beside(path)
    try:
        if not file.is_file() or not path.is_file() or file.stat().st_size > MOST:
            return None
        with file.open("rb") as stream:
            notes = json.loads(stream.read())
        digest = digest_of(path)
        for one in (notes, notes.pop("before", None)):
            if one is not None and one["format"] == FORMAT and one["sha256"] == digest:
                return dict(one)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def digest_of(path: Location) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
