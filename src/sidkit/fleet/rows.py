"""Rows on a Ray cluster: workers own shards of them, and give back sums, samples and codes.

    rows = sidkit.on_ray("s3://shop/items/*.parquet", address="auto", workers=16)
    fitted = sidkit.prq_kmeans(sizes=(1024, 512, 128), top_k=5).fit(rows)
    rows.encode(fitted, "s3://shop/sids/")

The verbs are those of `rows.Rows`, and so are the tokens: sums are added in the one tree that `rows.add_in_tree` has
for so many rows, whoever holds them (`fleet.shards`). Codes stay with their shard. A worker that is lost is replaced,
and its successor reads the shard and finds its codes again; this process keeps the codebooks, and nothing that grows
with the rows.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..data.embeddings import Without, open_embeddings, without
from ..data.formats.parquet import ParquetEmbeddings
from ..engine import native
from ..errors import InputError, SpecError
from ..files.address import Location, is_address, locate
from ..geometry import Array
from ..progress import Progress, Silent
from ..rows.checks import bad_rows_error
from ..rows.seam import CHUNK, Carrier, Sums, choose
from ..rows.sources import Source
from ..sids.quality import Occupancy, figures_of
from .crew import ATTEMPTS, PATIENCE, Crew, Lost
from .encode import orders, sent
from .session import Session
from .shards import Shard, add_shards, plan
from .worker import Contents, History, Job

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["RayRows", "on_ray"]

FETCHED = 1 << 26  # bytes of minibatches brought here at once
HEAPS = 64  # workers that count prefixes at most

_numbers = count()  # every stage that is mapped has one of its own


@dataclass(frozen=True, eq=False)
class RayRows:
    """Rows of a cluster: which worker has which, the stages they went through."""

    crew: Crew
    source: Source  # what is known of them here: names, places and sizes
    files: tuple[Location, ...]
    columns: tuple[str | None, str | None]  # of ids and vectors, where asked for
    chunk: int
    stages: tuple[Carrier, ...] = ()
    history: History = ()
    progress: Progress = field(default_factory=Silent)
    cast: np.dtype[Any] | None = None
    left_out: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # bad rows of the files: where, and why

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.cast or self.source.dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for stage in self.stages for size in stage.sizes)

    @property
    def width(self) -> int:
        return len(self.sizes)

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]:
        return self.take(choose(self.shape[0], n, seed))

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        places, jobs = [], []
        for shard in self._homes:
            start, stop = self._place(shard)
            mine = np.flatnonzero((numbers >= start) & (numbers < stop))
            if len(mine):
                places.append(mine)
                jobs.append(self._job("take", shard, own=numbers[mine] - start))
        out = np.empty((len(numbers), self.shape[1]), self.dtype)
        for mine, rows in zip(places, self._values(jobs), strict=True):
            out[mine] = rows
        return out

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        jobs = [self._job("reduce", shard, counted=True) for shard in self._homes]

        def once() -> Sums:
            parts = dict(zip(self._homes, self.crew.run(jobs, (f, precision), self.progress), strict=True))
            sums: Sums = self.crew.get(add_shards(self._whole, parts, self.crew.add))
            return sums

        return _until_kept(once)

    def map(self, stage: Carrier) -> RayRows:
        reference = self.crew.ray.put(stage)
        after = replace(self, stages=(*self.stages, stage), history=(*self.history, (next(_numbers), reference)))
        if stage.sizes:
            self.crew.run([after._job("map", shard, counted=True) for shard in self._homes], None, self.progress)
        return after

    def batches(self, n: int, seed: Sequence[int]) -> Iterator[Array]:
        order = np.random.default_rng(seed).permutation(self.shape[0])
        fetched = n * max(1, FETCHED // (n * self.shape[1] * self.dtype.itemsize))
        for first in range(0, len(order), fetched):
            x = self.take(order[first : first + fetched])
            yield from (x[start : start + n] for start in range(0, len(x), n))

    def codes(self) -> NDArray[np.int32]:
        out = np.empty((self.shape[0], self.width), np.int32)
        for shard in self._homes:
            (columns,) = self._values([self._job("codes", shard, own=self.sizes)])
            for j, column in enumerate(columns):
                out[slice(*self._place(shard)), j] = column
        return out

    def quality(self) -> dict[str, Any]:
        """The metrics of `sidkit.quality`, counted by the workers: codes are shuffled among them by first token."""
        heaps = min(len(self.crew.slots), HEAPS, self.sizes[0])
        shares = [self._job("share", shard, own=(self.sizes, heaps)) for shard in self._homes]

        def once() -> list[Occupancy]:
            found = self.crew.get(self.crew.run(shares, None, self.progress))
            counts = [Job("count", own=[heap[number] for heap in found], label="quality") for number in range(heaps)]
            spreads: list[Occupancy] = self.crew.get(self.crew.run(counts, self.sizes, self.progress))
            return spreads

        return figures_of(_until_kept(once), self.sizes)

    def prepare(self, work: float) -> None:
        """As on this machine: where it would use compiled kernels, workers compile them, now or when they join."""
        self.crew.work = math.inf if native.prepare(work) else work
        jobs = [Job("prepare", home=home, own=self.crew.work) for home in range(len(self.crew.slots))]
        lacking = {why for why in self._values(jobs) if why}
        if lacking and self.crew.work == math.inf and self.dtype == np.float32:
            told = f"some Ray workers have no compiled kernels ({lacking.pop()}): last bits may differ"
            warnings.warn(told, stacklevel=2)

    def encode(
        self,
        fitted: FittedTokenizer,
        output: str | os.PathLike[str],
        template: str = "letters",
        bad_rows: str = "error",
    ) -> Encoded:
        """Write the semantic IDs of every file to a file of the same name in a folder, row order and ids kept.

        A file that was finished before, from the same input by the same tokenizer, is not done again. For one input,
        output may name a .parquet file instead. bad_rows="drop" leaves them out and lists them beside the output.
        """
        if self.shape[1] != fitted.d:
            raise InputError(f"this tokenizer was fitted on {fitted.d}-dimensional rows; these have {self.shape[1]}")
        made = orders(fitted, self.files, locate(output), template, self.columns, bad_rows == "drop")
        rows = _rows_by_file(self.source)
        jobs = [Job("encode", own=o, rows=rows.get(o.path, 0), label=f"encoding {o.path}") for o in made]
        self.progress.start("encode", sum(rows.values()))
        found = self._values(jobs, sent(fitted))
        return Encoded(tuple(order.target for order in made), sum(n for n, _ in found), sum(kept for _, kept in found))

    def bad_rows(self) -> dict[int, str]:
        """Row number -> what is wrong with it, for every row that cannot be used."""
        self.progress.start("check", self.shape[0])
        jobs = [self._job("check", shard, own=self._place(shard), counted=True) for shard in self._homes]
        return {row: why for part in self._values(jobs) for row, why in part.items()}

    def ran_on(self) -> dict[str, Any]:
        """What to say of a fit of these rows: who did it."""
        crew = self.crew
        return {"device": "ray", "workers": len(crew.slots), "cpus": crew.cpus, "retries": crew.retries}

    def close(self) -> None:
        """Let the workers go; a Ray that was started for them is stopped."""
        self.crew.close()

    def __enter__(self) -> RayRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _whole(self) -> Shard:
        return Shard(0, -(-self.shape[0] // self.chunk))

    @cached_property
    def _homes(self) -> dict[Shard, int]:
        """Every shard, in order, and the worker that has it."""
        by_worker = plan(self._whole.last, len(self.crew.slots))
        return {shard: home for home, shards in enumerate(by_worker) for shard in shards}

    def _place(self, shard: Shard) -> tuple[int, int]:
        return shard.first * self.chunk, min(shard.last * self.chunk, self.shape[0])

    def _job(self, verb: str, shard: Shard, own: Any = None, counted: bool = False) -> Job:
        start, stop = self._place(shard)
        dtype = None if self.cast is None else self.cast.name
        label = f"{verb} of {self.source.name(start)} to {self.source.name(stop - 1)}"
        rows = stop - start if counted else 0
        return Job(verb, self._homes[shard], (start, stop), self.history, dtype, own, rows, label)

    def _values(self, jobs: Sequence[Job], shared: Any = None) -> list[Any]:
        """What jobs give, brought here; done again if a machine took it with it."""
        return _until_kept(lambda: self.crew.get(self.crew.run(jobs, shared, self.progress)))


class Encoded(NamedTuple):
    """What `RayRows.encode` did: the files, their rows, and how many of them were there already."""

    files: tuple[Location, ...]
    rows: int
    kept: int


def on_ray(
    path: str | os.PathLike[str],
    address: str | None = None,
    workers: int | None = None,
    cpus: int = 1,
    device: str = "cpu",
    memory: float | None = None,
    id_column: str | None = None,
    column: str | None = None,
    bad_rows: str = "error",
    check: bool = True,
    chunk: int = CHUNK,
    progress: Progress | None = None,
    patience: float = PATIENCE,
) -> RayRows:
    """Rows of a file, folder, glob pattern or address, held by the workers of a Ray cluster.

    address    of the cluster ("auto", "host:6379", "ray://host:10001"); None joins that of $RAY_ADDRESS, or starts a
               Ray of our own on this machine, bound to 127.0.0.1 and stopped by `close`.
    workers    how many processes; as many as the cluster has CPUs (or GPUs) for, by default.
    cpus       CPUs, and threads, of each; device="cuda" gives each a GPU as well.
    memory     bytes of rows each may keep in memory; half of what is free by default. The rest is read in every pass.
    bad_rows   "error" stops at rows with NaN, infinity or only zeros, "drop" leaves them out; check=False skips that.
    patience   seconds a lost worker may take to come back before others do its part.
    """
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise SpecError(f"device must be cpu or cuda, not {device!r}")
    for name, number in (("workers", workers), ("cpus", cpus), ("chunk", chunk)):
        if number is not None and number < 1:
            raise SpecError(f"{name} must be at least 1, not {number}")
    text = os.fspath(path)
    text = text if is_address(text) else os.path.abspath(text)
    source: Any = open_embeddings(text, id_column, column, ids=False)
    report, gpus = progress or Silent(), int(device.startswith("cuda"))
    session = Session(address, (workers or 1) * cpus)
    try:
        count = _workers(session, workers, cpus, gpus, max(len(source.paths), -(-source.shape[0] // chunk)))
        shipped = source if isinstance(source, ParquetEmbeddings) else None
        contents = Contents(shipped, text, id_column, column, np.empty(0, np.int64), chunk, device, memory, count)
        crew = Crew(session, contents, count, cpus, gpus, patience)
        rows = RayRows(crew, source, source.paths, (id_column, column), chunk, progress=report)
        bad = rows.bad_rows() if check else {}
        if not bad:
            return rows
        if bad_rows != "drop":
            raise bad_rows_error(source, bad)
        crew.dismiss()
        named = {row: (source.name(row), why) for row, why in bad.items()}
        crew = Crew(session, replace(contents, dropped=np.array(sorted(bad))), count, cpus, gpus, patience)
        return replace(rows, crew=crew, source=without(source, sorted(bad)), left_out=named)
    except BaseException:
        session.close()
        raise


def _rows_by_file(source: Any) -> dict[Location, int]:
    if isinstance(source, Without):
        return _rows_by_file(source.source)
    if isinstance(source, ParquetEmbeddings):
        return {part.path: part.rows for part in source.parts}
    return {source.paths[0]: source.shape[0]}


def _workers(session: Session, asked: int | None, cpus: int, gpus: int, useful: int) -> int:
    """As many as asked for, or as the cluster has room for; no more than there are shards or files to work on."""
    there = session.ray.cluster_resources()
    room = int(there.get("GPU", 0) // gpus) if gpus else int(there.get("CPU", 1) // cpus)
    if asked is None and room < 1:
        lacking = "a GPU" if gpus else f"{cpus} CPUs"
        raise SpecError(f"no node of the Ray cluster has {lacking} for a worker")
    return max(1, min(asked or room, useful))


T = TypeVar("T")


def _until_kept(attempt: Callable[[], T]) -> T:
    """What an attempt gives; another one when a machine went down with results."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Lost):
            return attempt()
    return attempt()
