"""The list of rows that were left out: OUTPUT.bad-rows.tsv."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..files.address import Location, replacing
from .formats.parquet import ParquetEmbeddings

__all__ = ["list_bad_rows"]


def list_bad_rows(output: Location, source: Any, bad: Mapping[int, str]) -> Location:
    """Write the row, id and reason of every bad row of a source to a file beside the output; the file's path.

    output "-" is standard output: the list is then bad-rows.tsv in the working folder.
    """
    listing = Path("bad-rows.tsv") if str(output) == "-" else output.parent / f"{output.stem}.bad-rows.tsv"
    lines = (f"{row}\t{name}\t{why}\n" for name, (row, why) in zip(_ids(source, list(bad)), bad.items(), strict=True))
    with replacing(listing) as temporary:
        temporary.write_text("row\tid\treason\n" + "".join(lines), encoding="utf-8")
    return listing


def _ids(source: Any, rows: list[int]) -> list[Any]:
    """The ids of these rows, read from their files if the source was opened without ids."""
    if isinstance(source, ParquetEmbeddings) and source.ids is None:
        return source.read_ids(np.asarray(rows, np.int64))
    ids: list[Any] = source.ids.take(pa.array(rows)).to_pylist()
    return ids
