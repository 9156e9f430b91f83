"""Columns of an items' file joined to many items, without the file in memory.

`texts_at`        the texts of a few items, by reading the file once
`label_column`    a label for every item, as a number of four bytes
`OrderedTexts`    a text for every item, in a scratch file in the items' order
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError
from ..files.address import Location, for_arrow
from .columns import ID, choose, no_text_column
from .formats.parquet_file import parquet_columns
from .ids import IdIndex, match, one_array, require_utf8, without_dictionary
from .listing import files_of, readable

__all__ = ["OrderedTexts", "as_labels", "label_column", "require_column", "texts_at"]

BATCH = 1 << 17  # rows read at once
BLOCK = 1 << 20  # rows put in order at once
ROW_AND_TEXT = pa.schema({"row": pa.int64(), "text": pa.large_string()})


def texts_at(path: str | PathLike[str], column: str, key: str, ids: Sequence[Any]) -> list[str]:
    """The texts of these few ids; '' where the file has none. key: its column of ids."""
    wanted, texts, seen = pa.array(ids), [""] * len(ids), np.zeros(len(ids), bool)
    for known, text in _batches(path, column, key):
        at = match(known, wanted)
        found = np.flatnonzero(at >= 0)
        _require_once(at[found], seen, key, path, lambda row: ids[row])
        for row, one in zip(at[found].tolist(), text.take(pa.array(found)).to_pylist(), strict=True):
            texts[row] = one or ""
    return texts


def label_column(path: str | PathLike[str], column: str, ids: Any, key: str) -> Any:
    """The label of every id, a pyarrow dictionary array; '' where the file has none."""
    index, seen = None, np.zeros(len(ids), bool)
    numbers, names = np.zeros(len(ids), np.int32), {"": 0}
    for known, text in _batches(path, column, key):
        index = index or IdIndex(ids, known.type)
        rows = index.rows(known)
        used = np.flatnonzero(rows >= 0)
        _require_once(rows[used], seen, key, path, lambda row: ids[row].as_py())
        encoded = pc.fill_null(text.take(pa.array(used)), "").dictionary_encode()
        local = np.array([names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()], np.int32)
        numbers[rows[used]] = local[encoded.indices.to_numpy(zero_copy_only=False)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(list(names), pa.large_string()))


def as_labels(labels: Any) -> tuple[NDArray[np.int32], list[Any]]:
    """Labels, a sequence or a dictionary array, as numbers and the names of these."""
    if not isinstance(labels, pa.DictionaryArray):
        texts = [None if label is None else str(label) for label in labels]
        labels = pa.array(texts, pa.large_string()).dictionary_encode("encode")
    return labels.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), labels.dictionary.to_pylist()


class OrderedTexts:
    """The text of every id, in the order of ids; '' where the file has none.

    They are put in order on the disk: rows with their texts go to a file per block of rows, and every block is sorted
    by itself. What is read is mapped from a file without a name, which is gone with the process. Slices are pyarrow
    arrays of large strings.
    """

    def __init__(self, path: str | PathLike[str], column: str, ids: Any, key: str, scratch: Path | None = None) -> None:
        with tempfile.TemporaryDirectory(dir=scratch, prefix=".sidkit-texts-") as folder:
            _divide(path, column, ids, key, Path(folder))
            ordered = Path(folder) / "ordered.arrow"
            with pa.ipc.new_file(str(ordered), ROW_AND_TEXT.remove(0)) as file:
                for start in range(0, len(ids), BLOCK):
                    file.write(_block(Path(folder), start, min(BLOCK, len(ids) - start)))
            self._texts = pa.ipc.open_file(pa.memory_map(str(ordered))).read_all().column("text")

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, which: Any) -> Any:
        return one_array(self._texts[which]) if isinstance(which, slice) else self._texts[which]


def _divide(path: str | PathLike[str], column: str, ids: Any, key: str, folder: Path) -> None:
    """Write every text that is wanted, with its row, to the file of the row's block."""
    index, seen = None, np.zeros(len(ids), bool)
    with ExitStack() as files:
        blocks = [
            files.enter_context(pa.ipc.new_stream(str(folder / str(start)), ROW_AND_TEXT))
            for start in range(0, len(ids), BLOCK)
        ]
        for known, text in _batches(path, column, key):
            index = index or IdIndex(ids, known.type)
            rows = index.rows(known)
            used = np.argsort(rows, kind="stable")[int((rows < 0).sum()) :]
            _require_once(rows[used], seen, key, path, lambda row: ids[row].as_py())
            ordered = pa.record_batch([pa.array(rows[used]), text.take(pa.array(used))], schema=ROW_AND_TEXT)
            ends = np.searchsorted(rows[used], np.arange(0, len(ids) + BLOCK, BLOCK))
            for block, first, last in zip(blocks, ends, ends[1:], strict=False):
                if first < last:
                    block.write_batch(ordered.slice(first, last - first))


def _block(folder: Path, start: int, rows: int) -> Any:
    """The texts of a block in the order of its rows."""
    file = folder / str(start)
    with pa.OSFile(str(file)) as stream:
        table = pa.ipc.open_stream(stream).read_all()
    os.unlink(file)
    at = np.full(rows, -1, np.int64)
    at[table.column("row").to_numpy() - start] = np.arange(len(table))
    texts = one_array(table.column("text")).take(pa.array(at, mask=at < 0))
    return pa.record_batch([pc.fill_null(texts, "")], names=["text"])


def require_column(path: str | PathLike[str], column: str, key: str) -> None:
    """An error unless the first file has these columns."""
    present = parquet_columns(files_of(path)[0])
    choose(present, ID, key)
    if column not in present.types:
        raise no_text_column(column, files_of(path)[0].name, present.types)


def _batches(path: str | PathLike[str], column: str, key: str) -> Iterator[tuple[Any, Any]]:
    """Ids and texts, some rows at a time, of all files."""
    for file in files_of(path):
        require_column(file, column, key)
        with readable(file), pq.ParquetFile(for_arrow(file)) as opened:
            for batch in opened.iter_batches(BATCH, columns=list({key: None, column: None})):
                ids, text = without_dictionary(batch.column(key)), batch.column(column)
                for name, values in ((key, ids), (column, text)):
                    require_utf8(values, name, file)
                yield ids, _as_text(text, file)


def _as_text(values: Any, file: Location) -> Any:
    try:
        return values.cast(pa.large_string())
    except pa.ArrowException as error:
        raise InputError(f"{file.name}: a column of texts must hold strings or numbers: {error}") from error


def _require_once(rows: NDArray[np.int64], seen: NDArray[np.bool_], key: str, path: Any, name: Any) -> None:
    """An error if one of the rows was seen before, or comes twice."""
    ordered = np.sort(rows)
    again = np.concatenate([rows[seen[rows]], ordered[1:][ordered[1:] == ordered[:-1]]])
    if len(again):
        raise InputError(f"{key!r} of {path} must be different in every row; {name(int(again[0]))!r} is in several")
    seen[rows] = True
