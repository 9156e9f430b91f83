"""Triton: the best scores of every slot, in registers, while blocks of a codebook pass over a tile of rows.

Of the scores that fall on the same slot of successive blocks the best DEPTH are kept, with the block's number in the
low bits of the score, so that a score costs one logical operation and 2 DEPTH minima and maxima.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

ASM: tl.constexpr = tl.constexpr(not triton.knobs.runtime.interpret)  # the interpreter knows no assembler
WORST: tl.constexpr = tl.constexpr(-3.0e38)  # below every score, and finite: its low bits may be written over


@triton.jit
def keep(
    s, block, m1, m2, m3, out, grow, offset, K, blocks, LOW: tl.constexpr,
    BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr, DEPTH: tl.constexpr, EVICT: tl.constexpr,
    PACK: tl.constexpr, HAS_OFFSET: tl.constexpr, RAGGED: tl.constexpr,
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
        key = marked(s, last - block, LOW, SLOTS, PACK, HAS_OFFSET)
        m1, m2, m3, out = _insert(key, m1, m2, m3, out, DEPTH, EVICT)
    elif SPLIT == 2:
        m1, m2, m3, out = _insert_two(
            s, last - 2 * block, LOW, m1, m2, m3, out, BM, SLOTS, DEPTH, EVICT, PACK, HAS_OFFSET
        )
    else:
        left, right = halves(s, BM, 2 * SLOTS)
        m1, m2, m3, out = _insert_two(
            left, last - 4 * block, LOW, m1, m2, m3, out, BM, SLOTS, DEPTH, EVICT, PACK, HAS_OFFSET
        )
        m1, m2, m3, out = _insert_two(
            right, last - 4 * block - 2, LOW, m1, m2, m3, out, BM, SLOTS, DEPTH, EVICT, PACK, HAS_OFFSET
        )
    return m1, m2, m3, out


@triton.jit
def halves(s, BM: tl.constexpr, W: tl.constexpr):
    """The left and the right half of (BM, 2 W) columns."""
    return tl.split(tl.permute(tl.reshape(s, [BM, 2, W]), [0, 2, 1]))


@triton.jit
def marked(s, mark, LOW: tl.constexpr, SLOTS: tl.constexpr, PACK: tl.constexpr, SIGNED: tl.constexpr):
    """Scores with their block's number in the low bits, counted from the last, so that ties go to the lowest.

    PACK adds the slot's number, which spares the search for a winner's column; the score keeps 23 bits less those of
    a codeword's number, so it is for scores that have no more to lose. SIGNED turns the marks of negative scores
    around, of which the larger is the one with smaller bits.
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
def _insert(key, m1, m2, m3, out, DEPTH: tl.constexpr, EVICT: tl.constexpr):
    """The lists with one more score each, and the best of what fell out."""
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
def _insert_two(
    s, mark, LOW: tl.constexpr, m1, m2, m3, out,
    BM: tl.constexpr, SLOTS: tl.constexpr, DEPTH: tl.constexpr, EVICT: tl.constexpr, PACK: tl.constexpr,
    SIGNED: tl.constexpr,
):  # fmt: skip
    """The lists with two more scores each; at depth 2 by merging sorted pairs, eight operations instead of ten."""
    a, b = halves(s, BM, SLOTS)
    a = marked(a, mark, LOW, SLOTS, PACK, SIGNED)
    b = marked(b, mark - 1, LOW, SLOTS, PACK, SIGNED)
    if DEPTH == 2:
        high = tl.maximum(a, b)
        second = tl.minimum(m1, high)
        third = tl.maximum(m2, tl.minimum(a, b))
        m1 = tl.maximum(m1, high)
        m2 = tl.maximum(second, third)
        if EVICT:
            out = tl.maximum(out, tl.max(tl.minimum(second, third), 1))
    else:
        m1, m2, m3, out = _insert(a, m1, m2, m3, out, DEPTH, EVICT)
        m1, m2, m3, out = _insert(b, m1, m2, m3, out, DEPTH, EVICT)
    return m1, m2, m3, out


@triton.jit
def draw(
    m1, m2, m3, slot, K, blocks, LOW: tl.constexpr,
    BM: tl.constexpr, SLOTS: tl.constexpr, SPLIT: tl.constexpr, DEPTH: tl.constexpr, ROUNDS: tl.constexpr,
    KP: tl.constexpr, PACK: tl.constexpr, SIGNED: tl.constexpr,
):  # fmt: skip
    """The best ROUNDS of the lists: scores and codeword numbers, (BM, KP) each, best first; and the last one's key."""
    rank = tl.arange(0, KP)[None, :]
    values = tl.full([BM, KP], WORST, tl.float32)
    indices = tl.zeros([BM, KP], tl.int32)
    last = blocks * SPLIT * SLOTS - 1
    low: tl.constexpr = LOW * SLOTS + SLOTS - 1 if PACK else LOW
    key = tl.full([BM], WORST, tl.float32)
    for r in tl.static_range(ROUNDS):
        key = tl.max(m1, 1)
        hit = m1 == key[:, None]
        bits = key.to(tl.int32, bitcast=True)
        mark = bits & low
        if SIGNED:
            mark = mark ^ ((bits >> 31) & low)
        if PACK:
            found = last - mark
        else:
            column = tl.min(tl.where(hit, slot[None, :], SLOTS), 1)
            hit = slot[None, :] == column[:, None]
            found = (blocks * SPLIT - 1 - mark) * SLOTS + column
        if DEPTH == 1:  # noqa: SIM108
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
    return values, indices, key
