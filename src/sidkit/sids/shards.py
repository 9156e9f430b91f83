"""Files of semantic IDs read batch by batch, for tables that are larger than memory: a file, a folder, s3://bucket/sids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.listing import files_of, is_table, readable
from ..errors import InputError
from ..files.address import Location, for_arrow
from ..files.seal import check_seal
from .code_matrix import code_matrix
from .origin import ORIGIN, Origin
from .prefixes import require_codes
from .table import noted_sizes

__all__ = ["SidShards", "holds_sids", "open_shards"]

COLUMNS = ["item_id", "codes"]


@dataclass(frozen=True)
class SidShards:
    """Files of SIDs with the same sizes. Opening reads their footers alone."""

    path: str
    files: tuple[Location, ...]
    rows: int
    sizes: tuple[int, ...]
    origin: Origin

    def batches(self, size: int) -> Iterator[tuple[Any, NDArray[np.int32]]]:
        """Ids and codes (n, levels), at most `size` rows at a time, in the order of the files."""
        for file in self.files:
            with readable(file):
                if isinstance(file, Path):
                    check_seal(file)
                with pq.ParquetFile(for_arrow(file)) as opened:
                    for batch in opened.iter_batches(size, columns=COLUMNS):
                        yield self._part(pa.Table.from_batches([batch]), file)

    def _part(self, table: Any, file: Location) -> tuple[Any, NDArray[np.int32]]:
        codes = code_matrix(table.column("codes"), str(file))
        if len(codes):
            require_codes(codes, self.sizes)
        return table.column("item_id").combine_chunks(), codes


def holds_sids(path: str | PathLike[str]) -> bool:
    """Whether the files at a path are of SIDs: Parquet with the columns item_id and codes."""
    first = files_of(path, nested=True)[0]
    if not is_table(first):
        return False
    with readable(first):
        return set(COLUMNS) <= set(pq.read_schema(for_arrow(first)).names)


def open_shards(path: str | PathLike[str], sizes: Sequence[int]) -> SidShards:
    """The files at a path; an error unless all hold SIDs of these sizes, made by one tokenizer if they say by which."""
    files, rows, origins = files_of(path, nested=True), 0, list[Origin]()
    for file in files:
        with readable(file), pq.ParquetFile(for_arrow(file)) as opened:
            schema, count = opened.schema_arrow, opened.metadata.num_rows
        if not set(COLUMNS) <= set(schema.names):
            columns = ", ".join(schema.names)
            raise InputError(f"{file} is not a table of semantic IDs (item_id, codes): its columns are {columns}")
        notes = schema.metadata or {}
        note = notes.get(b"sidkit.sizes")
        if note is not None and tuple(noted_sizes(note, file)) != tuple(sizes):
            raise InputError(f"{file} has SIDs of sizes {_written(noted_sizes(note, file))}, not {_written(sizes)}")
        origins.append(Origin.read(notes.get(ORIGIN), file))
        if origins[-1].tokenizer_digest != origins[0].tokenizer_digest:
            raise InputError(f"{files[0]} and {file} were made by different tokenizers")
        rows += count
    return SidShards(str(path), files, rows, tuple(sizes), Origin.common(origins))


def _written(sizes: Sequence[int]) -> str:
    return "-".join(map(str, sizes))
