"""Triton: a fit's sums for codebooks that fit on a multiprocessor, in one pass over the rows.

With up to 128 codewords of up to 128 dimensions all scores of a tile of rows are at hand, and so is the (K, d) sum: the
weights, zero outside the top k, are multiplied with the rows on the tensor cores. Programs add up a fixed run of rows
each, and their float32 partial sums are added in float64, so the same rows give the same bits on every run.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .slots import WORST, halves, marked


@triton.jit
def dense_kernel(
    x, c, offset, sums, mass, best, n, K, beta, scale, run,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, KB: tl.constexpr, K_TOP: tl.constexpr,
    RAGGED: tl.constexpr, SKIP_ZERO: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """`run` tiles of BM rows: their sums (programs, KB, DP) and mass (programs, KB); best (n,) similarity of each.

    x: (n, D) float16; c: (at least KB, DP) float16, K codewords and zeros; offset: (at least KB,) float32, or None for
    cosines. RAGGED: KB is more than K. UNIT: rows have length one or zero. SKIP_ZERO leaves rows of length zero out.
    """
    SIGNED: tl.constexpr = (offset is not None) or KB < 128
    program = tl.program_id(0)
    dim = tl.arange(0, DP)
    codeword = tl.arange(0, KB)
    ct = tl.load(c + codeword[:, None] * DP + dim[None, :])
    total = tl.zeros([KB, DP], tl.float32)
    heavy = tl.zeros([KB, 16], tl.float32)
    ones = tl.full([BM, 16], 1.0, x.dtype.element_ty)
    for tile in range(program * run, tl.minimum(program * run + run, tl.cdiv(n, BM))):
        rows = tile * BM + tl.arange(0, BM)
        live = rows < n
        inside = live[:, None]
        if D != DP:
            inside = inside & (dim < D)[None, :]
        xt = tl.load(x + rows.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0)
        square = tl.full([BM], 1.0, tl.float32)
        if not UNIT:
            wide = xt.to(tl.float32)
            square = tl.sum(wide * wide, 1)
        s = tl.dot(xt, tl.trans(ct))
        if offset is not None:
            s += tl.load(offset + codeword)[None, :]
        if RAGGED:
            s = tl.where((codeword < K)[None, :], s, WORST)
        if UNIT:
            slope = square
            shift = tl.zeros([BM], tl.float32)
        elif offset is None:
            slope = 1.0 / tl.where(square > 0, tl.sqrt_rn(square), 1.0)
            shift = tl.zeros([BM], tl.float32)
        else:
            slope = tl.full([BM], 2.0 * scale, tl.float32)
            shift = 0.5 * square
        s = marked(s, 0, 0, KB, True, SIGNED)
        counts = live
        if SKIP_ZERO:
            counts = live & (square > 0)
        steep = slope * (beta * 1.4426950408889634)
        peak, bar, weight = _top(s, steep, BM, KB, K_TOP)
        if K_TOP == 1:
            w = tl.where((s >= bar[:, None]) & counts[:, None], 1.0, 0.0).to(xt.dtype)
        else:  # the sum of the weights goes into the exponent
            level = tl.where(counts, peak * steep + tl.log2(weight), 3.0e38)
            w = tl.where(s >= bar[:, None], tl.exp2(s * steep[:, None] - level[:, None]), 0.0).to(xt.dtype)
        heavy = tl.dot(tl.trans(w), ones, heavy)
        total = tl.dot(tl.trans(w), xt, total)
        tl.store(best + rows, tl.where(counts, (peak - shift) * slope, 0.0), mask=live)
    put = (program * KB + codeword)[:, None] * DP + dim[None, :]
    tl.store(sums + put, total)
    tl.store(mass + program * KB + codeword, tl.max(heavy, 1))


@triton.jit
def _top(s, steep, BM: tl.constexpr, KB: tl.constexpr, K_TOP: tl.constexpr):
    """Of each row of s (BM, KB): the largest, the K_TOP-th largest, and the sum of 2^(steep (s - largest)) up to it."""
    a, b = halves(s, BM, KB // 2)
    high = tl.maximum(a, b)
    low = tl.minimum(a, b)
    peak = tl.max(high, 1)
    bar = peak
    weight = tl.full([BM], 1.0, tl.float32)
    for _ in tl.static_range(K_TOP - 1):
        hit = high == bar[:, None]
        high = tl.where(hit, low, high)
        low = tl.where(hit, WORST, low)
        bar = tl.max(high, 1)
        weight += tl.exp2(steep * (bar - peak))
    return peak, bar, weight
