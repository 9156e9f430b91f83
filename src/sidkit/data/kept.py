"""Further columns of the files that embeddings come from, for `sidkit encode --keep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, SpecError, did_you_mean
from ..files.address import Location, for_arrow
from ..rows.sources import Wrapped
from .listing import is_table, readable
from .source import paths_of
from .subset import Without

__all__ = ["kept_columns", "read_kept", "read_kept_file"]


def kept_columns(text: str | None, reserved: Sequence[str]) -> tuple[str, ...]:
    """The names of --keep title,brand; reserved: those that the output has already."""
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    for name in names:
        if name in reserved:
            raise SpecError(f"--keep {name}: the output has a column of that name already; rename the one to keep")
    return names


def read_kept(source: Any, names: Sequence[str]) -> Any:
    """These columns as an Arrow table, a row for every row of the source; None without names."""
    if not names:
        return None
    if isinstance(source, Without):
        table = read_kept(source.source, names)
        left = np.ones(len(table), bool)
        left[source.dropped] = False
        return table.filter(pa.array(left))
    if isinstance(source, Wrapped):
        return read_kept(source.source, names)
    paths = paths_of(source)
    if not paths or not all(map(is_table, paths)):
        raise InputError("--keep copies columns of a Parquet file, and these embeddings come from none")
    try:
        return pa.concat_tables([read_kept_file(path, names) for path in paths])
    except pa.ArrowInvalid as error:
        raise InputError(f"the files differ in the columns to keep: {error}") from error


def read_kept_file(path: Location, names: Sequence[str]) -> Any:
    """The same of one file, with all its rows."""
    with readable(path):
        present = pq.read_schema(for_arrow(path)).names
    for name in names:
        if name not in present:
            close = did_you_mean(name, present)
            raise InputError(f"no column {name!r} in {path.name} (columns: {', '.join(present)}){close}")
    with readable(path):
        return pq.read_table(for_arrow(path), columns=list(names)).replace_schema_metadata()
