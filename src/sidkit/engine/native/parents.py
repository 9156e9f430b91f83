"""Rows compared with the centroids of their own parent alone, by the compiled kernels (parents.h)."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import WORTH_A_THREAD, threads
from .build import kernels

__all__ = ["busy_rows", "families", "nearest_own"]

Floats = NDArray[np.float32]

MANY = 16  # centroids a row from which rows are taken parent by parent, so that these are still in the cache


class OwnStruct(ctypes.Structure):
    """As in parents.h."""

    _fields_ = (
        ("x", c_void_p),
        ("n", c_int64),
        ("d", c_int64),
        ("order", c_void_p),
        ("centroids", c_void_p),
        ("first", c_void_p),
        ("count", c_void_p),
        ("code", c_void_p),
        ("rest", c_void_p),
        ("keep", c_float),
        ("normalize", c_int32),
        ("most", c_int64),
        ("threads", c_int64),
    )


class FamiliesStruct(ctypes.Structure):
    """As in parents.h."""

    _fields_ = (
        ("x", c_void_p),
        ("edges", c_void_p),
        ("parents", c_int64),
        ("d", c_int64),
        ("size", c_int64),
        ("iterations", c_int64),
        ("centroids", c_void_p),
        ("threads", c_int64),
    )


class LookStruct(ctypes.Structure):
    """As in parents.h."""

    _fields_ = (("x", c_void_p), ("n", c_int64), ("d", c_int64), ("busy", c_void_p))


def nearest_own(
    x: Floats,
    centroids: Floats,
    first: NDArray[Any],
    count: NDArray[Any],
    rest: Floats | None = None,
    keep: float = 1.0,
    normalize: bool = False,
) -> NDArray[np.int32]:
    """The nearest of the centroids first .. first + count - 1 of every row, counted from its first: (n,).

    By the score in float64, ties to the lowest, as `cpu.nearest` decides for a codebook of these centroids.
    rest: where the rows without their centroids go, (n, d), as `native.carry` computes them.
    """
    x, centroids = _plain(x), _plain(centroids)
    first, count = np.ascontiguousarray(first, np.int64), np.ascontiguousarray(count, np.int32)
    n, d = x.shape
    if centroids.shape[1] != d or first.shape != (n,) or count.shape != (n,):
        raise ValueError(f"{n} rows of {d} numbers cannot be compared with centroids of shape {centroids.shape}")
    if n and (first.min() < 0 or count.min() < 1 or (first + count).max() > len(centroids)):
        raise ValueError(f"there are {len(centroids)} centroids; rows name others")
    code, compared = np.empty(n, np.int32), int(count.sum(dtype=np.int64))
    order = np.argsort(first).astype(np.int64, copy=False) if compared > MANY * n else None
    given = (centroids, first, count, code)
    job = OwnStruct(x.ctypes.data, n, d, order if order is None else order.ctypes.data, *(a.ctypes.data for a in given))
    if rest is not None:
        if rest.shape != (n, d) or rest.dtype != np.float32 or not rest.flags.carray:
            raise ValueError(f"cannot write to {rest.dtype} rows of shape {rest.shape}; plain float32 {(n, d)} needed")
        job.rest, job.keep, job.normalize = rest.ctypes.data, keep, normalize
    job.most, job.threads = int(count.max(initial=0)), _threads(d * (8 * n + 2 * compared))
    if kernels().sidkit_own(byref(job)):
        raise MemoryError(f"no memory to compare {n} rows with the centroids of their parents")
    return code


def busy_rows(x: Floats) -> NDArray[np.bool_]:
    """Whether a row is anything but zero: (n,)."""
    x = _plain(x)
    busy = np.empty(len(x), np.bool_)
    look = LookStruct(x.ctypes.data, len(x), x.shape[1], busy.ctypes.data)
    if kernels().sidkit_busy(byref(look), c_int64(_threads(x.size))):
        raise MemoryError(f"no memory to look at {len(x)} rows")
    return busy


def families(x: Floats, edges: NDArray[Any], centroids: Floats, iterations: int) -> Floats:
    """Euclidean k-means under every parent: the centroids (parents, size, d) after so many passes, or once they rest.

    x: rows, those of a parent one after the other; edges: (parents, 2) its first row, and the row after its last;
    centroids: where k-means starts. A parent's rows are added up in one go, so it should have no more than a chunk.
    """
    x, edges = _plain(x), np.ascontiguousarray(edges, np.int64)
    out = np.array(centroids, np.float32, order="C")
    parents, size, d = out.shape
    if x.ndim != 2 or x.shape[1] != d or edges.shape != (parents, 2):
        raise ValueError(f"rows of shape {x.shape} of {len(edges)} parents do not fit centroids of {out.shape}")
    if edges.min(initial=0) < 0 or edges.max(initial=0) > len(x):
        raise ValueError(f"there are {len(x)} rows; parents name others")
    job = FamiliesStruct(x.ctypes.data, edges.ctypes.data, parents, d, size, iterations, out.ctypes.data)
    job.threads = _threads(int(np.diff(edges).sum()) * d * size * iterations)
    if kernels().sidkit_families(byref(job)):
        raise MemoryError(f"no memory to fit the codebooks of {parents} parents")
    return out


def _plain(x: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(x, np.float32)


def _threads(work: int) -> int:
    return min(threads(), 1 + work // WORTH_A_THREAD)
