"""What people did, one sequence of items after the other, joined to a table of semantic IDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError
from ..files.address import for_arrow
from .columns import choose_name, no_such
from .formats.vectors import is_list
from .ids import is_id_type
from .items import match, without_dictionary
from .listing import files_of, readable

__all__ = ["Sequences", "read_sequences"]

LIST_NAMES = ("items", "item_ids", "sequence", "history")
ITEM_NAMES = ("item_id", "item", "pid")
USER_NAMES = ("user", "user_id", "session_id", "session")
TIME_NAMES = ("timestamp", "time", "ts", "event_time", "datetime", "date", "created_at", "when")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences laid end to end.

    rows: (events,) the row of each item in the table of SIDs, -1 for an item it does not have;
    starts: (sequences + 1,) where each sequence begins, and the end of the last.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    unknown_items: int = 0  # different items that the table does not have

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Sequences:
        """Lists of row numbers."""
        parts = [np.asarray(part, np.int64) for part in lists]
        rows = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return cls(rows, np.cumsum([0, *(len(part) for part in parts)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def known(self) -> Sequences:
        """Without the items that the table does not have."""
        known = self.rows >= 0
        return Sequences(self.rows[known], np.concatenate([[0], np.cumsum(known)])[self.starts])

    def held_out(self, back: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sequences that have an item before their last but `back` - 1, and the place of that item in `rows`: with
        back 1 the last item of each, which a test asks for, with 2 the one before it, for validation."""
        which = np.flatnonzero(np.diff(self.starts) > back)
        return which, self.starts[which + 1] - back

    def tail(self, items: int) -> Sequences:
        """The last so many items of each."""
        lengths = np.minimum(np.diff(self.starts), items)
        kept = np.arange(len(self.rows)) >= np.repeat(self.starts[1:] - lengths, np.diff(self.starts))
        return Sequences(self.rows[kept], np.concatenate([[0], np.cumsum(lengths)]), self.unknown_items)

    def training(self) -> Sequences:
        """Without the last two items of each, which are held out."""
        lengths = np.diff(self.starts)
        kept = np.arange(len(self.rows)) < np.repeat(self.starts[1:] - 2, lengths)
        return Sequences(self.rows[kept], np.concatenate([[0], np.cumsum(np.maximum(lengths - 2, 0))]))

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(from, to, sequence) of every item and the one after it in its sequence."""
        which = np.repeat(np.arange(len(self)), np.diff(self.starts))
        inside = which[1:] == which[:-1]
        return self.rows[:-1][inside], self.rows[1:][inside], which[1:][inside]


def read_sequences(path: str | PathLike[str], ids: Any, column: str | None = None) -> Sequences:
    """Sequences from a Parquet file, folder or glob, for the items with these ids (in the order of their table).

    Either a row per sequence with a list of item ids in time order (`items`, `item_ids`, `sequence`, `history`), or a
    row per event: an item (`item_id`, `item`, `pid`), a user or session, and a time (`timestamp`, `time`, `ts`,
    `event_time`, `datetime`, `date`, `created_at`, `when`; else the order of the file).
    column names the items where their column has another name.
    """
    first = files_of(path)[0]
    with readable(first):
        kinds = {field.name: field.type for field in pq.read_schema(for_arrow(first))}
    name = choose_name(column, (*LIST_NAMES, *ITEM_NAMES), {key: is_list(kind) for key, kind in kinds.items()})
    if name is None:
        raise no_such("column", column or "items", str(path), {key: True for key in kinds}, "--sequence-column")
    items, order, starts = _of_lists(path, name) if is_list(kinds[name]) else _of_events(path, name, list(kinds))
    if not is_id_type(items.type) and len(items) > items.null_count:
        raise InputError(f"{name!r} in {path} holds {items.type}; items must be strings or integers")
    rows = match(items, ids)
    unknown = pc.count_distinct(without_dictionary(items.filter(pa.array(rows < 0)))).as_py()
    if len(rows) and (rows < 0).all():
        known = f", the first known one {ids[0].as_py()!r}" if len(ids) else ""
        raise InputError(
            f"none of the {len(rows):,} items in {path} is known (the first is {items[0].as_py()!r}{known}); "
            "are these the same ids?"
        )
    return Sequences(rows[order], starts, unknown)


def _read(path: str | PathLike[str], columns: list[str]) -> Any:
    tables = []
    for file in files_of(path):
        with readable(file):
            tables.append(pq.read_table(for_arrow(file), columns=columns))
    try:
        return pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise InputError(f"the files of {path} differ in their columns: {error}") from error


def _of_lists(path: str | PathLike[str], column: str) -> tuple[Any, slice, NDArray[np.int64]]:
    """All items, the order they come in, and where each sequence starts."""
    lists = _read(path, [column]).column(column)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pc.list_flatten(lists), slice(None), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _of_events(
    path: str | PathLike[str], column: str, names: list[str]
) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Events grouped by user, users in the order they first come, each in the order of time."""
    user = next((name for name in USER_NAMES if name in names), None)
    time = next((name for name in TIME_NAMES if name in names), None)
    if user is None:
        raise InputError(
            f"{path} has one item a row and no user column ({', '.join(USER_NAMES)}); "
            "give sequences as lists, or a user to each row"
        )
    table = _read(path, [column, user, *([time] if time else [])])
    for name in (user, time):
        if name is not None and table.column(name).null_count:
            raise InputError(f"{path}: {table.column(name).null_count:,} rows have no {name!r}; every event needs one")
    number = pc.dictionary_encode(table.column(user)).combine_chunks().indices.to_numpy(zero_copy_only=False)
    when = table.column(time).to_numpy() if time else np.arange(len(number))
    order = np.lexsort((when, number))
    ends = np.cumsum(np.bincount(number)) if len(number) else np.zeros(0, np.int64)
    return table.column(column), order, np.concatenate([[0], ends]).astype(np.int64)
