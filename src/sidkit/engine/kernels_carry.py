"""Triton: rows carried through the stages so far in one pass, in registers, and rounded for scoring on the way out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def carry_kernel(
    x, table, codes, out, out_low, row_scale, row_length, n, first_row, code_stride,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, STEPS: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Rows (n, D) through STEPS, each (first row of its table, column of codes or -1, keep, normalize):

        r' = r - [keep c + (1 - keep) (r.c / |c|^2) c],   nothing if shorter than 1e-6 |r|,   over |r'| if asked

    A first row of -1 stands for no table: the row is only normalized. SPLIT writes each row as two float16 halves,
    2^e x = out + out_low, with 2^e |x| between 2^9 and 2^10 in its largest entry, and keeps 2^e and |x|.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    dim = tl.arange(0, DP)
    inside = live[:, None] & (dim < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + dim[None, :]
    r = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    for i in tl.static_range(len(STEPS)):
        first: tl.constexpr = STEPS[i][0]
        column: tl.constexpr = STEPS[i][1]
        keep: tl.constexpr = STEPS[i][2]
        if first >= 0:
            number = tl.full([BM], first, tl.int64)
            if column >= 0:
                number += tl.load(codes + column * code_stride + first_row + rows, mask=live, other=0)
            c = tl.load(table + number[:, None] * D + dim[None, :], mask=inside, other=0.0)
            if keep == 1.0:
                left = r - c
            else:
                square = tl.sum(c * c, 1)
                share = tl.sum(r * c, 1) / (square + (square == 0).to(tl.float32))
                left = r - (keep + (1.0 - keep) * share)[:, None] * c
            size = tl.sum(left * left, 1)
            survives = size > 1e-12 * tl.sum(r * r, 1)
            r = tl.where(survives[:, None], left, 0.0)
        if STEPS[i][3]:
            length = tl.sqrt_rn(tl.sum(r * r, 1))
            r = r / (length + (length == 0).to(tl.float32))[:, None]
    if SPLIT:
        length = tl.sqrt_rn(tl.sum(r * r, 1))
        peak = tl.max(tl.abs(r), 1)
        exponent = (peak.to(tl.int32, bitcast=True) >> 23) & 255
        exponent = tl.minimum(tl.maximum(127 + 9 + 127 - exponent, 1), 254)
        up = (exponent << 23).to(tl.float32, bitcast=True)
        scaled = r * up[:, None]
        high = scaled.to(tl.float16)
        tl.store(out + at, high, mask=inside)
        tl.store(out_low + at, (scaled - high.to(tl.float32)).to(tl.float16), mask=inside)
        tl.store(row_scale + rows, up, mask=live)
        tl.store(row_length + rows, length, mask=live)
    else:
        tl.store(out + at, r.to(out.dtype.element_ty), mask=inside)


@triton.jit
def length_kernel(x, row_length, n, D: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    """|x| of every row."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    square = tl.zeros([BM], tl.float32)
    for d in range(0, D, BD):
        dim = d + tl.arange(0, BD)
        inside = live[:, None] & (dim < D)[None, :]
        xt = tl.load(x + rows.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float32)
        square += tl.sum(xt * xt, 1)
    tl.store(row_length + rows, tl.sqrt_rn(square), mask=live)
