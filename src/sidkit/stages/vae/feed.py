"""The batches of a stack of runs: rows in the memory of the device, or streamed to it. Imported by fits only.

Both give the same batches. A feed does its part of a step in two places: `steps` gets ready what the next step needs,
`read` is part of the step, which may be recorded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...rows.chunks import read_ahead
from ...rows.groups import GathersRows
from ...rows.seam import Rows, order_of
from .torch_layers import Tensor, as_rows

__all__ = ["BatchFeed", "ResidentFeed", "StreamedFeed", "all_rows", "fits"]

HOST_ROOM = 1 << 30  # bytes of rows that are copied to a CPU's memory for training
FETCHED = 1 << 16  # rows brought to the device at once
AHEAD = 2  # batches made ahead of the computation


class BatchFeed(Protocol):
    """The batches of R runs, each in its own order."""

    def steps(self, epoch: int) -> Iterator[int]:
        """The sizes of the batches of an epoch, each given when its batch can be read."""

    def read(self, at: Tensor, size: int) -> Tensor:
        """The rows of batch `at`, (1,): (R, size, d)."""


def fits(rows: Rows, device: Any) -> bool:
    """Whether all rows can be in the memory of the device: half of what a GPU has free, 1 GiB of a CPU's."""
    n, d = rows.shape
    return 4 * n * d <= (torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else HOST_ROOM)


def all_rows(rows: Rows, device: Any) -> Tensor:
    """All rows as float32 on the device: (n, d)."""
    n, d = rows.shape
    x = torch.empty(n, d, device=device)
    for start in range(0, n, FETCHED):
        numbers = np.arange(start, min(start + FETCHED, n))
        part = rows.gathered(numbers) if isinstance(rows, GathersRows) else as_rows(rows.take(numbers), device)
        x[start : start + len(part)] = part
    return x


class Orders:
    """The orders of n rows by several seeds, those of an epoch drawn during the epoch before: (R, n)."""

    def __init__(self, n: int, seeds: Sequence[tuple[int, ...]]) -> None:
        self.n, self.seeds = n, seeds
        self._helper = ThreadPoolExecutor(1, thread_name_prefix="sidkit-order")
        self._ahead: tuple[int, Future[NDArray[np.int64]]] | None = None

    def of(self, epoch: int) -> NDArray[np.int64]:
        ahead = self._ahead
        orders = ahead[1].result() if ahead is not None and ahead[0] == epoch else self._drawn(epoch)
        self._ahead = epoch + 1, self._helper.submit(self._drawn, epoch + 1)
        return orders

    def _drawn(self, epoch: int) -> NDArray[np.int64]:
        return np.stack([order_of(self.n, (*seed, epoch)) for seed in self.seeds])


class ResidentFeed:
    """Rows x (n, d) on the device; only the order of an epoch is copied there."""

    def __init__(self, x: Tensor, batch: int, seeds: Sequence[tuple[int, ...]]) -> None:
        self.x, self.batch, self.seeds = x, batch, seeds
        self._order = torch.zeros(len(seeds), len(x), dtype=torch.int64, device=x.device)
        self._within = torch.arange(batch, device=x.device)
        self._orders = Orders(len(x), seeds)

    def steps(self, epoch: int) -> Iterator[int]:
        self._order.copy_(torch.from_numpy(self._orders.of(epoch)))
        for start in range(0, len(self.x), self.batch):
            yield min(self.batch, len(self.x) - start)

    def read(self, at: Tensor, size: int) -> Tensor:
        rows = self._order.index_select(1, at * self.batch + self._within[:size])
        return self.x.index_select(0, rows.view(-1)).view(len(self.seeds), size, -1)


class StreamedFeed:
    """Rows wherever they are: a thread gathers the batches to come in pinned memory, while the last one is used."""

    def __init__(self, rows: Rows, batch: int, seeds: Sequence[tuple[int, ...]], device: Any) -> None:
        kept = rows.on_host() if hasattr(rows, "on_host") else None  # not to the device and back
        self.rows, self.batch, self.seeds = kept or rows, batch, seeds
        self._orders = Orders(rows.shape[0], seeds)
        shape, self._on_gpu = (len(seeds), batch, rows.shape[1]), device.type == "cuda"
        self._now = torch.empty(shape, device=device)
        self._host = [torch.empty(shape, pin_memory=self._on_gpu) for _ in range(AHEAD + 1)]
        self._copied: list[Any] = [None] * len(self._host)  # events: when a buffer may be filled again

    def steps(self, epoch: int) -> Iterator[int]:
        with closing(read_ahead(self._made(epoch), AHEAD)) as batches:
            for turn, part in enumerate(batches):
                self._now[:, : part.shape[1]].copy_(part, non_blocking=True)
                if self._on_gpu:
                    self._copied[turn % len(self._host)] = torch.cuda.current_stream().record_event()
                yield part.shape[1]

    def read(self, at: Tensor, size: int) -> Tensor:
        return self._now[:, :size]

    def _made(self, epoch: int) -> Generator[Tensor, None, None]:
        drawn = zip(self.seeds, self._orders.of(epoch), strict=True)
        runs = [self.rows.batches(self.batch, (*seed, epoch), order) for seed, order in drawn]
        for turn, parts in enumerate(zip(*runs, strict=True)):
            slot = turn % len(self._host)
            if self._copied[slot] is not None:
                self._copied[slot].synchronize()
            buffer = self._host[slot][:, : len(parts[0])]
            for run, part in enumerate(parts):
                buffer[run].copy_(torch.as_tensor(part))
            yield buffer
