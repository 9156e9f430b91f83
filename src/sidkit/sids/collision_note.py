"""What a collision policy did, as a note in the metadata of a SID file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

import pyarrow.parquet as pq

from ..data.listing import files_of, readable
from ..errors import InputError
from ..files.address import for_arrow

__all__ = ["COLLISIONS", "collision_note", "read_collision_note"]

COLLISIONS = "sidkit.collisions"  # the key of the note


def collision_note(facts: Mapping[str, Any]) -> dict[str, str]:
    """As an entry of the metadata, for `SidTable.to_parquet`."""
    return {COLLISIONS: json.dumps(dict(facts))}


def read_collision_note(path: str | PathLike[str]) -> dict[str, Any] | None:
    """The note of a SID file; None for a file without one, and for several files, of which each may have its own."""
    files = files_of(path, nested=True)
    if len(files) != 1:
        return None
    with readable(files[0]):
        text = (pq.read_schema(for_arrow(files[0])).metadata or {}).get(COLLISIONS.encode())
    if text is None:
        return None
    try:
        facts = json.loads(text)
        facts["policy"], facts["moved"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: its note on collisions cannot be read: {text[:80]!r}") from None
    return dict(facts)
