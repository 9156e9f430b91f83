"""The searches of a log with a row per item. Its columns are read into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.items import without_dictionary
from ..shop.lists import lists
from .groups import first_rows, groups_of
from .left_out import LeftOut
from .log_columns import LogColumns
from .queries import QueryTexts
from .sessions import BACKWARDS, backwards, sessions_by_gap

__all__ = ["searches_of_rows"]


def searches_of_rows(columns: LogColumns, queries: QueryTexts, item: Any, gap: float, left_out: LeftOut) -> Any:
    """A search for all rows of one user, query and time, its items in the order of their clicks.

    item: the type of ids. Rows that cannot be used are left out.
    """
    rows = _good_rows(columns, queries, item, left_out)
    keys = [name for name in ("user", "query", "time", "session", "split") if name in rows.column_names]
    group = groups_of(*(rows.column(name) for name in keys))
    clicks = pc.fill_null(rows.column("click_time"), 0).to_numpy()
    order, sizes, first = np.lexsort((clicks, group)), np.bincount(group), pa.array(first_rows(group))
    made = {name: rows.column(name).take(first) for name in keys}
    ids, n = rows.column("item").combine_chunks(), len(sizes)

    def chosen(flag: str) -> Any:
        which = order[rows.column(flag).to_numpy(zero_copy_only=False)[order]]
        return lists(ids.take(pa.array(which)), np.bincount(group[which], minlength=n))

    made["shown"] = lists(ids.take(pa.array(order)), sizes) if "clicked" in columns.names else _none(n, item)
    made["clicked"] = chosen("clicked")
    made["ordered"] = chosen("ordered") if "ordered" in columns.names else _none(n, item)
    if "session" not in made:
        made["session"] = pa.array(sessions_by_gap(made["user"], pc.fill_null(made["time"], 0).to_numpy(), gap))
    return pa.table(made)


def _none(n: int, item: Any) -> Any:
    return pa.nulls(n, pa.list_(item))


def _good_rows(columns: LogColumns, queries: QueryTexts, item: Any, left_out: LeftOut) -> Any:
    """user, query, time, click_time, item, clicked, ordered, and session and split where the log has them."""
    names = columns.names
    table = columns.file.table(list(names.values()))
    n = len(table)
    made = {"query": queries.of(table.column(names["query"])), "time": columns.times(table)}
    made |= {"user": columns.ids(table, "user", columns.kind("user", pa.string()))}
    made |= {"click_time": columns.times(table, "click_time"), "item": columns.ids(table, "item", item)}
    made |= {"clicked": _flag(table, names.get("clicked"), True), "ordered": _flag(table, names.get("ordered"), False)}
    if "session" in names:
        made["session"] = columns.ids(table, "session", columns.kind("session", None))
    if "split" in names:
        made["split"] = without_dictionary(table.column(names["split"])).cast(pa.string())
    rows = pa.table(made)
    masks = queries.bad(rows.column("query")) | {"have no item": rows.column("item").is_null()}
    if "split" not in names:
        masks["have no time"] = rows.column("time").is_null()
    early = pc.less(rows.column("click_time"), rows.column("time"))
    masks["have a click before the search"] = pc.fill_null(early, False)
    if "session" in names and "time" in names:
        times = pc.fill_null(rows.column("time"), 0).to_numpy()
        masks[BACKWARDS] = backwards(rows.column("session"), times)
    good = left_out.sift(columns.file.name, masks, table.column(names["query"]))
    left_out.settle(n, "rows")
    return rows.filter(pa.array(good)).combine_chunks()


def _flag(table: Any, name: str | None, default: bool) -> NDArray[np.bool_]:
    if name is None:
        return np.full(len(table), default)
    flags: NDArray[np.bool_] = pc.fill_null(table.column(name).cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
    return flags
