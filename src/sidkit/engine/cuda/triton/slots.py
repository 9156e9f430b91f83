"""Triton: the best scores of every slot, in registers, while blocks of a codebook pass over a tile of rows.

Of the scores that fall on the same slot of successive blocks the best DEPTH are kept, with the index of the block in
the low bits of the score, so that a score costs one logical operation and 2 DEPTH minima and maxima.

m1, m2, m3: (BM, SLOTS) float32, the best, second and third score of every slot (as many as DEPTH are used);
out: (BM,) float32, the best score that was pushed out of any slot. TILE and KEEP are a TileShape and a SlotShape.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

ASM: tl.constexpr = tl.constexpr(not triton.knobs.runtime.interpret)  # the interpreter knows no assembler
WORST: tl.constexpr = tl.constexpr(-3.0e38)  # below every score, and finite: its low bits may be written over


@triton.jit
def insert_block(s, block, m1, m2, m3, out, grow, c, TILE: tl.constexpr, KEEP: tl.constexpr):
    """The slots after a block of scores s (BM, SLOTS * SPLIT), to which offsets times grow (BM,) are added first."""
    BN: tl.constexpr = TILE.SLOTS * TILE.SPLIT
    SIGNED: tl.constexpr = c.offset is not None
    col = block * BN + tl.arange(0, BN)
    if SIGNED:
        s += tl.load(c.offset + col)[None, :] * grow[:, None]
    if KEEP.RAGGED:
        s = tl.where((col < c.size)[None, :], s, WORST)
    last = c.blocks * TILE.SPLIT - 1
    if TILE.SPLIT == 1:
        key = marked(s, last - block, KEEP.LOW, TILE.SLOTS, KEEP.PACK, SIGNED)
        m1, m2, m3, out = _insert(key, m1, m2, m3, out, KEEP)
    elif TILE.SPLIT == 2:
        m1, m2, m3, out = _insert_two(s, last - 2 * block, m1, m2, m3, out, SIGNED, TILE, KEEP)
    else:
        left, right = halves(s, TILE.BM, 2 * TILE.SLOTS)
        m1, m2, m3, out = _insert_two(left, last - 4 * block, m1, m2, m3, out, SIGNED, TILE, KEEP)
        m1, m2, m3, out = _insert_two(right, last - 4 * block - 2, m1, m2, m3, out, SIGNED, TILE, KEEP)
    return m1, m2, m3, out


@triton.jit
def halves(s, BM: tl.constexpr, W: tl.constexpr):
    """The left and the right half of (BM, 2 W) columns."""
    return tl.split(tl.permute(tl.reshape(s, [BM, 2, W]), [0, 2, 1]))


@triton.jit
def marked(s, mark, LOW: tl.constexpr, SLOTS: tl.constexpr, PACK: tl.constexpr, SIGNED: tl.constexpr):
    """Scores s (BM, SLOTS) with the index of their block in the low bits, counted from the last: ties go to the lowest.

    PACK adds the index of the slot, which spares the search for a winner's column; the score keeps 23 bits less those
    of a codeword's index, so it is for scores that have no more to lose. SIGNED inverts the marks of negative scores,
    of which the larger is the one with smaller bits.
    """
    low: tl.constexpr = LOW * SLOTS + SLOTS - 1 if PACK else LOW
    if PACK:
        mark = (mark * SLOTS + (SLOTS - 1 - tl.arange(0, SLOTS)))[None, :]
    bits = s.to(tl.int32, bitcast=True)
    if SIGNED:
        mark = mark ^ ((bits >> 31) & low)
    if ASM:  # the compiler makes two instructions of (bits & ~low) | mark, in the innermost loop
        bits = tl.inline_asm_elementwise(
            "lop3.b32 $0, $1, $2, $3, 0xEA;", "=r,r,r,r", [bits, ~low, mark], tl.int32, is_pure=True, pack=1
        )
    else:
        bits = (bits & ~low) | mark
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _insert(key, m1, m2, m3, out, KEEP: tl.constexpr):
    """The slots with one more score each, key (BM, SLOTS)."""
    low = tl.minimum(m1, key)
    m1 = tl.maximum(m1, key)
    if KEEP.DEPTH > 1:
        lower = tl.minimum(m2, low)
        m2 = tl.maximum(m2, low)
        low = lower
    if KEEP.DEPTH > 2:
        lower = tl.minimum(m3, low)
        m3 = tl.maximum(m3, low)
        low = lower
    if KEEP.EVICT:
        out = tl.maximum(out, tl.max(low, 1))
    return m1, m2, m3, out


@triton.jit
def _insert_two(s, mark, m1, m2, m3, out, SIGNED: tl.constexpr, TILE: tl.constexpr, KEEP: tl.constexpr):
    """The slots with two more scores each, s (BM, 2 SLOTS); at depth 2 sorted pairs are merged, in 8 operations."""
    a, b = halves(s, TILE.BM, TILE.SLOTS)
    a = marked(a, mark, KEEP.LOW, TILE.SLOTS, KEEP.PACK, SIGNED)
    b = marked(b, mark - 1, KEEP.LOW, TILE.SLOTS, KEEP.PACK, SIGNED)
    if KEEP.DEPTH == 2:
        high = tl.maximum(a, b)
        second = tl.minimum(m1, high)
        third = tl.maximum(m2, tl.minimum(a, b))
        m1 = tl.maximum(m1, high)
        m2 = tl.maximum(second, third)
        if KEEP.EVICT:
            out = tl.maximum(out, tl.max(tl.minimum(second, third), 1))
    else:
        m1, m2, m3, out = _insert(a, m1, m2, m3, out, KEEP)
        m1, m2, m3, out = _insert(b, m1, m2, m3, out, KEEP)
    return m1, m2, m3, out


@triton.jit
def take_best(m1, m2, m3, c, ROUNDS: tl.constexpr, TILE: tl.constexpr, KEEP: tl.constexpr):
    """The best ROUNDS of all slots: scores and indices of codewords, (BM, KP) each, best first.

    Also the key of the last one, (BM,): its score with its mark.
    """
    SIGNED: tl.constexpr = c.offset is not None
    slot = tl.arange(0, TILE.SLOTS)
    rank = tl.arange(0, KEEP.KP)[None, :]
    values = tl.full([TILE.BM, KEEP.KP], WORST, tl.float32)
    indices = tl.full([TILE.BM, KEEP.KP], 0, tl.int32)
    last = c.blocks * TILE.SPLIT * TILE.SLOTS - 1
    low: tl.constexpr = KEEP.LOW * TILE.SLOTS + TILE.SLOTS - 1 if KEEP.PACK else KEEP.LOW
    key = tl.full([TILE.BM], WORST, tl.float32)
    for r in tl.static_range(ROUNDS):
        key = tl.max(m1, 1)
        hit = m1 == key[:, None]
        bits = key.to(tl.int32, bitcast=True)
        mark = bits & low
        if SIGNED:
            mark = mark ^ ((bits >> 31) & low)
        if KEEP.PACK:
            index = last - mark
        else:
            column = tl.min(tl.where(hit, slot[None, :], TILE.SLOTS), 1)
            hit = slot[None, :] == column[:, None]
            index = (c.blocks * TILE.SPLIT - 1 - mark) * TILE.SLOTS + column
        if KEEP.DEPTH == 1:  # noqa: SIM108
            m1 = tl.where(hit, WORST, m1)
        else:
            m1 = tl.where(hit, m2, m1)
        if KEEP.DEPTH == 2:
            m2 = tl.where(hit, WORST, m2)
        if KEEP.DEPTH == 3:
            m2 = tl.where(hit, m3, m2)
            m3 = tl.where(hit, WORST, m3)
        score = (bits & ~low).to(tl.float32, bitcast=True)
        values = tl.where(rank == r, score[:, None], values)
        indices = tl.where(rank == r, tl.minimum(index, c.size - 1)[:, None], indices)
    return values, indices, key
