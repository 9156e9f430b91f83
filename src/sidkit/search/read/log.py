"""A shop from a log of searches: a row per search with lists of items, or a row per item.

Where the log has no sessions, a session of a user ends with a pause longer than the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...data.items import without_dictionary
from ...errors import SpecError
from ...progress import Progress
from ..shop.counts import EVENTS
from ..shop.layout import Keys
from .assemble import ReadOptions, ShopSource, assemble
from .items import find_item_columns, item_tables
from .log_columns import LogColumns, find_log_columns
from .log_rows import searches_of_rows
from .parquet import NamedFile, as_key, open_file
from .queries import QueryTexts
from .sessions import BACKWARDS, backwards, sessions_by_gap

__all__ = ["LogFiles", "read_log"]

NO_SECONDS = 10**11  # after 1970, and in other units: the year 5138
FEW = 10**5  # units of a gap


@dataclass(frozen=True)
class LogFiles:
    """The input.

    gap      the pause that ends a session: in seconds, or in the unit of times that are integers
    by_time  split by time, although the log has a column that splits it
    columns  those of the log that have unusual names, ours -> theirs
    """

    items: str
    log: str
    queries: str | None = None
    users: str | None = None
    gap: float = 1800.0
    by_time: bool = False
    id_column: str | None = None
    title_column: str | None = None
    text_column: str | None = None
    query_text_column: str | None = None
    columns: dict[str, str] = field(default_factory=dict)


def read_log(files: LogFiles, output: Path, options: ReadOptions, scratch: Path, progress: Progress) -> dict[str, Any]:
    """Write the shop; the facts of its shop.json."""
    if not files.gap > 0:
        raise SpecError(f"--gap must be above 0, not {files.gap:g}")
    items = find_item_columns(open_file(files.items), files.id_column, files.title_column, files.text_column)
    log, left_out = open_file(files.log), options.left_out(output)
    columns = find_log_columns(log, files.columns, not files.by_time)
    queries = QueryTexts(files.queries, files.query_text_column)
    queries.require(log, columns.names["query"])
    keys = Keys(items.kind, columns.kind("user", pa.string()), columns.kind("session", pa.int64()))
    gap = files.gap * columns.per_second
    if columns.lists:
        searches = _searches(columns, queries, keys, gap)
    else:
        table = searches_of_rows(columns, queries, items.kind, gap, left_out)

        def searches() -> Iterator[Any]:
            return iter([table])

    split = columns.names.get("split")
    users = None if files.users is None else open_file(files.users)
    source = ShopSource(
        keys=keys,
        items=lambda: item_tables(items),
        items_name=items.file.name,
        log=searches,
        log_name=log.name,
        facts={"kind": "log", "files": [items.file.name, log.name]},
        users=None if users is None else [_profiles(users, keys.user)],
        users_name="" if users is None else users.name,
        split=None if split is None else {"by": "column", "column": split},
    )
    if "session" not in columns.names:
        source.facts["gap"] = files.gap
        source.notes += _doubtful_gap(columns, files.gap)
    return assemble(source, output, options, left_out, scratch, progress)


def _searches(columns: LogColumns, queries: QueryTexts, keys: Keys, gap: float) -> Callable[[], Iterator[Any]]:
    """The rows of a log with lists, as tables that can be asked for again."""
    names, file = columns.names, columns.file
    table = file.table([names[one] for one in ("user", "session", "time") if one in names] or [names["query"]])
    times = pc.fill_null(columns.times(table), 0).to_numpy()
    problem = pa.nulls(len(table), pa.string())
    if "session" in names:
        session = columns.ids(table, "session", keys.session).combine_chunks()
        if "time" in names:
            problem = pc.if_else(pa.array(backwards(session, times)), BACKWARDS, problem)
    else:
        session = pa.array(sessions_by_gap(columns.ids(table, "user", keys.user), times, gap))

    def tables() -> Iterator[Any]:
        start = 0
        for rows in file.batches(list(names.values())):
            here = slice(start, start + len(rows))
            start += len(rows)
            more = {"session": session[here], "problem": problem[here]}
            yield pa.table({**_columns_of(rows, columns, queries, keys), **more})

    return tables


def _columns_of(rows: Any, columns: LogColumns, queries: QueryTexts, keys: Keys) -> dict[str, Any]:
    names = columns.names
    made = {"user": columns.ids(rows, "user", keys.user), "time": columns.times(rows)}
    made |= {"query": queries.of(rows.column(names["query"]))}
    made |= {event: columns.ids(rows, event, pa.list_(keys.item)) for event in EVENTS}
    if "split" in names:
        made["split"] = without_dictionary(rows.column(names["split"])).cast(pa.string())
    return made


def _doubtful_gap(columns: LogColumns, gap: float) -> list[str]:
    """A note where times are integers that cannot be seconds, and the gap is short in any other unit."""
    if "time" not in columns.names or columns.per_second > 1 or gap >= FEW:
        return []
    latest = pc.max(columns.times(columns.file.table([columns.names["time"]]))).as_py()
    if latest is None or latest < NO_SECONDS:
        return []
    return [
        f"times of {columns.file.name} are integers up to {latest}, too large for seconds: --gap {gap:g} counts their "
        "unit; where that is a millisecond, --gap 1800000 is half an hour"
    ]


def _profiles(file: NamedFile, kind: Any) -> Any:
    """user, then every other column as text."""
    user = file.column(None, ("user", "user_id", "uid"), "--users")
    table = file.table(list(file.types))
    others = {name: without_dictionary(table.column(name)).cast(pa.string()) for name in file.types if name != user}
    return pa.table({"user": as_key(table.column(user), kind, file.name), **others})
