"""What is appended, in a table of the connection: `incoming`, a row for every item, its SID and its row number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..data.ids import is_text, without_dictionary
from ..errors import InputError
from ..progress import Progress
from ..sids.policies import Policy
from .new_items import Resolver
from .tables import INTEGERS, TEXTS

if TYPE_CHECKING:
    from .database import Database
    from .registry import Registry

__all__ = ["Batches", "ToAppend", "incoming"]

Batches: TypeAlias = Iterable[tuple[Any, NDArray[np.int32]]]  # ids (a pyarrow array) and codes (n, levels)


@dataclass(frozen=True)
class ToAppend:
    """Items in batches, the policy for SIDs that are taken, and what applies it if it moves items."""

    batches: Batches
    policy: Policy = field(default_factory=Policy)
    resolver: Resolver | None = None


@contextmanager
def incoming(registry: Registry, batches: Batches, progress: Progress) -> Iterator[tuple[int, str]]:
    """The table, filled: how many items came, and the kind of their ids."""
    remaining = iter(batches)
    first = next(remaining, None)
    if first is None:
        raise InputError("there are no items to append")
    database, kind, given = registry.database, _kind(first[0]), 0
    with database.temporary("incoming", item=kind, sid=registry.keys.kind, row="whole"):
        for ids, codes in chain([first], remaining):
            if _kind(ids) != kind:
                raise InputError("some of the ids to append are integers and some are texts")
            rows = range(given, given + len(codes))
            database.fill("incoming", (_values(ids, kind), registry.keys.of(codes), rows))
            given += len(codes)
            progress.advance(len(codes))
        if not given:
            raise InputError("there are no items to append")
        _require_different(database)
        yield given, kind


def _kind(ids: Any) -> str:
    ids = without_dictionary(ids)
    if pa.types.is_integer(ids.type):
        return INTEGERS
    if is_text(ids.type):
        return TEXTS
    raise InputError(f"ids must be strings or integers, not {ids.type}")


def _values(ids: Any, kind: str) -> list[Any]:
    """The ids as a database stores them."""
    ids = without_dictionary(ids)
    if ids.null_count:
        raise InputError("some of the items to append have no id")
    if kind == INTEGERS:
        try:
            return ids.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
        except pa.ArrowInvalid:
            raise InputError(f"ids must be below 2^63; the largest is {pc.max(ids).as_py()}") from None
    if pc.any(pc.match_substring(ids, "\0")).as_py():
        raise InputError("an id holds the character NUL, which databases do not store; replace it")
    return ids.to_pylist()  # type: ignore[no-any-return]


def _require_different(database: Database) -> None:
    database.run("CREATE INDEX incoming_item ON incoming (item)")
    for (item,) in database.rows("SELECT item FROM incoming GROUP BY item HAVING count(*) > 1 ORDER BY item LIMIT 1"):
        (first,), (second,), *_ = database.rows("SELECT row FROM incoming WHERE item = ? ORDER BY row", item)
        raise InputError(f"items to append must be different; {item!r} is in row {first} and in row {second}")
