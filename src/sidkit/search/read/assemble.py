"""The last step of all readers: items and records are checked, split, put in order of time, and written as a shop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import InputError, SpecError
from ...progress import Progress
from ..shop.layout import Keys
from ..shop.split import require_share, time_boundary
from ..shop.write import Draft, write_shop
from .checks import CheckedLog, check_items, check_log, check_users, clean
from .items import ItemIndex
from .left_out import LeftOut
from .order import in_order

__all__ = ["ReadOptions", "ShopSource", "assemble"]

Tables = Callable[[], Iterator[Any]]


@dataclass(frozen=True)
class ReadOptions:
    """Options of all readers. test_share and test_from are for splits by time."""

    test_share: float = 0.1
    test_from: int | None = None
    pairs: int = 30_000
    seed: int = 0
    drop_unknown: bool = False
    drop_bad_rows: bool = False

    def __post_init__(self) -> None:
        require_share(self.test_share)
        if self.pairs < 1:
            raise SpecError(f"--pairs must be at least 1, not {self.pairs}")

    def left_out(self, output: Path) -> LeftOut:
        """The list of what is left out, beside the shop."""
        return LeftOut(output.parent / f"{output.name}.left-out.tsv", self.drop_bad_rows)


@dataclass
class ShopSource:
    """The output of a reader; its tables can be read more than once.

    items   in the layout of items.parquet
    log     in the layout of log.parquet, with ids of items; optional columns: `split`, where it is given; `records`,
            where a row stands for several; `problem`, why a row cannot be used, null where it can
    split   how the records were split, for shop.json; None: by time
    """

    keys: Keys
    items: Tables
    items_name: str
    log: Tables
    log_name: str
    facts: dict[str, Any]
    users: list[Any] | None = None
    users_name: str = ""
    relevance: Any | None = None
    split: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)


def assemble(
    source: ShopSource, output: Path, options: ReadOptions, left_out: LeftOut, scratch: Path, progress: Progress
) -> dict[str, Any]:
    """Check everything, then write the shop and the list of what was left out; the facts of shop.json.

    scratch: a folder for the records while they are put in order; it is made if it is needed, and removed.
    """
    progress.start("check", 0)
    index, good_items = check_items(source.items(), source.items_name, source.keys.item, left_out, progress)
    users = None if source.users is None else check_users(source.users, source.users_name, left_out)
    timed = source.split is None
    log = check_log(source.log(), source.log_name, index, timed, options.drop_unknown, left_out, progress)
    split, facts = _split(source, options, log)
    notes = [*source.notes, *([log.unknown] if log.unknown else [])]
    position = np.empty(len(split), np.int64)
    position[np.lexsort((log.time, split))] = np.arange(len(split))
    draft = Draft(
        source.keys,
        _good(source.items(), good_items),
        in_order(_records(source, index, log, split), position, scratch / "sorting"),
        users,
        source.relevance,
        options.pairs,
        options.seed,
        {"source": source.facts, "split": facts, "left_out": left_out.facts(), "notes": notes},
        (len(index), len(split)),
    )
    written = write_shop(output, draft, progress)
    left_out.write()
    return written


def _split(source: ShopSource, options: ReadOptions, log: CheckedLog) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Whether each good record is in the test part, and how that was decided."""
    if source.split is not None:
        test = log.test
        facts = source.split
    else:
        from_time = options.test_from
        boundary = time_boundary(log.time, options.test_share) if from_time is None else from_time
        test = log.time >= boundary
        facts = {"by": "time", "test_from": int(boundary)}
        facts |= {"test_share": options.test_share} if from_time is None else {}
    for part, count in (("training", (~test).sum()), ("test", test.sum())):
        if not count:
            span = f"; times run from {log.time.min()} to {log.time.max()}" if source.split is None else ""
            raise InputError(f"no records are left for the {part} part of {source.log_name}{span}")
    return test, facts


def _good(tables: Iterator[Any], good: NDArray[np.bool_]) -> Iterator[Any]:
    start = 0
    for table in tables:
        which = good[start : start + len(table)]
        start += len(table)
        if which.any():
            yield table if which.all() else table.filter(pa.array(which))


def _records(source: ShopSource, index: ItemIndex, log: CheckedLog, test: NDArray[np.bool_]) -> Iterator[Any]:
    """The good records with rows of items for ids, and their split."""
    start = done = 0
    for table in source.log():
        made = clean(table, index).table
        which = log.good[start : start + len(table)]
        start += len(table)
        made = made if which.all() else made.filter(pa.array(which))
        here = test[done : done + len(made)]
        done += len(made)
        if len(made):
            yield made.append_column("split", pa.array(np.where(here, "test", "train")))
