"""Columns of texts in Parquet files, joined to items by id."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError
from ..files.address import Location, for_arrow
from .columns import ID, Chosen, FileColumns, choose, choose_known, missing, no_text_column
from .formats.parquet_file import parquet_columns
from .ids import MANY, match, one_array, require_unique, require_utf8, without_dictionary
from .joined import OrderedTexts
from .listing import files_of, readable

__all__ = ["find_ids", "match", "read_texts", "text_column", "texts_of", "without_dictionary"]

BETWEEN = pa.scalar("; ", pa.large_string())


def texts_of(path: str | PathLike[str], column: str, ids: Any, id_column: str | None = None) -> list[str]:
    """The text of every id, in the order of ids; '' where the file has none."""
    texts: list[str] = text_column(path, column, ids, id_column)[:].to_pylist()
    return texts


def text_column(
    path: str | PathLike[str], column: str, ids: Any, id_column: str | None = None, scratch: Path | None = None
) -> Any:
    """The text of every id, a pyarrow array of large strings; of many ids `OrderedTexts`, in the folder scratch."""
    if len(ids) > MANY:
        return OrderedTexts(path, column, ids, str(find_ids(path, id_column, ids).column), scratch)
    known, texts = read_texts(path, [column], find_ids(path, id_column, ids).column)
    rows = match(ids, known)
    return pc.fill_null(texts.take(pa.array(rows, mask=rows < 0)), "")


def find_ids(path: str | PathLike[str], wanted: str | None = None, ids: Any = None, known_as: str = "") -> Chosen:
    """The column of ids of a Parquet file, or of the first of several.

    ids: those that it will be joined to, and known_as: their name in the file that they come from.
    """
    file = parquet_columns(files_of(path)[0])
    chosen = choose(file, ID, wanted) if ids is None else choose_known(file, ID, ids, wanted, known_as)
    if chosen is None:
        raise missing(file, ID)
    return chosen


def read_texts(path: str | PathLike[str], columns: Sequence[str], id_column: str | None = None) -> tuple[Any, Any]:
    """The ids and texts of a Parquet file, folder or glob: two pyarrow arrays. Several columns are joined by '; '."""
    key = str(find_ids(path, id_column).column)
    tables = [_read_file(parquet_columns(file), file, columns, key) for file in files_of(path)]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise InputError(f"the files of {path} have ids of different types: {error}") from error
    if not len(table):
        raise InputError(f"{path} holds no rows")
    ids, texts = (one_array(table.column(name)) for name in ("item_id", "text"))
    require_unique(ids, key, lambda row: f"row {row} of {path}")
    return ids, texts


def _read_file(present: FileColumns, file: Location, columns: Sequence[str], key: str) -> Any:
    choose(present, ID, key)  # an error unless it has this column of ids
    for name in columns:
        if name not in present.types:
            raise no_text_column(name, file.name, present.types)
    with readable(file):
        table = pq.read_table(for_arrow(file), columns=list(dict.fromkeys([key, *columns])))
    for name in table.column_names:
        require_utf8(table.column(name), name, file)
    try:
        texts = [table.column(name).cast(pa.large_string()) for name in columns]
    except pa.ArrowException as error:
        raise InputError(f"{file.name}: a column of texts must hold strings or numbers: {error}") from error
    joined = pc.binary_join_element_wise(*texts, BETWEEN, null_handling="skip") if len(texts) > 1 else texts[0]
    return pa.table({"item_id": table.column(key), "text": joined})
