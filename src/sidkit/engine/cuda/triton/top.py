"""Triton: scores and their top k, fused, so that the n x K matrix of scores is never written.

A program takes a tile of rows and walks over the codebook, SLOTS * SPLIT codewords at a time, keeping the best scores
of each slot (`slots`). Of what a full slot pushes out only the maximum is kept: if that could have been among the top
k, the row is put on a list and scored again by `repair`. The top k are taken from the slots at the end.

    fit_kernel       one fitting pass: soft weights of the top k, as pairs to be sorted by codeword (`sums`)
    tokens_kernel    the top k themselves, with a list of the rows where rounding could have changed them
    screen_kernel    the few codewords that can be the best by coarse scores, with a list of the rows that have more

x is a RowArgs, c a CodebookArgs, TILE a TileShape, KEEP a SlotShape (`arguments`).
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .slots import WORST, insert_block, take_best


@triton.jit
def fit_kernel(
    x, c, pairs, undecided, n, beta, scale,
    TILE: tl.constexpr, KEEP: tl.constexpr, RANK_BITS: tl.constexpr, SKIP_ZERO: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """CodePairs (PairArgs) of one tile of BM rows against the whole codebook; see `emit`.

    undecided: a RowList, which gets the rows whose top k are not known. pairs.longest (1,) gets the longest row.
    Programs that run together take their rows from different sub-blocks, so that they do not wait for each other's
    counters. UNIT: rows have length one (or zero, to which a cosine is indifferent), and no length is computed.
    """
    tile = tl.program_id(0)
    start = (tile % pairs.subs) * pairs.sub + (tile // pairs.subs) * TILE.BM
    if start >= n:
        return
    rows = start + tl.arange(0, TILE.BM)
    live = rows < n
    grow = growth(x, c, rows, live, TILE.BM)
    m1, m2, m3, out, length = _scan(x, c, rows, live, grow, UNIT, TILE, KEEP)
    values, indices, key = take_best(m1, m2, m3, c, KEEP.K_TOP, TILE, KEEP)
    doubtful = key < 0  # ties of negative cosines went to the highest
    if c.offset is not None:
        doubtful = tl.full([TILE.BM], 0, tl.int1)
    if KEEP.EVICT:
        doubtful = doubtful | (out >= key)
    doubtful = doubtful & live
    _list(rows, doubtful, undecided)
    emit(
        rows, live & ~doubtful, values / grow[:, None], indices, length, c, pairs, beta, scale,
        KEEP, RANK_BITS, SKIP_ZERO,
    )  # fmt: skip
    if not UNIT:
        tl.atomic_max(pairs.longest, tl.max(length, 0))


@triton.jit(do_not_specialize=["n"])  # of lists of rows, as many as there happen to be
def tokens_kernel(
    x, c, index, value, undecided, n, tolerance, reach, offset_reach, TILE: tl.constexpr, KEEP: tl.constexpr
):
    """index (n, k) int32 and value (n, k) float32: the top k = K_TOP - 1 of one tile of BM rows and their scores.

    undecided: a RowList, which gets the rows where codewords are closer than rounding error, which is at most
    tolerance * (|row| reach + offset_reach); reach is the longest codeword, offset_reach the largest |offset|.
    """
    rows, live, grow, values, indices, out, slack = _top_of_tile(
        x, c, n, tolerance, reach, offset_reach, TILE, KEEP
    )  # fmt: skip
    TOP: tl.constexpr = KEEP.K_TOP - 1
    last = _ranked(values, TOP - 1, KEEP)
    doubtful = (last - _ranked(values, TOP, KEEP) < slack) | (out > last - slack)
    _list(rows, doubtful & live, undecided)
    rank = tl.arange(0, KEEP.KP)[None, :]
    put = rows.to(tl.int64)[:, None] * TOP + rank
    tl.store(index + put, indices, mask=live[:, None] & (rank < TOP))
    tl.store(value + put, values / grow[:, None], mask=live[:, None] & (rank < TOP))


@triton.jit
def screen_kernel(
    x, c, index, close, undecided, n, tolerance, reach, offset_reach, TILE: tl.constexpr, KEEP: tl.constexpr
):
    """index (n, K_TOP) int32: the best K_TOP codewords of one tile of BM rows by coarse scores, best first.

    close: a RowList, which gets the rows whose best is one of these, perhaps not the first. undecided gets those whose
    best may be another. The error is bound as in `tokens_kernel`.
    """
    rows, live, _, values, indices, out, slack = _top_of_tile(
        x, c, n, tolerance, reach, offset_reach, TILE, KEEP
    )  # fmt: skip
    near = _ranked(values, 0, KEEP) - slack
    doubtful = (out > near) | (_ranked(values, KEEP.K_TOP - 1, KEEP) > near)
    _list(rows, doubtful & live, undecided)
    _list(rows, (_ranked(values, 1, KEEP) > near) & ~doubtful & live, close)
    rank = tl.arange(0, KEEP.KP)[None, :]
    put = rows.to(tl.int64)[:, None] * KEEP.K_TOP + rank
    tl.store(index + put, indices, mask=live[:, None] & (rank < KEEP.K_TOP))


@triton.jit
def _top_of_tile(x, c, n, tolerance, reach, offset_reach, TILE: tl.constexpr, KEEP: tl.constexpr):
    """Rows (BM,) of a tile, which of them there are, the factors of their scores, scores and indices of the best K_TOP
    (BM, KP), what slots pushed out (BM,), and how far apart two scores must be to be told apart (BM,).
    """
    rows = tl.program_id(0) * TILE.BM + tl.arange(0, TILE.BM)
    live = rows < n
    grow = growth(x, c, rows, live, TILE.BM)
    m1, m2, m3, out, length = _scan(x, c, rows, live, grow, False, TILE, KEEP)
    values, indices, _ = take_best(m1, m2, m3, c, KEEP.K_TOP, TILE, KEEP)
    return rows, live, grow, values, indices, out, tolerance * (length * reach + offset_reach) * grow


@triton.jit
def _ranked(values, at: tl.constexpr, KEEP: tl.constexpr):
    """Column `at` of values (BM, KP)."""
    return tl.max(tl.where(tl.arange(0, KEEP.KP)[None, :] == at, values, WORST), 1)


@triton.jit
def growth(x, c, rows, live, BM: tl.constexpr):
    """The factors of the scores of rows (BM,): powers of two where rows and codebook are halves, else 1."""
    if x.scale is None:
        grow = tl.full([BM], 1.0, tl.float32)
    else:
        grow = tl.load(x.scale + rows, mask=live, other=1.0) * c.scale
    return grow


@triton.jit
def add_products(s, xt, xl, ct, cl, HALVES: tl.constexpr):
    """s (BM, BN) with the products of xt (BM, BD) and ct (BN, BD) added; of halves, all but that of the low ones."""
    if HALVES:
        s = tl.dot(xt, tl.trans(cl), s)
        s = tl.dot(xl, tl.trans(ct), s)
    return tl.dot(xt, tl.trans(ct), s, input_precision="tf32")


@triton.jit
def _scan(x, c, rows, live, grow, UNIT: tl.constexpr, TILE: tl.constexpr, KEEP: tl.constexpr):
    """All codewords against rows (BM,): the slots, what they pushed out, and |row| (BM,)."""
    m1 = tl.full([TILE.BM, TILE.SLOTS], WORST, tl.float32)
    m2 = tl.full([TILE.BM, TILE.SLOTS], WORST, tl.float32)
    m3 = tl.full([TILE.BM, TILE.SLOTS], WORST, tl.float32)
    out = tl.full([TILE.BM], WORST, tl.float32)
    HALVES: tl.constexpr = x.low is not None
    BN: tl.constexpr = TILE.SLOTS * TILE.SPLIT
    wide = tl.arange(0, BN)
    at = rows.to(tl.int64)[:, None] * TILE.D
    length = tl.full([TILE.BM], 1.0, tl.float32)
    if x.length is not None:
        length = tl.load(x.length + rows, mask=live, other=0.0)
    if TILE.DP == TILE.BD:  # a tile of rows stays in registers
        dim = tl.arange(0, TILE.DP)
        inside = _inside(dim, live, TILE)
        xt = tl.load(x.x + at + dim[None, :], mask=inside, other=0.0)
        xl = xt
        if HALVES:
            xl = tl.load(x.low + at + dim[None, :], mask=inside, other=0.0)
        if (x.length is None) and not UNIT:
            square = xt.to(tl.float32)
            length = tl.sqrt_rn(tl.sum(square * square, 1))
        for block in range(0, c.blocks):
            there = (block * BN + wide)[:, None] * TILE.DP + dim[None, :]
            ct = tl.load(c.rows + there)
            cl = ct
            if HALVES:
                cl = tl.load(c.low + there)
            s = add_products(tl.full([TILE.BM, BN], 0, tl.float32), xt, xl, ct, cl, HALVES)
            m1, m2, m3, out = insert_block(s, block, m1, m2, m3, out, grow, c, TILE, KEEP)
    else:
        steps: tl.constexpr = TILE.DP // TILE.BD
        s = tl.full([TILE.BM, BN], 0, tl.float32)
        for step in range(0, c.blocks * steps):
            block = step // steps
            dim = (step % steps) * TILE.BD + tl.arange(0, TILE.BD)
            there = (block * BN + wide)[:, None] * TILE.DP + dim[None, :]
            inside = _inside(dim, live, TILE)
            xt = tl.load(x.x + at + dim[None, :], mask=inside, other=0.0)
            ct = tl.load(c.rows + there)
            xl = xt
            cl = ct
            if HALVES:
                xl = tl.load(x.low + at + dim[None, :], mask=inside, other=0.0)
                cl = tl.load(c.low + there)
            s = add_products(s, xt, xl, ct, cl, HALVES)
            if step % steps == steps - 1:
                m1, m2, m3, out = insert_block(s, block, m1, m2, m3, out, grow, c, TILE, KEEP)
                s = tl.full([TILE.BM, BN], 0, tl.float32)
    return m1, m2, m3, out, length


@triton.jit
def _inside(dim, live, TILE: tl.constexpr):
    """Which of the dimensions dim (BD,) of rows live (BM,) are there: (BM, BD), or (BM, 1) where all are."""
    inside = live[:, None]
    if TILE.D != TILE.DP:
        inside = inside & (dim < TILE.D)[None, :]
    return inside


@triton.jit
def _list(rows, doubtful, undecided):
    """Doubtful rows (BM,) appended to the list; their order does not matter."""
    one = doubtful.to(tl.int32)
    count = tl.sum(one, 0)
    if count > 0:
        start = tl.atomic_add(undecided.length, count, sem="relaxed")
        tl.store(undecided.rows + start + tl.cumsum(one, 0) - 1, rows, mask=doubtful)


@triton.jit
def emit(
    rows, live, values, indices, length, c, pairs, beta, scale,
    KEEP: tl.constexpr, RANK_BITS: tl.constexpr, SKIP_ZERO: tl.constexpr,
):  # fmt: skip
    """Soft weights of the top k, and the position of every (row, codeword) pair among its codeword's in this sub-block.

        w = softmax(beta s) over the top k,   s = score / |x|  or  2 scale (score - |x|^2 / 2)

    rows, live, length: (BM,); values, indices: (BM, KP), scores and codewords. pairs (PairArgs) get the codeword above
    RANK_BITS bits of position, the weight, and the best s of the row. SKIP_ZERO gives rows of length zero no weight
    and no part in the objective.
    """
    rank = tl.arange(0, KEEP.KP)[None, :]
    use = live[:, None] & (rank < KEEP.K_TOP)
    if c.offset is None:
        s = values / (length + (length == 0).to(tl.float32))[:, None]
    else:
        s = 2.0 * scale * (values - (0.5 * length * length)[:, None])
    s = tl.where(rank < KEEP.K_TOP, s, WORST)
    top = tl.max(s, 1)
    w = tl.exp(beta * (s - top[:, None]))
    w = w / tl.sum(w, 1)[:, None]
    if SKIP_ZERO:
        w = tl.where((length > 0)[:, None], w, 0.0)
        top = tl.where(length > 0, top, 0.0)
    counter = pairs.counts + (rows // pairs.sub)[:, None] * c.size + indices
    position = tl.atomic_add(counter, 1, mask=use, sem="relaxed")
    put = rows.to(tl.int64)[:, None] * KEEP.K_TOP + rank
    tl.store(pairs.code + put, (indices << RANK_BITS) | position, mask=use)
    if (KEEP.K_TOP > 1) | SKIP_ZERO:
        tl.store(pairs.weight + put, w, mask=use)
    tl.store(pairs.best + rows, top, mask=live)
