"""Compiled kernels for float32 rows: whole passes at less than the cost of the matrix product alone.

    prepare(work)                           try or compile them, if `work` multiply-adds pay for it
    ready(x, k)                             whether they take rows like x, k codewords each
    top(x, book, k)                         as cpu.top
    nearest(x, book)                        as cpu.nearest, and the same codes
    soft_sums(x, book, k, beta, scale)      one fitting pass over the rows
    carry(x, chain, codes)                  rows after the stages of a chain, the same bits as geometry.py
    encode(x, chain, out)                   all codes of the rows in one sweep

A wheel brings them for several instruction sets; where it does not, they are compiled on the machine. Either way they
are tested in a child process before first use (build.py). Without them results are the same and take longer. A row's
result never depends on other rows, on the threads or on the instruction set; sums over rows are in float64, in the
order of the rows (see kernels.c).
"""

from __future__ import annotations

import os
from ctypes import byref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import layout
from .build import kernels, library, reason
from .chain import CarryChain
from .layout import MAX_K
from .packed import Packed, aligned, pack
from .shipped import levels_here

if TYPE_CHECKING:
    from ..cpu import CpuCodebook

__all__ = [
    "MAX_K",
    "CarryChain",
    "carry",
    "encode",
    "nearest",
    "prepare",
    "ready",
    "reason",
    "soft_sums",
    "threads",
    "top",
]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int32]
Sums = tuple[Doubles, Doubles, Doubles]

WORTH_BUILDING = 1 << 36  # multiply-adds that pay for seconds of compiling
WORTH_TRYING = 1 << 34  # and for half a second of trial, once a machine, where a wheel brought the kernels
WORTH_A_THREAD = 1 << 23  # multiply-adds that pay for starting a thread


def prepare(work: float) -> bool:
    """Make the kernels ready, compiled or tried if `work` multiply-adds pay for it; returns whether they are."""
    return library(build=work >= (WORTH_TRYING if levels_here() else WORTH_BUILDING)) is not None


def ready(x: Any, k: int = 1) -> bool:
    """Whether the kernels are there and take rows like x, k codewords each. Never compiles."""
    fits = isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim == 2 and x.shape[1] > 0
    return fits and k <= MAX_K and library(build=False) is not None


def threads() -> int:
    """How many threads a pass may use: SIDKIT_THREADS, OMP_NUM_THREADS, or the processors available to this process."""
    for name in ("SIDKIT_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def top(x: Floats, book: CpuCodebook, k: int) -> tuple[Codes, Floats]:
    """The k best codewords of every row and their scores, best first: (n, k), (n, k)."""
    index, score = np.empty((len(x), k), np.int32), np.empty((len(x), k), np.float32)
    _run(x, pack(book), k, index=index, score=score)
    return index, score


def nearest(x: Floats, book: CpuCodebook) -> Codes:
    """The best codeword of every row, by its exact score: (n,)."""
    index = np.empty(len(x), np.int32)
    _run(x, pack(book), 1, index=index)
    return index


def soft_sums(
    x: Floats,
    book: CpuCodebook,
    k: int,
    beta: float,
    scale: float,
    *,
    chain: CarryChain | None = None,
    codes: Codes | None = None,
    into: Sums | None = None,
) -> Sums:
    """One fitting pass: mass (K,), weighted sums (K, d) and the summed similarity of the best codeword (1,).

        s = cos(x, c), or -scale |x - c|^2;   w_j = exp(beta s_j) / sum over the k best

    With a chain, x are raw rows and codes (n, width) the codes they have so far. With `into`, the rows are added to
    those sums one after another: the result then has the same bits however the rows are cut into calls.
    """
    packed = pack(book)
    mass, total, objective = into or (np.zeros(packed.size), aligned((packed.size, packed.d), np.float64), np.zeros(1))
    for sums, shape in ((mass, (packed.size,)), (total, (packed.size, packed.d)), (objective, (1,))):
        if sums.shape != shape or sums.dtype != np.float64 or not sums.flags.carray:
            raise ValueError(f"cannot add to {sums.dtype} sums of shape {sums.shape}; plain float64 {shape} needed")
    _run(
        x, packed, k, chain=chain, codes=codes, mass=mass, total=total, objective=objective,
        beta=beta, scale=-1.0 if packed.cosine else scale,
    )  # fmt: skip
    return mass, total, objective


def carry(x: Floats, chain: CarryChain, codes: Codes | None = None) -> Floats:
    """The rows after all steps of the chain: (n, d)."""
    out = np.empty(x.shape, np.float32)
    _run(x, None, 0, chain=chain, codes=codes, out=out)
    return out


def encode(x: Floats, chain: CarryChain, out: Floats | None = None) -> Codes:
    """The code of every row at every step that has a book: (n, width).

    out: where the rows after all steps go, (n, d), if the chain passes them on.
    """
    if any(step.column >= 0 and step.book is None for step in chain.steps):
        raise ValueError("a step without a book cannot find its codes")
    codes = np.zeros((len(x), chain.width), np.int32)
    _run(x, None, 0, chain=chain, codes=codes, find=True, out=out)
    return codes


def _run(
    x: Floats,
    packed: Packed | None,
    k: int,
    *,
    chain: CarryChain | None = None,
    codes: Codes | None = None,
    find: bool = False,
    screen: int = 1,
    **arrays: Any,
) -> layout.JobStruct:
    """Run the kernels over the rows x; the structure that they filled."""
    x = np.ascontiguousarray(x, np.float32)
    n, d = x.shape
    job = layout.JobStruct(x=x.ctypes.data, n=n, d=d, k=k, screen=screen)
    work = 0
    if packed is not None:
        if packed.d != d or not 1 <= k <= min(MAX_K, packed.size):
            raise ValueError(f"cannot find {k} of {packed.size} codewords of {packed.d} numbers for rows of {d}")
        job.book, work = packed.pointer, packed.size
    if chain is not None:
        if chain.dims - {d}:
            raise ValueError(f"rows of {d} numbers cannot go through stages of {chain.dims}")
        codes = codes if find and codes is not None else chain.check(n, codes)
        job.steps, job.nsteps = (chain.unknown if find else chain.known), len(chain.steps)
        job.codes, job.width = codes.ctypes.data, codes.shape[1]
        work += 8 * len(chain.steps) + (chain.work if find else 0)
    for name, value in arrays.items():
        setattr(job, name, value.ctypes.data if isinstance(value, np.ndarray) else value)  # None: no such output
    job.threads = min(threads(), 1 + n * d * work // WORTH_A_THREAD)
    if kernels().sidkit_run(byref(job)):
        raise MemoryError(f"no memory to score {n} rows against {work} codewords")
    return job
