"""One process of the cluster: it holds shards and does tasks on them, one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine import native
from ..progress import Silent
from ..rows.checks import find_bad_rows
from ..rows.groups import OfGroups, find_groups, group_counts
from ..rows.local import LocalRows
from ..rows.seam import Rows, Sums, smallest_code_dtype
from ..rows.together import Member
from ..sids.quality import Occupancy, occupancy_of
from .encode_task import EncodeTask, encode_file
from .exchange import GlooExchange, Meeting
from .shard_store import ShardStore
from .task import Seat, Task, WorkerInput

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["Worker"]


class RowCounter(Silent):
    """Counts the rows that the current task has done."""

    rows = 0
    counting = True

    def start(self, label: str, rows: int) -> None:
        self.rows, self.counting = 0, label != "check"

    def advance(self, rows: int) -> None:
        self.rows += rows * self.counting


class Worker:
    """A Ray actor. `work` runs one task at a time; only `done` is answered while a task runs.

    A task with the verb "reduce" is done by `_reduce`, and so on: rows of the shard first, then what the task is given.
    """

    def __init__(self, given: WorkerInput, cpus: int) -> None:
        self.given = given
        self.counter = RowCounter()
        self.shards = ShardStore(given, cpus, self.counter)
        self.meeting: Meeting | None = None

    def hello(self, work: float) -> tuple[int, str]:
        """The ids of this process and of its node, once kernels are compiled if that amount of work calls for them."""
        import ray

        native.prepare(work)
        return os.getpid(), ray.get_runtime_context().get_node_id()

    def done(self) -> int:
        """Rows of the current task that are done."""
        return self.counter.rows

    def work(self, task: Task, shared: Any) -> tuple[Any, None]:
        """The result of a task, and None: a second value, small, by which the driver sees that the task has ended.

        shared: what the tasks on all shards are given, where a task has no payload.
        """
        self.counter.rows = 0
        verb = getattr(self, f"_{task.verb}")
        if task.span is None:
            return verb(task.payload, shared), None
        rows = self.shards.rows(task.span, task.history, task.dtype)
        self.counter.rows = 0
        return verb(rows, shared if task.payload is None else task.payload), None

    def add(self, a: Sums, b: Sums) -> Sums:
        """Two sums as one."""
        return tuple(p + q for p, q in zip(a, b, strict=True))

    def _prepare(self, work: float, shared: None) -> str:
        """Why there are no compiled kernels here; "" where there are."""
        native.prepare(work)
        return native.reason() or ""

    def _reduce(self, rows: Rows, payload: tuple[Callable[[Any, Any], Sums], str]) -> Sums:
        return rows.reduce(*payload)

    def _map(self, rows: Rows, payload: None) -> None:
        """No further work: the shard store has mapped the rows."""

    def _take(self, rows: Rows, indices: NDArray[np.int64]) -> NDArray[Any]:
        return np.ascontiguousarray(rows.take(indices))

    def _codes(self, rows: Rows, sizes: Sequence[int]) -> list[NDArray[Any]]:
        """One column per token, each in its narrowest dtype."""
        codes = rows.codes()
        return [codes[:, j].astype(smallest_code_dtype(size)) for j, size in enumerate(sizes)]

    def _share(self, rows: Rows, payload: tuple[Sequence[int], int]) -> list[Any]:
        """References to the codes in groups by first token, so that no prefix is in two groups."""
        import ray

        sizes, groups = payload
        codes = rows.codes().astype(smallest_code_dtype(max(sizes)))
        group = codes[:, 0] % groups
        return [ray.put(codes[group == index]) for index in range(groups)]

    def _count(self, groups: Sequence[Any], sizes: Sequence[int]) -> Occupancy:
        """The occupancy of prefixes by one group of codes, from all shards."""
        import ray

        return occupancy_of(np.concatenate(ray.get(list(groups))).astype(np.int32), sizes)

    def _group(self, rows: Rows, tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The different values of the last tokens, and how many rows have each."""
        return group_counts(rows.codes()[:, -tokens:])

    def _divide(self, rows: Rows, parts: Sequence[NDArray[np.int64]]) -> list[Any]:
        """References to the rows of each part: a part is the sorted keys of some groups."""
        import ray

        codes, out = rows.codes(), []
        for keys in parts:
            group = find_groups(keys, codes)
            mine = np.flatnonzero(group >= 0)
            out.append(ray.put((group[mine], self._take(rows, mine))))
        return out

    def _of_groups(self, payload: tuple[Sequence[Any], int, int], f: OfGroups) -> NDArray[Any]:
        """f of the groups of a part, from the rows that all shards have of it, in their order."""
        import ray

        references, first, count = payload
        pieces = ray.get(list(references))
        group, x = (np.concatenate([piece[which] for piece in pieces]) for which in (0, 1))
        return f(x[np.argsort(group, kind="stable")], np.bincount(group, minlength=count), first)

    def _meet(self, payload: bool, shared: None) -> tuple[str, int]:
        """The address where workers that will work together meet; this one is the first of them."""
        self.meeting = Meeting(_address_here())
        return self.meeting.address

    def _together(self, seat: Seat, f: Callable[[Member], Any]) -> Any:
        """What the first of the workers that do this at the same time has of f."""
        parts = [(span[0], self.shards.rows(span, seat.history, seat.dtype)) for span in seat.spans]
        opened, self.meeting = self.meeting, None
        meeting = opened if opened is not None and opened.address == seat.meeting else seat.meeting
        exchange = GlooExchange(seat.number, seat.members, _address_here(), meeting)
        self.counter.rows = 0
        result = f(Member(seat.number, parts, exchange, self.given.device, self.counter))
        return result if seat.number == 0 else None

    def _call(self, payload: Any, f: Callable[[Any], Any]) -> Any:
        return f(payload)

    def _check(self, rows: Rows, span: tuple[int, int]) -> dict[int, str]:
        """Index of every row that cannot be used -> the reason."""
        source = rows.source if isinstance(rows, LocalRows) else self.shards.window(span)
        return {span[0] + row: reason for row, reason in find_bad_rows(source, self.counter).items()}

    def _encode(self, task: EncodeTask, fitted: FittedTokenizer) -> tuple[int, bool]:
        return encode_file(task, fitted, self.given.device, self.counter)


def _address_here() -> str:
    """The address of this node in the cluster."""
    import ray

    return str(ray.util.get_node_ip_address())
