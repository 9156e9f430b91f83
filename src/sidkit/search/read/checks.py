"""Items and records checked before a shop is written: what cannot be used, and what the log has of unknown items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import InputError
from ...progress import Progress
from ..shop.counts import EVENTS
from ..shop.lists import flat, lists
from ..shop.texts import normalise
from .items import ItemIndex
from .left_out import LeftOut, Mask
from .queries import bad_queries

__all__ = ["CheckedLog", "Cleaned", "check_items", "check_log", "check_users", "clean"]


class CheckedLog(NamedTuple):
    """The results of a pass over all records.

    good: (rows,) which rows can be used; time, test: of the good ones, 0 and False where the log has none; unknown:
    what is left out of unknown items, in words.
    """

    good: Mask
    time: NDArray[np.int64]
    test: Mask
    unknown: str


@dataclass(frozen=True)
class Cleaned:
    """A table of records whose lists hold rows of known items.

    unknown: event -> ids that are not among the items.
    """

    table: Any
    unknown: dict[str, Any]


def check_items(
    tables: Iterable[Any], name: str, kind: Any, left_out: LeftOut, progress: Progress
) -> tuple[ItemIndex, Mask]:
    """The rows of the good items by id, and which rows of the file they are."""
    parts, untitled = [], []
    for table in tables:
        parts.append(table.column("item_id").combine_chunks())
        untitled.append(table.column("title").is_null().to_numpy())
        progress.advance(len(table))
    if not parts:
        raise InputError(f"{name} holds no items")
    ids = pa.chunked_array(parts, kind).combine_chunks()
    no_title, no_id = np.concatenate(untitled), ids.is_null().to_numpy(zero_copy_only=False)
    again = _repeated(ids, ~no_title & ~no_id)
    masks = {"have no id": no_id, "have no title": no_title, "have the id of an earlier item": again}
    good = left_out.sift(name, masks, ids)
    left_out.settle(len(ids), "items")
    if not good.any():
        raise InputError(f"none of the {len(ids):,} items of {name} can be used")
    return ItemIndex(ids.filter(pa.array(good))), good


def check_users(tables: list[Any], name: str, left_out: LeftOut) -> list[Any]:
    """The profiles, each user once."""
    table = pa.concat_tables(tables)
    ids = table.column("user").combine_chunks()
    no_id = ids.is_null().to_numpy(zero_copy_only=False)
    masks = {"have no id": no_id, "have the id of an earlier user": _repeated(ids, ~no_id)}
    good = left_out.sift(name, masks, ids)
    left_out.settle(len(ids), "users")
    return [table.filter(pa.array(good))]


def _repeated(ids: Any, good: Mask) -> Mask:
    """Which of the good rows have the id of an earlier good row."""
    rows = np.flatnonzero(good)
    ids = ids.filter(pa.array(good))
    codes = (ids if pa.types.is_integer(ids.type) else ids.dictionary_encode().indices).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    again = np.zeros(len(good), bool)
    again[rows[order[1:]]] = codes[order][1:] == codes[order][:-1]
    return again


def clean(table: Any, index: ItemIndex) -> Cleaned:
    """Records with queries in one form, and rows of items for their ids."""
    n = len(table)
    unknown = {}
    made = {
        "user": table.column("user"),
        "session": table.column("session"),
        "time": table.column("time"),
        "query": normalise(table.column("query")),
    }
    for event in EVENTS:
        column = table.column(event)
        values, lengths = flat(column)
        rows = index.rows(values)
        known = rows >= 0
        of = np.repeat(np.arange(n), lengths)
        unknown[event] = values.filter(pa.array(~known))
        made[event] = lists(pa.array(rows[known]), np.bincount(of[known], minlength=n), column.is_null().to_numpy())
    if "records" in table.column_names:
        made["records"] = table.column("records")
    return Cleaned(pa.table(made), unknown)


def check_log(
    tables: Iterable[Any], name: str, index: ItemIndex, timed: bool, drop_unknown: bool, left_out: LeftOut,
    progress: Progress,
) -> CheckedLog:  # fmt: skip
    """Look at every record. timed: records need a time, because they are split by it."""
    unknown, totals = _Unknown(), dict.fromkeys(EVENTS, 0)
    good, times, tests = [], [], []
    start = 0
    for table in tables:
        cleaned = clean(table, index)
        fine = left_out.sift(name, _bad(table, cleaned, timed), table.column("query"), start)
        unknown.add(cleaned.unknown)
        for event in EVENTS:
            totals[event] += int(flat(table.column(event))[1].sum())
        good.append(fine)
        times.append(pc.fill_null(table.column("time"), 0).to_numpy()[fine])
        tests.append(_is_test(table)[fine])
        start += len(table)
        progress.advance(len(table))
    if not start:
        raise InputError(f"{name} holds no records")
    left_out.settle(start, "records")
    unknown_events = unknown.settle(name, totals, drop_unknown, left_out)
    checked = CheckedLog(np.concatenate(good), np.concatenate(times), np.concatenate(tests), unknown_events)
    if not checked.good.any():
        raise InputError(f"none of the {start:,} records of {name} can be used")
    return checked


def _is_test(table: Any) -> Mask:
    if "split" not in table.column_names:
        return np.zeros(len(table), bool)
    test: Mask = pc.fill_null(pc.equal(table.column("split"), "test"), False).to_numpy(zero_copy_only=False)
    return test


def _bad(table: Any, cleaned: Cleaned, timed: bool) -> dict[str, Any]:
    """reason -> which records cannot be used for it."""
    masks = {}
    if "problem" in table.column_names:
        problem = table.column("problem")
        for reason in pc.unique(pc.drop_null(problem)).to_pylist():
            masks[reason] = pc.fill_null(pc.equal(problem, reason), False)
    masks |= bad_queries(cleaned.table.column("query"))
    if timed:
        masks["have no time"] = table.column("time").is_null()
    else:
        parts = pc.is_in(table.column("split"), value_set=pa.array(["train", "test"]))
        masks["have a split that is neither 'train' nor 'test'"] = pc.invert(parts)
    return masks


class _Unknown:
    """Ids in the log that are not among the items."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self.counts = dict.fromkeys(EVENTS, 0)

    def add(self, unknown: dict[str, Any]) -> None:
        for event, ids in unknown.items():
            if len(ids):
                self.counts[event] += len(ids)
                self._parts.append(pc.unique(ids))
        if len(self._parts) > 64:
            self._parts = [pc.unique(pa.chunked_array(self._parts))]

    def settle(self, name: str, totals: dict[str, int], drop: bool, left_out: LeftOut) -> str:
        """Refuse them, or list them; how many events are of unknown items, in words."""
        if not self._parts:
            return ""
        ids = pc.unique(pa.chunked_array(self._parts)).to_pylist()
        words = {"shown": "results shown", "clicked": "clicks", "ordered": "orders"}
        events = ", ".join(
            f"{self.counts[one]:,} of {totals[one]:,} {words[one]}" for one in EVENTS if self.counts[one]
        )
        several = f"{len(ids):,} different ones, the first" if len(ids) > 1 else "it"
        if not drop:
            raise InputError(
                f"{name}: {events} are of items that are not among the items ({several} is {ids[0]!r}); "
                "--unknown drop leaves them out and lists them"
            )
        left_out.add(name, "are not among the items", [-1] * len(ids), ids)
        return f"{events} are left out, because they are of items that are not among the items"
