"""Triton: weighted sums of rows by codeword, the same bits on every run and in any order.

Pairs of a row and a weight are sorted by codeword with a counting sort whose positions come from integer atomics, so
the order inside a codeword's list changes from run to run. The sums do not: every product w x is rounded once to a grid
(a power of two fixed by the longest row) and added up as an integer, and integers add in any order. With FOLDS = 2 the
remainder of the first rounding is rounded to a grid 2^20 finer and added up likewise, 41 bits below the longest row.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

MAGIC: tl.constexpr = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding it leaves round(v) in the low bits of the float
MAGIC_BITS: tl.constexpr = tl.constexpr(0x4B400000)
FLUSH: tl.constexpr = tl.constexpr(32)  # tiles of 16 products below 1.5 * 2^21 that add up in int32
MASS_GRID: tl.constexpr = tl.constexpr(4294967296.0)  # 2^32


@triton.jit
def rank_kernel(
    index, code, counts, total, K, sub,
    K_TOP: tl.constexpr, RANK_BITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each pair's codeword and its position among the codeword's pairs in this sub-block of rows.

    index: (n, K_TOP) int32, the codewords; code: (n, K_TOP) int32, the codeword above RANK_BITS bits of position;
    counts: (subs, K) int32, zero before. total: n * K_TOP pairs; sub: rows of a sub-block.
    """
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = pair < total
    codeword = tl.load(index + pair, mask=live, other=0)
    group = (pair // K_TOP) // sub
    position = tl.atomic_add(counts + group * K + codeword, 1, mask=live, sem="relaxed")
    tl.store(code + pair, (codeword << RANK_BITS) | position, mask=live)


@triton.jit
def scatter_kernel(
    code, weight, ends, pairs, total, K, sub,
    K_TOP: tl.constexpr, RANK_BITS: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """CodePairs written in the order of their codewords.

    code: (n, K_TOP) int32 of `rank_kernel`; weight: (n, K_TOP) float32; ends: (subs, K) int32, running sums of counts;
    pairs: (n * K_TOP,) int64, the index of the row in the high half, the bits of the weight in the low half.
    """
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = pair < total
    both = tl.load(code + pair, mask=live, other=0)
    row = pair // K_TOP
    codeword = (both >> RANK_BITS) & ((1 << (32 - RANK_BITS)) - 1)
    position = both & ((1 << RANK_BITS) - 1)
    end = tl.load(ends + (row // sub) * K + codeword, mask=live, other=1)
    w = tl.full([BLOCK], 1.0, tl.float32)
    if WEIGHTED:
        w = tl.load(weight + pair, mask=live, other=0.0)
    bits = w.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    tl.store(pairs + end - 1 - position, (row.to(tl.int64) << 32) | bits, mask=live)


@triton.jit
def sum_kernel(
    x, pairs, ends, longest, mass, total, low, K,
    D: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, FOLDS: tl.constexpr,
):  # fmt: skip
    """One codeword's pairs in one sub-block of rows, added up: mass (K,), total and low (K, D), int64.

    x: (n, D); pairs and ends of `scatter_kernel`; longest: (1,) float32, the longest row; low is for FOLDS = 2.
    """
    group = tl.program_id(0)
    start = tl.load(ends + group - 1, mask=group > 0, other=0)
    end = tl.load(ends + group)
    if start < end:
        codeword = group % K
        dim = tl.program_id(1) * BD + tl.arange(0, BD)
        grid = grid_of(tl.load(longest))
        lane = tl.arange(0, BT)
        heavy = tl.zeros([BT], tl.int64)
        high_sum = tl.zeros([BD], tl.int64)
        low_sum = tl.zeros([BD], tl.int64)
        for batch in range(start, end, BT * FLUSH):
            high = tl.zeros([BT, BD], tl.int32)
            rest = tl.zeros([BT, BD], tl.int32)
            for first in range(batch, tl.minimum(batch + BT * FLUSH, end), BT):
                live = first + lane < end
                pair = tl.load(pairs + first + lane, mask=live, other=0)
                w = (pair & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
                inside = live[:, None]
                if D % BD != 0:
                    inside = inside & (dim < D)[None, :]
                xt = tl.load(x + (pair >> 32)[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float32)
                step = (w * grid)[:, None]
                v = step * xt + MAGIC
                high += v.to(tl.int32, bitcast=True) - MAGIC_BITS
                if FOLDS == 2:
                    left = step * xt - (v - MAGIC)
                    v = left * 1048576.0 + MAGIC
                    rest += v.to(tl.int32, bitcast=True) - MAGIC_BITS
                heavy += (w * MASS_GRID).to(tl.int64)
            high_sum += tl.sum(high, 0).to(tl.int64)
            if FOLDS == 2:
                low_sum += tl.sum(rest, 0).to(tl.int64)
        put = codeword.to(tl.int64) * D + dim
        tl.atomic_add(total + put, high_sum, mask=dim < D, sem="relaxed")
        if FOLDS == 2:
            tl.atomic_add(low + put, low_sum, mask=dim < D, sem="relaxed")
        if tl.program_id(1) == 0:
            tl.atomic_add(mass + codeword, tl.sum(heavy, 0), sem="relaxed")


@triton.jit
def grid_of(longest):
    """2^21 over the power of two nearest the longest row, of scalars: products w x, w <= 1, stay below 1.5 * 2^21."""
    exponent = tl.maximum((longest * 1.4142135).to(tl.int32, bitcast=True) >> 23, 22)
    return ((127 + 21 + 127 - exponent) << 23).to(tl.float32, bitcast=True)


@triton.jit
def finish_kernel(
    mass, total, low, longest, mass_out, total_out, K,
    D: tl.constexpr, BD: tl.constexpr, FOLDS: tl.constexpr,
):  # fmt: skip
    """Integers back to float64; each is below 2^53, so nothing is lost.

    mass (K,), total, low (K, D): int64, of `sum_kernel`; mass_out (K,), total_out (K, D): float64.
    """
    codeword = tl.program_id(0).to(tl.int64)
    grid = grid_of(tl.load(longest)).to(tl.float64)
    for d in range(0, D, BD):
        dim = d + tl.arange(0, BD)
        v = tl.load(total + codeword * D + dim, mask=dim < D, other=0).to(tl.float64)
        if FOLDS == 2:
            v += tl.load(low + codeword * D + dim, mask=dim < D, other=0).to(tl.float64) / 1048576.0
        tl.store(total_out + codeword * D + dim, v / grid, mask=dim < D)
    tl.store(mass_out + codeword, tl.load(mass + codeword).to(tl.float64) / 4294967296.0)
