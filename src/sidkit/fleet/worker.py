"""One process of the cluster: it holds shards as ordinary Rows and does what the fit asks of them.

Nothing here is needed to get a shard back: a worker that takes the place of a lost one reads the rows again and finds
their codes again, by the stages that every call names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.embeddings import open_embeddings, without
from ..engine import native
from ..progress import Silent
from ..rows.checks import find_bad_rows
from ..rows.local import LocalRows
from ..rows.seam import Rows, Sums, smallest_code_dtype
from ..rows.sources import ArraySource, Source, Window
from ..sids.quality import Occupancy, occupancy_of
from .encode import Order, encode_file

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["Contents", "History", "Job", "Worker"]

History = Sequence[tuple[int, Any]]  # (number, reference to the fitted stage) for every stage so far


@dataclass
class Job:
    """Something to be done with the rows of a shard, or with something else."""

    verb: str
    home: int | None = None  # the worker that has the rows; None: whoever is free
    place: tuple[int, int] | None = None  # the shard's rows
    history: History = ()
    dtype: str | None = None
    own: Any = None  # what it alone is given
    rows: int = 0  # how many it is, for the progress bar
    label: str = ""  # what to call it when it cannot be done


@dataclass(frozen=True)
class Contents:
    """What the workers work on, as it travels to them: places and names, no rows."""

    source: Source | None  # Parquet files, by their footers; None: opened again from the path
    path: str
    id_column: str | None
    column: str | None
    dropped: NDArray[np.int64]
    chunk: int
    device: str
    memory: float | None  # bytes that a worker may hold rows in
    workers: int  # how many there are in all

    def opened(self) -> Source:
        source = self.source or open_embeddings(self.path, self.id_column, self.column, ids=False)
        return without(source, self.dropped) if len(self.dropped) else source


class Counted(Silent):
    """How many rows the job at hand has done."""

    rows = 0
    counting = True

    def start(self, label: str, rows: int) -> None:
        self.rows, self.counting = 0, label != "check"

    def advance(self, rows: int) -> None:
        self.rows += rows * self.counting


class Worker:
    """Runs in a process of its own, one job at a time; only `done` is asked beside it."""

    def __init__(self, contents: Contents, cpus: int) -> None:
        self.contents = contents
        self.room = _room(cpus, contents.workers) if contents.memory is None else contents.memory
        self.counted = Counted()
        self.held: dict[tuple[Any, ...], Rows] = {}  # (shard, dtype, *numbers of stages)
        self.source: Source | None = None

    def hello(self, work: float) -> tuple[int, str]:
        """Which process this is and on which node, once it is ready for so much work."""
        import ray

        native.prepare(work)
        return os.getpid(), ray.get_runtime_context().get_node_id()

    def done(self) -> int:
        """Rows of the job at hand that are done."""
        return self.counted.rows

    def work(self, job: Job, shared: Any) -> tuple[Any, None]:
        """What comes of a job, and a small mark that it came; shared: what jobs on all shards are given."""
        self.counted.rows = 0
        verb = getattr(self, f"_{job.verb}")
        if job.place is None:
            found = verb(job.own, shared)
        else:
            rows = self._rows(job.place, job.history, job.dtype)
            self.counted.rows = 0
            found = verb(rows, shared if job.own is None else job.own)
        return found, None

    def add(self, a: Sums, b: Sums) -> Sums:
        """Two sums as one."""
        return tuple(p + q for p, q in zip(a, b, strict=True))

    def _prepare(self, work: float, shared: None) -> str:
        """Why there are no compiled kernels here, if so."""
        native.prepare(work)
        return native.reason() or ""

    def _reduce(self, rows: Rows, payload: tuple[Callable[[Any, Any], Sums], str]) -> Sums:
        return rows.reduce(*payload)

    def _map(self, rows: Rows, payload: None) -> None:
        """Nothing but what `_rows` did on the way here."""

    def _take(self, rows: Rows, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return np.ascontiguousarray(rows.take(numbers))

    def _codes(self, rows: Rows, sizes: Sequence[int]) -> list[NDArray[Any]]:
        """A column per token, as narrow as it can be."""
        codes = rows.codes()
        return [codes[:, j].astype(smallest_code_dtype(size)) for j, size in enumerate(sizes)]

    def _share(self, rows: Rows, payload: tuple[Sequence[int], int]) -> list[Any]:
        """References to heaps of codes, by their first token, so that no prefix is in two heaps."""
        import ray

        sizes, heaps = payload
        codes = rows.codes().astype(smallest_code_dtype(max(sizes)))
        heap = codes[:, 0] % heaps
        return [ray.put(codes[heap == number]) for number in range(heaps)]

    def _count(self, heaps: Sequence[Any], sizes: Sequence[int]) -> Occupancy:
        """How the codes of one heap, from all shards, lie over their prefixes."""
        import ray

        return occupancy_of(np.concatenate(ray.get(list(heaps))).astype(np.int32), sizes)

    def _check(self, rows: Rows, place: tuple[int, int]) -> dict[int, str]:
        """The numbers of rows that cannot be used, and why."""
        source = rows.source if isinstance(rows, LocalRows) else self._window(place)
        return {place[0] + row: why for row, why in find_bad_rows(source, self.counted).items()}

    def _encode(self, order: Order, fitted: FittedTokenizer) -> tuple[int, bool]:
        return encode_file(order, fitted, self.contents.device, self.counted)

    def _rows(self, place: tuple[int, int], history: History, dtype: str | None) -> Rows:
        """The rows of a shard after these stages; what is no step on the way there is let go."""
        steps = (dtype, *(number for number, _ in history))
        for held in list(self.held):
            if held[0] == place and held[1:] != steps[: len(held) - 1]:
                del self.held[held]
        return self._stepped(place, steps, history)

    def _stepped(self, place: tuple[int, int], steps: tuple[Any, ...], history: History) -> Rows:
        if (place, *steps) not in self.held:
            if history:
                import ray

                before = self._stepped(place, steps[:-1], history[:-1])
                self.held[(place, *steps)] = before.map(ray.get(history[-1][1]))
            else:
                self.held[(place, *steps)] = self._loaded(place, steps[0])
        return self.held[(place, *steps)]

    def _loaded(self, place: tuple[int, int], dtype: str | None) -> Rows:
        """Rows as they lie in their files, held in memory if there is room for them."""
        source: Source = self._window(place)
        if self.contents.device.startswith("cuda"):
            from ..rows.cuda import on_device

            return on_device(source, self.contents.device, progress=self.counted)
        size = source.shape[0] * source.shape[1] * source.dtype.itemsize
        if size <= self.room:
            self.room -= size
            source = _in_memory(source, self.contents.chunk)
        cast = None if dtype is None else np.dtype(dtype)
        return LocalRows(source, chunk=self.contents.chunk, progress=self.counted, cast=cast)

    def _window(self, place: tuple[int, int]) -> Window:
        if self.source is None:
            self.source = self.contents.opened()
        return Window(self.source, *place)


def _in_memory(source: Source, chunk: int) -> Source:
    x, start = np.empty(source.shape, source.dtype), 0
    for part in source.chunks(chunk):
        x[start : start + len(part)] = part
        start += len(part)
    return ArraySource(x)


def _room(cpus: int, workers: int) -> float:
    """Half of what is free on this machine, shared with as many of the workers as it has CPUs for."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0.5 * free / min(workers, max(1, (os.cpu_count() or 1) // cpus))
