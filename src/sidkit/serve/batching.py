"""Vectors of many requests, encoded together.

Nobody waits for a batch to fill: whatever has arrived when the encoder is free is encoded at once. A request alone is
encoded alone; the busier the service, the larger its batches. A row's codes do not depend on its batch. Where a second
batch is full, it is encoded beside the first: a batch begins and ends on one core, and the other would wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .snapshot import Snapshot

__all__ = ["Batcher", "Busy", "Calls"]

IN_PLACE = 64  # rows that are encoded sooner than another thread would start
TOGETHER = 4096  # rows beyond which a larger batch is no faster, and putting it together costs a copy


class Busy(Exception):
    """There is too much work waiting; the request should come again."""


class _Waiting(NamedTuple):
    snapshot: Snapshot
    rows: NDArray[Any]
    answer: asyncio.Future[NDArray[np.int32]]


class Batcher:
    """codes = await batcher.encode(snapshot, x)"""

    def __init__(self, queue_rows: int, observe: Callable[[int], None]) -> None:
        """observe: called with the number of rows of every batch."""
        self.queue_rows, self.observe = queue_rows, observe
        self.queue: deque[_Waiting] = deque()
        self.waiting = 0  # rows
        self.handed = 0  # batches that are being encoded: one, and a second beside it if that was full
        self.called = False
        self.pool = ThreadPoolExecutor(2, "encode")

    async def encode(self, snapshot: Snapshot, rows: NDArray[Any]) -> NDArray[np.int32]:
        """rows: (n, d), checked -> codes (n, levels)."""
        if self.waiting + len(rows) > self.queue_rows:
            raise Busy(f"{self.waiting:,} vectors wait to be encoded already")
        answer: asyncio.Future[NDArray[np.int32]] = asyncio.get_running_loop().create_future()
        self.queue.append(_Waiting(snapshot, rows, answer))
        self.waiting += len(rows)
        self._call()
        return await answer

    def _call(self) -> None:
        """Take a turn after the requests that have arrived with this one."""
        if not self.called and self._ready():
            self.called = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _ready(self) -> bool:
        """Whether a batch may be handed over: none is being encoded, or one is and those that wait fill another."""
        return bool(self.queue) and (self.handed == 0 or (self.handed == 1 and self.waiting >= TOGETHER))

    def _turn(self) -> None:
        self.called = False
        batch = self._next() if self._ready() else []
        if not batch:
            return
        rows = batch[0].rows if len(batch) == 1 else np.concatenate([one.rows for one in batch])
        self.observe(len(rows))
        if len(rows) <= IN_PLACE and not self.handed:
            try:
                self._deliver(batch, batch[0].snapshot.encode(rows))
            except Exception as error:  # noqa: BLE001 (every request of the batch is told)
                self._fail(batch, error)
        else:
            self.handed += 1
            work = asyncio.get_running_loop().run_in_executor(self.pool, batch[0].snapshot.encode, rows)
            work.add_done_callback(lambda done: self._done(batch, done))
        self._call()

    def _done(self, batch: list[_Waiting], done: asyncio.Future[NDArray[np.int32]]) -> None:
        self.handed -= 1
        self._call()
        error = done.exception()
        if error is None:
            self._deliver(batch, done.result())
        else:
            self._fail(batch, error)

    def _next(self) -> list[_Waiting]:
        """The next requests of one snapshot, as many as fit a batch."""
        batch: list[_Waiting] = []
        rows = 0
        while self.queue and (not batch or rows + len(self.queue[0].rows) <= TOGETHER):
            if batch and self.queue[0].snapshot is not batch[0].snapshot:
                break
            one = self.queue.popleft()
            self.waiting -= len(one.rows)
            if not one.answer.done():  # the client is gone
                batch.append(one)
                rows += len(one.rows)
        return batch

    @staticmethod
    def _deliver(batch: list[_Waiting], codes: NDArray[np.int32]) -> None:
        start = 0
        for one in batch:
            if not one.answer.done():
                one.answer.set_result(codes[start : start + len(one.rows)])
            start += len(one.rows)

    @staticmethod
    def _fail(batch: list[_Waiting], error: BaseException) -> None:
        for one in batch:
            if not one.answer.done():
                one.answer.set_exception(error)


class Calls:
    """Calls of models, one after the other in a thread of their own, with a limit on those that wait."""

    def __init__(self, most: int) -> None:
        self.most, self.waiting, self.pool = most, 0, ThreadPoolExecutor(1, "model")

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.waiting >= self.most:
            raise Busy(f"{self.waiting} requests wait for a model already")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
        finally:
            self.waiting -= 1
