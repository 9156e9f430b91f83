"""One file of embeddings in, one file of semantic IDs out, with a note in it of what it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from ..data.bad_rows import list_bad_rows
from ..data.embeddings import open_embeddings, without
from ..data.formats.parquet_file import empty_ids
from ..data.kept import read_kept, read_kept_file
from ..data.listing import is_table
from ..errors import InputError
from ..files.address import Location, for_arrow
from ..progress import Progress
from ..rows.checks import WithStandIns
from ..sids.origin import Origin
from ..sids.table import SidTable
from ..tokenizer.windows import identity_of

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["EncodeTask", "encode_file", "encode_tasks", "without_fitted_rows"]

NOTE = "sidkit.made_from"  # key in the output's schema metadata


@dataclass(frozen=True)
class EncodeTask:
    """A file to encode, and where its semantic IDs go."""

    path: Location
    target: Location
    id_column: str | None
    column: str | None
    template: str
    drop: bool  # bad rows are left out and listed, or an error
    keep: tuple[str, ...]  # further columns that are copied
    origin: Origin
    digest: str  # of the tokenizer, the template and the file


def encode_tasks(
    fitted: FittedTokenizer,
    paths: Sequence[Location],
    output: Location,
    template: str,
    columns: tuple[str | None, str | None],
    drop: bool,
    keep: tuple[str, ...] = (),
    origin: Origin | None = None,
) -> list[EncodeTask]:
    """One per file. Outputs have the names of the inputs, below the deepest folder common to all inputs."""
    settings = identity_of(fitted, "") + template + "drop" * drop + ",".join(keep)
    if len(paths) == 1 and output.suffix == ".parquet":
        targets: list[Location] = [output]
    else:
        targets = _targets(paths, output)
    return [
        EncodeTask(path, target, *columns, template, drop, keep, origin or Origin(), _digest(settings, path))
        for path, target in zip(paths, targets, strict=True)
    ]


def without_fitted_rows(fitted: FittedTokenizer) -> FittedTokenizer:
    """The tokenizer without the rows it was fitted on, to be sent to workers."""
    return replace(fitted, fitted_rows=None)


def encode_file(task: EncodeTask, fitted: FittedTokenizer, device: str, progress: Progress) -> tuple[int, bool]:
    """Write the semantic IDs of a file, unless its output is finished: the number of rows, and whether it was."""
    finished = _rows_if_finished(task)
    if finished is not None:
        return finished, True
    ids = empty_ids(task.path, task.id_column) if is_table(task.path) else None
    codes = np.empty((0, len(fitted.sizes)), np.int32)
    if ids is None:
        ids, codes, more = _encoded(task, fitted, device, progress)
    else:
        more = read_kept_file(task.path, task.keep) if task.keep else None
    table = SidTable(ids, codes, fitted.sizes, origin=task.origin)
    table.to_parquet(task.target, task.template, {NOTE: task.digest}, more)
    return len(table), False


def _encoded(task: EncodeTask, fitted: FittedTokenizer, device: str, progress: Progress) -> tuple[Any, Any, Any]:
    """Ids, codes and further columns of the file's rows, whose vectors are read once.

    Where the task drops bad rows, they are listed beside the output.
    """
    source = open_embeddings(task.path, task.id_column, task.column)
    if not task.drop:
        return source.ids, fitted.encode(source, device=device, progress=progress), read_kept(source, task.keep)
    rows = WithStandIns(source)
    codes = fitted.encode(rows, device=device, progress=progress)
    if not rows.bad:
        return source.ids, codes, read_kept(source, task.keep)
    bad = sorted(rows.bad)
    list_bad_rows(task.target, source, {row: rows.bad[row] for row in bad})
    good = without(source, bad)
    return good.ids, np.delete(codes, bad, axis=0), read_kept(good, task.keep)


def _targets(paths: Sequence[Location], folder: Location) -> list[Location]:
    common = paths[0].parent
    while not all(str(path).startswith(f"{str(common).rstrip('/')}/") for path in paths):
        common = common.parent
    inner: Any = [path.relative_to(common) for path in paths]  # type: ignore[arg-type]
    targets: list[Location] = [folder / str(path.with_suffix(".parquet")) for path in inner]
    if len(set(targets)) < len(targets):
        raise InputError("two files would become one: their names differ in the ending alone; rename one")
    return targets


def _digest(settings: str, path: Location) -> str:
    status = path.stat()
    facts = f"{settings}\0{path.name}\0{status.st_size}\0{int(status.st_mtime)}"
    return hashlib.sha256(facts.encode()).hexdigest()


def _rows_if_finished(task: EncodeTask) -> int | None:
    """The number of rows of the output, if it was made from this file by this tokenizer; else None."""
    if isinstance(task.target, Path) and not task.target.is_file():
        return None
    try:
        with pq.ParquetFile(for_arrow(task.target)) as file:
            notes, rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
    except (OSError, ValueError):
        return None
    return rows if notes.get(NOTE.encode()) == task.digest.encode() else None
