"""Items that would share a semantic ID take free codes of the last level.

Nearest centroids give several items one SID while most codes under their prefix stay unused. Under each prefix the last
tokens are assigned again: to one item after the other (greedy), or to all at the least total cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress, Silent
from .crowded import Crowd, crowded
from .transport import rounded_transport

__all__ = ["Assignment", "Costs", "assign_last_tokens"]

AT_ONCE = 1 << 22  # costs in memory at once: 32 MB

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Costs = Callable[[Integers], Floats]  # row numbers (n,) -> (n, K), the cost of each last code for each row; inf: none


@dataclass(frozen=True, eq=False)
class Assignment:
    """New codes, the total cost of moving and, where rows of a prefix are assigned together, that of greedy moves."""

    codes: Codes
    cost: float
    greedy_cost: float | None


class _Choice(NamedTuple):
    """New last tokens for the rows of a prefix, what they add to the cost, and what greedy ones would add."""

    tokens: Codes
    cost: float
    greedy_cost: float


def assign_last_tokens(
    codes: Any,
    sizes: Sequence[int],
    costs: Costs,
    way: str = "nearest",
    capacity: int = 1,
    taken: NDArray[Any] | None = None,
    order: Integers | None = None,
    progress: Progress | None = None,
) -> Assignment:
    """New last tokens for items beyond the capacity of their SID, under prefixes where there are any.

    way        'least-cost' and 'sinkhorn' assign all rows of such a prefix together; any other way is greedy: the
               first `capacity` items of a SID stay, the others choose the nearest code with room, in this order
    taken      (m, levels) the SIDs of items that stay
    Items stay where their prefix has no room. Costs are requested for as many rows as AT_ONCE holds; of a prefix with
    more (16,384 for 256 codes) only the first that fit are assigned together.
    """
    out, report = np.array(codes, np.int32), progress or Silent()
    together = TOGETHER.get(way)
    crowds = crowded(out, sizes, capacity, taken, order, everyone=together is not None)
    limit = max(sizes[-1], AT_ONCE // sizes[-1])
    report.start("spread", crowds.total)
    total, greedy_total, done = 0.0, 0.0, 0
    for batch in _batches(crowds, limit, cut=together is not None):
        rows = np.concatenate([crowd.rows for crowd in batch])
        ends = np.cumsum([len(crowd.rows) for crowd in batch])
        for crowd, table in zip(batch, np.split(costs(rows), ends[:-1]), strict=True):
            choice = _choose(table, out[crowd.rows, -1], crowd.room, together)
            out[crowd.rows, -1] = choice.tokens
            total, greedy_total = total + choice.cost, greedy_total + choice.greedy_cost
        done += len(rows)
        report.advance(len(rows))
    if done < crowds.total:
        report.advance(crowds.total - done)
    return Assignment(out, total, None if together is None else greedy_total)


def _batches(crowds: Iterable[Crowd], limit: int, cut: bool) -> Iterator[list[Crowd]]:
    """As many prefixes at a time as have `limit` rows. A larger one is cut to its first rows, or comes in parts."""
    size, batch = 0, list[Crowd]()
    for crowd in crowds:
        if batch and size + len(crowd.rows) > limit:
            yield batch
            size, batch = 0, []
        while len(crowd.rows) > limit and not cut:
            yield [Crowd(crowd.rows[:limit], crowd.room)]
            crowd = Crowd(crowd.rows[limit:], crowd.room)  # the same room, of which the first part has taken
        batch.append(Crowd(crowd.rows[:limit], crowd.room))
        size += len(batch[-1].rows)
    if batch:
        yield batch


Together = Callable[[Floats, Codes, Integers], Codes]


def _choose(costs: Floats, own: Codes, room: Integers, together: Together | None) -> _Choice:
    """New last tokens for the rows of a prefix: costs (n, K), own (n,) the tokens they have, room (K,)."""
    rows = np.arange(len(own))
    added = costs - costs[rows, own][:, None]
    room[~np.isfinite(added[0])] = 0  # codes that do not exist under this prefix
    greedy = _greedy(added, own, room if together is None else room.copy(), stay=together is not None)
    tokens = greedy if together is None else together(added, own, room)
    return _Choice(tokens, float(added[rows, tokens].sum()), float(added[rows, greedy].sum()))


def _greedy(added: Floats, own: Codes, room: Integers, stay: bool) -> Codes:
    """Row after row takes the nearest code with room; rows for which there is none stay.

    stay: rows whose own code has room keep it first.
    """
    out, waiting = own.copy(), list(range(len(own)))
    if stay:
        waiting = [row for row in waiting if not _take(room, own[row])]
    free = np.where(room > 0, 0.0, np.inf)
    for row in waiting[: int(room.sum())]:
        code = int((added[row] + free).argmin())
        out[row] = code
        _take(room, code)
        free[code] = 0.0 if room[code] else np.inf
    return out


def _take(room: Integers, code: Any) -> bool:
    """Reduce the room of a code by one, if it has any."""
    has = bool(room[code] > 0)
    room[code] -= has
    return has


def _least(added: Floats, own: Codes, room: Integers) -> Codes:
    """The exact assignment: a code for every row or, with more rows than room, a row for all room; the others stay."""
    from scipy.optimize import linear_sum_assignment

    columns = np.repeat(np.arange(len(room)), np.minimum(room, len(own)))
    out = own.copy()
    row, column = linear_sum_assignment(added[:, columns])
    out[row] = columns[column]
    return out


# the ways that assign all rows of a prefix together
TOGETHER: dict[str, Together] = {"least-cost": _least, "sinkhorn": rounded_transport}
