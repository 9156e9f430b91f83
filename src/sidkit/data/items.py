"""Items' columns from a Parquet file, joined by id."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError, did_you_mean
from ..files.address import Location, for_arrow
from .columns import ID_NAMES, choose_name, no_such
from .ids import is_id_type, one_array, require_unique
from .listing import files_of, readable

__all__ = ["match", "read_texts", "text_column", "texts_of", "without_dictionary"]

BETWEEN = pa.scalar("; ", pa.large_string())


def texts_of(path: str | PathLike[str], column: str, ids: Any) -> list[str]:
    """The text of every id, in the order of ids; '' where the file has none."""
    texts: list[str] = text_column(path, column, ids).to_pylist()
    return texts


def text_column(path: str | PathLike[str], column: str, ids: Any) -> Any:
    """The same as a pyarrow array of large strings."""
    known, texts = read_texts(path, [column])
    rows = match(ids, known)
    return pc.fill_null(texts.take(pa.array(rows, mask=rows < 0)), "")


def read_texts(path: str | PathLike[str], columns: Sequence[str], id_column: str | None = None) -> tuple[Any, Any]:
    """The ids and texts of a Parquet file, folder or glob: two pyarrow arrays. Several columns are joined by '; '."""
    tables = [_read_file(file, columns, id_column) for file in files_of(path)]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise InputError(f"the files of {path} have ids of different types: {error}") from error
    if not len(table):
        raise InputError(f"{path} holds no rows")
    ids, texts = (one_array(table.column(name)) for name in ("item_id", "text"))
    require_unique(ids, id_column or "item_id", lambda row: f"row {row} of {path}")
    return ids, texts


def _read_file(file: Location, columns: Sequence[str], id_column: str | None) -> Any:
    with readable(file):
        types = {field.name: field.type for field in pq.read_schema(for_arrow(file))}
    key = choose_name(id_column, ID_NAMES, {name: is_id_type(kind) for name, kind in types.items()})
    if key is None:
        raise no_such("column", id_column or ID_NAMES[0], file.name, dict.fromkeys(types, True), "--id-column")
    if not is_id_type(types[key]):
        raise InputError(f"{key!r} in {file.name} is {types[key]}; ids must be strings or integers")
    for name in columns:
        if name not in types:
            listed = ", ".join(types)
            raise InputError(f"no column {name!r} in {file.name} (columns: {listed}){did_you_mean(name, types)}")
    with readable(file):
        table = pq.read_table(for_arrow(file), columns=list(dict.fromkeys([key, *columns])))
    try:
        texts = [table.column(name).cast(pa.large_string()) for name in columns]
    except pa.ArrowException as error:
        raise InputError(f"{file.name}: a column of texts must hold strings or numbers: {error}") from error
    joined = pc.binary_join_element_wise(*texts, BETWEEN, null_handling="skip") if len(texts) > 1 else texts[0]
    return pa.table({"item_id": table.column(key), "text": joined})


def match(wanted: Any, ids: Any) -> NDArray[np.int64]:
    """For every wanted id its row among ids, -1 where there is none; numbers and their texts are the same id."""
    wanted, ids = without_dictionary(wanted), one_array(without_dictionary(ids))
    if wanted.type != ids.type:
        wanted, ids = wanted.cast(pa.large_string()), ids.cast(pa.large_string())
    rows: NDArray[np.int64] = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return rows


def without_dictionary(array: Any) -> Any:
    """A column as the values themselves."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
