"""Item ids: strings or integers, none missing, none repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError

__all__ = [
    "is_id_type",
    "is_text",
    "match",
    "one_array",
    "require_unique",
    "require_utf8",
    "within_reach",
    "without_dictionary",
]

PART = 1 << 18  # ids hashed together, at most
LETTERS = 1 << 23  # bytes of text hashed together, at most
REACH = 2**31 - 1  # bytes of text that a pyarrow array of strings can hold


def is_id_type(kind: Any) -> bool:
    """Whether a pyarrow type can be an id: strings and integers, plain or dictionary-encoded."""
    kind = value_type_of(kind)
    return bool(pa.types.is_integer(kind)) or is_text(kind)


def one_array(ids: Any) -> Any:
    """Ids, which may come in chunks, as one array."""
    return within_reach(ids).combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids


def within_reach(ids: Any) -> Any:
    """Ids in chunks; as large strings where one array of strings could not hold them all."""
    return ids.cast(pa.large_string()) if is_text(value_type_of(ids.type)) and ids.nbytes > REACH else ids


def require_utf8(column: Any, name: str, file: Any) -> None:
    """An error that names the file and the column if its texts are not UTF-8, which Arrow itself does not check."""
    if not is_text(value_type_of(column.type)):
        return
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        try:
            (chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk).validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            raise InputError(f"{file}: the texts of {name!r} are not UTF-8, or are damaged: {error}") from error


def require_unique(ids: Any, column: str, name: Callable[[int], str]) -> None:
    """An error naming the first id that is missing or repeated, or nothing.

    name: the name of a row for people, "row 3 of a.parquet".
    """
    if ids.null_count:
        row = pc.index(pc.is_null(ids), True).as_py()
        raise InputError(f"{name(row)}: {column!r} is null; every row needs an id")
    suspects = _look_alikes(ids)
    if not suspects.any():
        return
    alike = _plain(ids.filter(pa.array(suspects)))
    counts = pc.value_counts(alike)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(repeated):
        return
    rows = np.flatnonzero(suspects)[pc.equal(alike, repeated[0]).to_numpy(zero_copy_only=False)]
    more = f" ({len(repeated) - 1} more ids repeat)" if len(repeated) > 1 else ""
    raise InputError(
        f"{column!r} must be different in every row; {repeated[0].as_py()!r} is in "
        f"{name(int(rows[0]))} and in {name(int(rows[1]))}{more}"
    )


def _look_alikes(ids: Any) -> NDArray[np.bool_]:
    """Whether another row has the same hash of its id: true of every repeated id, and of few others.

    Sorting eight bytes per id takes a tenth of the memory of a table of strings.
    """
    hashes = np.concatenate([np.zeros(0, np.uint64), *(_hashes(part) for part in _parts(ids))])
    ordered = np.sort(hashes)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return np.isin(hashes, twice)


def _parts(ids: Any) -> Iterator[Any]:
    for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
        size = max(1, min(PART, LETTERS * len(chunk) // max(1, chunk.nbytes)))
        for start in range(0, len(chunk), size):
            yield _plain(chunk.slice(start, size))


def _hashes(ids: Any) -> NDArray[np.uint64]:
    """Integers as they are; texts as sums of their bytes, each times a random factor of its position in the text."""
    if not is_text(ids.type):
        return np.asarray(ids.to_numpy(zero_copy_only=False)).astype(np.uint64)
    _, offsets, data = ids.buffers()
    ends = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    lengths, starts = np.diff(ends), ends[:-1] - ends[0]
    positions = np.arange(len(letters)) - np.repeat(starts, lengths)
    factors = np.random.default_rng(0).integers(2**64, size=int(lengths.max(initial=0)), dtype=np.uint64)
    terms = np.append((letters.astype(np.uint64) + np.uint64(1)) * factors[positions], np.uint64(0))
    return np.where(lengths > 0, np.add.reduceat(terms, starts), np.uint64(0))


def _plain(ids: Any) -> Any:
    """As integers or large strings."""
    kind = value_type_of(ids.type)
    ids = ids.cast(kind)
    return ids.cast(pa.large_string()) if is_text(kind) else ids


def match(wanted: Any, ids: Any) -> NDArray[np.int64]:
    """For every wanted id its row among ids, -1 where there is none; 7 and "7" are the same id."""
    wanted, ids = without_dictionary(wanted), one_array(without_dictionary(ids))
    if wanted.type != ids.type:
        wanted, ids = wanted.cast(pa.large_string()), ids.cast(pa.large_string())
    rows: NDArray[np.int64] = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return rows


def without_dictionary(array: Any) -> Any:
    """A column with dictionary encoding undone."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def value_type_of(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether a pyarrow type is a string."""
    return str(kind) in ("string", "large_string", "string_view")
