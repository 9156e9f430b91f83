"""Triton: rows carried through earlier stages in one pass, in registers, and rounded for scoring at the end."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n", "first_row", "code_stride"])  # of lists of rows, as many as there happen to be
def carry_kernel(
    x, table, inverse, codes, out, n, first_row, code_stride,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Rows x (n, D) through STEPS, each (first row in the table, column of codes or -1, keep, normalize):

        r' = r - [keep c + (1 - keep) (r.c / |c|^2) c],   zero if shorter than 1e-6 |r|,   over |r'| if normalize

    A first row of -1 means that nothing is subtracted: the row is only normalized. table: (rows, D), the vectors of all
    steps; inverse: (rows,) float32, 1 / |c|^2, or 0 for a zero vector; codes: (width, N) int32 with a stride of
    code_stride, the column first_row + i for row i of x. out: a RowArgs; with halves, the largest entry of 2^e row lies
    between 2^9 and 2^10.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    dim = tl.arange(0, DP)
    inside = live[:, None] & (dim < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + dim[None, :]
    r = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    r = _steps(r, table, inverse, codes, first_row + rows, live, inside, dim, code_stride, STEPS, D, BM)
    if out.scale is not None:
        length = tl.sqrt_rn(tl.sum(r * r, 1))
        peak = tl.max(tl.abs(r), 1)
        exponent = (peak.to(tl.int32, bitcast=True) >> 23) & 255
        exponent = tl.where(peak > 0, tl.minimum(tl.maximum(127 + 9 + 127 - exponent, 127 - 60), 127 + 60), 127)
        up = (exponent << 23).to(tl.float32, bitcast=True)
        scaled = r * up[:, None]
        high = scaled.to(tl.float16)
        tl.store(out.x + at, high, mask=inside)
        if out.low is not None:
            tl.store(out.low + at, (scaled - high.to(tl.float32)).to(tl.float16), mask=inside)
        tl.store(out.scale + rows, up, mask=live)
        tl.store(out.length + rows, length, mask=live)
    else:
        tl.store(out.x + at, r.to(out.x.dtype.element_ty), mask=inside)


@triton.jit
def column_kernel(
    x, table, inverse, codes, out, n, first_row, code_stride, run,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The sum of `run` tiles of BM rows after the steps: out (programs, D) float64; the rest as for `carry_kernel`."""
    program = tl.program_id(0)
    dim = tl.arange(0, DP)
    total = tl.zeros([BM, DP], tl.float64)
    for tile in range(program * run, tl.minimum(program * run + run, tl.cdiv(n, BM))):
        rows = tile * BM + tl.arange(0, BM)
        live = rows < n
        inside = live[:, None] & (dim < D)[None, :]
        r = tl.load(x + rows.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float32)
        total += _steps(r, table, inverse, codes, first_row + rows, live, inside, dim, code_stride, STEPS, D, BM)
    tl.store(out + program.to(tl.int64) * D + dim, tl.sum(total, 0), mask=dim < D)


@triton.jit
def _steps(
    r, table, inverse, codes, rows, live, inside, dim, code_stride,
    STEPS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """r (BM, DP) after all steps."""
    for i in tl.static_range(len(STEPS)):
        r = _step(
            r, table, inverse, codes, rows, live, inside, dim, code_stride,
            STEPS[i][0], STEPS[i][1], STEPS[i][2], STEPS[i][3], STEPS[i - 1][3] if i > 0 else False, D, BM,
        )  # fmt: skip
    return r


@triton.jit
def _step(
    r, table, inverse, codes, rows, live, inside, dim, code_stride,
    FIRST: tl.constexpr, COLUMN: tl.constexpr, KEEP: tl.constexpr, NORMALIZE: tl.constexpr, UNIT: tl.constexpr,
    D: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """r (BM, DP) after one step; UNIT: the rows come in with length one or zero, which spares a sum."""
    if FIRST < 0:
        size = tl.sum(r * r, 1)
        survives = size > 0
    else:
        index = tl.full([BM], FIRST, tl.int32)
        if COLUMN >= 0:
            index += tl.load(codes + COLUMN * code_stride + rows, mask=live, other=0)
        c = tl.load(table + index.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float32)
        before = tl.full([BM], 1.0, tl.float32)
        if not UNIT:
            before = tl.sum(r * r, 1)
        if KEEP == 1.0:
            r = r - c
        else:
            share = tl.sum(r * c, 1) * tl.load(inverse + index, mask=live, other=0.0)
            r = r - (KEEP + (1.0 - KEEP) * share)[:, None] * c
        size = tl.sum(r * r, 1)
        survives = size > 1e-12 * before
    if NORMALIZE:
        r = r * tl.where(survives, 1.0 / tl.sqrt_rn(size), 0.0)[:, None]
    else:
        r = tl.where(survives[:, None], r, 0.0)
    return r


@triton.jit
def length_kernel(x, row_length, n, D: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    """row_length (n,) float32: |row| of x (n, D)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    live = rows < n
    square = tl.zeros([BM], tl.float32)
    for d in range(0, D, BD):
        dim = d + tl.arange(0, BD)
        inside = live[:, None] & (dim < D)[None, :]
        xt = tl.load(x + rows.to(tl.int64)[:, None] * D + dim[None, :], mask=inside, other=0.0).to(tl.float32)
        square += tl.sum(xt * xt, 1)
    tl.store(row_length + rows, tl.sqrt_rn(square), mask=live)
