"""Rows on a Ray cluster: workers hold shards of them, and return sums, samples and codes.

    rows = sidkit.on_ray("s3://shop/items/*.parquet", address="auto", workers=16)
    fitted = sidkit.prq_kmeans(sizes=(1024, 512, 128), top_k=5).fit(rows)
    rows.encode(fitted, "s3://shop/sids/")

The verbs are those of `rows.seam.Rows`, and the tokens are the same: sums are added in the one tree that `add_in_tree`
uses for this number of rows, whichever worker holds them (`fleet.shards`). Codes stay with their shard. A lost worker
is replaced, and the new one reads the shard and finds its codes again; this process keeps the codebooks, and nothing
that grows with the rows.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..engine import native
from ..files.address import Location
from ..geometry import Array
from ..progress import Progress, Silent
from ..rows.groups import OfGroups, ranges
from ..rows.seam import Carrier, Sums, choose, order_of
from ..rows.sources import Source
from ..rows.together import Member
from ..sids.origin import Origin
from ..sids.quality import Occupancy, figures_of
from .encode import Encoded, encode_files
from .pool import WorkerPool
from .shards import Shard, add_shards, plan
from .task import Seat, StageHistory, Task

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["RayRows"]

FETCHED = 1 << 26  # bytes of minibatches brought here at once
GROUPED = 1 << 18  # rows of a part of the groups that a worker has at a time
GROUPS = 64  # tasks that count prefixes, at most

T = TypeVar("T")

_numbers = count()  # every stage that is mapped gets the next one


@dataclass(frozen=True, eq=False)
class RayRows:
    """Rows of a cluster: which worker holds which, and the stages they went through."""

    pool: WorkerPool
    source: Source  # opened here for its names, paths and sizes; the rows are read by the workers
    files: tuple[Location, ...]
    columns: tuple[str | None, str | None]  # of ids and vectors, where requested
    chunk: int
    stages: tuple[Carrier, ...] = ()
    history: StageHistory = ()
    progress: Progress = field(default_factory=Silent)
    cast: np.dtype[Any] | None = None
    left_out: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # index of a bad row -> its name, the reason
    divides_batches: bool = False  # `rows.together.WorksTogether`

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

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        positions, tasks = [], []
        for shard in self._homes:
            start, stop = self._span(shard)
            inside = np.flatnonzero((indices >= start) & (indices < stop))
            if len(inside):
                positions.append(inside)
                tasks.append(self._task("take", shard, payload=indices[inside] - start))
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for inside, rows in zip(positions, self._values(tasks), strict=True):
            out[inside] = rows
        return out

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        tasks = [self._task("reduce", shard, counted=True) for shard in self._homes]

        def attempt() -> Sums:
            parts = dict(zip(self._homes, self.pool.run(tasks, (f, precision), self.progress), strict=True))
            sums: Sums = self.pool.get(add_shards(self._tree, parts, self.pool.add))
            return sums

        return self.pool.retry(attempt)

    def map(self, stage: Carrier) -> RayRows:
        reference = self.pool.ray.put(stage)
        after = replace(self, stages=(*self.stages, stage), history=(*self.history, (next(_numbers), reference)))
        if stage.sizes:
            self.pool.run([after._task("map", shard, counted=True) for shard in self._homes], None, self.progress)
        return after

    def batches(self, n: int, seed: Sequence[int], order: NDArray[np.int64] | None = None) -> Iterator[Array]:
        order = order_of(self.shape[0], seed) if order is None else order
        fetched = n * max(1, FETCHED // (n * self.shape[1] * self.dtype.itemsize))
        for first in range(0, len(order), fetched):
            x = self.take(order[first : first + fetched])
            yield from (x[start : start + n] for start in range(0, len(x), n))

    def codes(self) -> NDArray[np.int32]:
        out = np.empty((self.shape[0], self.width), np.int32)
        for shard in self._homes:
            (columns,) = self._values([self._task("codes", shard, payload=self.sizes)])
            for j, column in enumerate(columns):
                out[slice(*self._span(shard)), j] = column
        return out

    def quality(self) -> dict[str, Any]:
        """The metrics of `sidkit.quality`, counted by the workers: codes are exchanged among them by first token."""
        groups = min(len(self.pool.slots), GROUPS, self.sizes[0])
        shares = [self._task("share", shard, payload=(self.sizes, groups)) for shard in self._homes]

        def attempt() -> list[Occupancy]:
            shared = self.pool.get(self.pool.run(shares, None, self.progress))
            counts = [Task("count", payload=[shard[i] for shard in shared], label="quality") for i in range(groups)]
            occupancies: list[Occupancy] = self.pool.get(self.pool.run(counts, self.sizes, self.progress))
            return occupancies

        return figures_of(self.pool.retry(attempt), self.sizes)

    def group_counts(self, tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `rows.groups.GroupsRows`."""
        parts = self._values([self._task("group", shard, payload=tokens) for shard in self._homes])
        keys, which = np.unique(np.concatenate([keys for keys, _ in parts]), axis=0, return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, which.ravel(), np.concatenate([count for _, count in parts]))
        return keys, counts

    def of_groups(self, f: OfGroups, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
        """The same; every worker has one part of the groups at a time, so that little travels at once."""
        cut, workers, out = ranges(counts, GROUPED), len(self.pool.slots), list[NDArray[Any]]()
        for start in range(0, len(cut), workers):
            round_ = cut[start : start + workers]
            out += self.pool.retry(partial(self._round_of_groups, f, keys, counts, round_))
        return out

    def _round_of_groups(
        self, f: OfGroups, keys: NDArray[np.int64], counts: NDArray[np.int64], cut: Sequence[tuple[int, int]]
    ) -> list[NDArray[Any]]:
        parts = [keys[first:last] for first, last in cut]
        divided = self.pool.get(
            self.pool.run([self._task("divide", shard, payload=parts) for shard in self._homes], None, self.progress)
        )
        tasks = [
            Task(
                "of_groups",
                payload=([shard[number] for shard in divided], first, last - first),
                rows=int(counts[first:last].sum()),
                label=f"groups {first} to {last - 1}",
            )
            for number, (first, last) in enumerate(cut)
        ]
        return list(self.pool.get(self.pool.run(tasks, f, self.progress)))

    def together(self, f: Callable[[Member], T]) -> T:
        """See `rows.together.WorksTogether`. Shards of workers that are not replaced in time are left to the others."""
        return self.pool.retry(partial(self._together, f))

    def _together(self, f: Callable[[Member], T]) -> T:
        ready = [self.pool.slots.index(slot) for slot in self.pool.slots.gathered()]
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, (shard, home) in enumerate(self._homes.items()):
            spans.setdefault(home if home in ready else ready[number % len(ready)], []).append(self._span(shard))
        meet = Task("meet", home=next(iter(spans)), payload=True)
        (address,) = self._values([meet])
        dtype = None if self.cast is None else self.cast.name
        tasks = [
            Task(
                "together",
                home,
                payload=Seat(number, len(spans), address, mine, self.history, dtype),
                rows=sum(stop - start for start, stop in mine),
                label="working together",
            )
            for number, (home, mine) in enumerate(spans.items())
        ]
        result: T = self.pool.get(self.pool.run(tasks, f, self.progress)[0])
        return result

    def prepare(self, work: float) -> None:
        """Workers compile kernels where this machine would, now and when they start later."""
        slots = self.pool.slots
        slots.work = math.inf if native.prepare(work) else work
        tasks = [Task("prepare", home=home, payload=slots.work) for home in range(len(slots))]
        lacking = {reason for reason in self._values(tasks) if reason}
        if lacking and slots.work == math.inf and self.dtype == np.float32:
            message = f"some Ray workers have no compiled kernels ({lacking.pop()}): last bits may differ"
            warnings.warn(message, stacklevel=2)

    def encode(
        self,
        fitted: FittedTokenizer,
        output: str | os.PathLike[str],
        template: str = "letters",
        bad_rows: str = "error",
        keep: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> Encoded:
        """Write the semantic IDs of every file to a file of the same name in a folder, in the same order, with ids.

        A file that was finished before, from the same input by the same tokenizer, is not done again. For one input,
        output may name a .parquet file instead. bad_rows="drop" leaves them out and lists them next to the output.
        keep: further columns of the inputs to copy; origin: the note on what the files are made from.
        """
        return encode_files(self, fitted, output, template, bad_rows == "drop", tuple(keep), origin)

    def bad_rows(self) -> dict[int, str]:
        """Index of the row -> what is wrong with it, for every row that cannot be used."""
        self.progress.start("check", self.shape[0])
        tasks = [self._task("check", shard, payload=self._span(shard), counted=True) for shard in self._homes]
        return {row: reason for part in self._values(tasks) for row, reason in part.items()}

    def ran_on(self) -> dict[str, Any]:
        """Which workers did a fit of these rows, for the model card."""
        pool = self.pool
        return {"device": "ray", "workers": len(pool.slots), "cpus": pool.cpus, "retries": pool.slots.retries}

    def close(self) -> None:
        """Stop the workers, and Ray too if it was started for them."""
        self.pool.close()

    def __enter__(self) -> RayRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _tree(self) -> Shard:
        """All chunks: the root of the tree."""
        return Shard(0, -(-self.shape[0] // self.chunk))

    @cached_property
    def _homes(self) -> dict[Shard, int]:
        """Every shard, in order -> index of the worker that holds it."""
        by_worker = plan(self._tree.last, len(self.pool.slots))
        return {shard: home for home, shards in enumerate(by_worker) for shard in shards}

    def _span(self, shard: Shard) -> tuple[int, int]:
        return shard.first * self.chunk, min(shard.last * self.chunk, self.shape[0])

    def _task(self, verb: str, shard: Shard, payload: Any = None, counted: bool = False) -> Task:
        start, stop = self._span(shard)
        dtype = None if self.cast is None else self.cast.name
        label = f"{verb} of {self.source.name(start)} to {self.source.name(stop - 1)}"
        rows = stop - start if counted else 0
        return Task(verb, self._homes[shard], (start, stop), self.history, dtype, payload, rows, label)

    def _values(self, tasks: Sequence[Task]) -> list[Any]:
        return self.pool.values(tasks, None, self.progress)
