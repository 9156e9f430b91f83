"""Triton: the decoder's blocks while beams are searched; fused_decode.py calls them. x_ points to where x lies."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .kernels import layer_norm


@triton.jit
def _product(q, past_, at, there):
    """Of queries (BM, E) and the keys of the rows they descend from."""
    k = tl.load(past_ + at, mask=there, other=0.0).to(tl.float32)
    return tl.sum(q * k, 1)


@triton.jit
def _share(chance, past_, at, there, width):
    """What the values of the rows that they descend from contribute; values lie behind the keys."""
    return chance[:, None] * tl.load(past_ + at + width, mask=there, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["rows", "rows_0", "rows_1", "rows_2"])
def self_block(
    x_, scale_, qkv_, o_, bias_, past0_, past1_, past2_, origin1_, origin2_, out_, kept_,
    rows, rows_0, rows_1, rows_2, scale_run, qkv_run, o_run,
    T: tl.constexpr, LEVELS: tl.constexpr, BEAMS: tl.constexpr, H: tl.constexpr, E: tl.constexpr, D: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    """x + attention(norm(x) qkv) o for beams (rows, D), each of which sees itself and the T - 1 tokens before it.

    The keys and values of the first token lie with the user, rows_0 of them; those of the next two where origin says.
    Each row of the past holds H keys and H values of E numbers; those of this token are kept unless it is the last.
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    there, row = (row < rows)[:, None], row.to(tl.int64)
    here = (run * rows + row)[:, None]
    total = tl.load(x_ + here * D + d[None, :], mask=there, other=0.0)
    dtype = qkv_.dtype.element_ty
    normed = layer_norm(total, tl.load(scale_ + run * scale_run + d), D).to(dtype)
    qkv_ += run * qkv_run
    o_ += run * o_run
    bias_ += (run * H * LEVELS + T - 1) * LEVELS
    width: tl.constexpr = 2 * H * E
    if T > 1:
        at0 = (run * rows_0 + row // BEAMS)[:, None] * width
    if T > 2:
        at1 = (run * rows_1 + tl.load(origin1_ + run * rows + row, mask=row < rows, other=0))[:, None] * width
    if T > 3:
        at2 = (run * rows_2 + tl.load(origin2_ + run * rows + row, mask=row < rows, other=0))[:, None] * width
    for head in range(H):
        e = head * E + tl.arange(0, E)
        matrix = qkv_ + d[:, None] * (3 * H * E) + e[None, :]
        q = tl.dot(normed, tl.load(matrix)).to(dtype)
        k = tl.dot(normed, tl.load(matrix + H * E)).to(dtype)
        v = tl.dot(normed, tl.load(matrix + 2 * H * E)).to(dtype)
        if T < LEVELS:
            tl.store(kept_ + here * width + e[None, :], k, mask=there)
            tl.store(kept_ + here * width + H * E + e[None, :], v, mask=there)
        if T > 1:
            q, bias = q.to(tl.float32), bias_ + head * LEVELS * LEVELS
            s = tl.sum(q * k.to(tl.float32), 1) + tl.load(bias + T - 1)
            s0 = _product(q, past0_, at0 + e[None, :], there) + tl.load(bias)
            top = tl.maximum(s, s0)
            if T > 2:
                s1 = _product(q, past1_, at1 + e[None, :], there) + tl.load(bias + 1)
                top = tl.maximum(top, s1)
            if T > 3:
                s2 = _product(q, past2_, at2 + e[None, :], there) + tl.load(bias + 2)
                top = tl.maximum(top, s2)
            chance, chance0 = tl.exp(s - top), tl.exp(s0 - top)
            whole = chance + chance0
            mixed = chance[:, None] * v.to(tl.float32) + _share(chance0, past0_, at0 + e[None, :], there, H * E)
            if T > 2:
                chance1 = tl.exp(s1 - top)
                whole += chance1
                mixed += _share(chance1, past1_, at1 + e[None, :], there, H * E)
            if T > 3:
                chance2 = tl.exp(s2 - top)
                whole += chance2
                mixed += _share(chance2, past2_, at2 + e[None, :], there, H * E)
            v = (mixed / whole[:, None]).to(dtype)
        total = tl.dot(v, tl.load(o_ + e[:, None] * D + d[None, :]), total)
    tl.store(out_ + here * D + d[None, :], total, mask=there)


@triton.jit(do_not_specialize=["rows"])
def feed_forward(
    x_, scale_, wi_, wo_, out_, rows, scale_run, wi_run, wo_run,
    F: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BF: tl.constexpr,
):  # fmt: skip
    """x + relu(norm(x) wi) wo; what is hidden between the two never leaves the processor."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    there, here = (row < rows)[:, None], (run * rows + row.to(tl.int64))[:, None] * D + d[None, :]
    total = tl.load(x_ + here, mask=there, other=0.0)
    dtype = wi_.dtype.element_ty
    normed = layer_norm(total, tl.load(scale_ + run * scale_run + d), D).to(dtype)
    f = tl.arange(0, BF)
    wi_ += run * wi_run + d[:, None] * F + f[None, :]
    wo_ += run * wo_run + f[:, None] * D + d[None, :]
    for start in range(0, F, BF):
        hidden = tl.maximum(tl.dot(normed, tl.load(wi_ + start)), 0.0).to(dtype)
        total = tl.dot(hidden, tl.load(wo_ + start * D), total)
    tl.store(out_ + here, total, mask=there)


@triton.jit(do_not_specialize=["rows", "first"])
def score(
    x_, scale_, shared_, out_, whole_, rows, words, first, size, scale_run,
    D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Logits of `size` tokens from `first` on, and the logarithm of the sum of exp over all words."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    there, here = (row < rows)[:, None], run * rows + row.to(tl.int64)
    x = tl.load(x_ + here[:, None] * D + d[None, :], mask=there, other=0.0)
    x = (layer_norm(x, tl.load(scale_ + run * scale_run + d), D) * (D**-0.5)).to(shared_.dtype.element_ty)
    shared_ += run * words * D
    top = tl.full((BM,), -float("inf"), tl.float32)
    whole = tl.zeros((BM,), tl.float32)
    for start in range(0, words, BV):
        word = start + tl.arange(0, BV)
        table = tl.load(shared_ + word[None, :] * D + d[:, None], mask=(word < words)[None, :], other=0.0)
        logit = tl.where((word < words)[None, :], tl.dot(x, table), -float("inf"))
        higher = tl.maximum(top, tl.max(logit, 1))
        whole = whole * tl.exp(top - higher) + tl.sum(tl.exp(logit - higher[:, None]), 1)
        top = higher
        asked = ((word >= first) & (word < first + size))[None, :]
        tl.store(out_ + here[:, None] * size + (word - first)[None, :], logit, mask=there & asked)
    tl.store(whole_ + here, top + tl.log(whole), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def totals(base_, chances_, begin_, stop_, codes_, out_, rows, size, widest, BM: tl.constexpr, BC: tl.constexpr):
    """The scores of a beam's candidates, the trie's nodes from begin to stop; -inf where they are fewer than widest."""
    row, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    there, row = row < rows, row.to(tl.int64)
    child = tl.load(begin_ + row, mask=there, other=0)[:, None] + j[None, :]
    real = child < tl.load(stop_ + row, mask=there, other=0)[:, None]
    code = tl.load(codes_ + child, mask=real, other=0)
    chance = tl.load(chances_ + row[:, None] * size + code, mask=real, other=-float("inf"))
    total = tl.load(base_ + row, mask=there, other=0.0)[:, None] + chance
    tl.store(out_ + row[:, None] * widest + j[None, :], total, mask=there[:, None] & (j < widest)[None, :])
