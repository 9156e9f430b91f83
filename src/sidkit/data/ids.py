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
    "IdIndex",
    "id_hashes",
    "is_id_type",
    "is_text",
    "match",
    "one_array",
    "repeated_hashes",
    "require_unique",
    "require_utf8",
    "within_reach",
    "without_dictionary",
]

PART = 1 << 18  # ids hashed together, at most
LETTERS = 1 << 23  # bytes of text hashed together, at most
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, so that different integers stay different; high bits differ as well
MANY = 1 << 22  # ids from which a join takes sorted hashes instead of a table of strings
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
    twice = repeated_hashes(id_hashes(ids))
    if not len(twice):
        return np.zeros(len(ids), bool)
    return np.concatenate([np.isin(_hashes(part), twice) for part in _parts(ids)])


def id_hashes(ids: Any) -> NDArray[np.uint64]:
    """Eight bytes for every id, equal for equal ids: (n,)."""
    hashes, done = np.empty(len(ids), np.uint64), 0
    for part in _parts(ids):
        hashes[done : (done := done + len(part))] = _hashes(part)
    return hashes


def repeated_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hashes that occur twice or more. Those given are sorted in place."""
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _parts(ids: Any) -> Iterator[Any]:
    for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
        size = max(1, min(PART, LETTERS * len(chunk) // max(1, chunk.nbytes)))
        for start in range(0, len(chunk), size):
            yield _plain(chunk.slice(start, size))


def _hashes(ids: Any) -> NDArray[np.uint64]:
    """Integers times an odd number; texts as sums of their bytes, each times a random factor of its position."""
    if not is_text(ids.type):
        return np.asarray(ids.to_numpy(zero_copy_only=False)).astype(np.uint64) * SPREAD
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
    if len(ids) > MANY:
        return IdIndex(ids, wanted.type).rows(wanted)
    wanted, ids = without_dictionary(wanted), one_array(without_dictionary(ids))
    if wanted.type != ids.type:
        wanted, ids = wanted.cast(pa.large_string()), ids.cast(pa.large_string())
    rows: NDArray[np.int64] = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return rows


class IdIndex:
    """The rows of ids by their hashes, eight bytes an id: for joins of so many that a table of strings is too large.

    Every entry is the high bits of a hash and, below them, the row. Ids are compared themselves before they match.
    kind: the pyarrow type of the ids that will be asked for; 7 and "7" are the same id.
    """

    def __init__(self, ids: Any, kind: Any) -> None:
        self._as_text = is_text(value_type_of(kind)) or is_text(value_type_of(ids.type))
        self._ids = one_array(ids)
        self._low = np.uint64(max(1, len(ids).bit_length()))
        self._entries, done = np.empty(len(ids), np.uint64), 0
        for part in _parts(self._ids):
            rows = np.arange(done, done + len(part), dtype=np.uint64)
            high = _hashes(self._comparable(part)) >> self._low << self._low
            self._entries[done : (done := done + len(part))] = high | rows
        self._entries.sort()

    def rows(self, wanted: Any) -> NDArray[np.int64]:
        """For every wanted id its row, -1 where there is none."""
        return np.concatenate([np.zeros(0, np.int64), *(self._find(part) for part in _parts(wanted))])

    def _find(self, wanted: Any) -> NDArray[np.int64]:
        found = np.full(len(wanted), -1, np.int64)
        wanted = self._comparable(wanted)
        high = _hashes(wanted.fill_null("" if self._as_text else 0)) >> self._low
        open_ = np.argsort(high)  # so that the search goes through the entries once, from front to back
        open_ = open_[wanted.is_valid().to_numpy(zero_copy_only=False)[open_]] if wanted.null_count else open_
        at = np.searchsorted(self._entries, high[open_] << self._low)
        while len(open_):
            inside = at < len(self._entries)
            open_, at = open_[inside], at[inside]
            entry = self._entries[at]
            near = entry >> self._low == high[open_]
            open_, at, entry = open_[near], at[near] + 1, entry[near]
            row = (entry & ((np.uint64(1) << self._low) - np.uint64(1))).astype(np.int64)
            same = pc.equal(self._comparable(self._ids.take(pa.array(row))), wanted.take(pa.array(open_)))
            same = same.to_numpy(zero_copy_only=False).astype(bool)
            found[open_[same]] = row[same]
            open_, at = open_[~same], at[~same]
        return found

    def _comparable(self, ids: Any) -> Any:
        plain = _plain(ids)
        return plain.cast(pa.large_string()) if self._as_text else plain


def without_dictionary(array: Any) -> Any:
    """A column with dictionary encoding undone."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def value_type_of(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether a pyarrow type is a string."""
    return str(kind) in ("string", "large_string", "string_view")
