"""Whatever a user hands over, as Rows that are fit to be computed with."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import require_good_rows
from .errors import InputError, SpecError, need
from .progress import Progress, Silent
from .rows import ArraySource, LocalRows, Rows, Source

__all__ = ["as_rows", "as_source"]


def as_rows(
    X: Any,
    device: str = "auto",
    progress: Progress | None = None,
    dtype: np.dtype[Any] | None = None,
    d: int | None = None,
    check: bool = True,
) -> Rows:
    """Rows of an array, a tensor, a path or a Source, every row checked; Rows pass through as they are.

    device: "cpu"; "cuda", which copies rows to the GPU, or streams them there if they do not fit; "auto", which leaves
    rows where they are.
    dtype: what to compute in, if not the rows' own; d: the dimension they must have; check: False where it was done.
    """
    if device.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise SpecError(f"device must be auto, cpu or cuda, not {device!r}")
    if not isinstance(X, Source) and hasattr(X, "reduce") and hasattr(X, "map"):
        other = dtype is not None and hasattr(X, "cast") and X.dtype != dtype
        return replace(_of_dimension(X, d), cast=dtype) if other else _of_dimension(X, d)  # type: ignore[no-any-return]
    report = progress or Silent()
    if getattr(X, "is_cuda", False) and device != "cpu":
        from .rows_cuda import on_device

        return on_device(_of_dimension(X, d), progress=report)
    source = _of_dimension(as_source(X), d)
    if check:
        report.start("check", source.shape[0])
        require_good_rows(source, report)
    if device.startswith("cuda"):
        _require_gpu()
        from .rows_cuda import on_device

        return on_device(source, device, progress=report)
    return LocalRows(source, progress=report, cast=dtype)


def _of_dimension(rows: Any, d: int | None) -> Any:
    if d is not None and rows.shape[1] != d:
        raise InputError(f"this tokenizer was fitted on {d}-dimensional rows; these have {rows.shape[1]}")
    return rows


def _require_gpu() -> None:
    torch = need("torch", "torch", "computing on a CUDA device")
    if not torch.cuda.is_available():
        raise SpecError("there is no CUDA device here; use --device cpu")


def as_source(X: Any) -> Source:
    """A Source of an array, a tensor or a path."""
    if isinstance(X, Source):
        return X
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
