"""Triton: matrix products joined with T5's layer norm, relu, dropout and the residual, forward and backward;
t5_blocks.py launches these kernels.

A name such as x_ is a pointer, x is what it points to. Shapes: R runs, n rows of width D, matrices of m columns or
rows. A program takes BM rows of one run; x_run is the stride of x_ from run to run.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .functions import keep_mask, layer_norm, layer_norm_gradient

__all__ = ["grad_hidden", "grad_norm", "matmul_add", "norm_matmul"]


@triton.jit
def _product(h_, w_, row, n, m, w_k, w_d, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """Rows of h times w. h_: (n, m), w_: (m, D), whose element (k, d) is at k w_k + d w_d; row: (BM,) -> (BM, D)."""
    d, total = tl.arange(0, D), tl.zeros((BM, D), tl.float32)
    for start in range(0, m, BK):
        k = start + tl.arange(0, BK)
        h = tl.load(h_ + (row[:, None] * m + k), mask=row[:, None] < n, other=0.0)
        total = tl.dot(h, tl.load(w_ + (k[:, None] * w_k + d[None, :] * w_d)), total)
    return total


@triton.jit(do_not_specialize=["turns", "site", "least"])
def norm_matmul(
    x_, scale_, w_, y_, normed_, seed_, n, m, scale_run, w_run, turns, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    RELU: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """y = norm(x) w, or dropout(relu(norm(x) w)); KEEP: norm(x) is written too, for the gradient.

    x_: (R, n, D) float32, scale_: (R, D), w_: (R, D, m), seed_: (R,) -> y_: (R, n, m), normed_: (R, n, D). A program
    computes `turns` blocks of BN columns.
    """
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at = row[:, None] * D + d
    x = tl.load(x_ + run * n * D + at, mask=row[:, None] < n, other=0.0)
    scale = tl.load(scale_ + run * scale_run + d)
    normed = layer_norm(x, scale, D).to(w_.dtype.element_ty)
    if KEEP:
        tl.store(normed_ + run * n * D + at, normed, mask=(row[:, None] < n) & (tl.program_id(1) == 0))
    w_ += run * w_run
    y_ += run * n * m
    for turn in range(turns):
        c = (tl.program_id(1) * turns + turn) * BN + tl.arange(0, BN)
        w = tl.load(w_ + d[:, None] * m + c, mask=c[None, :] < m, other=0.0)
        y = tl.dot(normed, w)
        if RELU:
            y = tl.maximum(y, 0.0)
        to = row[:, None] * m + c
        if DROP:
            line = row * tl.cdiv(m, BN) + tl.program_id(1) * turns + turn
            y = tl.where(keep_mask(seed_, run, site, line, least, BN), y * gain, 0.0)
        tl.store(y_ + to, y.to(w_.dtype.element_ty), mask=(row[:, None] < n) & (c[None, :] < m))


@triton.jit(do_not_specialize=["site", "least"])
def matmul_add(
    x_, h_, w_, y_, seed_, n, m, w_run, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """y = x + dropout(h w). x_: (R, n, D) float32, h_: (R, n, m), w_: (R, m, D), seed_: (R,) -> y_: (R, n, D)."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    total = _product(h_ + run * n * m, w_ + run * w_run, row, n, m, D, 1, D, BM, BK)
    at, inside = row[:, None] * D + d, row[:, None] < n
    if DROP:
        total *= tl.where(keep_mask(seed_, run, site, row, least, D), gain, 0.0)
    tl.store(y_ + run * n * D + at, tl.load(x_ + run * n * D + at, mask=inside, other=0.0) + total, mask=inside)


@triton.jit(do_not_specialize=["turns", "site", "least"])
def grad_hidden(
    dy_, w_, h_, dh_, dropped_, seed_, n, m, w_run, turns, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """The gradient of matmul_add in h; RELU: through the relu and dropout of norm_matmul as well, whose result h is.

    dy_: (R, n, D) float32, w_: (R, m, D), h_: (R, n, m), seed_: (R,) -> dh_: (R, n, m), dropped_: (R, n, D) dy through
    dropout. A program computes `turns` blocks of BN columns.
    """
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at = row[:, None] * D + d
    dy = tl.load(dy_ + run * n * D + at, mask=row[:, None] < n, other=0.0)
    if DROP:
        dy *= tl.where(keep_mask(seed_, run, site, row, least, D), gain, 0.0)
    dropped = dy.to(w_.dtype.element_ty)
    tl.store(dropped_ + run * n * D + at, dropped, mask=(row[:, None] < n) & (tl.program_id(1) == 0))
    w_ += run * w_run
    h_ += run * n * m
    dh_ += run * n * m
    for turn in range(turns):
        c = (tl.program_id(1) * turns + turn) * BN + tl.arange(0, BN)
        w = tl.load(w_ + c[None, :] * D + d[:, None], mask=c[None, :] < m, other=0.0)
        dh = tl.dot(dropped, w)
        to, inside = row[:, None] * m + c, (row[:, None] < n) & (c[None, :] < m)
        if RELU:
            dh *= tl.where(tl.load(h_ + to, mask=inside, other=0.0).to(tl.float32) > 0, gain, 0.0)
        tl.store(dh_ + to, dh.to(w_.dtype.element_ty), mask=inside)


@triton.jit
def grad_norm(
    x_, scale_, g_, w_, dy_, dx_, dscale_, n, m, scale_run, w_run,
    D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dx = dy + the gradient of norm_matmul in x, and its gradient in scale, added to dscale.

    x_, dy_: (R, n, D) float32, scale_: (R, D), g_: (R, n, m) the gradient of norm_matmul's result, w_: (R, D, m)
    -> dx_: (R, n, D), dscale_: (R, D)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    total = _product(g_ + run * n * m, w_ + run * w_run, row, n, m, 1, m, D, BM, BK)
    at, inside = row[:, None] * D + d, row[:, None] < n
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    dx, dscale = layer_norm_gradient(total, x, tl.load(scale_ + run * scale_run + d), D)
    tl.atomic_add(dscale_ + run * D + d, dscale, sem="relaxed")
    tl.store(dx_ + run * n * D + at, tl.load(dy_ + run * n * D + at, mask=inside, other=0.0) + dx, mask=inside)
