"""Triton: attention within packed rows, forward and backward; t5_blocks.py launches these kernels.

A name such as x_ is a pointer, x is what it points to. Shapes: R runs, A queries and B keys of a row, H heads of width
E. AP and BP are A and B as powers of two; FULL: they are equal to A and B, so nothing is masked.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .functions import keep_mask

__all__ = ["attend", "grad_attend"]

FORBIDDEN = tl.constexpr(-1e9)
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _load(at, inside, other, FULL: tl.constexpr):
    """Load a tile of pointers (A, B), masked by `inside` (A, B) unless it is full."""
    if FULL:
        return tl.load(at)
    return tl.load(at, mask=inside, other=other)


@triton.jit
def _store(at, value, inside, FULL: tl.constexpr):
    """Store a tile of values (A, B) at pointers (A, B), masked by `inside` (A, B) unless it is full."""
    if FULL:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=inside)


@triton.jit
def _shares(q, k, bias_, mine_, owner_, a, b, A, B, BIAS: tl.constexpr, FULL: tl.constexpr):
    """softmax(q k + bias) over the keys that each query sees.

    q: (AP, E), k: (BP, E), bias_: (A, B), mine_: (A,), owner_: (B,), a: (AP,), b: (BP,) indices -> (AP, BP)
    """
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


@triton.jit(do_not_specialize=["site", "least"])
def attend(
    q_, k_, v_, bias_, mine_, owner_, out_, seed_, q_run, q_row, q_at, k_run, k_row, k_at, mine_run, owner_run,
    rows, heads, A, B, site, least, gain,
    AP: tl.constexpr, BP: tl.constexpr, E: tl.constexpr, BIAS: tl.constexpr, FULL: tl.constexpr,
    DROP: tl.constexpr,
):  # fmt: skip
    """out = dropout(softmax(q k + bias)) v, a program for each row, head and run.

    q_: (R, rows, A, H, E) by strides q_run, q_row, q_at; k_ and v_: (R, rows, B, H, E) by strides k_run, k_row, k_at;
    bias_: (R, H, A, B); mine_: (rows, A) or (R, rows, A); owner_: (R or 1, rows, B); seed_: (R,);
    out_: (R, rows, A, H, E)
    """
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
    shares = _shares(q, k, bias_, mine_, owner_, a, b, A, B, BIAS, FULL)
    if DROP:
        shares *= tl.where(keep_mask(seed_, run, site, (row * heads + head) * A + a, least, BP), gain, 0.0)
    out = tl.dot(shares.to(v.dtype), v)
    out_ += ((run * rows + row) * A * heads + head) * E
    _store(out_ + (a[:, None] * heads * E + e), out.to(v.dtype), a[:, None] < A, FULL)


@triton.jit(do_not_specialize=["site", "least"])
def grad_attend(
    q_, k_, v_, bias_, mine_, owner_, do_, dq_, dk_, dv_, dbias_, seed_,
    q_run, q_row, q_at, k_run, k_row, k_at, mine_run, owner_run, rows, heads, A, B, site, least, gain,
    AP: tl.constexpr, BP: tl.constexpr, E: tl.constexpr, ROWS: tl.constexpr, BIAS: tl.constexpr, FULL: tl.constexpr,
    DROP: tl.constexpr,
):  # fmt: skip
    """The gradients of attend in q, k, v and bias, a program for each chunk of ROWS rows, head and run.

    Shapes as in attend; do_: (R, rows, A, H, E) the gradient of out; dq_, dk_ and dv_ are laid out as q_, k_ and v_;
    dbias_: (R, H, chunks, A, B), a part per program, to be summed over chunks
    """
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
        shares = _shares(q, k, bias_, mine, owner, a, b, A, B, BIAS, FULL)
        dshares = tl.dot(do, tl.trans(v))
        used = shares
        if DROP:
            factor = tl.where(keep_mask(seed_, run, site, (row * heads + head) * A + a, least, BP), gain, 0.0)
            used = shares * factor
            dshares *= factor
        dv = tl.dot(tl.trans(used.to(v.dtype)), do)
        _store(dv_ + of_k + at_k, dv.to(v.dtype), b[:, None] < B, FULL)
        dscores = shares * (dshares - tl.sum(shares * dshares, 1)[:, None])
        dbias += dscores
        dscores = dscores.to(v.dtype)
        _store(dq_ + of_q + at_q, tl.dot(dscores, k).to(v.dtype), a[:, None] < A, FULL)
        _store(dk_ + of_k + at_k, tl.dot(tl.trans(dscores), q).to(v.dtype), b[:, None] < B, FULL)
    if BIAS:
        part = ((run * heads + head) * tl.num_programs(0) + chunk) * A * B
        _store(dbias_ + part + a[:, None] * B + b, dbias, (a[:, None] < A) & (b[None, :] < B), FULL)
