"""Rows of a path, held by the workers of a Ray cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.embeddings import open_embeddings, without
from ..data.formats.parquet import ParquetEmbeddings
from ..errors import SpecError
from ..files.address import is_address
from ..progress import Progress, Silent
from ..rows.checks import bad_rows_error
from ..rows.seam import CHUNK
from .pool import PATIENCE, WorkerPool
from .rows import RayRows
from .session import Session
from .task import WorkerInput

__all__ = ["on_ray", "workers_on_ray"]


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
    divide_batches: bool = False,
) -> RayRows:
    """Rows of a file, folder, glob pattern or address, held by the workers of a Ray cluster.

    address    of the cluster ("auto", "host:6379", "ray://host:10001"); None joins that of $RAY_ADDRESS, or starts Ray
               on this machine, bound to 127.0.0.1 and stopped by `close`.
    workers    how many processes; by default as many as the cluster has CPUs (or GPUs) for.
    cpus       CPUs, and threads, of each worker; device="cuda" gives each a GPU as well.
    memory     bytes of rows each may hold in memory; by default half of what is free. The rest is read in every pass.
    bad_rows   "error" stops at rows with NaN, infinity or only zeros, "drop" leaves them out; check=False skips that.
    patience   seconds a lost worker may take to be replaced before others do its tasks.
    divide_batches  learned tokenizers (RQ-VAE, R3-VAE): every worker takes the part of a batch that it holds through
                    the network, and gradients are added up. The quality is that of one machine, its bits are not.
    """
    _check(device, workers=workers, cpus=cpus, chunk=chunk)
    text = os.fspath(path)
    text = text if is_address(text) else os.path.abspath(text)
    source: Any = open_embeddings(text, id_column, column, ids=False)
    if isinstance(source, ParquetEmbeddings):  # every file is read by the columns that were chosen in the first
        id_column, column = source.parts[0].id_column, source.parts[0].column
    gpus = int(device.startswith("cuda"))
    session = Session(address, (workers or 1) * cpus)
    try:
        count = _count_workers(session, workers, cpus, gpus, max(len(source.paths), -(-source.shape[0] // chunk)))
        sent = source if isinstance(source, ParquetEmbeddings) else None
        given = WorkerInput(sent, text, id_column, column, np.empty(0, np.int64), chunk, device, memory, count)
        pool = WorkerPool(session, given, count, cpus, gpus, patience)
        rows = RayRows(pool, source, source.paths, (id_column, column), chunk, divides_batches=divide_batches)
        rows = replace(rows, progress=progress or Silent())
        bad = rows.bad_rows() if check else {}
        if not bad:
            return rows
        if bad_rows != "drop":
            raise bad_rows_error(source, bad)
        pool.stop_workers()
        left_out = {row: (source.name(row), reason) for row, reason in bad.items()}
        pool = WorkerPool(session, replace(given, dropped=np.array(sorted(bad))), count, cpus, gpus, patience)
        return replace(rows, pool=pool, source=without(source, sorted(bad)), left_out=left_out)
    except BaseException:
        session.close()
        raise


def workers_on_ray(
    useful: int,
    address: str | None = None,
    workers: int | None = None,
    cpus: int = 1,
    device: str = "cpu",
    patience: float = PATIENCE,
) -> WorkerPool:
    """Workers of a Ray cluster without rows, for tasks that bring what they need ("call"). Options are of `on_ray`.

    useful: the number of tasks; there are no more workers than that.
    """
    _check(device, workers=workers, cpus=cpus)
    gpus, session = int(device.startswith("cuda")), Session(address, (workers or 1) * cpus)
    try:
        count = _count_workers(session, workers, cpus, gpus, useful)
        given = WorkerInput(None, "", None, None, np.empty(0, np.int64), CHUNK, device, 0.0, count)
        return WorkerPool(session, given, count, cpus, gpus, patience)
    except BaseException:
        session.close()
        raise


def _check(device: str, **numbers: int | None) -> None:
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise SpecError(f"device must be cpu or cuda, not {device!r}")
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise SpecError(f"{name} must be at least 1, not {number}")


def _count_workers(session: Session, requested: int | None, cpus: int, gpus: int, useful: int) -> int:
    """The number requested, or that the cluster has room for; at most the number of shards or files to work on."""
    resources = session.ray.cluster_resources()
    room = int(resources.get("GPU", 0) // gpus) if gpus else int(resources.get("CPU", 1) // cpus)
    if requested is None and room < 1:
        lacking = "a GPU" if gpus else f"{cpus} CPUs"
        raise SpecError(f"no node of the Ray cluster has {lacking} for a worker")
    return max(1, min(requested or room, useful))
