"""Triton: scores and their top k, fused, so that the n x K matrix of scores is never written.

A program holds a tile of rows and walks over the codebook, SLOTS codewords at a time. Of the scores that fall on the
same slot of successive blocks it keeps the best DEPTH, with the block's number in the low bits of the score, so that
a score costs one logical operation and 2 DEPTH minima and maxima, all in registers. What a full slot pushes out is
remembered by its maximum alone: if that could have been among the top k, the row is put on a list and done again by
`repair` (fit) or `settle` (tokens). The top k are drawn from the slots once, at the end.
"""

from __future__ import annotations

import triton
import triton.language as tl

WORST: tl.constexpr = tl.constexpr(-3.0e38)  # below every score, and finite: its low bits may be written over


@triton.jit
def top_kernel(
    x, x_low, row_scale, row_length,  # rows (n, D), their low halves, 2^e and |x| of every row
    c, c_low, offset,                 # codebook (blocks * SLOTS, DP), its low halves, offset of every codeword
    code, weight, counts, best, longest,  # fit: see _emit
    index, value,                     # tokens: (n, K_TOP)
    listed, list_length,              # rows to be done again
    n, K, blocks, block_mask, book_scale, tolerance, reach, offset_reach, beta, scale, sub,
    D: tl.constexpr, DP: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr,
    K_TOP: tl.constexpr, KP: tl.constexpr, DEPTH: tl.constexpr, EVICT: tl.constexpr, PACK: tl.constexpr,
    PASSES: tl.constexpr, TF32: tl.constexpr, HAS_LENGTH: tl.constexpr, HAS_OFFSET: tl.constexpr,
    RAGGED: tl.constexpr, COSINE: tl.constexpr, FIT: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """One tile of BM rows against the whole codebook."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
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
        if HAS_LENGTH:
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
            m1, m2, m3, out = _keep(
                s, block, m1, m2, m3, out, grow, offset, K, blocks, block_mask,
                BM, SLOTS, SPLIT, DEPTH, EVICT, HAS_OFFSET, RAGGED,
            )  # fmt: skip
    else:
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
                m1, m2, m3, out = _keep(
                    s, block, m1, m2, m3, out, grow, offset, K, blocks, block_mask,
                    BM, SLOTS, SPLIT, DEPTH, EVICT, HAS_OFFSET, RAGGED,
                )  # fmt: skip
                s = tl.zeros([BM, BN], tl.float32)

    ROUNDS: tl.constexpr = K_TOP if FIT else K_TOP + 1
    values, indices = _draw(m1, m2, m3, slot, K, blocks, block_mask, BM, SLOTS, SPLIT, DEPTH, ROUNDS, KP, PACK)
    rank = tl.arange(0, KP)[None, :]
    last = tl.max(tl.where(rank == K_TOP - 1, values, WORST), 1)
    if FIT:
        doubtful = tl.zeros([BM], tl.int1)
        if EVICT:
            low = block_mask
            if PACK:
                low = block_mask * SLOTS + (SLOTS - 1)
            kept = (out.to(tl.int32, bitcast=True) & ~low).to(tl.float32, bitcast=True)
            doubtful = kept >= last
    else:
        next_best = tl.max(tl.where(rank == K_TOP, values, WORST), 1)
        slack = tolerance * (length * reach + offset_reach) * grow
        doubtful = (last - next_best < slack) | (out > last - slack)
    doubtful = doubtful & live
    _list(rows, doubtful, listed, list_length)
    values = values / grow[:, None]
    if FIT:
        _emit(
            rows, live & ~doubtful, values, indices, length, code, weight, counts, best, K, sub, beta, scale,
            K_TOP, KP, COSINE, RANK_BITS,
        )  # fmt: skip
        tl.atomic_max(longest, tl.max(length, 0))
    else:
        put = rows.to(tl.int64)[:, None] * K_TOP + rank
        tl.store(index + put, indices, mask=live[:, None] & (rank < K_TOP))
        tl.store(value + put, values, mask=live[:, None] & (rank < K_TOP))


@triton.jit
def _keep(
    s, block, m1, m2, m3, out, grow, offset, K, blocks, block_mask,
    BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr, DEPTH: tl.constexpr, EVICT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """The lists after a block of scores (BM, SLOTS * SPLIT) has passed over them."""
    if HAS_OFFSET:
        col = block * SLOTS * SPLIT + tl.arange(0, SLOTS * SPLIT)
        s += tl.load(offset + col)[None, :] * grow[:, None]
    if RAGGED:
        col = block * SLOTS * SPLIT + tl.arange(0, SLOTS * SPLIT)
        s = tl.where((col < K)[None, :], s, WORST)
    last = blocks * SPLIT - 1
    if SPLIT == 1:
        m1, m2, m3, out = _insert(s, last - block, block_mask, m1, m2, m3, out, DEPTH, EVICT)
    elif SPLIT == 2:
        a, b = _halves(s, BM, SLOTS)
        m1, m2, m3, out = _insert(a, last - 2 * block, block_mask, m1, m2, m3, out, DEPTH, EVICT)
        m1, m2, m3, out = _insert(b, last - 2 * block - 1, block_mask, m1, m2, m3, out, DEPTH, EVICT)
    else:
        ab, cd = _halves(s, BM, 2 * SLOTS)
        a, b = _halves(ab, BM, SLOTS)
        m1, m2, m3, out = _insert(a, last - 4 * block, block_mask, m1, m2, m3, out, DEPTH, EVICT)
        m1, m2, m3, out = _insert(b, last - 4 * block - 1, block_mask, m1, m2, m3, out, DEPTH, EVICT)
        a, b = _halves(cd, BM, SLOTS)
        m1, m2, m3, out = _insert(a, last - 4 * block - 2, block_mask, m1, m2, m3, out, DEPTH, EVICT)
        m1, m2, m3, out = _insert(b, last - 4 * block - 3, block_mask, m1, m2, m3, out, DEPTH, EVICT)
    return m1, m2, m3, out


@triton.jit
def _halves(s, BM: tl.constexpr, W: tl.constexpr):
    """The left and the right half of (BM, 2 W) columns."""
    return tl.split(tl.permute(tl.reshape(s, [BM, 2, W]), [0, 2, 1]))


@triton.jit
def _insert(s, mark, block_mask, m1, m2, m3, out, DEPTH: tl.constexpr, EVICT: tl.constexpr):
    """Scores marked with their block's number (counted from the last, so that ties go to the lowest) sorted in."""
    key = ((s.to(tl.int32, bitcast=True) & ~block_mask) | mark).to(tl.float32, bitcast=True)
    low = tl.minimum(m1, key)
    m1 = tl.maximum(m1, key)
    if DEPTH > 1:
        lower = tl.minimum(m2, low)
        m2 = tl.maximum(m2, low)
        low = lower
    if DEPTH > 2:
        lower = tl.minimum(m3, low)
        m3 = tl.maximum(m3, low)
        low = lower
    if EVICT:
        out = tl.maximum(out, tl.max(low, 1))
    return m1, m2, m3, out


@triton.jit
def _draw(
    m1, m2, m3, slot, K, blocks, block_mask,
    BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr, DEPTH: tl.constexpr, ROUNDS: tl.constexpr,
    KP: tl.constexpr, PACK: tl.constexpr,
):  # fmt: skip
    """The best ROUNDS of the lists: scores and codeword numbers, (BM, KP) each, best first.

    PACK writes the slot's number beside the block's, which spares the search for the winner's column; the score
    keeps 23 bits less those of a codeword's number, so it is for scores that have no more to lose.
    """
    rank = tl.arange(0, KP)[None, :]
    values = tl.full([BM, KP], WORST, tl.float32)
    indices = tl.zeros([BM, KP], tl.int32)
    last = blocks * SPLIT * SLOTS - 1
    low = block_mask
    if PACK:
        low = block_mask * SLOTS + (SLOTS - 1)
        m1 = _packed(m1, slot, block_mask, low, SLOTS)
        if DEPTH > 1:
            m2 = _packed(m2, slot, block_mask, low, SLOTS)
        if DEPTH > 2:
            m3 = _packed(m3, slot, block_mask, low, SLOTS)
    for r in tl.static_range(ROUNDS):
        key = tl.max(m1, 1)
        hit = m1 == key[:, None]
        bits = key.to(tl.int32, bitcast=True)
        if PACK:
            found = last - (bits & low)
        else:
            column = tl.min(tl.where(hit, slot[None, :], SLOTS), 1)
            hit = slot[None, :] == column[:, None]
            found = (blocks * SPLIT - 1 - (bits & low)) * SLOTS + column
        if DEPTH == 1:
            m1 = tl.where(hit, WORST, m1)
        else:
            m1 = tl.where(hit, m2, m1)
        if DEPTH == 2:
            m2 = tl.where(hit, WORST, m2)
        if DEPTH == 3:
            m2 = tl.where(hit, m3, m2)
            m3 = tl.where(hit, WORST, m3)
        score = (bits & ~low).to(tl.float32, bitcast=True)
        values = tl.where(rank == r, score[:, None], values)
        indices = tl.where(rank == r, tl.minimum(found, K - 1)[:, None], indices)
    return values, indices


@triton.jit
def _packed(m, slot, block_mask, low, SLOTS: tl.constexpr):
    bits = m.to(tl.int32, bitcast=True)
    bits = (bits & ~low) | ((bits & block_mask) * SLOTS + (SLOTS - 1 - slot)[None, :])
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _list(rows, doubtful, listed, list_length):
    """Doubtful rows appended to the list; their order does not matter."""
    one = doubtful.to(tl.int32)
    many = tl.sum(one, 0)
    if many > 0:
        start = tl.atomic_add(list_length, many, sem="relaxed")
        tl.store(listed + start + tl.cumsum(one, 0) - 1, rows, mask=doubtful)


@triton.jit
def _emit(
    rows, live, values, indices, length, code, weight, counts, best, K, sub, beta, scale,
    K_TOP: tl.constexpr, KP: tl.constexpr, COSINE: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Soft weights of the top k, and every (row, codeword) pair's place among its codeword's pairs in this sub-block.

        w = softmax(beta s) over the top k,   s = score / |x|  or  2 scale (score - |x|^2 / 2)

    code (n, K_TOP) holds the codeword's number above RANK_BITS bits of place; best (n,) the best s.
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
    place = tl.atomic_add(counts + (rows // sub)[:, None] * K + indices, 1, mask=use, sem="relaxed")
    put = rows.to(tl.int64)[:, None] * K_TOP + rank
    tl.store(code + put, (indices << RANK_BITS) | place, mask=use)
    if K_TOP > 1:
        tl.store(weight + put, w, mask=use)
    tl.store(best + rows, top, mask=live)


@triton.jit
def repair_kernel(
    x, x_low, row_scale, row_length, c, c_low, offset, code, weight, counts, best, listed, list_length,
    K, blocks, book_scale, beta, scale, sub,
    D: tl.constexpr, DP: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K_TOP: tl.constexpr,
    KP: tl.constexpr, PASSES: tl.constexpr, TF32: tl.constexpr, HAS_LENGTH: tl.constexpr,
    HAS_OFFSET: tl.constexpr, COSINE: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """The listed rows again, one pass over the codebook for each of the top k: slow, and right for any scores."""
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
        square = tl.zeros([BM], tl.float32)
        values = tl.full([BM, KP], WORST, tl.float32)
        indices = tl.zeros([BM, KP], tl.int32)
        bar = tl.full([BM], 3.0e38, tl.float32)  # the last one found: score and number
        bar_at = tl.full([BM], -1, tl.int32)
        for r in range(0, K_TOP):
            top = tl.full([BM], WORST, tl.float32)
            top_at = tl.zeros([BM], tl.int32)
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
                    if TF32:
                        s = tl.dot(xt, tl.trans(ct), s, input_precision="tf32")
                    else:
                        s = tl.dot(xt, tl.trans(ct), s)
                    if (not HAS_LENGTH) and r == 0 and block == 0:
                        square += tl.sum(xt.to(tl.float32) * xt.to(tl.float32), 1)
                if HAS_OFFSET:
                    s += tl.load(offset + col)[None, :] * grow[:, None]
                below = (s < bar[:, None]) | ((s == bar[:, None]) & (col[None, :] > bar_at[:, None]))
                s = tl.where(below & (col < K)[None, :], s, WORST)
                peak = tl.max(s, 1)
                peak_at = tl.min(tl.where(s == peak[:, None], col[None, :], 2147483647), 1)
                better = peak > top
                top = tl.where(better, peak, top)
                top_at = tl.where(better, peak_at, top_at)
            values = tl.where(rank == r, top[:, None], values)
            indices = tl.where(rank == r, top_at[:, None], indices)
            bar = top
            bar_at = top_at
        if HAS_LENGTH:
            length = tl.load(row_length + rows)
        else:
            length = tl.sqrt_rn(square)
        _emit(
            rows, live, values / grow[:, None], indices, length, code, weight, counts, best, K, sub, beta, scale,
            K_TOP, KP, COSINE, RANK_BITS,
        )  # fmt: skip


@triton.jit
def settle_kernel(
    x, exact, exact_offset, index, value, listed, list_length, K,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K_TOP: tl.constexpr,
):  # fmt: skip
    """The listed rows scored in float64, ties to the lowest index, one pass over the codebook for each of the top k."""
    many = tl.load(list_length)
    slot = tl.arange(0, BN)
    part = tl.arange(0, BD)
    for first in range(tl.program_id(0) * BM, many, tl.num_programs(0) * BM):
        here = first + tl.arange(0, BM)
        live = here < many
        rows = tl.load(listed + here, mask=live, other=0).to(tl.int64)
        bar = tl.full([BM], float("inf"), tl.float64)
        bar_at = tl.full([BM], -1, tl.int32)
        for r in range(0, K_TOP):
            top = tl.full([BM], float("-inf"), tl.float64)
            top_at = tl.zeros([BM], tl.int32)
            for start in range(0, K, BN):
                col = start + slot
                s = tl.load(exact_offset + col, mask=col < K, other=0.0)[None, :] + tl.zeros([BM, BN], tl.float64)
                for d in range(0, D, BD):
                    dim = d + part
                    xt = tl.load(x + rows[:, None] * D + dim[None, :], mask=live[:, None] & (dim < D)[None, :], other=0.0)
                    there = (col < K)[:, None] & (dim < D)[None, :]
                    ct = tl.load(exact + col.to(tl.int64)[:, None] * D + dim[None, :], mask=there, other=0.0)
                    s += tl.sum(xt.to(tl.float64)[:, None, :] * ct[None, :, :], 2)
                below = (s < bar[:, None]) | ((s == bar[:, None]) & (col[None, :] > bar_at[:, None]))
                s = tl.where(below & (col < K)[None, :], s, float("-inf"))
                peak = tl.max(s, 1)
                peak_at = tl.min(tl.where(s == peak[:, None], col[None, :], 2147483647), 1)
                better = peak > top
                top = tl.where(better, peak, top)
                top_at = tl.where(better, peak_at, top_at)
            tl.store(index + rows * K_TOP + r, top_at, mask=live)
            tl.store(value + rows * K_TOP + r, top.to(tl.float32), mask=live)
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
