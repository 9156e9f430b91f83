"""Files of semantic IDs, one or many, as one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.ids import require_utf8
from ..data.listing import files_of, readable
from ..errors import InputError
from ..files.address import Location, for_arrow
from ..files.seal import check_seal
from .origin import ORIGIN, Origin

__all__ = ["origin_of", "read_codes"]

NOTES = (b"sidkit.sizes", b"sidkit.template")  # of a file's metadata, which all files must agree on


def read_codes(path: str | PathLike[str]) -> Any:
    """item_id and codes of a file, of the Parquet files in a folder and below it, or of those that a pattern matches.

    Files come in the order of their names. The notes on sizes and template are in the metadata of the table.
    """
    return _one_table([(file, _read_file(file)) for file in files_of(path, nested=True)])


def origin_of(path: str | PathLike[str]) -> Origin:
    """What the SIDs at a path were made from, by the footers of their files."""
    origins = []
    for file in files_of(path, nested=True):
        with readable(file):
            metadata = pq.read_schema(for_arrow(file)).metadata or {}
        origins.append(Origin.read(metadata.get(ORIGIN), file))
    return Origin.common(origins)


def _read_file(file: Location) -> Any:
    """item_id and codes of one file, verified if it is on this machine and contains its checksum."""
    try:
        if isinstance(file, Path):
            check_seal(file)
        with pq.ParquetFile(for_arrow(file)) as opened:
            names = opened.schema_arrow.names
            if not {"item_id", "codes"} <= set(names):
                raise ValueError(f"its columns are {', '.join(names)}")
            table = opened.read(columns=["item_id", "codes"])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{file} is not a table of semantic IDs (item_id, codes): {error}") from error
    require_utf8(table.column("item_id"), "item_id", file)
    return table


def _one_table(parts: Sequence[tuple[Location, Any]]) -> Any:
    """The tables of several files as one. Their SIDs must have the same sizes and template."""
    first, table = parts[0]
    notes = table.schema.metadata or {}
    for file, other in parts[1:]:
        for key in NOTES:
            ours, theirs = notes.get(key), (other.schema.metadata or {}).get(key)
            if ours != theirs:
                noun = key.decode().partition(".")[2]
                raise InputError(f"{first} and {file} differ in their {noun}: {_said(ours)} and {_said(theirs)}")
    origins = [Origin.read((one.schema.metadata or {}).get(ORIGIN), file) for file, one in parts]
    for (file, _), origin in zip(parts, origins, strict=True):
        if origin.tokenizer_digest != origins[0].tokenizer_digest:
            names = f"{origins[0].tokenizer or 'an unknown one'} and {origin.tokenizer or 'an unknown one'}"
            raise InputError(f"{first} and {file} were made by different tokenizers: {names}")
    notes = {key: value for key, value in notes.items() if key != ORIGIN} | Origin.common(origins).note()
    filled = [part for _, part in parts if len(part)]
    try:
        joined = pa.concat_tables(filled) if len(filled) > 1 else (filled or [table])[0]
    except pa.ArrowInvalid as error:
        raise InputError(f"{first} and the files beside it differ in their columns: {error}") from error
    return joined.replace_schema_metadata(notes)


def _said(note: bytes | None) -> str:
    return "none" if note is None else note.decode(errors="replace")[:80]
