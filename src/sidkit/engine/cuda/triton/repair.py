"""Triton: the few rows that the fast kernel could not decide, scored again with more care.

repair_kernel     fit: what the slots pushed out could have been among the top k; the top k themselves are kept
settle_kernel     tokens: the best codewords are closer than rounding error; scored in float64
choose_kernel     tokens: a few codewords are closer than rounding error; the best of them in float64
rescore_kernel    the top k are known as a set; their scores in float64, and their order
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .slots import WORST
from .top import add_products, emit, growth


@triton.jit
def repair_kernel(
    x, c, pairs, undecided, beta, scale,
    TILE: tl.constexpr, KEEP: tl.constexpr, RANK_BITS: tl.constexpr, SKIP_ZERO: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """CodePairs of the undecided rows, with the top k themselves kept instead of slots: slow, and right for any scores.

    The arguments are those of `top.fit_kernel`; a tile has BM rows of the list and SLOTS codewords.
    """
    count = tl.load(undecided.length)
    rank = tl.arange(0, KEEP.KP)[None, :]
    for first in range(tl.program_id(0) * TILE.BM, count, tl.num_programs(0) * TILE.BM):
        here = first + tl.arange(0, TILE.BM)
        live = here < count
        rows = tl.load(undecided.rows + here, mask=live, other=0)
        grow = growth(x, c, rows, live, TILE.BM)
        length = _length(x, rows, live, UNIT, TILE)
        values = tl.where(rank < KEEP.K_TOP, WORST, 3.0e38) + tl.full([TILE.BM, KEEP.KP], 0, tl.float32)
        indices = tl.full([TILE.BM, KEEP.KP], 0, tl.int32)
        for block in range(0, c.blocks):
            col = block * TILE.SLOTS + tl.arange(0, TILE.SLOTS)
            s = _scores(x, c, rows, live, col, TILE)
            if c.offset is not None:
                s += tl.load(c.offset + col)[None, :] * grow[:, None]
            s = tl.where((col < c.size)[None, :], s, WORST)
            peak = tl.max(s, 1)
            worst = tl.min(values, 1)
            while tl.max((peak > worst).to(tl.int32), 0) > 0:
                better = (peak > worst)[:, None]
                peak_at = tl.min(tl.where(s == peak[:, None], col[None, :], 2147483647), 1)
                slot = tl.min(tl.where(values == worst[:, None], rank, KEEP.KP), 1)
                swap = better & (rank == slot[:, None])
                values = tl.where(swap, peak[:, None], values)
                indices = tl.where(swap, peak_at[:, None], indices)
                s = tl.where(better & (col[None, :] == peak_at[:, None]), WORST, s)
                peak = tl.max(s, 1)
                worst = tl.min(values, 1)
        values = tl.where(rank < KEEP.K_TOP, values, WORST)
        emit(
            rows, live, values / grow[:, None], indices, length, c, pairs, beta, scale, KEEP, RANK_BITS, SKIP_ZERO
        )  # fmt: skip


@triton.jit
def _length(x, rows, live, UNIT: tl.constexpr, TILE: tl.constexpr):
    """|row| of rows (BM,): known, one, or computed."""
    if UNIT:
        length = tl.full([TILE.BM], 1.0, tl.float32)
    elif x.length is not None:
        length = tl.load(x.length + rows)
    else:
        square = tl.full([TILE.BM], 0, tl.float32)
        for d in range(0, TILE.DP, TILE.BD):
            dim = d + tl.arange(0, TILE.BD)
            inside = live[:, None] & (dim < TILE.D)[None, :]
            at = rows.to(tl.int64)[:, None] * TILE.D + dim[None, :]
            xt = tl.load(x.x + at, mask=inside, other=0.0).to(tl.float32)
            square += tl.sum(xt * xt, 1)
        length = tl.sqrt_rn(square)
    return length


@triton.jit
def _scores(x, c, rows, live, col, TILE: tl.constexpr):
    """Scores of rows (BM,) and codewords col (SLOTS,), without offsets: (BM, SLOTS)."""
    s = tl.full([TILE.BM, TILE.SLOTS], 0, tl.float32)
    for d in range(0, TILE.DP, TILE.BD):
        dim = d + tl.arange(0, TILE.BD)
        inside = live[:, None] & (dim < TILE.D)[None, :]
        at = rows.to(tl.int64)[:, None] * TILE.D + dim[None, :]
        there = col[:, None] * TILE.DP + dim[None, :]
        xt = tl.load(x.x + at, mask=inside, other=0.0)
        ct = tl.load(c.rows + there)
        xl = xt
        cl = ct
        if x.low is not None:
            xl = tl.load(x.low + at, mask=inside, other=0.0)
            cl = tl.load(c.low + there)
        s = add_products(s, xt, xl, ct, cl, x.low is not None)
    return s


@triton.jit
def settle_kernel(
    x, exact, exact_offset, index, value, undecided, K,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K_TOP: tl.constexpr,
):  # fmt: skip
    """Undecided rows scored in float64, ties to the lowest index, one pass over the codebook for each of the top k.

    x: (n, D); exact: (K, D) float64, exact_offset: (K,) float64; index: (n, K_TOP) int32 and value: (n, K_TOP) float32
    are written; undecided: a RowList. BM rows share what is read of the codebook.
    """
    slot = tl.arange(0, BN)
    part = tl.arange(0, BD)
    count = tl.load(undecided.length)
    for first in range(tl.program_id(0) * BM, count, tl.num_programs(0) * BM):
        here = first + tl.arange(0, BM)
        live = here < count
        row = tl.load(undecided.rows + here, mask=live, other=0).to(tl.int64)
        bar = tl.full([BM], float("inf"), tl.float64)  # score and index of the codeword taken last
        bar_at = tl.full([BM], -1, tl.int32)
        for r in range(0, K_TOP):
            top = tl.full([BM], float("-inf"), tl.float64)
            top_at = tl.full([BM], 0, tl.int32)
            for start in range(0, K, BN):
                col = start + slot
                terms = tl.zeros([BM, BN, BD], tl.float64)
                for d in range(0, D, BD):
                    dim = d + part
                    inside = live[:, None] & (dim < D)[None, :]
                    xt = tl.load(x + row[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float64)
                    there = (col < K)[:, None] & (dim < D)[None, :]
                    ct = tl.load(exact + col.to(tl.int64)[:, None] * D + dim[None, :], mask=there, other=0.0)
                    terms += xt[:, None, :] * ct[None, :, :]
                s = tl.sum(terms, 2) + tl.load(exact_offset + col, mask=col < K, other=0.0)[None, :]
                taken = (s > bar[:, None]) | ((s == bar[:, None]) & (col[None, :] <= bar_at[:, None]))
                s = tl.where(taken | (col >= K)[None, :], float("-inf"), s)
                peak = tl.max(s, 1)
                peak_at = tl.min(tl.where(s == peak[:, None], col[None, :], 2147483647), 1)
                top_at = tl.where(peak > top, peak_at, top_at)
                top = tl.maximum(peak, top)
            tl.store(index + row * K_TOP + r, top_at, mask=live)
            tl.store(value + row * K_TOP + r, top.to(tl.float32), mask=live)
            bar = top
            bar_at = top_at


@triton.jit(do_not_specialize=["n"])  # of lists of rows, as many as there happen to be
def choose_kernel(
    x, exact, exact_offset, index, n,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, K_TOP: tl.constexpr,
):  # fmt: skip
    """The first column of index (n, K_TOP) int32 becomes the best of all, in float64, ties to the lowest index.

    x: (n, D); exact: (K, D) float64, exact_offset: (K,) float64.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    rows = rows.to(tl.int64)
    top = tl.full([BM], float("-inf"), tl.float64)
    top_at = tl.full([BM], 0, tl.int32)
    for r in tl.static_range(K_TOP):
        code = tl.load(index + rows * K_TOP + r, mask=live, other=0)
        s = _exact_score(x, exact, exact_offset, rows, code, live, D, BD)
        better = (s > top) | ((s == top) & (code < top_at))
        top = tl.where(better, s, top)
        top_at = tl.where(better, code, top_at)
    tl.store(index + rows * K_TOP, top_at, mask=live)


