"""Triton: scores and their top k, fused, so that the n x K matrix of scores is never written.

A program holds a tile of rows and walks over the codebook, SLOTS codewords at a time, keeping the best scores of each
slot (`kernels_slots`). What a full slot pushes out is remembered by its maximum alone: if that could have been among
the top k, the row is put on a list and done again by `kernels_again`. The top k are drawn from the slots at the end.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .slots import WORST, draw, keep


@triton.jit
def top_kernel(
    x, x_low, row_scale, row_length,  # rows (n, D), their low halves, 2^e and |x| of every row
    c, c_low, offset,                 # codebook (blocks * SLOTS, DP), its low halves, offset of every codeword
    code, weight, counts, best, longest,  # fit: see emit
    index, value,                     # tokens: (n, K_TOP)
    listed, list_length,              # rows to be done again
    n, K, blocks, book_scale, tolerance, reach, offset_reach, beta, scale, sub, groups,
    D: tl.constexpr, DP: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr,
    K_TOP: tl.constexpr, KP: tl.constexpr, DEPTH: tl.constexpr, EVICT: tl.constexpr, PACK: tl.constexpr,
    LOW: tl.constexpr, PASSES: tl.constexpr, TF32: tl.constexpr, HAS_LENGTH: tl.constexpr, HAS_OFFSET: tl.constexpr,
    RAGGED: tl.constexpr, COSINE: tl.constexpr, FIT: tl.constexpr, RANK_BITS: tl.constexpr,
    SKIP_ZERO: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """One tile of BM rows against the whole codebook.

    Programs that run together take their rows from different sub-blocks, lest they wait for each other's counters.
    UNIT says that rows have length one (or zero, which a cosine does not mind): their lengths are not computed.
    """
    tile = tl.program_id(0)
    start = (tile % groups) * sub + (tile // groups) * BM
    if start >= n:
        return
    rows = start + tl.arange(0, BM)
    live = rows < n
    slot = tl.arange(0, SLOTS)
    m1 = tl.full([BM, SLOTS], WORST, tl.float32)
    m2 = tl.full([BM, SLOTS], WORST, tl.float32)
    m3 = tl.full([BM, SLOTS], WORST, tl.float32)
    out = tl.full([BM], WORST, tl.float32)
    grow = tl.full([BM], 1.0, tl.float32)
    if PASSES == 3:
        grow = tl.load(row_scale + rows, mask=live, other=1.0) * book_scale

    BN: tl.constexpr = SLOTS * SPLIT
    wide = tl.arange(0, BN)
    at = rows.to(tl.int64)[:, None] * D
    if DP == BD:
        dim = tl.arange(0, DP)
        inside = live[:, None]
        if D != DP:
            inside = inside & (dim < D)[None, :]
        xt = tl.load(x + at + dim[None, :], mask=inside, other=0.0)
        if PASSES == 3:
            xl = tl.load(x_low + at + dim[None, :], mask=inside, other=0.0)
        if UNIT:
            length = tl.full([BM], 1.0, tl.float32)
        elif HAS_LENGTH:
            length = tl.load(row_length + rows, mask=live, other=0.0)
        else:
            wide_x = xt.to(tl.float32)
            length = tl.sqrt_rn(tl.sum(wide_x * wide_x, 1))
        for block in range(0, blocks):
            there = (block * BN + wide)[:, None] * DP + dim[None, :]
            ct = tl.load(c + there)
            if PASSES == 3:
                cl = tl.load(c_low + there)
                s = tl.dot(xt, tl.trans(cl))
                s = tl.dot(xl, tl.trans(ct), s)
                s = tl.dot(xt, tl.trans(ct), s)
            elif TF32:
                s = tl.dot(xt, tl.trans(ct), input_precision="tf32")
            else:
                s = tl.dot(xt, tl.trans(ct))
            m1, m2, m3, out = keep(
                s, block, m1, m2, m3, out, grow, offset, K, blocks, LOW,
                BM, SLOTS, SPLIT, DEPTH, EVICT, PACK, HAS_OFFSET, RAGGED,
            )  # fmt: skip
    else:
        length = tl.full([BM], 1.0, tl.float32)
        if not UNIT:
            length = tl.load(row_length + rows, mask=live, other=0.0)
        part = tl.arange(0, BD)
        steps: tl.constexpr = DP // BD
        s = tl.zeros([BM, BN], tl.float32)
        for step in range(0, blocks * steps):
            block = step // steps
            dim = (step % steps) * BD + part
            there = (block * BN + wide)[:, None] * DP + dim[None, :]
            inside = live[:, None]
            if D != DP:
                inside = inside & (dim < D)[None, :]
            xt = tl.load(x + at + dim[None, :], mask=inside, other=0.0)
            ct = tl.load(c + there)
            if PASSES == 3:
                xl = tl.load(x_low + at + dim[None, :], mask=inside, other=0.0)
                cl = tl.load(c_low + there)
                s = tl.dot(xt, tl.trans(cl), s)
                s = tl.dot(xl, tl.trans(ct), s)
                s = tl.dot(xt, tl.trans(ct), s)
            elif TF32:
                s = tl.dot(xt, tl.trans(ct), s, input_precision="tf32")
            else:
                s = tl.dot(xt, tl.trans(ct), s)
            if step % steps == steps - 1:
                m1, m2, m3, out = keep(
                    s, block, m1, m2, m3, out, grow, offset, K, blocks, LOW,
                    BM, SLOTS, SPLIT, DEPTH, EVICT, PACK, HAS_OFFSET, RAGGED,
                )  # fmt: skip
                s = tl.zeros([BM, BN], tl.float32)

    ROUNDS: tl.constexpr = K_TOP if FIT else K_TOP + 1
    values, indices, key = draw(m1, m2, m3, slot, K, blocks, LOW, BM, SLOTS, SPLIT, DEPTH, ROUNDS, KP, PACK, HAS_OFFSET)
    rank = tl.arange(0, KP)[None, :]
    last = tl.max(tl.where(rank == K_TOP - 1, values, WORST), 1)
    if FIT:
        doubtful = key < 0  # ties of negative cosines went to the highest
        if HAS_OFFSET:
            doubtful = tl.zeros([BM], tl.int1)
        if EVICT:
            doubtful = doubtful | (out >= key)
    else:
        next_best = tl.max(tl.where(rank == K_TOP, values, WORST), 1)
        slack = tolerance * (length * reach + offset_reach) * grow
        doubtful = (last - next_best < slack) | (out > last - slack)
    doubtful = doubtful & live
    _list(rows, doubtful, listed, list_length)
    values = values / grow[:, None]
    if FIT:
        emit(
            rows, live & ~doubtful, values, indices, length, code, weight, counts, best, K, sub, beta, scale,
            K_TOP, KP, COSINE, RANK_BITS, SKIP_ZERO,
        )  # fmt: skip
        if not UNIT:
            tl.atomic_max(longest, tl.max(length, 0))
    else:
        put = rows.to(tl.int64)[:, None] * K_TOP + rank
        tl.store(index + put, indices, mask=live[:, None] & (rank < K_TOP))
        tl.store(value + put, values, mask=live[:, None] & (rank < K_TOP))


@triton.jit
def _list(rows, doubtful, listed, list_length):
    """Doubtful rows appended to the list; their order does not matter."""
    one = doubtful.to(tl.int32)
    many = tl.sum(one, 0)
    if many > 0:
        start = tl.atomic_add(list_length, many, sem="relaxed")
        tl.store(listed + start + tl.cumsum(one, 0) - 1, rows, mask=doubtful)


@triton.jit
def emit(
    rows, live, values, indices, length, code, weight, counts, best, K, sub, beta, scale,
    K_TOP: tl.constexpr, KP: tl.constexpr, COSINE: tl.constexpr, RANK_BITS: tl.constexpr, SKIP_ZERO: tl.constexpr,
):  # fmt: skip
    """Soft weights of the top k, and every (row, codeword) pair's place among its codeword's pairs in this sub-block.

        w = softmax(beta s) over the top k,   s = score / |x|  or  2 scale (score - |x|^2 / 2)

    code (n, K_TOP) holds the codeword's number above RANK_BITS bits of place; best (n,) the best s. SKIP_ZERO gives
    rows of length zero no weight and no say in the objective.
    """
    rank = tl.arange(0, KP)[None, :]
    use = live[:, None] & (rank < K_TOP)
    if COSINE:
        s = values / (length + (length == 0).to(tl.float32))[:, None]
    else:
        s = 2.0 * scale * (values - (0.5 * length * length)[:, None])
    s = tl.where(rank < K_TOP, s, WORST)
    top = tl.max(s, 1)
    w = tl.exp(beta * (s - top[:, None]))
    w = w / tl.sum(w, 1)[:, None]
    if SKIP_ZERO:
        w = tl.where((length > 0)[:, None], w, 0.0)
        top = tl.where(length > 0, top, 0.0)
    place = tl.atomic_add(counts + (rows // sub)[:, None] * K + indices, 1, mask=use, sem="relaxed")
    put = rows.to(tl.int64)[:, None] * K_TOP + rank
    tl.store(code + put, (indices << RANK_BITS) | place, mask=use)
    if (K_TOP > 1) | SKIP_ZERO:
        tl.store(weight + put, w, mask=use)
    tl.store(best + rows, top, mask=live)
