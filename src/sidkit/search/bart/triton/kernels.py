# mypy: ignore-errors
"""Attention of short packed sequences: a program for each sequence and head, all of it in registers.

A library's attention works in tiles of 128 queries by 128 keys. Titles and queries have 10 to 60 tokens and a SID has
4, so most of such a tile is padding; here a tile has the size of the sequences.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["add_norm_backward_kernel", "add_norm_kernel", "backward_kernel", "forward_kernel", "gelu_backward_kernel"]


@triton.jit
def _scores(q, k, q_real, k_real, scale, CAUSAL: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    """q: (BQ, D), k: (BK, D) -> scaled scores (BQ, BK), -inf where a query may not look."""
    s = tl.dot(q, tl.trans(k)) * scale
    seen = q_real[:, None] & k_real[None, :]
    if CAUSAL:
        seen = seen & (tl.arange(0, BQ)[:, None] >= tl.arange(0, BK)[None, :])
    return tl.where(seen, s, float("-inf"))


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, q_starts, k_starts, q_row, k_row, o_row, scale,
    CAUSAL: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, ABOVE: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """o = softmax(q k' scale) v for one sequence and head.

    q: (Tq, H, D), k, v: (Tk, H, D), o: (Tq, H, D), rows q_row, k_row (of k and v), o_row numbers apart, heads D apart;
    q_starts, k_starts: (S + 1,). The grid is (S, H). A launch serves the sequences of more than ABOVE and at most BK
    keys, which have at most BQ queries; the others are for launches with other tiles.
    """
    sequence, head = tl.program_id(0), tl.program_id(1)
    q_first, k_first = tl.load(q_starts + sequence), tl.load(k_starts + sequence)
    nq, nk = tl.load(q_starts + sequence + 1) - q_first, tl.load(k_starts + sequence + 1) - k_first
    if nk <= ABOVE or nk > BK:
        return
    i, j, c = tl.arange(0, BQ), tl.arange(0, BK), tl.arange(0, D)
    q_real, k_real = i < nq, j < nk
    q_at = (q_first + i).to(tl.int64)[:, None] * q_row + head * D + c[None, :]
    k_at = (k_first + j).to(tl.int64)[:, None] * k_row + head * D + c[None, :]
    q = tl.load(q_ptr + q_at, mask=q_real[:, None], other=0.0)
    k = tl.load(k_ptr + k_at, mask=k_real[:, None], other=0.0)
    v = tl.load(v_ptr + k_at, mask=k_real[:, None], other=0.0)
    s = _scores(q, k, q_real, k_real, scale, CAUSAL, BQ, BK)
    top = tl.max(s, 1)
    p = tl.exp(s - tl.where(top == float("-inf"), 0.0, top)[:, None])
    total = tl.sum(p, 1)
    p = p / tl.where(total == 0.0, 1.0, total)[:, None]
    o = tl.dot(p.to(v.dtype), v)
    o_at = (q_first + i).to(tl.int64)[:, None] * o_row + head * D + c[None, :]
    tl.store(o_ptr + o_at, o.to(o_ptr.dtype.element_ty), mask=q_real[:, None])


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, q_starts, k_starts, q_row, k_row, o_row, dq_row, dk_row, scale,
    CAUSAL: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, ABOVE: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The gradients of q, k and v from that of o, for one sequence and head; the probabilities are computed again.

    As `forward_kernel`; do: (Tq, H, D) with rows o_row apart, dq with rows dq_row and dk, dv with rows dk_row apart.
    """
    sequence, head = tl.program_id(0), tl.program_id(1)
    q_first, k_first = tl.load(q_starts + sequence), tl.load(k_starts + sequence)
    nq, nk = tl.load(q_starts + sequence + 1) - q_first, tl.load(k_starts + sequence + 1) - k_first
    if nk <= ABOVE or nk > BK:
        return
    i, j, c = tl.arange(0, BQ), tl.arange(0, BK), tl.arange(0, D)
    q_real, k_real = i < nq, j < nk
    q_line, k_line = (q_first + i).to(tl.int64)[:, None], (k_first + j).to(tl.int64)[:, None]
    column = head * D + c[None, :]
    q = tl.load(q_ptr + q_line * q_row + column, mask=q_real[:, None], other=0.0)
    k = tl.load(k_ptr + k_line * k_row + column, mask=k_real[:, None], other=0.0)
    v = tl.load(v_ptr + k_line * k_row + column, mask=k_real[:, None], other=0.0)
    do = tl.load(do_ptr + q_line * o_row + column, mask=q_real[:, None], other=0.0)
    s = _scores(q, k, q_real, k_real, scale, CAUSAL, BQ, BK)
    top = tl.max(s, 1)
    p = tl.exp(s - tl.where(top == float("-inf"), 0.0, top)[:, None])
    total = tl.sum(p, 1)
    p = p / tl.where(total == 0.0, 1.0, total)[:, None]
    dv = tl.dot(tl.trans(p.to(do.dtype)), do)
    tl.store(dv_ptr + k_line * dk_row + column, dv.to(dv_ptr.dtype.element_ty), mask=k_real[:, None])
    dp = tl.dot(do, tl.trans(v))
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)
    dq = tl.dot(ds, k)
    tl.store(dq_ptr + q_line * dq_row + column, dq.to(dq_ptr.dtype.element_ty), mask=q_real[:, None])
    dk = tl.dot(tl.trans(ds), q)
    tl.store(dk_ptr + k_line * dk_row + column, dk.to(dk_ptr.dtype.element_ty), mask=k_real[:, None])


