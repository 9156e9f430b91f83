"""Sequences of items that people took, joined to a table of semantic IDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError, count_of
from ..files.address import for_arrow
from .column_content import sortable
from .columns import USER, Chosen
from .formats.parquet_file import parquet_columns
from .formats.vectors import is_list
from .ids import is_id_type, match, one_array, without_dictionary
from .listing import files_of, readable
from .sequence_columns import SequenceColumns, find_sequence_columns

__all__ = ["Sequences", "read_sequences"]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences, concatenated.

    rows: (events,) the row of each item in the table of SIDs, -1 for an item it does not have;
    starts: (sequences + 1,) the index in rows where each sequence starts, and the end of the last.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    unknown_items: int = 0  # different items that the table does not have
    chosen: tuple[Chosen, ...] = ()  # the columns that they were read from
    users: Any = None  # a pyarrow array of their names, where these were asked for

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
        """The sequences longer than `back`, and the index in `rows` of their item `back` from the end.

        back 1 is the last item, the target of a test; back 2 is the one before it, the target of validation.
        """
        which = np.flatnonzero(np.diff(self.starts) > back)
        return which, self.starts[which + 1] - back

    def tail(self, items: int) -> Sequences:
        """The last N items of each sequence."""
        lengths = np.minimum(np.diff(self.starts), items)
        in_tail = np.arange(len(self.rows)) >= np.repeat(self.starts[1:] - lengths, np.diff(self.starts))
        return Sequences(self.rows[in_tail], np.concatenate([[0], np.cumsum(lengths)]), self.unknown_items)

    def training(self) -> Sequences:
        """Without the last two items of each sequence, which are held out."""
        return self.without_last(2)

    def without_last(self, items: int) -> Sequences:
        """Without the last N items of each sequence."""
        lengths = np.diff(self.starts)
        before = np.arange(len(self.rows)) < np.repeat(self.starts[1:] - items, lengths)
        return Sequences(self.rows[before], np.concatenate([[0], np.cumsum(np.maximum(lengths - items, 0))]))

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(from, to, sequence) of every item and the one after it in its sequence."""
        which = np.repeat(np.arange(len(self)), np.diff(self.starts))
        inside = which[1:] == which[:-1]
        return self.rows[:-1][inside], self.rows[1:][inside], which[1:][inside]


def read_sequences(
    path: str | PathLike[str],
    ids: Any,
    column: str | None = None,
    columns: SequenceColumns | None = None,
    known_as: str = "",
    users: bool = False,
) -> Sequences:
    """Sequences from a Parquet file, folder or glob, for the items with these ids (in the order of their table).

    Either a row per sequence with a list of item ids in time order, or a row per event: an item, a user or session, and
    a time. `columns` names the columns that are not to be detected (`sequence_columns.py`); column is short for its
    `sequence`. Events without a time are refused unless columns.file_order is set. The columns that were read are in
    `Sequences.chosen`. known_as: the name of the ids in the file that they come from. users: whether to read the names
    of the users as well; lists without a column of users are numbered from 0.
    """
    given = columns or SequenceColumns()
    given = given if column is None else replace(given, sequence=column)
    first = parquet_columns(files_of(path)[0])
    chosen = find_sequence_columns(replace(first, file=str(path)), ids, given, known_as, users)
    name = str(chosen[0].column)
    read = _of_lists if is_list(first.types[name]) else _of_events
    items, order, starts, names = read(path, chosen)
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
    return Sequences(rows[order], starts, unknown, chosen, names if users else None)


def _read(path: str | PathLike[str], columns: list[str]) -> Any:
    tables = []
    for file in files_of(path):
        with readable(file):
            tables.append(pq.read_table(for_arrow(file), columns=columns))
    try:
        return pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise InputError(f"the files of {path} differ in their columns: {error}") from error


Read = tuple[Any, slice | NDArray[np.int64], NDArray[np.int64], Any]  # items, their order, starts, users


def _of_lists(path: str | PathLike[str], chosen: tuple[Chosen, ...]) -> Read:
    """All items, their order, the index where each sequence starts, and the users."""
    column, user = (one.column for one in (*chosen, Chosen(USER, None))[:2])
    table = _read(path, [name for name in (column, user) if name is not None])
    lists = table.column(column)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    users = pa.array(np.arange(len(lengths))) if user is None else one_array(table.column(user))
    return pc.list_flatten(lists), slice(None), starts, users


def _of_events(path: str | PathLike[str], chosen: tuple[Chosen, ...]) -> Read:
    """Events grouped by user: users by their first event, the events of each by time."""
    item, user, time = (one.column for one in chosen)
    table = _read(path, list(dict.fromkeys(name for name in (item, user, time) if name is not None)))
    for name in (user, time):
        if name is not None and (nulls := table.column(name).null_count):
            raise InputError(f"{path}: {count_of(nulls, 'row has', 'rows have')} no {name!r}; every event needs one")
    number = pc.dictionary_encode(table.column(user)).combine_chunks().indices.to_numpy(zero_copy_only=False)
    when = np.arange(len(number)) if time is None else _times(table.column(time), time, path)
    order = np.lexsort((when, number))
    ends = np.cumsum(np.bincount(number)) if len(number) else np.zeros(0, np.int64)
    return table.column(item), order, np.concatenate([[0], ends]).astype(np.int64), pc.unique(table.column(user))


def _times(column: Any, name: str, path: str | PathLike[str]) -> NDArray[Any]:
    """The times of events as values that can be sorted. Times that are all the same tell no order."""
    try:
        times = sortable(column)
    except ValueError as error:
        raise InputError(
            f"the times in {name!r} of {path} cannot be ordered, as they are {error} (the first is "
            f"{column[0].as_py()!r}); write them as timestamps, as numbers or as 2014-05-03T10:20:30, or name another "
            "column with --time-column"
        ) from None
    if len(times) > 1 and (times == times[0]).all():
        raise InputError(
            f"all events in {path} have the same {name!r}, which tells no order; name another column with "
            "--time-column, or take the order of the file with --file-order"
        )
    return times
