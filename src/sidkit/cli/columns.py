"""The columns that a command chose in its files, for people and for programs."""

from __future__ import annotations

import sys
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .inputs import columns_of

if TYPE_CHECKING:
    from ..data.columns import Chosen
    from ..data.sequence_columns import SequenceColumns
    from ..data.sequences import Sequences
    from ..data.source import Embeddings
    from ..sids.origin import Origin
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["ColumnNotes", "as_fitted", "id_column_in", "vectors_from", "visits_from"]


class ColumnNotes:
    """A line on standard error for every file, and "columns" in the output of --json."""

    def __init__(self) -> None:
        self._chosen: dict[str, tuple[Chosen, ...]] = {}
        self._lines: dict[str, str] = {}  # those not printed yet

    def add(self, kind: str, path: str | PathLike[str], chosen: tuple[Chosen, ...]) -> None:
        """Note the columns of a file; kind: what it is to the command, such as embeddings."""
        from ..data.columns import describe_columns

        if chosen:
            self._chosen[kind] = chosen
            self._lines[kind] = f"{Path(fspath(path).partition('?')[0]).name}: {describe_columns(chosen)}"

    def print(self) -> None:
        """Print the lines that were not printed before."""
        from .terminal import plain

        for line in self._lines.values():
            print(plain(line), file=sys.stderr)
        self._lines.clear()

    def field(self) -> dict[str, Any]:
        """{"columns": {"embeddings": {"id": "asin", "vectors": "emb"}}}"""
        chosen = {kind: {one.role.key: one.column for one in columns} for kind, columns in self._chosen.items()}
        return {"columns": chosen} if chosen else {}


def id_column_in(id_column: str | None, path: str | PathLike[str], *others: str | PathLike[str] | None) -> str | None:
    """--id-column for one of several files: its name, or None (detected) where only another file has such a column."""
    if id_column is None or not any(one is not None for one in others) or id_column in columns_of(path):
        return id_column
    return None if any(id_column in columns_of(one) for one in others if one is not None) else id_column


def as_fitted(
    fitted: FittedTokenizer, path: str, id_column: str | None, column: str | None
) -> tuple[str | None, str | None]:
    """--id-column and --column; where they are not given, the columns of the fit, if the file has them."""
    fit = fitted.columns.get("items", {})
    present = columns_of(path) if path != "-" and (fit.get("id") or fit.get("vectors")) else []
    remembered = {role: name for role, name in fit.items() if name in present}
    return id_column or remembered.get("id"), column or remembered.get("vectors")


def vectors_from(
    path: str | PathLike[str],
    id_column: str | None,
    column: str | None,
    notes: ColumnNotes,
    *others: str | PathLike[str] | None,
    origin: Origin | None = None,
) -> Embeddings:
    """The embeddings at a path. others: further files that --id-column may be meant for.

    origin: of SIDs that they are compared with. If these were made from other vectors, that is printed.
    """
    from ..data.embeddings import open_embeddings
    from ..data.source import chosen_columns
    from ..tokenizer.pairs import other_embeddings

    source = open_embeddings(path, id_column_in(id_column, path, *others), column)
    notes.add("embeddings", path, chosen_columns(source))
    if origin is not None and other_embeddings(origin, source):
        made_from = f"{origin.embeddings} ({origin.embeddings_digest})"
        print(f"these SIDs were made from {made_from}; {path} has as many vectors, but others", file=sys.stderr)
    return source


def visits_from(
    path: str | PathLike[str], ids: Any, named: SequenceColumns, notes: ColumnNotes, known_as: str, users: bool = False
) -> Sequences:
    """The sequences at a path, for items with these ids; known_as: the name of the ids in the file they come from.

    users: with the names of the users.
    """
    from ..data.sequences import read_sequences

    sequences = read_sequences(path, ids, columns=named, known_as=known_as, users=users)
    notes.add("sequences", path, sequences.chosen)
    return sequences
