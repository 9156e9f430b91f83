"""Lists of rows that were left out, as tab-separated files: OUTPUT.bad-rows.tsv and, of a shop, OUTPUT.left-out.tsv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..files.address import Location, replacing
from .formats.parquet import ParquetEmbeddings

__all__ = ["list_bad_rows", "write_listing"]

BLANKS = str.maketrans("\t\n\r", "   ")


def write_listing(listing: Location, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of cells under these columns; a tab or line end within a cell becomes a blank."""
    with replacing(listing) as temporary, temporary.open("w", encoding="utf-8") as file:
        for cells in chain([columns], rows):
            file.write("\t".join(str(cell).translate(BLANKS) for cell in cells) + "\n")


def list_bad_rows(output: Location, source: Any, bad: Mapping[int, str]) -> Location:
    """Write the row, id and reason of every bad row of a source to a file beside the output; the file's path.

    output "-" is standard output: the list is then bad-rows.tsv in the working folder.
    """
    listing = Path("bad-rows.tsv") if str(output) == "-" else output.parent / f"{output.stem}.bad-rows.tsv"
    rows = ((row, name, why) for name, (row, why) in zip(_ids(source, list(bad)), bad.items(), strict=True))
    write_listing(listing, ("row", "id", "reason"), rows)
    return listing


def _ids(source: Any, rows: list[int]) -> list[Any]:
    """The ids of these rows, read from their files if the source was opened without ids."""
    if isinstance(source, ParquetEmbeddings) and source.ids is None:
        return source.read_ids(np.asarray(rows, np.int64))
    ids: list[Any] = source.ids.take(pa.array(rows)).to_pylist()
    return ids
