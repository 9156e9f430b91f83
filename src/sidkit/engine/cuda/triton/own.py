"""Triton: rows compared with the few centroids of their own parent."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def own_kernel(
    x, order, first, count, table, half, code, n,
    D: tl.constexpr, DP: tl.constexpr, SLOTS: tl.constexpr, RUN: tl.constexpr,
):  # fmt: skip
    """The nearest of the centroids first .. first + count - 1 of every row, by the score x.c - |c|^2 / 2 in float64.

    order: (n,) int64, rows of the same parent side by side, so that their centroids are read from the cache.
    x: (n, D) float32; table: (M, D) float32; half: (M,) float64, |c|^2 / 2; code: (n,) int32. A program does RUN rows.
    """
    dim = tl.arange(0, DP)
    inside = dim < D
    slot = tl.arange(0, SLOTS)
    begin = tl.program_id(0).to(tl.int64) * RUN
    for i in range(RUN):
        if begin + i < n:
            row = tl.load(order + begin + i)
            start = tl.load(first + row)
            size = tl.load(count + row)
            xr = tl.load(x + row * D + dim, mask=inside, other=0.0).to(tl.float64)
            peak = tl.full([SLOTS], float("-inf"), tl.float64)
            where = tl.zeros([SLOTS], tl.int32)
            for block in range(0, size, SLOTS):
                own = block + slot
                live = own < size
                at = start + own
                c = tl.load(table + at[:, None] * D + dim[None, :], mask=live[:, None] & inside[None, :], other=0.0)
                s = tl.sum(c.to(tl.float64) * xr[None, :], 1) - tl.load(half + at, mask=live, other=float("inf"))
                better = s > peak
                peak = tl.where(better, s, peak)
                where = tl.where(better, own, where)
            best = tl.max(peak, 0)
            tl.store(code + row, tl.min(tl.where(peak == best, where, 2147483647), 0))
