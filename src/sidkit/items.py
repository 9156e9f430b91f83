"""Items' texts from a Parquet file, joined by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .errors import InputError, did_you_mean

__all__ = ["texts_of"]

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
