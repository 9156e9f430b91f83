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
from ..data.embeddings import Embeddings, open_embeddings, without
from ..data.formats.parquet_file import empty_ids
from ..data.listing import is_parquet
from ..errors import InputError
from ..files.address import Location, for_arrow
from ..progress import Progress
from ..rows.checks import find_bad_rows
from ..sids.table import SidTable
from ..tokenizer.windows import identity_of

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["Order", "encode_file", "orders", "sent"]

NOTE = "sidkit.made_from"


@dataclass(frozen=True)
class Order:
    """What to encode, and where to."""

    path: Location
    target: Location
    id_column: str | None
    column: str | None
    template: str
    drop: bool  # bad rows are left out and listed, or an error
    mark: str  # of the tokenizer, the template and the file


def orders(
    fitted: FittedTokenizer,
    paths: Sequence[Location],
    output: Location,
    template: str,
    columns: tuple[str | None, str | None],
    drop: bool,
) -> list[Order]:
    """One for every file. Outputs have the names of the inputs, under the folder that is common to all of these."""
    whole = identity_of(fitted, "") + template + "drop" * drop
    if len(paths) == 1 and output.suffix == ".parquet":
        targets: list[Location] = [output]
    else:
        targets = _under(paths, output)
    return [
        Order(path, target, *columns, template, drop, _mark(whole, path))
        for path, target in zip(paths, targets, strict=True)
    ]


def sent(fitted: FittedTokenizer) -> FittedTokenizer:
    """The tokenizer without the rows it was fitted on."""
    return replace(fitted, fitted_rows=None)


def encode_file(order: Order, fitted: FittedTokenizer, device: str, progress: Progress) -> tuple[int, bool]:
    """Write the semantic IDs of a file, unless they are there: how many, and whether they were."""
    known = _rows_if_done(order)
    if known is not None:
        return known, True
    ids = empty_ids(order.path, order.id_column) if is_parquet(order.path) else None
    if ids is not None:
        table = SidTable(ids, np.empty((0, len(fitted.sizes)), np.int32), fitted.sizes)
    else:
        source = _good(order, open_embeddings(order.path, order.id_column, order.column))
        table = SidTable(source.ids, fitted.encode(source, device=device, progress=progress), fitted.sizes)
    table.to_parquet(order.target, order.template, {NOTE: order.mark})
    return len(table), False


def _good(order: Order, source: Embeddings) -> Embeddings:
    """The source without its bad rows, these listed beside the output, if so ordered."""
    bad = find_bad_rows(source) if order.drop else {}
    if not bad:
        return source
    list_bad_rows(order.target, source, bad)
    return without(source, sorted(bad))


def _under(paths: Sequence[Location], folder: Location) -> list[Location]:
    common = paths[0].parent
    while not all(str(path).startswith(f"{str(common).rstrip('/')}/") for path in paths):
        common = common.parent
    inner: Any = [path.relative_to(common) for path in paths]  # type: ignore[arg-type]
    named: list[Location] = [folder / str(path.with_suffix(".parquet")) for path in inner]
    if len(set(named)) < len(named):
        raise InputError("two files would become one: their names differ in the ending alone; rename one")
    return named


def _mark(whole: str, path: Location) -> str:
    status = path.stat()
    told = f"{whole}\0{path.name}\0{status.st_size}\0{int(status.st_mtime)}"
    return hashlib.sha256(told.encode()).hexdigest()


def _rows_if_done(order: Order) -> int | None:
    """How many rows the output has, if it was made from this file by this tokenizer; else None."""
    if isinstance(order.target, Path) and not order.target.is_file():
        return None
    try:
        with pq.ParquetFile(for_arrow(order.target)) as file:
            notes, rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
    except (OSError, ValueError):
        return None
    return rows if notes.get(NOTE.encode()) == order.mark.encode() else None
