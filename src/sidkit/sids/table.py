"""SidTable: items and their semantic IDs, as strings, as a Parquet file, and by look-up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.ids import is_id_type, one_array, require_unique
from ..errors import InputError, SpecError, count_of, need_package
from ..files.address import Remote, locate, replacing
from ..files.seal import sealed_writer
from ..files.table_formats import table_writer
from ..files.text_notes import is_text_table
from .code_matrix import code_array
from .notebook import box, rows_table
from .origin import ORIGIN, Origin
from .prefixes import PrefixIndex
from .read import read_sids
from .sizes import Sizes, as_sizes
from .stored_ids import StoredIds
from .template import TEMPLATES, Template, read_sid, template_named
from .writer import SidWriter

__all__ = ["TEMPLATES", "SidTable", "Template", "noted_sizes"]

ROW_GROUP = 1 << 20  # rows written at once
WRITTEN = 1 << 17  # SIDs made at once
MANY = 1 << 20  # codes of a level that no item has, at most, whose words are made
LARGEST = 1 << 31  # codes of a level
FIRST = 8  # rows that a notebook shows


class SidTable:
    """Items and their codes. A SID maps to a list of items, never to one.

    ids: n different strings or integers; codes: (n, levels) from 0; sizes: codewords per level;
    template: how its SIDs are written; origin: what they were made from.
    """

    def __init__(
        self,
        ids: Any,
        codes: Any,
        sizes: Sizes,
        template: Template | str = "letters",
        origin: Origin | None = None,
    ) -> None:
        self.template = template_named(template)
        self.origin = origin or Origin()
        self._ids = ids if isinstance(ids, StoredIds) else _id_array(ids)
        self.codes = code_array(codes)
        unknown = self.codes.shape == (0, 0) and not isinstance(sizes, str | int) and not len(sizes)
        self.sizes = () if unknown else as_sizes(sizes)  # unknown: of a file without rows and notes
        if len(self._ids) != len(self.codes):
            raise InputError(f"{len(self._ids)} ids do not fit {len(self.codes)} rows of codes")
        if self.codes.shape[1] != len(self.sizes):
            raise InputError(f"codes have {self.codes.shape[1]} levels, sizes {len(self.sizes)}")
        for level, size in enumerate(self.sizes):
            column = self.codes[:, level]
            if len(column) and (column.min() < 0 or column.max() >= size):
                raise InputError(f"level {level + 1} holds codes outside 0..{size - 1}")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ids(self) -> Any:
        """The ids as one pyarrow array; those that were left in their files are read now."""
        if isinstance(self._ids, StoredIds):
            self._ids = _id_array(self._ids.read(), unique=True)
        return self._ids

    def ids_of(self, rows: NDArray[np.int64]) -> list[Any]:
        """The ids of these rows; where ids were left in their files, no others are read."""
        if isinstance(self._ids, StoredIds):
            return self._ids.take(rows)
        return self._ids.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]

    def id_batches(self) -> Iterator[Any]:
        """The ids in order, a pyarrow array at a time, from memory or from their files."""
        if isinstance(self._ids, StoredIds):
            yield from self._ids.batches()
        else:
            yield from (self._ids[start : start + ROW_GROUP] for start in range(0, len(self), ROW_GROUP))

    def __repr__(self) -> str:
        return f"SidTable({count_of(len(self), 'item')}, sizes={self.sizes})"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        some = self._rows(0, FIRST, self.template).to_pydict()
        rows = list(zip(some["item_id"], some["sid"], some["codes"], strict=True))
        more = f"<div>and {len(self) - FIRST:,} more</div>" if len(self) > FIRST else ""
        facts = [count_of(len(self), "item"), "-".join(map(str, self.sizes))]
        return box("SidTable", facts, rows_table(("item_id", "sid", "codes"), rows, code=(0, 1, 2)) + more)

    def strings(self, template: Template | str | None = None) -> Any:
        """The SIDs as a pyarrow string array, in the table's own template or in another."""
        return _strings(self.codes, self.sizes, self._form(template))

    def write(self, codes: Sequence[int]) -> str:
        """The SID of these codes as this table writes it; the start of SIDs if there are fewer codes than levels."""
        if len(codes) > len(self.sizes):
            raise InputError(f"{len(codes)} codes cannot be written, as these SIDs have {len(self.sizes)}")
        return self.template.write(codes) if len(codes) == len(self.sizes) else self.template.write_prefix(codes)

    def sid_of(self, item: Any) -> tuple[int, ...] | None:
        """The codes of an item, or None."""
        row = self.row_of(item)
        return None if row is None else tuple(int(code) for code in self.codes[row])

    def row_of(self, item: Any) -> int | None:
        """The row number of an item, or None."""
        return self._row_of.get(str(item))

    def items_of(self, sid: Sequence[int] | str) -> list[Any]:
        """The ids of all items whose SID starts with these codes, in table order."""
        rows = self.rows_of(sid)
        return self.ids.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]

    def rows_of(self, sid: Sequence[int] | str) -> NDArray[np.int64]:
        """The row numbers of all items whose SID starts with these codes."""
        sid = sid.as_py() if isinstance(sid, pa.Scalar) else sid  # as `strings` gives them
        prefix = read_sid(sid, self.template) if isinstance(sid, str) else tuple(int(code) for code in sid)
        if len(prefix) > len(self.sizes):
            raise InputError(f"{len(prefix)} codes asked for, but these SIDs have {len(self.sizes)}")
        low, high = self._index.range_of(prefix)
        return np.sort(self._index.rows[low:high])

    def prefix_counts(self, level: int) -> dict[tuple[int, ...], int]:
        """Occupied prefixes of this many tokens, in order -> how many items share each."""
        if not 1 <= level <= len(self.sizes):
            raise InputError(f"level must lie between 1 and {len(self.sizes)}, not {level}")
        bounds = self._index.bounds(level - 1)
        prefixes = self.codes[self._index.rows[bounds[:-1]], :level].tolist()
        return dict(zip(map(tuple, prefixes), np.diff(bounds).tolist(), strict=True))

    def _form(self, template: Template | str | None) -> Template:
        return self.template if template is None else template_named(template)

    def _rows(self, start: int, stop: int, template: Template) -> Any:
        codes = np.ascontiguousarray(self.codes[start:stop])
        n, levels = codes.shape
        offsets = pa.array(np.arange(0, n * levels + 1, max(levels, 1), dtype=np.int32)[: n + 1])
        columns = {
            "item_id": self.ids[start:stop],
            "codes": pa.ListArray.from_arrays(offsets, pa.array(codes.ravel())),
            "sid": _strings(codes, self.sizes, template),
        }
        notes = {b"sidkit.sizes": json.dumps(self.sizes), b"sidkit.template": json.dumps(asdict(template))}
        return pa.table(columns).replace_schema_metadata(notes | self.origin.note())

    def to_arrow(self) -> Any:
        """A pyarrow table with the columns item_id, codes (lists) and sid."""
        return self._rows(0, len(self), self.template)

    def to_pandas(self) -> Any:
        """A pandas frame with the columns item_id, codes (arrays) and sid."""
        need_package("pandas", "SidTable.to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars frame with the columns item_id, codes (lists) and sid."""
        return need_package("polars", "SidTable.to_polars").from_arrow(self.to_arrow())

    def to_parquet(
        self,
        path: str | Path | Remote,
        template: Template | str | None = None,
        notes: Mapping[str, str] | None = None,
        more: Any = None,
    ) -> None:
        """Write item_id, codes and sid, a row group at a time; the file appears whole or not at all.

        path: of this machine, or an address such as s3://bucket/sids.parquet; notes go into the file's metadata.
        more: an Arrow table of further columns, with a row for every item.
        """
        schema = self._schema(template, notes, more)
        with replacing(locate(path)) as temporary, sealed_writer(temporary, schema, compression="zstd") as file:
            for start in range(0, len(self), ROW_GROUP):
                file.write_table(self._part(start, start + ROW_GROUP, template, more))

    def to_file(
        self,
        path: str | Path | Remote,
        template: Template | str | None = None,
        notes: Mapping[str, str] | None = None,
        more: Any = None,
    ) -> None:
        """Write as the ending of the name says: .csv, .tsv, .jsonl, and Parquet otherwise; `from_parquet` reads all."""
        where = locate(path)
        if not is_text_table(where):
            self.to_parquet(where, template, notes, more)
            return
        with table_writer(where, self._schema(template, notes, more)) as write:
            for start in range(0, len(self), ROW_GROUP):
                write(self._part(start, start + ROW_GROUP, template, more))

    @classmethod
    def from_parquet(
        cls, path: str | PathLike[str], sizes: Sequence[int] | None = None, *, ids: bool = True
    ) -> SidTable:
        """Read item_id and codes; sizes come from the file, from the argument, or from the largest codes.

        How its SIDs are written comes from the file too, or is taken to be by letters. A file that contains its
        checksum, as `to_parquet` writes it, is verified.
        path: what `to_parquet`, `to_file` or `sidkit encode` wrote: a file, a folder, a glob pattern, or s3://bucket/sids.
        ids: False leaves the ids in the files until they are asked for, which saves their memory.
        """
        names, codes, notes = read_sids(path, ids)
        note = notes.get(b"sidkit.sizes")
        if sizes is None:
            sizes = noted_sizes(note, path) if note else [int(column.max()) + 1 for column in codes.T if len(codes)]
        form = _noted_template(notes.get(b"sidkit.template"), path)
        origin = Origin.read(notes.get(ORIGIN), path)
        return cls(names, codes if len(codes) else codes.reshape(0, len(sizes)), sizes, form, origin)

    def _schema(self, template: Template | str | None, notes: Mapping[str, str] | None, more: Any) -> Any:
        schema = self._part(0, 0, template, more).schema
        return schema.with_metadata((schema.metadata or {}) | dict(notes or {}))

    def _part(self, start: int, stop: int, template: Template | str | None, more: Any) -> Any:
        """Some of the rows as an Arrow table, with further columns where there are any."""
        rows = self._rows(start, stop, self._form(template))
        for name in more.column_names if more is not None else ():
            rows = rows.append_column(more.schema.field(name), more.column(name).slice(start, len(rows)))
        return rows

    @cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex(self.codes, self.sizes)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {str(item): row for row, item in enumerate(self.ids.to_pylist())}


def noted_sizes(text: bytes, path: Any) -> list[int]:
    """The sizes that a file notes in its metadata."""
    try:
        sizes = [int(size) for size in json.loads(text)]
        if any(size > LARGEST for size in sizes):
            raise ValueError(f"codes of a level are below {LARGEST}")
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InputError(f"{path}: its note on sizes cannot be read: {text[:80]!r}") from None
    return sizes


def _noted_template(text: bytes | None, path: Any) -> Template:
    if text is None:
        return TEMPLATES["letters"]
    try:
        parts = json.loads(text)
        if not all(isinstance(part, str) for part in parts.values()):
            raise TypeError("its parts are strings")
        return Template(**parts)
    except (ValueError, TypeError, AttributeError, RecursionError, SpecError):
        raise InputError(f"{path}: its note on how SIDs are written cannot be read: {text[:80]!r}") from None


def _strings(codes: NDArray[np.int32], sizes: Sequence[int], form: Template) -> Any:
    if not len(codes):  # perhaps of a file without rows and notes, whose levels nobody knows
        return pa.array([], pa.string())
    ranges = zip(codes.T, sizes, strict=True)
    used = [column.max(initial=-1) + 1 if size > len(codes) else size for column, size in ranges]
    if any(size > len(codes) + MANY for size in used):  # words of codes that no item has would fill the memory
        return _strings_of_used(codes, form)
    return _written(SidWriter.of(form, used), codes)


def _strings_of_used(codes: NDArray[np.int32], form: Template) -> Any:
    """The SIDs of codes that are few and large."""
    words, numbers = [], np.empty_like(codes)
    for level, column in enumerate(codes.T):
        values, numbers[:, level] = np.unique(column, return_inverse=True)
        words.append([form.word(level, code) for code in values.tolist()])
    return _written(SidWriter(form, words), numbers)


def _written(write: SidWriter, codes: NDArray[np.int32]) -> Any:
    parts = (codes[start : start + WRITTEN] for start in range(0, len(codes), WRITTEN))
    return one_array(pa.chunked_array([write(part) for part in parts]))


def _id_array(ids: Any, unique: bool = False) -> Any:
    """Ids as one array of a usual type, checked to be different unless that is known."""
    array = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
    array = array.cast(pa.string()) if pa.types.is_null(array.type) and not len(array) else array
    if not is_id_type(array.type):
        raise InputError(f"'item_id' holds {array.type}; ids are strings or integers")
    array = one_array(array)
    if not unique:
        require_unique(array, "item_id", lambda row: f"row {row}")
    return array
