"""From ranked SIDs to items, and a file with those of many users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import SpecError
from ..files.address import Location
from ..files.table_formats import table_writer
from ..sids.table import SidTable
from ..sids.trie import Trie

__all__ = ["Recommendation", "Wanted", "chosen_items", "ranked_rows", "write_recommendations"]

AT_ONCE = 1 << 16  # rows of the file that are written at once


class Recommendation(NamedTuple):
    """An item, its SID, and the log-probability of that SID; items that share a SID share it.

    In a fused list it is the log-probability of the item, by the model and by counting.
    """

    item: Any
    sid: tuple[int, ...]
    score: float

    @property
    def probability(self) -> float:
        """How sure the model is that the next item has this SID; in a fused list, that it is this item."""
        return exp(self.score)


@dataclass(frozen=True)
class Wanted:
    """Which of the ranked items are taken: k of them, at most per_sid of one SID (None: all), seen ones or not."""

    k: int = 10
    per_sid: int | None = None
    exclude_history: bool = False

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SpecError(f"k must be at least 1, not {self.k}")
        if self.per_sid is not None and self.per_sid < 1:
            raise SpecError(f"per_sid must be at least 1, not {self.per_sid}")


def chosen_items(
    table: SidTable, trie: Trie, leaves: Sequence[int], scores: Sequence[float], wanted: Wanted, history: Sequence[int]
) -> list[Recommendation]:
    """The wanted items of SIDs that are ranked best first. leaves: in the trie, -1 for none; history: table rows."""
    seen = frozenset(history) if wanted.exclude_history else frozenset()
    ranked = _ranked(table, trie, zip(leaves, scores, strict=True), wanted.per_sid, seen)
    return list(islice(ranked, wanted.k))


def _ranked(
    table: SidTable, trie: Trie, best: Iterable[tuple[int, float]], per_sid: int | None, seen: frozenset[int]
) -> Iterator[Recommendation]:
    for leaf, score in best:
        rows = [int(row) for row in trie.items(leaf) if int(row) not in seen] if leaf >= 0 else []
        for row in rows[:per_sid]:
            yield Recommendation(table.ids[row].as_py(), tuple(table.codes[row].tolist()), score)


def ranked_rows(
    table: SidTable, rows: Sequence[int], scores: Sequence[float], wanted: Wanted, history: Sequence[int]
) -> list[Recommendation]:
    """The wanted ones of items that are ranked best first. rows, history: table rows."""
    seen = frozenset(history) if wanted.exclude_history else frozenset()
    chosen: list[Recommendation] = []
    taken: Counter[tuple[int, ...]] = Counter()
    for row, score in zip(rows, scores, strict=True):
        sid = tuple(table.codes[row].tolist())
        if row in seen or (wanted.per_sid is not None and taken[sid] >= wanted.per_sid):
            continue
        taken[sid] += 1
        chosen.append(Recommendation(table.ids[row].as_py(), sid, score))
        if len(chosen) == wanted.k:
            break
    return chosen


def write_recommendations(
    path: Location, table: SidTable, users: Any, name: str, lists: Iterable[Sequence[Recommendation]]
) -> int:
    """A file with a row per recommendation: user, rank, item_id, sid and probability; how many there are.

    users: a pyarrow array, as long as there are lists; name: of their column.
    """
    kinds = {name: users.type, "rank": pa.int32(), "item_id": table.ids.type, "sid": pa.string()}
    schema = pa.schema([*kinds.items(), ("probability", pa.float32())], {"sidkit.table": "recommendations"})
    total, flat = 0, ((user, rank, one) for user, ranked in enumerate(lists) for rank, one in enumerate(ranked, 1))
    with table_writer(path, schema, compression="zstd") as write:
        while rows := list(islice(flat, AT_ONCE)):
            columns = [
                users.take(pa.array([user for user, _, _ in rows])),
                pa.array([rank for _, rank, _ in rows], pa.int32()),
                pa.array([one.item for _, _, one in rows], table.ids.type),
                pa.array([table.template.write(one.sid) for _, _, one in rows], pa.string()),
                pa.array([one.probability for _, _, one in rows], pa.float32()),
            ]
            write(pa.Table.from_arrays(columns, schema=schema))
            total += len(rows)
    return total
