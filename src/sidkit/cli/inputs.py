"""The inputs of commands: embeddings, and columns of the items."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, count_of
from .options import BadRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..data.source import Embeddings
    from ..files.address import Location
    from ..progress import Progress
    from ..report.groups import StoredTexts
    from ..sids.origin import Origin
    from ..sids.table import SidTable
    from .columns import ColumnNotes

__all__ = [
    "all_rows",
    "columns_of",
    "ids_of_lines",
    "labels_for",
    "open_source",
    "require_its_tokenizer",
    "sids_from",
    "stored_texts",
    "texts_for",
]


def all_rows(source: Embeddings) -> NDArray[np.float32]:
    """The vectors of a source as one array."""
    import numpy as np

    return np.concatenate([np.asarray(chunk, np.float32) for chunk in source.chunks(1 << 16)])


def open_source(
    path: str, id_column: str | None, column: str | None, bad_rows: BadRows, output: Location, progress: Progress
) -> Embeddings:
    """The embeddings at a path (- for JSON lines from standard input).

    With --bad-rows drop they come without their bad rows, which are listed beside the output.
    """
    from ..data.bad_rows import list_bad_rows
    from ..data.embeddings import good_rows, open_embeddings
    from ..data.json_lines import read_json_lines

    if path == "-":
        source: Embeddings = read_json_lines(sys.stdin, id_column, column)
    else:
        source = open_embeddings(path, id_column, column)
    if bad_rows is BadRows.error:
        return source
    progress.start("check", source.shape[0])
    scratch = output.absolute().parent if isinstance(output, Path) and str(output) != "-" else None
    good = good_rows(source, scratch, progress)
    if not good.shape[0]:
        first = good.bad[min(good.bad)]
        raise InputError(f"no rows are left: all {len(good.bad):,} of {path} are bad, the first because it {first}")
    if good.bad:
        listing = list_bad_rows(output, source, good.bad)
        print(f"left out {count_of(len(good.bad), 'bad row')}, listed in {listing}", file=sys.stderr)
    return good


def sids_from(path: Location, tokenizer: Path | None, force: bool, ids: bool = True) -> SidTable:
    """The SIDs at a path; an error if they were made by another tokenizer than the one given, unless forced.

    ids: see `SidTable.from_parquet`.
    """
    from ..sids.table import SidTable

    table = SidTable.from_parquet(path, ids=ids)
    require_its_tokenizer(table.origin, path, tokenizer, force)
    return table


def require_its_tokenizer(origin: Origin, path: Location, tokenizer: Path | None, force: bool) -> None:
    """An error if a tokenizer is given that did not make the SIDs of this origin, unless forced."""
    from ..tokenizer.pairs import require_made_by
    from ..tokenizer.tokenizer import load

    if tokenizer is not None and not force:
        require_made_by(origin, path, load(tokenizer), tokenizer)


def texts_for(
    path: str | PathLike[str],
    column: str,
    ids: Any,
    id_column: str | None = None,
    notes: ColumnNotes | None = None,
    known_as: str = "",
    kind: str = "items",
) -> list[str]:
    """The text of every id, '' where the file has none; the column of ids is added to the notes.

    known_as: the name of the ids in the file that they come from; kind: what the file is to the command.
    """
    from ..data.items import find_ids, texts_of

    chosen = find_ids(path, id_column, ids, known_as)
    if notes is not None:
        notes.add(kind, path, (chosen,))
    return texts_of(path, column, ids, chosen.column)


def stored_texts(
    path: str | PathLike[str], column: str, table: SidTable, id_column: str | None, notes: ColumnNotes
) -> StoredTexts:
    """The texts of the items of a table, which are read when they are needed, and only those of few items."""
    from ..data.joined import require_column
    from ..report.groups import StoredTexts

    key = _key(path, table, id_column, notes)
    require_column(path, column, key)
    return StoredTexts(table, path, column, key)


def labels_for(
    path: str | PathLike[str], column: str, table: SidTable, id_column: str | None, notes: ColumnNotes
) -> Any:
    """The label of every item of a table, a pyarrow dictionary array; '' where the file has none."""
    from ..data.joined import label_column

    return label_column(path, column, table.ids, _key(path, table, id_column, notes))


def _key(path: str | PathLike[str], table: SidTable, id_column: str | None, notes: ColumnNotes) -> str:
    """The column of ids of an items' file, which is added to the notes."""
    from ..data.items import find_ids

    chosen = find_ids(path, id_column, lambda: table.ids, table.origin.id_column)
    notes.add("items", path, (chosen,))
    return str(chosen.column)


def columns_of(path: str | PathLike[str]) -> list[str]:
    """The columns of a Parquet file, or of the first of several; none of a file of another format."""
    from pyarrow.parquet import read_schema

    from ..data.listing import files_of, is_table, readable
    from ..files.address import for_arrow

    first = files_of(path)[0]
    if not is_table(first):
        return []
    with readable(first):
        names: list[str] = read_schema(for_arrow(first)).names
    return names


def ids_of_lines(path: Path) -> list[str]:
    """The ids of a text file, one per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return [line.strip() for line in lines if line.strip()]
