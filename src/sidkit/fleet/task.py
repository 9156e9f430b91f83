"""The messages to a worker: a task, and the location of the rows, never the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.embeddings import open_embeddings, without
from ..errors import StoreError
from ..rows.sources import Source

__all__ = ["LostResult", "Seat", "StageHistory", "Task", "WorkerInput"]

StageHistory = Sequence[tuple[int, Any]]  # (number, reference to the fitted stage) for every stage so far


class LostResult(StoreError):
    """A result was lost together with the machine that held it."""


@dataclass
class Task:
    """Work for a worker, on the rows of a shard or on a payload alone."""

    verb: str
    home: int | None = None  # index of the worker that holds the shard; None: any idle worker
    span: tuple[int, int] | None = None  # first row of the shard, and the one after its last
    history: StageHistory = ()
    dtype: str | None = None
    payload: Any = None  # for this task alone
    rows: int = 0  # how many it counts on the progress bar
    label: str = ""  # its name in an error message


@dataclass(frozen=True)
class Seat:
    """The place of a worker among those that work together."""

    number: int
    members: int
    meeting: tuple[str, int]  # address of the first one's `Meeting`
    spans: Sequence[tuple[int, int]]  # first row of each of its shards, and the one after its last
    history: StageHistory
    dtype: str | None


@dataclass(frozen=True)
class WorkerInput:
    """The arguments of a worker: the location of the rows, and how to hold them."""

    source: Source | None  # Parquet files, by their footers; None: opened again from the path
    path: str
    id_column: str | None
    column: str | None
    dropped: NDArray[np.int64]  # indices of bad rows, left out
    chunk: int
    device: str
    memory: float | None  # bytes of rows that a worker may hold; None: decided by the worker
    workers: int  # how many there are in all

    def open_source(self) -> Source:
        source = self.source or open_embeddings(self.path, self.id_column, self.column, ids=False)
        return without(source, self.dropped) if len(self.dropped) else source
