"""Which column of a file has which role: by its name, else by its type and content.

    chosen = choose(file, TIME, wanted)

Names are compared without case, blanks, dashes and underscores, so `movieId` is `movie_id`. A column of another name is
chosen by its content, if it is the only one that can be meant. `Chosen` tells which column it is, and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote
from typing import Any

import pyarrow as pa

from ..errors import InputError, did_you_mean
from .column_content import (
    are_telling,
    could_be_id,
    could_be_time,
    could_be_user,
    is_id_like,
    is_number_or_clock,
    is_sortable,
    share_known,
)
from .column_names import NAMES, OTHER_NAMES
from .formats.vectors import is_list, is_vector_type
from .ids import is_id_type

__all__ = [
    "ID",
    "ITEM",
    "SEQUENCE",
    "TIME",
    "USER",
    "VECTORS",
    "Chosen",
    "FileColumns",
    "Role",
    "by_content",
    "choose",
    "choose_known",
    "choose_name",
    "describe_columns",
    "missing",
    "named_columns",
    "no_such",
    "no_text_column",
]

MOSTLY = 0.5  # of the values of a column that is joined by id are known ids


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file: their types, and the first values of one."""

    file: str  # its name, for messages
    types: Mapping[str, Any]
    sample: Callable[[str], Any]  # the first values of a column, a pyarrow array


@dataclass(frozen=True)
class Role:
    """A role that a column can have.

    key, words   its name in JSON, and the words before the column's name in a line for people
    without      these words where no column has the role
    fits         whether a column of this pyarrow type can have the role, and needs: what such a type is, in words
    content      why the name and the first values of a column make it one, or None; never chosen by content without it
    prefers      of several columns of known names, the types that are taken first
    """

    key: str
    words: str
    without: str
    option: str
    fits: Callable[[Any], bool]
    needs: str
    content: Callable[[str, Any], str | None] | None = None
    prefers: Callable[[Any], bool] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[self.key]


@dataclass(frozen=True)
class Chosen:
    """The column of a role, or None: ids are then row numbers, and events in the order of the file.

    reason: why it was chosen, if not by its name.
    """

    role: Role
    column: str | None
    reason: str = ""

    def __str__(self) -> str:
        if self.column is None:
            return self.role.without
        return f"{self.role.words} {self.column!r}" + (f" ({self.reason})" if self.reason else "")


def _is_flat(kind: Any) -> bool:
    return not pa.types.is_nested(kind)


ID = Role(
    "id", "ids in", "ids are row numbers", "--id-column", is_id_type, "ids must be strings or integers", could_be_id
)
VECTORS = Role("vectors", "vectors in", "", "--column", is_vector_type, "embeddings must be lists of numbers")
ITEM = Role("item", "items in", "", "--item-column", is_id_type, "items must be strings or integers")
SEQUENCE = Role("sequence", "lists of items in", "", "--sequence-column", is_list, "sequences must be lists of items")
USER = Role(
    "user",
    "users in",
    "users are row numbers",
    "--user-column",
    _is_flat,
    "users must be strings or numbers",
    could_be_user,
)
TIME = Role(
    "time",
    "ordered by",
    "in the order of the file",
    "--time-column",
    is_sortable,
    "times must be timestamps or numbers",
    could_be_time,
    is_number_or_clock,
)


def choose(
    file: FileColumns, role: Role, wanted: str | None = None, taken: Collection[str | None] = ()
) -> Chosen | None:
    """The column of a role: the wanted one, one of a known name, or the only one with such content; else None.

    taken: columns that have a role already. A column that is wanted and missing, or of a wrong type, is an error.
    """
    name = wanted
    if wanted is None:
        first = role.prefers or role.fits
        name = choose_name(None, role.names, {n: first(kind) for n, kind in file.types.items() if n not in taken})
    elif wanted not in file.types:
        raise missing(file, role, wanted)
    if name is not None:
        if not role.fits(file.types[name]):
            raise InputError(f"{name!r} in {file.file} is {file.types[name]}; {role.needs}")
        return Chosen(role, name)
    reasons = by_content(file, role, taken)
    return Chosen(role, *next(iter(reasons.items()))) if len(reasons) == 1 else None


