"""Triton: the few rows that the fast kernel could not decide, done again with more care.

repair    fit: the evicted scores could have been among the top k; the top k themselves are kept instead of slots
settle    tokens: the best are closer than rounding error; scored in float64
rescore   the top k are known as a set; their scores in float64, and their order
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .slots import WORST
from .top import emit


@triton.jit
def repair_kernel(
    x, x_low, row_scale, row_length, c, c_low, offset, code, weight, counts, best, listed, list_length,
    K, blocks, book_scale, beta, scale, sub,
    D: tl.constexpr, DP: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K_TOP: tl.constexpr,
    KP: tl.constexpr, PASSES: tl.constexpr, TF32: tl.constexpr, HAS_LENGTH: tl.constexpr,
    HAS_OFFSET: tl.constexpr, COSINE: tl.constexpr, RANK_BITS: tl.constexpr, SKIP_ZERO: tl.constexpr,
    UNIT: tl.constexpr,
):  # fmt: skip
    """The listed rows again, with the top k themselves kept instead of slots: slow, and right for any scores."""
    many = tl.load(list_length)
    slot = tl.arange(0, BN)
    part = tl.arange(0, BD)
    rank = tl.arange(0, KP)[None, :]
    for first in range(tl.program_id(0) * BM, many, tl.num_programs(0) * BM):
        here = first + tl.arange(0, BM)
        live = here < many
        rows = tl.load(listed + here, mask=live, other=0)
        at = rows.to(tl.int64)[:, None] * D
        grow = tl.full([BM], 1.0, tl.float32)
        if PASSES == 3:
            grow = tl.load(row_scale + rows) * book_scale
        if UNIT:
            length = tl.full([BM], 1.0, tl.float32)
        elif HAS_LENGTH:
            length = tl.load(row_length + rows)
        else:
            square = tl.zeros([BM], tl.float32)
            for d in range(0, DP, BD):
                dim = d + part
                inside = live[:, None] & (dim < D)[None, :]
                xt = tl.load(x + at + dim[None, :], mask=inside, other=0.0).to(tl.float32)
                square += tl.sum(xt * xt, 1)
            length = tl.sqrt_rn(square)
        values = tl.where(rank < K_TOP, WORST, 3.0e38) + tl.zeros([BM, KP], tl.float32)
        indices = tl.zeros([BM, KP], tl.int32)
        for block in range(0, blocks):
            col = block * BN + slot
            s = tl.zeros([BM, BN], tl.float32)
            for d in range(0, DP, BD):
                dim = d + part
                inside = live[:, None] & (dim < D)[None, :]
                xt = tl.load(x + at + dim[None, :], mask=inside, other=0.0)
                ct = tl.load(c + col[:, None] * DP + dim[None, :])
                if PASSES == 3:
                    xl = tl.load(x_low + at + dim[None, :], mask=inside, other=0.0)
                    cl = tl.load(c_low + col[:, None] * DP + dim[None, :])
                    s = tl.dot(xt, tl.trans(cl), s)
                    s = tl.dot(xl, tl.trans(ct), s)
                if TF32:  # noqa: SIM108
                    s = tl.dot(xt, tl.trans(ct), s, input_precision="tf32")
                else:
                    s = tl.dot(xt, tl.trans(ct), s)
            if HAS_OFFSET:
                s += tl.load(offset + col)[None, :] * grow[:, None]
            s = tl.where((col < K)[None, :], s, WORST)
            peak = tl.max(s, 1)
            worst = tl.min(values, 1)
            while tl.max((peak > worst).to(tl.int32), 0) > 0:
                better = (peak > worst)[:, None]
                peak_at = tl.min(tl.where(s == peak[:, None], col[None, :], 2147483647), 1)
                place = tl.min(tl.where(values == worst[:, None], rank, KP), 1)
                swap = better & (rank == place[:, None])
                values = tl.where(swap, peak[:, None], values)
                indices = tl.where(swap, peak_at[:, None], indices)
                s = tl.where(better & (col[None, :] == peak_at[:, None]), WORST, s)
                peak = tl.max(s, 1)
                worst = tl.min(values, 1)
        values = tl.where(rank < K_TOP, values, WORST)
        emit(
            rows, live, values / grow[:, None], indices, length, code, weight, counts, best, K, sub, beta, scale,
            K_TOP, KP, COSINE, RANK_BITS, SKIP_ZERO,
        )  # fmt: skip


@triton.jit
def settle_kernel(
    x, exact, exact_offset, index, value, listed, list_length, K,
    D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr, K_TOP: tl.constexpr,
):  # fmt: skip
    """The listed rows scored in float64, ties to the lowest index, one pass over the codebook for each of the top k."""
    slot = tl.arange(0, BN)
    part = tl.arange(0, BD)
    for here in range(tl.program_id(0), tl.load(list_length), tl.num_programs(0)):
        row = tl.load(listed + here).to(tl.int64)
        bar = tl.full([], float("inf"), tl.float64)  # the last one found: score and number
        bar_at = -1
        for r in range(0, K_TOP):
            top = tl.full([], float("-inf"), tl.float64)
            top_at = 0
            for start in range(0, K, BN):
                col = start + slot
                terms = tl.zeros([BN, BD], tl.float64)
                for d in range(0, D, BD):
                    dim = d + part
                    xt = tl.load(x + row * D + dim, mask=dim < D, other=0.0).to(tl.float64)
                    there = (col < K)[:, None] & (dim < D)[None, :]
                    ct = tl.load(exact + col.to(tl.int64)[:, None] * D + dim[None, :], mask=there, other=0.0)
                    terms += ct * xt[None, :]
                s = tl.sum(terms, 1) + tl.load(exact_offset + col, mask=col < K, other=0.0)
                below = (s < bar) | ((s == bar) & (col > bar_at))
                s = tl.where(below & (col < K), s, float("-inf"))
                peak = tl.max(s, 0)
                if peak > top:
                    top = peak
                    top_at = tl.min(tl.where(s == peak, col, 2147483647), 0)
            tl.store(index + row * K_TOP + r, top_at)
            tl.store(value + row * K_TOP + r, top.to(tl.float32))
            bar = top
            bar_at = top_at


@triton.jit
def rescore_kernel(
    x, exact, exact_offset, index, value, n,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, K_TOP: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """The top k of every row, known as a set, scored in float64 and put in order."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    rows = rows.to(tl.int64)
    part = tl.arange(0, BD)
    rank = tl.arange(0, KP)[None, :]
    values = tl.full([BM, KP], float("-inf"), tl.float64)
    numbers = tl.full([BM, KP], 2147483647, tl.int32)
    for r in tl.static_range(K_TOP):
        number = tl.load(index + rows * K_TOP + r, mask=live, other=0)
        s = tl.load(exact_offset + number)
        for d in range(0, D, BD):
            dim = d + part
            inside = live[:, None] & (dim < D)[None, :]
            xt = tl.load(x + rows[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float64)
            ct = tl.load(exact + number.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0)
            s += tl.sum(xt * ct, 1)
        values = tl.where(rank == r, s[:, None], values)
        numbers = tl.where(rank == r, number[:, None], numbers)
    for r in tl.static_range(K_TOP):
        top = tl.max(values, 1)
        top_at = tl.min(tl.where(values == top[:, None], numbers, 2147483647), 1)
        tl.store(index + rows * K_TOP + r, top_at, mask=live)
        tl.store(value + rows * K_TOP + r, top.to(tl.float32), mask=live)
        values = tl.where(numbers == top_at[:, None], float("-inf"), values)
        numbers = tl.where(numbers == top_at[:, None], 2147483647, numbers)
