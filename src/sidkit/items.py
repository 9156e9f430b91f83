"""Items' columns from a Parquet file, joined by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .errors import InputError, did_you_mean

__all__ = ["match", "texts_of"]

ID_COLUMNS = ("item_id", "id", "pid", "item")


def texts_of(path: Path, column: str, ids: Any) -> list[str]:
    """The text of every id, in the order of ids; '' where the file has none."""
    try:
        names = pq.read_schema(path).names
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    key = next((name for name in ID_COLUMNS if name in names), None)
    if key is None:
        raise InputError(f"no id column in {path} (columns: {', '.join(names)})")
    if column not in names:
        raise InputError(f"no column {column!r} in {path} (columns: {', '.join(names)}){did_you_mean(column, names)}")
    table = pq.read_table(path, columns=[key, column])
    keys, texts = table.column(key).to_pylist(), table.column(column).to_pylist()
    known = {str(item): "" if text is None else str(text) for item, text in zip(keys, texts, strict=True)}
    return [known.get(str(item), "") for item in ids.to_pylist()]


def match(wanted: Any, ids: Any) -> NDArray[np.int64]:
    """For every wanted id its row among ids, -1 where there is none; numbers and their texts are the same id."""
    wanted, ids = (_joined(part) for part in (wanted, ids))
    if wanted.type != ids.type:
        wanted, ids = wanted.cast(pa.large_string()), ids.cast(pa.large_string())
    rows: NDArray[np.int64] = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return rows


def _joined(array: Any) -> Any:
    """One plain array of a column that may come in chunks and dictionaries."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
