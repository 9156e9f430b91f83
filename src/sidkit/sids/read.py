"""Files of semantic IDs, one or many, read batch by batch into one matrix of codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.ids import id_hashes, repeated_hashes, require_utf8
from ..data.listing import files_of, readable
from ..errors import InputError
from ..files.address import Location, for_arrow
from ..files.seal import check_seal
from .code_matrix import code_matrix
from .origin import ORIGIN, Origin
from .stored_ids import StoredIds

__all__ = ["StoredSids", "origin_of", "read_sids"]

NOTES = (b"sidkit.sizes", b"sidkit.template")  # of a file's metadata, which all files must agree on
BATCH = 1 << 17  # rows


class StoredSids(NamedTuple):
    """Codes (n, levels), ids in chunks or `StoredIds`, and the notes that all files have in common."""

    ids: Any
    codes: NDArray[np.int32]
    notes: Mapping[bytes, bytes]


def read_sids(path: str | PathLike[str], ids: bool = True) -> StoredSids:
    """item_id and codes of a file, of the Parquet files in a folder and below it, or of those that a pattern matches.

    Files come in the order of their names. With ids=False the ids stay in the files; they are read once, to see
    whether all are different, and only a hash of each is in memory. They are in memory after all if some look alike.
    """
    files = files_of(path, nested=True)
    headers = [_header(file) for file in files]
    notes, rows = _common_notes(files, headers), [header.rows for header in headers]
    names, hashes = list[Any](), np.empty(0 if ids else sum(rows), np.uint64)
    matrix, done = np.empty((0, 0), np.int32), 0
    for file in files:
        for batch in _batches(file):
            codes, some = code_matrix(batch.column("codes"), str(file)), batch.column("item_id")
            require_utf8(some, "item_id", file)
            if not done:
                matrix = _room(sum(rows), codes.shape[1], file)
            if codes.shape[1] != matrix.shape[1]:
                lengths = [matrix.shape[1], codes.shape[1]]
                raise InputError(f"{file}: rows of 'codes' have different lengths ({lengths})")
            matrix[done : done + len(codes)] = codes
            if ids:
                names.append(some)
            elif some.null_count:
                return read_sids(path)
            else:
                hashes[done : done + len(codes)] = id_hashes(some)
            done += len(codes)
    types = {header.ids for header in headers if header.rows}
    if len(types) > 1:
        kinds = " and ".join(sorted(str(kind) for kind in types))
        raise InputError(f"{files[0]} and the files beside it differ in their columns: 'item_id' holds {kinds}")
    if ids:
        return StoredSids(pa.chunked_array(names, headers[0].ids if not names else None), matrix, notes)
    if len(repeated_hashes(hashes)):
        return read_sids(path)
    return StoredSids(StoredIds(files, tuple(rows), (types or {headers[0].ids}).pop()), matrix, notes)


def origin_of(path: str | PathLike[str]) -> Origin:
    """What the SIDs at a path were made from, by the footers of their files."""
    origins = []
    for file in files_of(path, nested=True):
        with readable(file):
            metadata = pq.read_schema(for_arrow(file)).metadata or {}
        origins.append(Origin.read(metadata.get(ORIGIN), file))
    return Origin.common(origins)


class _Header(NamedTuple):
    """What the footer of a file tells."""

    notes: dict[bytes, bytes]
    rows: int
    ids: Any  # their pyarrow type


def _header(file: Location) -> _Header:
    """The footer of a file, which is verified if it is on this machine and contains its checksum."""
    try:
        if isinstance(file, Path):
            check_seal(file)
        with pq.ParquetFile(for_arrow(file)) as opened:
            schema, rows = opened.schema_arrow, opened.metadata.num_rows
        if not {"item_id", "codes"} <= set(schema.names):
            raise ValueError(f"its columns are {', '.join(schema.names)}")
        return _Header(dict(schema.metadata or {}), rows, schema.field("item_id").type)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _no_table(file, error) from error


def _batches(file: Location) -> Iterator[Any]:
    try:
        with pq.ParquetFile(for_arrow(file)) as opened:
            announced, found = opened.metadata.num_rows, 0
            for batch in opened.iter_batches(BATCH, columns=["item_id", "codes"]):
                found += len(batch)
                if found > announced:
                    break
                yield batch
            if found != announced:
                raise ValueError(f"it announces {announced} rows and holds others")
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _no_table(file, error) from error


def _room(rows: int, levels: int, file: Location) -> NDArray[np.int32]:
    try:
        return np.empty((rows, levels), np.int32)
    except (MemoryError, ValueError) as error:
        raise InputError(f"{file}: there is no memory for the {rows:,} rows that its files announce") from error


def _no_table(file: Location, error: Exception) -> InputError:
    return InputError(f"{file} is not a table of semantic IDs (item_id, codes): {error}")


def _common_notes(files: Sequence[Location], headers: Sequence[_Header]) -> dict[bytes, bytes]:
    """The notes of all files. Their SIDs must have the same sizes and template, and one tokenizer."""
    first, notes = files[0], headers[0].notes
    for file, header in zip(files[1:], headers[1:], strict=True):
        for key in NOTES:
            ours, theirs = notes.get(key), header.notes.get(key)
            if ours != theirs:
                noun = key.decode().partition(".")[2]
                raise InputError(f"{first} and {file} differ in their {noun}: {_said(ours)} and {_said(theirs)}")
    origins = [Origin.read(header.notes.get(ORIGIN), file) for file, header in zip(files, headers, strict=True)]
    for file, origin in zip(files, origins, strict=True):
        if origin.tokenizer_digest != origins[0].tokenizer_digest:
            names = f"{origins[0].tokenizer or 'an unknown one'} and {origin.tokenizer or 'an unknown one'}"
            raise InputError(f"{first} and {file} were made by different tokenizers: {names}")
    return {key: value for key, value in notes.items() if key != ORIGIN} | Origin.common(origins).note()


def _said(note: bytes | None) -> str:
    return "none" if note is None else note.decode(errors="replace")[:80]
