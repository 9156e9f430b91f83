"""The columns of a log, by their usual names, and its times as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...data.column_names import NAMES
from ...data.columns import no_such
from ...data.formats.vectors import is_list
from ...errors import InputError
from .judgements import ITEM_NAMES, QUERY_NAMES
from .parquet import NamedFile, as_key

__all__ = ["LogColumns", "find_log_columns"]

USUAL = {
    "query": QUERY_NAMES,
    "user": tuple(name for name in NAMES["user"] if not name.startswith("session")),
    "session": ("session", "session_id"),
    "time": ("time", "query_time", *(name for name in NAMES["time"] if name != "click_time")),
    "split": ("split",),
}
LISTS = {
    "clicked": ("clicked", "clicked_item_ids", "items", "item_ids"),
    "shown": ("shown", "shown_item_ids", "impressed_item_ids"),
    "ordered": ("ordered", "ordered_item_ids", "purchased_item_ids"),
}
FLAGS = {
    "clicked": ("clicked", "is_clicked"),
    "ordered": ("ordered", "is_ordered", "purchased", "is_purchased"),
}
MILLISECONDS = 1000


@dataclass(frozen=True)
class LogColumns:
    """ours -> theirs. Of a log with lists: `clicked`, and perhaps `shown` and `ordered`. Of a log with a row per item:
    `item`, and perhaps `click_time` and flags that tell which items were clicked and ordered."""

    file: NamedFile
    names: dict[str, str]
    lists: bool

    def kind(self, ours: str, default: Any) -> Any:
        """The type of ids of a column, or the default where the log has none."""
        return self.file.require_key(self.names[ours]) if ours in self.names else default

    def ids(self, table: Any, ours: str, kind: Any) -> Any:
        """A column of ids, or of lists of them, of a table of the log; null where it has none."""
        if ours not in self.names:
            return pa.nulls(len(table), kind)
        return as_key(table.column(self.names[ours]), kind, self.file.name)

    @property
    def per_second(self) -> int:
        """Units of time in a second; 1 where times are integers, whatever they count."""
        return MILLISECONDS if "time" in self.names and _is_clock(self.file.types[self.names["time"]]) else 1

    def times(self, table: Any, ours: str = "time") -> Any:
        """Times as integers: milliseconds of a clock, or as they are."""
        if ours not in self.names:
            return pa.nulls(len(table), pa.int64())
        name = self.names[ours]
        column = table.column(name)
        if not _is_clock(column.type) and not pa.types.is_integer(column.type):
            raise InputError(f"{name!r} in {self.file.name} is {column.type}; times must be integers or timestamps")
        if _is_clock(column.type):
            column = column.cast(pa.timestamp("ms", getattr(column.type, "tz", None)), safe=False)
        return column.cast(pa.int64()).combine_chunks()


def find_log_columns(file: NamedFile, given: Mapping[str, str], split: bool) -> LogColumns:
    """given: columns that were named, ours -> theirs; split: whether a column that splits the log counts."""
    names = {"query": file.column(given.get("query"), USUAL["query"], "--query-column")}
    for ours in ("user", "session", "time", *(["split"] if split else [])):
        theirs = file.find(given.get(ours), USUAL[ours], f"--{ours}-column")
        if theirs is not None:
            names[ours] = theirs
    if "time" not in names and "split" not in names:
        could_be = {name: _is_clock(kind) or pa.types.is_integer(kind) for name, kind in file.types.items()}
        missing = no_such("column", "time", file.name, could_be, "--time-column").typed
        raise InputError(
            f"{missing}; a log without times is split by a column (--split-column), or read by `search read clicks`"
        )
    items = file.find(given.get("item"), (), "--item-column")
    items = items or next((name for name in LISTS["clicked"] if _is_list(file.types.get(name))), None)
    if items is not None and is_list(file.types[items]):
        names["clicked"] = items
        usual = {
            ours: [name for name in LISTS[ours] if _is_list(file.types.get(name))] for ours in ("shown", "ordered")
        }
        return LogColumns(file, names | {ours: present[0] for ours, present in usual.items() if present}, True)
    names["item"] = items or file.column(None, ITEM_NAMES, "--item-column")
    file.require_key(names["item"])
    flags = {ours: [name for name in FLAGS[ours] if _is_flag(file.types.get(name))] for ours in FLAGS}
    names |= {ours: present[0] for ours, present in flags.items() if present}
    names |= {"click_time": "click_time"} if "click_time" in file.types else {}
    return LogColumns(file, names, False)


def _is_list(kind: Any) -> bool:
    return kind is not None and is_list(kind)


def _is_clock(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_flag(kind: Any) -> bool:
    return kind is not None and bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))
