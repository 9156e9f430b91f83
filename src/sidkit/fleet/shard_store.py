"""The shards that one worker holds, as ordinary Rows.

Nothing here is needed to recover a shard: the worker that replaces a lost one reads the rows again and finds their
codes again, by the stages that every task names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..progress import Progress
from ..rows.local import LocalRows
from ..rows.seam import Rows
from ..rows.sources import ArraySource, Source, Window
from .task import StageHistory, WorkerInput

__all__ = ["ShardStore"]

Span = tuple[int, int]


class ShardStore:
    """Rows of shards, by the stages they have passed."""

    def __init__(self, given: WorkerInput, cpus: int, progress: Progress) -> None:
        self.given, self.progress = given, progress
        self.memory_left = _memory_for_rows(cpus, given.workers) if given.memory is None else given.memory
        self._shards: dict[tuple[Any, ...], Rows] = {}  # (span, dtype, *numbers of stages)
        self._source: Source | None = None

    def rows(self, span: Span, history: StageHistory, dtype: str | None) -> Rows:
        """The rows of a shard after these stages. Results of stages that are not in the history are dropped."""
        steps = (dtype, *(number for number, _ in history))
        for key in list(self._shards):
            if key[0] == span and key[1:] != steps[: len(key) - 1]:
                del self._shards[key]
        return self._after(span, steps, history)

    def window(self, span: Span) -> Window:
        """The rows of a shard as their files have them."""
        if self._source is None:
            self._source = self.given.open_source()
        return Window(self._source, *span)

    def _after(self, span: Span, steps: tuple[Any, ...], history: StageHistory) -> Rows:
        key = (span, *steps)
        if key not in self._shards:
            if history:
                import ray

                before = self._after(span, steps[:-1], history[:-1])
                self._shards[key] = before.map(ray.get(history[-1][1]))
            else:
                self._shards[key] = self._load(span, steps[0])
        return self._shards[key]

    def _load(self, span: Span, dtype: str | None) -> Rows:
        """The rows of a shard before any stage, in memory if they fit."""
        source: Source = self.window(span)
        if self.given.device.startswith("cuda"):
            from ..rows.cuda import on_device

            return on_device(source, self.given.device, progress=self.progress)
        size = source.shape[0] * source.shape[1] * source.dtype.itemsize
        if size <= self.memory_left:
            self.memory_left -= size
            source = _in_memory(source, self.given.chunk)
        cast = None if dtype is None else np.dtype(dtype)
        return LocalRows(source, chunk=self.given.chunk, progress=self.progress, cast=cast)


def _in_memory(source: Source, chunk: int) -> Source:
    x, start = np.empty(source.shape, source.dtype), 0
    for rows in source.chunks(chunk):
        x[start : start + len(rows)] = rows
        start += len(rows)
    return ArraySource(x)


def _memory_for_rows(cpus: int, workers: int) -> float:
    """Half of the free memory of this machine, divided by the number of workers that its CPUs allow."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0.5 * free / min(workers, max(1, (os.cpu_count() or 1) // cpus))
