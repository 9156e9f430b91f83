"""All files of rows on a cluster encoded, each by one worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ..data.embeddings import Without
from ..data.formats.parquet import ParquetEmbeddings
from ..errors import InputError
from ..files.address import Location, locate
from ..sids.origin import Origin
from .encode_task import encode_tasks, without_fitted_rows
from .task import Task

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer
    from .rows import RayRows

__all__ = ["Encoded", "encode_files"]


class Encoded(NamedTuple):
    """The result of `RayRows.encode`: the files, their rows, and how many of the files were there already."""

    files: tuple[Location, ...]
    rows: int
    kept: int


def encode_files(
    rows: RayRows,
    fitted: FittedTokenizer,
    output: str | os.PathLike[str],
    template: str,
    drop: bool,
    keep: tuple[str, ...] = (),
    origin: Origin | None = None,
) -> Encoded:
    """Write the semantic IDs of every file of the rows (`RayRows.encode`)."""
    if rows.shape[1] != fitted.d:
        raise InputError(f"this tokenizer was fitted on {fitted.d}-dimensional rows; these have {rows.shape[1]}")
    files = encode_tasks(fitted, rows.files, locate(output), template, rows.columns, drop, keep, origin)
    length = _rows_by_file(rows.source)
    tasks = [
        Task("encode", payload=file, rows=length.get(file.path, 0), label=f"encoding {file.path}") for file in files
    ]
    rows.progress.start("encode", sum(length.values()))
    results = rows.pool.values(tasks, without_fitted_rows(fitted), rows.progress)
    return Encoded(tuple(file.target for file in files), sum(n for n, _ in results), sum(kept for _, kept in results))


def _rows_by_file(source: Any) -> dict[Location, int]:
    if isinstance(source, Without):
        return _rows_by_file(source.source)
    if isinstance(source, ParquetEmbeddings):
        return {part.path: part.rows for part in source.parts}
    return {source.paths[0]: source.shape[0]}
