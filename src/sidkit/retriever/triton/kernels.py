"""T5's blocks as Triton kernels; fused.py calls them and says what they compute. x_ is a pointer, x what lies there."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from ..network import EPSILON

__all__ = [
    "attend",
    "grad_attend",
    "grad_hidden",
    "grad_norm",
    "kept",
    "layer_norm",
    "matmul_add",
    "norm_matmul",
    "through_norm",
]

FORBIDDEN = tl.constexpr(-1e9)
EPS = tl.constexpr(EPSILON)
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def layer_norm(x, scale, D: tl.constexpr):
    """T5's layer norm of rows (BM, D)."""
    return x * tl.rsqrt(tl.sum(x * x, 1) / D + EPS)[:, None] * scale[None, :]


@triton.jit
def through_norm(dy, x, scale, D: tl.constexpr):
    """The gradients of layer_norm in x, (BM, D), and in scale, (D,)."""
    root = tl.rsqrt(tl.sum(x * x, 1) / D + EPS)[:, None]
    x = x * root
    dscale = tl.sum(dy * x, 0)
    dy = dy * scale[None, :]
    return root * (dy - x * (tl.sum(dy * x, 1) / D)[:, None]), dscale


@triton.jit
def _product(h_, w_, row, n, m, w_k, w_d, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """Rows of h (n, m) times w (m, D), whose element (k, d) lies at k w_k + d w_d."""
    d, total = tl.arange(0, D), tl.zeros((BM, D), tl.float32)
    for start in range(0, m, BK):
        k = start + tl.arange(0, BK)
        h = tl.load(h_ + (row[:, None] * m + k), mask=row[:, None] < n, other=0.0)
        total = tl.dot(h, tl.load(w_ + (k[:, None] * w_k + d[None, :] * w_d)), total)
    return total


@triton.jit
def kept(seed_, run, place, line, least, W: tl.constexpr):
    """Which elements of lines of W stay: those whose hash of seed, place, line and column is not below `least`.

    One hash serves two neighbours: all of its bits for the first, its lower half for the second.
    """
    index = line[:, None] * (W // 2) + tl.arange(0, W // 2)[None, :]
    key = index.to(tl.uint32) * 0x9E3779B1 + (tl.load(seed_ + run).to(tl.uint32) ^ (place.to(tl.uint32) * 0x85EBCA77))
    key = (key ^ (key >> 16)) * 0x85EBCA6B
    key = (key ^ (key >> 13)) * 0xC2B2AE35
    return tl.reshape(tl.join(key, key << 16), (line.shape[0], W)) >= least.to(tl.uint32)


@triton.jit(do_not_specialize=["turns", "place", "least"])
def norm_matmul(
    x_, scale_, w_, y_, kept_, seed_, n, m, scale_run, w_run, turns, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    RELU: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at = row[:, None] * D + d
    x = tl.load(x_ + run * n * D + at, mask=row[:, None] < n, other=0.0)
    scale = tl.load(scale_ + run * scale_run + d)
    normed = layer_norm(x, scale, D).to(w_.dtype.element_ty)
    if KEEP:
        tl.store(kept_ + run * n * D + at, normed, mask=(row[:, None] < n) & (tl.program_id(1) == 0))
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
            y = tl.where(kept(seed_, run, place, line, least, BN), y * gain, 0.0)
        tl.store(y_ + to, y.to(w_.dtype.element_ty), mask=(row[:, None] < n) & (c[None, :] < m))


@triton.jit(do_not_specialize=["place", "least"])
def matmul_add(
    x_, h_, w_, y_, seed_, n, m, w_run, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    total = _product(h_ + run * n * m, w_ + run * w_run, row, n, m, D, 1, D, BM, BK)
    at, inside = row[:, None] * D + d, row[:, None] < n
    if DROP:
        total *= tl.where(kept(seed_, run, place, row, least, D), gain, 0.0)
    tl.store(y_ + run * n * D + at, tl.load(x_ + run * n * D + at, mask=inside, other=0.0) + total, mask=inside)


@triton.jit(do_not_specialize=["turns", "place", "least"])
def grad_hidden(
    dy_, w_, h_, dh_, kept_, seed_, n, m, w_run, turns, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """The gradient of matmul_add in h; through relu and dropout as well where h is their result."""
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at = row[:, None] * D + d
    dy = tl.load(dy_ + run * n * D + at, mask=row[:, None] < n, other=0.0)
    if DROP:
        dy *= tl.where(kept(seed_, run, place, row, least, D), gain, 0.0)
    dropped = dy.to(w_.dtype.element_ty)
    tl.store(kept_ + run * n * D + at, dropped, mask=(row[:, None] < n) & (tl.program_id(1) == 0))
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
    """dx = dy + the gradient of norm_matmul in x, where g is that of its result; dscale is added to what is there."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    total = _product(g_ + run * n * m, w_ + run * w_run, row, n, m, 1, m, D, BM, BK)
    at, inside = row[:, None] * D + d, row[:, None] < n
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    dx, dscale = through_norm(total, x, tl.load(scale_ + run * scale_run + d), D)
    tl.atomic_add(dscale_ + run * D + d, dscale, sem="relaxed")
    tl.store(dx_ + run * n * D + at, tl.load(dy_ + run * n * D + at, mask=inside, other=0.0) + dx, mask=inside)


@triton.jit
def _load(at, inside, other, FULL: tl.constexpr):
    if FULL:
        return tl.load(at)
    return tl.load(at, mask=inside, other=other)


@triton.jit
def _store(at, value, inside, FULL: tl.constexpr):
    if FULL:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=inside)


@triton.jit
def _chances(q, k, bias_, mine_, owner_, a, b, A, B, BIAS: tl.constexpr, FULL: tl.constexpr):
    """softmax(q k + bias) over the tokens that each may see: (AP, BP). FULL: there are as many, AP = A and BP = B."""
    scores = tl.dot(q, tl.trans(k))
    if BIAS:
        scores += _load(bias_ + a[:, None] * B + b, (a[:, None] < A) & (b[None, :] < B), 0.0, FULL)
    mine = _load(mine_ + a, a < A, -2, FULL).to(tl.int32)
    owner = _load(owner_ + b, b < B, -3, FULL).to(tl.int32)
    scores = tl.where(mine[:, None] == owner[None, :], scores, FORBIDDEN)
    if not FULL:
        scores = tl.where(b[None, :] < B, scores, -float("inf"))
    scores = tl.exp2(scores * LOG2_E - (tl.max(scores, 1) * LOG2_E)[:, None])
    return scores * (1 / tl.sum(scores, 1))[:, None]


@triton.jit(do_not_specialize=["place", "least"])
def attend(
    q_, k_, v_, bias_, mine_, owner_, out_, seed_, q_run, q_row, q_at, k_run, k_row, k_at, mine_run, owner_run,
    rows, heads, A, B, place, least, gain,
    AP: tl.constexpr, BP: tl.constexpr, E: tl.constexpr, BIAS: tl.constexpr, FULL: tl.constexpr,
    DROP: tl.constexpr,
):  # fmt: skip
    row, head, run = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    a, b, e = tl.arange(0, AP), tl.arange(0, BP), tl.arange(0, E)
    at_k = b[:, None] * k_at + e
    of_k = run * k_run + row * k_row + head * E
    q = _load(q_ + run * q_run + row * q_row + head * E + (a[:, None] * q_at + e), a[:, None] < A, 0.0, FULL)
    k = _load(k_ + of_k + at_k, b[:, None] < B, 0.0, FULL)
    v = _load(v_ + of_k + at_k, b[:, None] < B, 0.0, FULL)
    bias_ += (run * heads + head) * A * B
    mine_ += run * mine_run + row * A
    owner_ += run * owner_run + row * B
    chances = _chances(q, k, bias_, mine_, owner_, a, b, A, B, BIAS, FULL)
    if DROP:
        chances *= tl.where(kept(seed_, run, place, (row * heads + head) * A + a, least, BP), gain, 0.0)
    out = tl.dot(chances.to(v.dtype), v)
    out_ += ((run * rows + row) * A * heads + head) * E
    _store(out_ + (a[:, None] * heads * E + e), out.to(v.dtype), a[:, None] < A, FULL)


@triton.jit(do_not_specialize=["place", "least"])
def grad_attend(
    q_, k_, v_, bias_, mine_, owner_, do_, dq_, dk_, dv_, dbias_, seed_,
    q_run, q_row, q_at, k_run, k_row, k_at, mine_run, owner_run, rows, heads, A, B, place, least, gain,
    AP: tl.constexpr, BP: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, BIAS: tl.constexpr, FULL: tl.constexpr,
    DROP: tl.constexpr,
):  # fmt: skip
    """The gradients of q, k and v, which have their layouts, and of bias, in parts: one per program."""
    chunk, head, run = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    a, b, e = tl.arange(0, AP), tl.arange(0, BP), tl.arange(0, E)
    dbias = tl.zeros((AP, BP), tl.float32)
    bias_ += (run * heads + head) * A * B
    at_q, at_k = a[:, None] * q_at + e, b[:, None] * k_at + e
    for row in range(chunk * ROWS, min(chunk * ROWS + ROWS, rows)):
        of_q = run * q_run + row * q_row + head * E
        of_k = run * k_run + row * k_row + head * E
        of_out = ((run * rows + row) * A * heads + head) * E
        q = _load(q_ + of_q + at_q, a[:, None] < A, 0.0, FULL)
        k = _load(k_ + of_k + at_k, b[:, None] < B, 0.0, FULL)
        v = _load(v_ + of_k + at_k, b[:, None] < B, 0.0, FULL)
        do = _load(do_ + of_out + (a[:, None] * heads * E + e), a[:, None] < A, 0.0, FULL)
        mine, owner = mine_ + run * mine_run + row * A, owner_ + run * owner_run + row * B
        chances = _chances(q, k, bias_, mine, owner, a, b, A, B, BIAS, FULL)
        dchances = tl.dot(do, tl.trans(v))
        used = chances
        if DROP:
            factor = tl.where(kept(seed_, run, place, (row * heads + head) * A + a, least, BP), gain, 0.0)
            used = chances * factor
            dchances *= factor
        dv = tl.dot(tl.trans(used.to(v.dtype)), do)
        _store(dv_ + of_k + at_k, dv.to(v.dtype), b[:, None] < B, FULL)
        dscores = chances * (dchances - tl.sum(chances * dchances, 1)[:, None])
        dbias += dscores
        dscores = dscores.to(v.dtype)
        _store(dq_ + of_q + at_q, tl.dot(dscores, k).to(v.dtype), a[:, None] < A, FULL)
        _store(dk_ + of_k + at_k, tl.dot(tl.trans(dscores), q).to(v.dtype), b[:, None] < B, FULL)
    if BIAS:
        part = ((run * heads + head) * tl.num_programs(0) + chunk) * A * B
        _store(dbias_ + part + a[:, None] * B + b, dbias, (a[:, None] < A) & (b[None, :] < B), FULL)
