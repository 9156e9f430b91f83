"""The columns of a file of sequences: a list of items per row, or an item, a user and a time per event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, SpecError
from .columns import (
    ITEM,
    SEQUENCE,
    TIME,
    USER,
    Chosen,
    FileColumns,
    by_content,
    choose,
    choose_known,
    missing,
    named_columns,
    no_such,
)
from .formats.vectors import is_list

__all__ = ["SequenceColumns", "find_sequence_columns"]


@dataclass(frozen=True)
class SequenceColumns:
    """The columns that a caller names; None: detected. file_order: events without a time come in order."""

    sequence: str | None = None
    item: str | None = None
    user: str | None = None
    time: str | None = None
    file_order: bool = False

    def __post_init__(self) -> None:
        if self.sequence is not None and self.item is not None:
            raise SpecError("--sequence-column names lists of items, --item-column one item per row; give one of them")
        if self.time is not None and self.file_order:
            raise SpecError("--time-column and --file-order exclude each other; give one of them")

    def options(self) -> dict[str, str | None]:
        """As options of a command."""
        given = {"sequence": self.sequence, "item": self.item, "user": self.user, "time": self.time}
        return {f"--{role}-column": column for role, column in given.items()}

    def flags(self) -> tuple[str, ...]:
        """The options of a command that have no value."""
        return ("--file-order",) if self.file_order else ()


def find_sequence_columns(
    file: FileColumns, ids: Any, given: SequenceColumns, known_as: str = "", users: bool = False
) -> tuple[Chosen, ...]:
    """The column of lists; or the columns of items, users and times, the last one None for the order of the file.

    ids: the items that are known, and known_as: their name in the file that they come from. users: whether the names of
    the users are wanted; then a column of users comes after that of lists, None for row numbers.
    """
    items = _items(file, ids, given, known_as)
    if is_list(file.types[str(items.column)]):
        unused = [role.option for role, name in ((USER, given.user), (TIME, given.time)) if name is not None]
        if users and given.time is None:
            return items, _users(file, items.column, given.user)
        if unused:
            raise SpecError(f"{items.column!r} in {file.file} has lists of items, in order; leave out {unused[0]}")
        return (items,)
    time = Chosen(TIME, None) if given.file_order else choose(file, TIME, given.time, (items.column, given.user))
    user = choose(file, USER, given.user, (items.column, time.column if time else None))
    if user is None:
        raise _no_user(file, items.column)
    if time is None:
        raise _no_time(file, (items.column, user.column))
    return items, user, time


def _users(file: FileColumns, items: str | None, wanted: str | None) -> Chosen:
    """The users of lists: in a column that is wanted or has a known name; else numbered."""
    named = wanted is not None or named_columns(USER.names, file.types)
    chosen = choose(file, USER, wanted, (items,)) if named else None
    return chosen or Chosen(USER, None)


def _items(file: FileColumns, ids: Any, given: SequenceColumns, known_as: str) -> Chosen:
    """Lists of items, or items. A list of a known name comes first, then an item of a known name, then known ids."""
    if given.sequence is not None or given.item is not None:
        return _named_items(file, given)
    lists = [name for name, kind in file.types.items() if is_list(kind)]
    flat = [name for name in file.types if name not in lists]
    usual = ((SEQUENCE, SEQUENCE.names, lists), (ITEM, (*ITEM.names, known_as), flat))
    by_name = [role for role, names, columns in usual if named_columns(names, columns)]
    for role in by_name or (SEQUENCE, ITEM):
        chosen = choose_known(file, role, ids, None, known_as, pc.list_flatten if role is SEQUENCE else None)
        if chosen is not None:
            return chosen
    raise no_such("column", "items", file.file, dict.fromkeys(file.types, True), SEQUENCE.option)


def _named_items(file: FileColumns, given: SequenceColumns) -> Chosen:
    """--sequence-column may name items of events too, as it always could."""
    if given.sequence is not None and given.sequence not in file.types:
        raise no_such("column", given.sequence, file.file, dict.fromkeys(file.types, True), SEQUENCE.option)
    if given.sequence is not None:
        return Chosen(SEQUENCE if is_list(file.types[given.sequence]) else ITEM, given.sequence)
    if given.item is not None and is_list(file.types.get(given.item, pa.null())):
        raise SpecError(f"{given.item!r} in {file.file} has lists of items; name it with --sequence-column")
    chosen = choose(file, ITEM, given.item)
    if chosen is None:
        raise missing(file, ITEM, given.item)
    return chosen


def _no_user(file: FileColumns, item: str | None) -> InputError:
    likely = list(by_content(file, USER, (item,)))
    which = f"name it with --user-column ({' or '.join(likely)})" if likely else "name one with --user-column"
    return InputError(
        f"{file.file} has one item per row and no user column that is known (columns: {', '.join(file.types)}); "
        f"{which}, or give sequences as lists"
    )


def _no_time(file: FileColumns, taken: tuple[str | None, ...]) -> InputError:
    likely = list(by_content(file, TIME, taken))
    which = f"name it with --time-column ({' or '.join(likely)})" if likely else "name one with --time-column"
    return InputError(
        f"{file.file} has events and no time column that is known (columns: {', '.join(file.types)}), so their order "
        f"is unknown; {which}, or take the order of the file with --file-order"
    )
