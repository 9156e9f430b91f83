"""The Parquet file of a SID table: item_id, codes, sid, and in its metadata sizes, template and checksum."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.formats.vectors import is_list
from ..errors import InputError, SpecError
from ..files.address import Remote, locate, replacing
from ..files.seal import BLANK_SEAL, check_seal, seal
from .template import TEMPLATES, Template

__all__ = ["StoredSids", "notes_of", "read_sids", "write_sids"]

SIZES, TEMPLATE = "sidkit.sizes", "sidkit.template"


class StoredSids(NamedTuple):
    """What a file holds: the arguments of `SidTable`."""

    ids: Any
    codes: NDArray[Any]
    sizes: Sequence[int]
    template: Template


def notes_of(sizes: Sequence[int], template: Template) -> dict[str, str]:
    """What the metadata of a file contain besides the checksum."""
    return {SIZES: json.dumps(sizes), TEMPLATE: json.dumps(asdict(template))}


def write_sids(path: str | Path | Remote, schema: Any, groups: Iterable[Any]) -> None:
    """Write row groups and a checksum; the file appears complete or not at all."""
    with replacing(locate(path)) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as file:
            for group in groups:
                file.write_table(group)
            file.add_key_value_metadata(BLANK_SEAL)
        seal(temporary)


def read_sids(path: Path, sizes: Sequence[int] | None) -> StoredSids:
    """A file, or a folder of files as one table; sizes come from the argument, the file, or the largest codes."""
    for file in _files_of(path):
        check_seal(file)
    try:
        names = pq.read_schema(path).names if path.is_file() else ["item_id", "codes"]
        if not {"item_id", "codes"} <= set(names):
            raise ValueError(f"its columns are {', '.join(names)}")
        table = pq.read_table(path, columns=["item_id", "codes"])
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not a table of semantic IDs (item_id, codes): {error}") from error
    codes = _matrix_of(table.column("codes"), str(path))
    notes = table.schema.metadata or {}
    if sizes is None and SIZES.encode() in notes:
        sizes = _sizes_in(notes[SIZES.encode()], path)
    elif sizes is None:
        sizes = [int(column.max()) + 1 for column in codes.T] if len(codes) else []
    template = _template_in(notes.get(TEMPLATE.encode()), path)
    return StoredSids(table.column("item_id"), codes if len(codes) else codes.reshape(0, len(sizes)), sizes, template)


def _files_of(path: Path) -> list[Path]:
    """The file, or those of the folder that Arrow reads as one table."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*.parquet") if file.is_file())


def _sizes_in(text: bytes, path: Any) -> list[int]:
    try:
        sizes = [int(size) for size in json.loads(text)]
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{path}: its note on sizes cannot be read: {text[:80]!r}") from None
    return sizes


def _template_in(text: bytes | None, path: Any) -> Template:
    if text is None:
        return TEMPLATES["letters"]
    try:
        parts = json.loads(text)
        if not all(isinstance(part, str) for part in parts.values()):
            raise TypeError("its parts are strings")
        return Template(**parts)
    except (ValueError, TypeError, AttributeError, SpecError):
        raise InputError(f"{path}: its note on how SIDs are written cannot be read: {text[:80]!r}") from None


def _matrix_of(column: Any, path: str) -> NDArray[Any]:
    kind = column.type
    if not is_list(kind):
        raise InputError(f"{path}: 'codes' holds {kind}, not lists of integers")
    if not pa.types.is_integer(kind.value_type):
        raise InputError(f"{path}: 'codes' holds lists of {kind.value_type}, not of integers")
    flat = column.combine_chunks()
    flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    lengths = pc.unique(pc.list_value_length(flat)).to_pylist()
    if flat.null_count or len(lengths) > 1 or None in lengths:
        raise InputError(f"{path}: rows of 'codes' have different lengths ({lengths[:4]})")
    width = lengths[0] if lengths else 0
    if flat.flatten().null_count:
        raise InputError(f"{path}: there are codes missing")
    return np.asarray(flat.flatten().to_numpy(zero_copy_only=False).reshape(len(flat), width))
