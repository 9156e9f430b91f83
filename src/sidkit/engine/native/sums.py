"""Sums of rows by codes that are known, by the compiled kernels (sums.h)."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import WORTH_A_THREAD, threads
from .build import kernels

__all__ = ["add_by_code"]


class AdditionStruct(ctypes.Structure):
    """As in sums.h."""

    _fields_ = (
        ("x", c_void_p),
        ("mean", c_void_p),
        ("n", c_int64),
        ("d", c_int64),
        ("k", c_int64),
        ("code", c_void_p),
        ("total", c_void_p),
        ("size", c_int64),
        ("block", c_int64),
        ("threads", c_int64),
    )


def add_by_code(
    x: NDArray[np.float32], code: NDArray[Any], size: int, block: int, mean: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """The sum of the rows, less the mean, under each code: (size, d), in float64; code: (n, k).

    `block` rows are added up first, and then added to the total, as `cpu.add_up` does: the same bits.
    """
    x, code = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(code, np.int32)
    (n, d), k = x.shape, code.shape[1]
    if len(code) != n or (code.size and (code.min() < 0 or code.max() >= size)):
        raise ValueError(f"codes of shape {code.shape} do not name {size} sums of {n} rows")
    if mean is not None:
        mean = np.ascontiguousarray(mean, np.float32)
        if mean.shape != (d,):
            raise ValueError(f"a mean of shape {mean.shape} cannot be taken from rows of {d} numbers")
    total = np.zeros((size, d))
    job = AdditionStruct(x=x.ctypes.data, mean=None if mean is None else mean.ctypes.data, n=n, d=d, k=k)
    job.code, job.total, job.size, job.block = code.ctypes.data, total.ctypes.data, size, block
    job.threads = min(threads(), 1 + 4 * n * d * k // WORTH_A_THREAD)
    if kernels().sidkit_add(byref(job)):
        raise MemoryError(f"no memory to add up {n} rows under {size} codes")
    return total