@triton.jit
def _kept(seed_ptr, site, line, column, least):
    """Which elements dropout keeps: those whose hash of seed, site, line and column is not below `least`.

    seed: one integer; line: (BM,), column: (W,) -> (BM, W)
    """
    seed = (tl.load(seed_ptr).to(tl.uint32) + site.to(tl.uint32) * 0x27D4EB2F) * 0x165667B1
    seed = (seed ^ (seed >> 15)) * 0x9E3779B1
    key = line.to(tl.uint32)[:, None] * 0x9E3779B1 + column.to(tl.uint32)[None, :] * 0x85EBCA77 + seed
    key = (key ^ (key >> 16)) * 0x85EBCA6B
    key = (key ^ (key >> 13)) * 0xC2B2AE35
    return (key ^ (key >> 16)) >= least.to(tl.uint32)


@triton.jit(do_not_specialize=["site", "least", "n"])
def add_norm_kernel(
    x_ptr, z_ptr, bias_ptr, gamma_ptr, beta_ptr, r_ptr, y_ptr, seed_ptr, n, d, site, least, gain, epsilon,
    ROWS: tl.constexpr, W: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """r = x + dropout(z + bias), y = layer_norm(r) for ROWS rows.

    x, z, r, y: (n, d) with d <= W; bias, gamma, beta: (d,). least: dropout * 2^32, gain: 1 / (1 - dropout); the seed is
    read where DROP.
    """
    line, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, W)
    real = (line < n)[:, None] & (column < d)[None, :]
    at = line.to(tl.int64)[:, None] * d + column[None, :]
    inside = column < d
    bias = tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)
    gamma = tl.load(gamma_ptr + column, mask=inside, other=0.0).to(tl.float32)
    beta = tl.load(beta_ptr + column, mask=inside, other=0.0).to(tl.float32)
    z = tl.load(z_ptr + at, mask=real, other=0.0).to(tl.float32) + bias[None, :]
    if DROP:
        z = tl.where(_kept(seed_ptr, site, line, column, least), z * gain, 0.0)
    r = tl.load(x_ptr + at, mask=real, other=0.0).to(tl.float32) + z
    r = r.to(r_ptr.dtype.element_ty)
    tl.store(r_ptr + at, r, mask=real)
    r = tl.where(real, r.to(tl.float32), 0.0)
    centred = tl.where(real, r - (tl.sum(r, 1) / d)[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 1) / d + epsilon)
    y = centred * scale[:, None] * gamma[None, :] + beta[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["site", "least", "n"])
