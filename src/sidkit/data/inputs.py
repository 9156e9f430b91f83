"""Arrays, tensors, paths and sources as Rows that can be computed with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..engine.device import choose_device
from ..errors import InputError
from ..progress import Progress, Silent
from ..rows.checks import Checked
from ..rows.local import LocalRows
from ..rows.scratch import checked_copy
from ..rows.seam import Rows
from ..rows.sources import ArraySource, Source
from .frames import is_frame, open_frame

__all__ = ["as_rows", "as_source", "is_on_gpu", "is_rows"]

Check = Literal["first", "read", "done"]


@runtime_checkable
class DeviceTensor(Protocol):
    """A tensor that knows whether it is on a GPU, as torch's do."""

    @property
    def is_cuda(self) -> bool: ...


@runtime_checkable
class _HasCast(Protocol):
    """Rows that can be computed in another dtype than that of their source."""

    @property
    def cast(self) -> np.dtype[Any] | None: ...


def as_rows(
    X: Any,
    device: str = "auto",
    progress: Progress | None = None,
    dtype: np.dtype[Any] | None = None,
    d: int | None = None,
    check: Check = "first",
    scratch: Path | None = None,
    work: float = 0.0,
) -> Rows:
    """Rows of an array, a tensor, a path, a frame or a Source, every row checked; Rows are returned unchanged.

    device: "cpu"; "cuda", which copies rows to the GPU, or streams them there if they do not fit; "auto", which leaves
    tensors where they are and takes a GPU for other rows if there is one and it pays (`engine.device.choose_device`).
    dtype: what to compute in, if not the dtype of the rows; d: the dimension they must have.
    check: when bad rows are looked for: "first", which also copies rows that are slow to read to a file in the folder
    scratch; as they are "read"; or before this call ("done").
    work: codewords that each row will be compared with.
    """
    if is_rows(X):
        other = dtype is not None and X.dtype != dtype and isinstance(X, _HasCast)
        return replace(_of_dimension(X, d), cast=dtype) if other else _of_dimension(X, d)  # type: ignore[no-any-return]
    report = progress or Silent()
    if is_on_gpu(X) and device != "cpu":
        from ..rows.cuda import on_device

        return on_device(_of_dimension(X, d), progress=report)
    source = _of_dimension(as_source(X), d)
    device = choose_device(device, source, work if dtype in (None, np.float32) else 0.0)
    if check == "first" or (check == "read" and device.startswith("cuda")):
        report.start("check", source.shape[0])
        source = checked_copy(source, scratch, report)
    elif check == "read":
        source = Checked(source, dtype)
    if device.startswith("cuda"):
        from ..rows.cuda import on_device

        return on_device(source, device, progress=report)
    return LocalRows(source, progress=report, cast=dtype)


def is_rows(X: Any) -> bool:
    """Whether these are Rows already, wherever they live."""
    # the type is asked first: a lazy frame computes, or warns, when it is asked for a property
    return hasattr(type(X), "batches") and isinstance(X, Rows)


def is_on_gpu(X: Any) -> bool:
    """Whether this is a tensor in the memory of a GPU."""
    return isinstance(X, DeviceTensor) and X.is_cuda


def _of_dimension(rows: Any, d: int | None) -> Any:
    if d is not None and rows.shape[1] != d:
        raise InputError(f"this tokenizer was fitted on {d}-dimensional rows; these have {rows.shape[1]}")
    return rows


def as_source(X: Any) -> Source:
    """A Source of an array, a tensor, a path, or a frame or a column of pandas, polars or Arrow."""
    if isinstance(X, Source):
        return X
    if is_frame(X):
        return open_frame(X)
    if isinstance(X, str | os.PathLike):
        from .embeddings import open_embeddings

        source: Source = open_embeddings(X)
        return source
    return ArraySource(_matrix(X))


def _matrix(X: Any) -> NDArray[Any]:
    if type(X).__module__.partition(".")[0] == "torch":
        X = X.detach().cpu()
        X = X.float().numpy() if str(X.dtype) == "torch.bfloat16" else X.numpy()
    array = np.asarray(X)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise InputError(f"embeddings must be numbers; got an array of {array.dtype}")
    if array.ndim != 2 or array.shape[1] == 0:
        hint = "; give one vector as X[None, :]" if array.ndim == 1 else ""
        raise InputError(f"embeddings must be a matrix of rows (n, d); got shape {array.shape}{hint}")
    return array