@triton.jit
def _exact_score(x, exact, exact_offset, rows, code, live, D: tl.constexpr, BD: tl.constexpr):
    """The scores of rows (BM,) and one codeword each, in float64: (BM,)."""
    s = tl.load(exact_offset + code)
    for d in range(0, D, BD):
        dim = d + tl.arange(0, BD)
        inside = live[:, None] & (dim < D)[None, :]
        xt = tl.load(x + rows[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float64)
        ct = tl.load(exact + code.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0)
        s += tl.sum(xt * ct, 1)
    return s


@triton.jit
def rescore_kernel(
    x, exact, exact_offset, index, value, n,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, K_TOP: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """The top k of every row, known as a set, scored in float64 and put in order.

    x: (n, D); exact: (K, D) float64, exact_offset: (K,) float64; index: (n, K_TOP) int32 is read and written in order,
    value: (n, K_TOP) float32 is written.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    rows = rows.to(tl.int64)
    rank = tl.arange(0, KP)[None, :]
    values = tl.full([BM, KP], float("-inf"), tl.float64)
    indices = tl.full([BM, KP], 2147483647, tl.int32)
    for r in tl.static_range(K_TOP):
        code = tl.load(index + rows * K_TOP + r, mask=live, other=0)
        s = _exact_score(x, exact, exact_offset, rows, code, live, D, BD)
        values = tl.where(rank == r, s[:, None], values)
        indices = tl.where(rank == r, code[:, None], indices)
    for r in tl.static_range(K_TOP):
        top = tl.max(values, 1)
        top_at = tl.min(tl.where(values == top[:, None], indices, 2147483647), 1)
        tl.store(index + rows * K_TOP + r, top_at, mask=live)
        tl.store(value + rows * K_TOP + r, top.to(tl.float32), mask=live)
        values = tl.where(indices == top_at[:, None], float("-inf"), values)
        indices = tl.where(indices == top_at[:, None], 2147483647, indices)
