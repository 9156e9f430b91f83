"""What sidkit wrote, as far as a file or folder tells: only that is replaced without being asked.

    is_ours(Path("sids.parquet"))                     by what sidkit notes in every file that it writes
    require_own_folder(folder, "tokenizer", "config.json")

A folder that a user insists on is marked (`claim`): sidkit writes there from then on.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreError
from .address import Location, for_arrow
from .text_notes import DELIMITERS, JSON_LINES, read_notes, text_ending

__all__ = ["MADE_BY", "MARK", "ForeignFolderError", "claim", "is_ours", "require_own_folder"]

MADE_BY = "made by sidkit"  # in files that have no metadata
MARK = ".sidkit"  # a file in folders that sidkit may write to
SIGNS = (MADE_BY.encode(), b'name="generator" content="sidkit', b'"sidkit-')
START = 4096  # bytes of a file in which such a sign is


class ForeignFolderError(StoreError):
    """A folder has files in it that sidkit did not write."""


def is_ours(path: Location) -> bool:
    """Whether sidkit wrote a file. An empty file counts: nothing is lost with it."""
    if path.stat().st_size == 0:
        return True
    if text_ending(path.name) in (*DELIMITERS, *JSON_LINES) and read_notes(path) is not None:
        return True
    with path.open("rb") as file:
        start = file.read(START)
    if start[:4] != b"PAR1":
        return any(sign in start for sign in SIGNS)
    try:
        metadata = pq.read_schema(for_arrow(path)).metadata or {}
    except (OSError, pa.ArrowException):  # damaged; not known to be ours
        return False
    return any(key.startswith(b"sidkit.") for key in metadata)


def require_own_folder(folder: Path, noun: str, *names: str) -> None:
    """An error unless a folder is new, empty or claimed, or has one of these files: sidkit wrote it.

    noun: what will be written to it.
    """
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the {noun}")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not any((folder / name).exists() for name in (MARK, *names)):
        raise ForeignFolderError(f"{folder} holds other files and no {noun}; name a new or empty folder for it")


def claim(folder: Path) -> None:
    """Mark a folder as one that sidkit may write to."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(f"{MADE_BY}\n", encoding="utf-8")
