"""Batches: whoever waits gets the codes of its own rows, and the encoder has its next batch when that is full."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sidkit.serve import batching
from sidkit.serve.batching import Batcher


class Counting:
    """A snapshot whose code of a row is its number; it encodes nothing until it may."""

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Event()

    def encode(self, x):
        self.begun.set()
        assert self.gate.wait(60)
        return x[:, :1].astype(np.int32)


def rows(first, n):
    return np.arange(first, first + n, dtype=np.float32)[:, None]


def run(work):
    """In a thread of its own, as tests of pages keep a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work()).result()


async def when(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_a_full_batch_is_at_the_encoder_before_that_is_free_and_a_small_one_waits():
    async def go():
        sizes, snapshot, full = [], Counting(), batching.TOGETHER + 1
        batcher = Batcher(1 << 20, sizes.append)
        lengths = (full, full, 3, 4, full)
        starts = np.cumsum([0, *lengths])
        asked = []
        for start, n in zip(starts[:2], lengths[:2], strict=True):
            asked.append(asyncio.create_task(batcher.encode(snapshot, rows(start, n))))
            await asyncio.sleep(0)
        await when(lambda: batcher.handed == 2)
        assert (sizes, batcher.waiting) == ([full, full], 0)
        for start, n in zip(starts[2:], lengths[2:], strict=False):
            asked.append(asyncio.create_task(batcher.encode(snapshot, rows(start, n))))
        await asyncio.sleep(0.05)
        assert (sizes, batcher.waiting) == ([full, full], 7 + full)  # there is no third place
        snapshot.gate.set()
        answers = await asyncio.gather(*asked)
        assert sizes == [full, full, 7, full]  # the small ones together
        for start, n, codes in zip(starts[:-1], lengths, answers, strict=True):
            assert np.array_equal(codes[:, 0], np.arange(start, start + n))
        assert (batcher.handed, batcher.waiting) == (0, 0)

    run(go)


def test_small_requests_wait_while_the_encoder_works_and_are_then_encoded_together():
    async def go():
        sizes, snapshot = [], Counting()
        batcher = Batcher(1 << 20, sizes.append)
        first = asyncio.create_task(batcher.encode(snapshot, rows(0, 100)))
        await when(snapshot.begun.is_set)
        others = [asyncio.create_task(batcher.encode(snapshot, rows(100 + i, 1))) for i in range(5)]
        await asyncio.sleep(0.02)
        assert sizes == [100]
        snapshot.gate.set()
        await first
        assert [int(codes[0, 0]) for codes in await asyncio.gather(*others)] == [100, 101, 102, 103, 104]
        assert sizes == [100, 5]

    run(go)


def test_two_full_batches_are_encoded_side_by_side_and_no_third():
    class Meeting(Counting):
        """Encodes once two batches are there, which neither would see if one waited for the other."""

        def __init__(self):
            super().__init__()
            self.two, self.here, self.most = threading.Barrier(2), 0, 0

        def encode(self, x):
            self.here += 1
            self.most = max(self.most, self.here)
            self.two.wait(60)
            self.here -= 1
            return x[:, :1].astype(np.int32)

    async def go():
        batcher, snapshot, full = Batcher(1 << 20, lambda n: None), Meeting(), batching.TOGETHER
        answers = await asyncio.gather(*(batcher.encode(snapshot, rows(i * full, full)) for i in range(6)))
        for i, codes in enumerate(answers):
            assert np.array_equal(codes[:, 0], np.arange(i * full, (i + 1) * full))
        assert snapshot.most == 2

    run(go)


def test_a_failure_reaches_its_own_batch_alone():
    class Failing(Counting):
        def encode(self, x):
            raise MemoryError("no room")

    async def go():
        batcher, good = Batcher(1 << 20, lambda n: None), Counting()
        good.gate.set()
        asked = [batcher.encode(one, rows(0, n)) for one in (Failing(), good) for n in (1, 100)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in answers[:2]] == [MemoryError, MemoryError]
        assert [len(one) for one in answers[2:]] == [1, 100]

    run(go)