def choose_known(
    file: FileColumns,
    role: Role,
    ids: Any,
    wanted: str | None = None,
    known_as: str = "",
    values: Callable[[Any], Any] | None = None,
) -> Chosen | None:
    """The column of a role, for a file that is joined to these ids, which another file has under the name known_as.

    It is the wanted column; else one called known_as; else the first one of a known name whose values are mostly among
    the ids; else the only column of which that is true. values: the items in the first values of a column. ids may be a
    function that reads them, where that is to be done only if they are needed.
    """
    if wanted is not None:
        return choose(file, role, wanted)
    fitting = [name for name, kind in file.types.items() if role.fits(kind)]
    if known_as in fitting:
        return Chosen(role, known_as)
    named = named_columns(role.names, fitting)
    if not named and named_columns(role.names, file.types):
        return choose(file, role)  # an error that names its type

    def known(names: Iterable[str]) -> list[str]:
        samples, all_ids = ((name, file.sample(name)) for name in names), ids() if callable(ids) else ids
        return [name for name, some in samples if share_known(values(some) if values else some, all_ids) >= MOSTLY]

    if named:
        return Chosen(role, next(iter(known(named) if len(named) > 1 else ()), named[0]))
    telling = are_telling(ids() if callable(ids) else ids)
    likely = known(name for name in fitting if normal(name) not in OTHER_NAMES) if telling else []
    return Chosen(role, likely[0], "its values are known ids") if len(likely) == 1 else None


def missing(file: FileColumns, role: Role, wanted: str | None = None) -> InputError:
    """The error for a column that is not there; its hint names a column that could have the role."""
    fits = {name: role.fits(kind) for name, kind in file.types.items()}
    if role is ID:
        likely = (name for name in fits if fits[name] and normal(name) not in OTHER_NAMES)
        fits |= dict.fromkeys(fits, False) | {name: is_id_like(file.sample(name)) for name in likely}
    return no_such("column", wanted or role.names[0], file.file, fits, role.option)


def by_content(file: FileColumns, role: Role, taken: Collection[str | None] = ()) -> dict[str, str]:
    """The columns that have the content of a role, and no known name of another: column -> why."""
    if role.content is None:
        return {}
    other = {normal(name) for key, names in NAMES.items() if key != role.key for name in names} | OTHER_NAMES
    other -= {normal(name) for name in role.names}
    reasons = {}
    for name, kind in file.types.items():
        if name in taken or normal(name) in other or not role.fits(kind):
            continue
        reason = role.content(name, file.sample(name))
        if reason is not None:
            reasons[name] = reason
    return reasons


def normal(name: str) -> str:
    """A name as it is compared; `timestamp:float`, as RecBole writes it, is `timestamp`."""
    return re.sub(r"[\W_]", "", name.partition(":")[0].lower())


def named_columns(usual: Sequence[str], columns: Iterable[str]) -> list[str]:
    """The columns that have a usual name, in the order of these names; an exact match comes first."""
    matches = [
        column
        for name in usual
        for column in sorted(columns, key=lambda column, name=name: column != name)  # type: ignore[misc]
        if column == name or normal(column) == normal(name)
    ]
    return list(dict.fromkeys(matches))


def choose_name(wanted: str | None, usual: Sequence[str], fits: Mapping[str, bool]) -> str | None:
    """The wanted name; else a usual one, preferably one whose type fits; None where there is neither.

    fits: for every column or array, whether its type fits.
    """
    if wanted is not None:
        return wanted if wanted in fits else None
    present = named_columns(usual, fits)
    return next((name for name in present if fits[name]), present[0] if present else None)


def no_such(noun: str, wanted: str, file: str, fits: Mapping[str, bool], option: str) -> InputError:
    """no column 'embedding' in items.parquet (columns: id, title, emb); did you mean --column emb?"""
    close = get_close_matches(wanted, [name for name in fits if fits[name]], n=1, cutoff=0.0)
    hint = f"; did you mean {option} {quote(close[0])}?" if close else ""
    names = list(fits)
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return InputError(f"no {noun} {wanted!r} in {file} ({noun}s: {listed or 'none'}){hint}")


def no_text_column(name: str, file: str, columns: Collection[str]) -> InputError:
    """The error for a column of texts that a file does not have."""
    return InputError(f"no column {name!r} in {file} (columns: {', '.join(columns)}){did_you_mean(name, columns)}")


def describe_columns(chosen: Iterable[Chosen]) -> str:
    """items in 'asin', users in 'reviewerID', ordered by 'unixReviewTime'"""
    return ", ".join(map(str, chosen))