def add_norm_backward_kernel(
    dy_ptr, r_ptr, gamma_ptr, dx_ptr, dz_ptr, sums_ptr, seed_ptr, n, d, site, least, gain, epsilon,
    ROWS: tl.constexpr, W: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """The gradients of `add_norm_kernel`: dx, dz (n, d), and this program's share of those of gamma, beta and bias.

    dy, r: (n, d); sums: (programs, 3, W) float32. A program takes every `programs`-th block of ROWS rows.
    """
    program, programs, column = tl.program_id(0), tl.num_programs(0), tl.arange(0, W)
    inside = column < d
    gamma = tl.load(gamma_ptr + column, mask=inside, other=0.0).to(tl.float32)
    for_gamma = tl.zeros((W,), tl.float32)
    for_beta = tl.zeros((W,), tl.float32)
    for_bias = tl.zeros((W,), tl.float32)
    for block in range(program, tl.cdiv(n, ROWS), programs):
        line = block * ROWS + tl.arange(0, ROWS)
        real = (line < n)[:, None] & inside[None, :]
        at = line.to(tl.int64)[:, None] * d + column[None, :]
        r = tl.load(r_ptr + at, mask=real, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=real, other=0.0).to(tl.float32)
        centred = tl.where(real, r - (tl.sum(r, 1) / d)[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, 1) / d + epsilon)[:, None]
        normed = centred * scale
        for_gamma += tl.sum(dy * normed, 0)
        for_beta += tl.sum(dy, 0)
        g = dy * gamma[None, :]
        dr = (g - (tl.sum(g, 1) / d)[:, None] - normed * (tl.sum(g * normed, 1) / d)[:, None]) * scale
        tl.store(dx_ptr + at, dr.to(dx_ptr.dtype.element_ty), mask=real)
        dz = tl.where(real, dr, 0.0)
        if DROP:
            dz = tl.where(_kept(seed_ptr, site, line, column, least), dz * gain, 0.0)
        for_bias += tl.sum(dz, 0)
        tl.store(dz_ptr + at, dz.to(dz_ptr.dtype.element_ty), mask=real)
    at = sums_ptr + program * 3 * W + column
    tl.store(at, for_gamma)
    tl.store(at + W, for_beta)
    tl.store(at + 2 * W, for_bias)


@triton.jit(do_not_specialize=["n"])
def gelu_backward_kernel(dg_ptr, h_ptr, dh_ptr, sums_ptr, n, d, ROWS: tl.constexpr, W: tl.constexpr):
    """dh = dg gelu'(h), and this program's share of the sum of its rows.

    dg, h, dh: (n, d); sums: (programs, d) float32. The grid is (programs, d / W).
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * W + tl.arange(0, W)
    inside, total = column < d, tl.zeros((W,), tl.float32)
    for block in range(program, tl.cdiv(n, ROWS), programs):
        line = block * ROWS + tl.arange(0, ROWS)
        real = (line < n)[:, None] & inside[None, :]
        at = line.to(tl.int64)[:, None] * d + column[None, :]
        h = tl.load(h_ptr + at, mask=real, other=0.0).to(tl.float32)
        dg = tl.load(dg_ptr + at, mask=real, other=0.0).to(tl.float32)
        below = 0.5 * (1.0 + tl.erf(h * 0.7071067811865476))
        dh = dg * (below + h * 0.3989422804014327 * tl.exp(-0.5 * h * h))
        total += tl.sum(dh, 0)
        tl.store(dh_ptr + at, dh.to(dh_ptr.dtype.element_ty), mask=real)
    tl.store(sums_ptr + program * d + column, total, mask=inside)
