"""A shop written to a folder, in one step.

Items and records are read once, in tables of any size, and written in row groups of one size, so the bytes of a shop
do not depend on how its tables were cut. In memory are the ids and counters of all items, the different queries and
users, and the test pairs that were drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import InputError, StoreError
from ...files.atomic import replace_folder
from ...files.folder import with_digest
from ...files.ours import require_own_folder
from ...progress import Progress, Silent
from .counts import EVENTS, ItemCounters, QueryCounts, UserSet
from .layout import FACTS, FORMAT, TABLES, VERSION, Keys, schema
from .lists import flat, lists
from .row_groups import ROWS, RowGroups
from .split import PairDraw

__all__ = ["Draft", "require_shop_folder", "write_shop"]

TESTS = {"click": "clicked", "order": "ordered"}  # a test set and the events it is drawn from


@dataclass
class Draft:
    """The content of a shop before it is written.

    items   tables in the layout of items.parquet
    log     tables in the layout of log.parquet, in order, except that `shown`, `clicked` and `ordered` hold the rows of
            the items, not their ids. Optional: `intent`, for the test pairs; `records`, how many equal records a row
            stands for, of which the test pairs take one.
    users   the users' profiles; None: the users that occur in the log
    facts   what shop.json tells besides its counts: source, seed, split, left_out, notes
    rows    of items and of the log, for progress bars; 0: unknown
    """

    keys: Keys
    items: Iterable[Any]
    log: Iterable[Any]
    users: Iterable[Any] | None = None
    relevance: Any | None = None
    pairs: int = 30_000
    seed: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)


def require_shop_folder(output: Path, *inputs: str | Path | None) -> None:
    """Refuse to overwrite a folder with other files in it, or with files that are read."""
    if not output.is_dir():
        return
    for one in inputs:
        if one is not None and output.resolve() in (Path(one).resolve(), *Path(one).resolve().parents):
            raise StoreError(f"{one} is read from {output}; write to another folder")
    require_own_folder(output, "shop", FACTS)


def write_shop(output: Path, draft: Draft, progress: Progress | None = None) -> dict[str, Any]:
    """Write the folder; the facts in its shop.json."""
    progress = progress or Silent()
    with replace_folder(output, drop={f"{name}.parquet" for name in TABLES}) as folder:
        writer = _Writer(folder, draft)
        writer.write_items(progress)
        writer.write_log(progress)
        facts = writer.write_rest()
        text = json.dumps(with_digest(facts), indent=2, ensure_ascii=False)
        (folder / FACTS).write_text(text + "\n", encoding="utf-8")
    return facts


class _Writer:
    """The tables of a draft, one after the other."""

    def __init__(self, folder: Path, draft: Draft) -> None:
        self.folder, self.draft = folder, draft
        self.tables: dict[str, int] = {}
        self.ids: Any = None
        self.events = {name: {"train": 0, "test": 0} for name in EVENTS}
        self.records = {"train": 0, "test": 0}
        self.queries = QueryCounts()
        self.users = UserSet(draft.keys.user)
        self.draws = {kind: PairDraw(draft.pairs, draft.seed) for kind in TESTS}

    def write_items(self, progress: Progress) -> None:
        progress.start("items", self.draft.rows[0])
        ids = []
        with self._open("items") as file:
            for table in self.draft.items:
                ids.append(table.column("item_id").combine_chunks())
                file.write(table)
                progress.advance(len(table))
        if not self.tables["items"]:
            raise InputError("there are no items; a shop needs at least one")
        self.ids = pa.chunked_array(ids).combine_chunks()
        self.counters = ItemCounters(len(self.ids))

    def write_log(self, progress: Progress) -> None:
        progress.start("log", self.draft.rows[1])
        with self._open("log") as file:
            for table in self.draft.log:
                for start in range(0, len(table), ROWS):
                    part = table.slice(start, ROWS).combine_chunks()
                    for one in self._passed(part):
                        file.write(one)
                    progress.advance(len(part))

    def _passed(self, table: Any) -> Iterator[Any]:
        """A part of the log as it is written; everything about it is counted."""
        n = len(table)
        records = table.column("records").to_numpy() if "records" in table.column_names else np.ones(n, np.int64)
        test = pc.equal(table.column("split"), "test").to_numpy(zero_copy_only=False)
        known = {name: flat(table.column(name)) for name in EVENTS}
        for name, (rows, lengths) in known.items():
            self._count(name, rows.to_numpy(), np.repeat(records, lengths), np.repeat(test, lengths))
        unseen = table.column("shown").is_null().to_numpy()
        if unseen.any():
            rows, lengths = known["clicked"]
            which = np.repeat(unseen & ~test, lengths)
            self.counters.add("shown", rows.to_numpy()[which], np.repeat(records, lengths)[which])
        self.queries.add(table.column("query"), np.where(test, 0, records), np.where(test, records, 0))
        if self.draft.users is None:
            self.users.add(table.column("user").combine_chunks())
        for kind, name in TESTS.items():
            self.draws[kind].add(self._pairs(table, *known[name], test))
        for name, count in (("train", records[~test].sum()), ("test", records[test].sum())):
            self.records[name] += int(count)
        named = self._with_ids(table, known)
        repeated = np.repeat(np.arange(n), records)
        for start in range(0, len(repeated), ROWS):
            yield named if len(repeated) == n else named.take(repeated[start : start + ROWS])

    def _count(self, event: str, rows: Any, records: Any, test: Any) -> None:
        self.counters.add(event, rows[~test], records[~test])
        self.events[event]["train"] += int(records[~test].sum())
        self.events[event]["test"] += int(records[test].sum())

    def _with_ids(self, table: Any, known: dict[str, Any]) -> Any:
        for name, (rows, lengths) in known.items():
            missing = table.column(name).is_null().to_numpy()
            at = table.column_names.index(name)
            table = table.set_column(at, name, lists(self.ids.take(rows), lengths, missing))
        return table.select(list(TABLES["log"]))

    def _pairs(self, table: Any, rows: Any, lengths: Any, test: Any) -> Any:
        """The pairs of a query and an item among the test records of a part of the log."""
        of = np.repeat(np.arange(len(table)), lengths)
        inside = test[of]
        of = of[inside]
        columns = {name: table.column(name).take(of) for name in ("query", "user", "session", "time")}
        intent = table.column("intent").take(of) if "intent" in table.column_names else pa.nulls(len(of), pa.string())
        return pa.table({**columns, "item_id": self.ids.take(rows.filter(pa.array(inside))), "intent": intent})

    def write_rest(self) -> dict[str, Any]:
        """The tables that were counted, and the facts of shop.json."""
        queries = self.queries.table()
        if queries is None:
            raise InputError("there are no records; a shop needs at least one")
        self._write("queries", [queries])
        self._write("counters", [pa.table({"item_id": self.ids, **self.counters.counts})])
        self._write("users", self.draft.users if self.draft.users is not None else [self.users.table()])
        if self.draft.relevance is not None:
            self._write("relevance", [self.draft.relevance])
        pairs, notes = {}, list(self.draft.facts.get("notes", ()))
        for kind, draw in self.draws.items():
            drawn = draw.table()
            pairs[kind] = {"available": draw.seen, "drawn": 0 if drawn is None else len(drawn)}
            if drawn is None:
                notes.append(f"no {kind}s in the test part, so there is no {kind}.parquet")
                continue
            number = pc.index_in(drawn.column("query"), value_set=queries.column("query").combine_chunks())
            self._write(kind, [drawn.append_column("query_id", number)])
        counts = {"records": self.records, **self.events, "pairs": pairs}
        head = {"format": FORMAT, "version": VERSION}
        facts = {**self.draft.facts, "seed": self.draft.seed, "tables": self.tables, "counts": counts}
        return head | facts | {"left_out": self.draft.facts.get("left_out", []), "notes": notes}

    def _write(self, name: str, tables: Iterable[Any]) -> None:
        with self._open(name) as file:
            for table in tables:
                file.write(table)

    @contextmanager
    def _open(self, name: str) -> Iterator[RowGroups]:
        wanted = schema(name, self.draft.keys)
        with RowGroups(self.folder / f"{name}.parquet", wanted, further=name == "users") as file:
            yield file
        self.tables[name] = file.rows
