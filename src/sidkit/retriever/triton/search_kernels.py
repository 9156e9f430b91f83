"""Triton: the decoder's blocks in a beam search; search_blocks.py launches these kernels.

A name such as x_ is a pointer, x is what it points to. Shapes: R runs, `rows` beams of all users of width D, H heads of
width E. A program takes BM rows of one run; x_run is the stride of x_ from run to run.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .functions import layer_norm

__all__ = ["feed_forward", "score", "self_block", "totals"]


@triton.jit
def _product(q, past_, at, inside):
    """Queries times the keys of the rows that they descend from. q, at: (BM, E) -> (BM,)."""
    k = tl.load(past_ + at, mask=inside, other=0.0).to(tl.float32)
    return tl.sum(q * k, 1)


@triton.jit
def _weighted(weight, past_, at, inside, width):
    """weight times the values of the rows that beams descend from. weight: (BM,), at: (BM, E) -> (BM, E).

    Values follow the keys of a row, `width` numbers behind.
    """
    return weight[:, None] * tl.load(past_ + at + width, mask=inside, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["rows", "rows_0", "rows_1", "rows_2"])
def self_block(
    x_, scale_, qkv_, o_, bias_, past0_, past1_, past2_, origin1_, origin2_, out_, latest_,
    rows, rows_0, rows_1, rows_2, scale_run, qkv_run, o_run,
    T: tl.constexpr, LEVELS: tl.constexpr, BEAMS: tl.constexpr, H: tl.constexpr, E: tl.constexpr, D: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    """out = x + attention(norm(x) qkv) o: each beam sees itself and the T - 1 tokens before it.

    x_, out_: (R, rows, D) float32, scale_: (R, D), qkv_: (R, D, 3 H E), o_: (R, H E, D), bias_: (R, H, LEVELS, LEVELS);
    past0_: (R, rows_0, 2, H, E) keys and values of the first token, a row per user of BEAMS beams; past1_, past2_:
    (R, rows_1 or rows_2, 2, H, E) of the next two, whose rows are given by origin1_, origin2_: (R, rows);
    latest_: (R, rows, 2, H, E) keys and values of this token, not written at the last level
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside, row = (row < rows)[:, None], row.to(tl.int64)
    here = (run * rows + row)[:, None]
    total = tl.load(x_ + here * D + d[None, :], mask=inside, other=0.0)
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
            tl.store(latest_ + here * width + e[None, :], k, mask=inside)
            tl.store(latest_ + here * width + H * E + e[None, :], v, mask=inside)
        if T > 1:
            q, bias = q.to(tl.float32), bias_ + head * LEVELS * LEVELS
            s = tl.sum(q * k.to(tl.float32), 1) + tl.load(bias + T - 1)
            s0 = _product(q, past0_, at0 + e[None, :], inside) + tl.load(bias)
            top = tl.maximum(s, s0)
            if T > 2:
                s1 = _product(q, past1_, at1 + e[None, :], inside) + tl.load(bias + 1)
                top = tl.maximum(top, s1)
            if T > 3:
                s2 = _product(q, past2_, at2 + e[None, :], inside) + tl.load(bias + 2)
                top = tl.maximum(top, s2)
            weight, weight0 = tl.exp(s - top), tl.exp(s0 - top)
            weights = weight + weight0
            mixed = weight[:, None] * v.to(tl.float32) + _weighted(weight0, past0_, at0 + e[None, :], inside, H * E)
            if T > 2:
                weight1 = tl.exp(s1 - top)
                weights += weight1
                mixed += _weighted(weight1, past1_, at1 + e[None, :], inside, H * E)
            if T > 3:
                weight2 = tl.exp(s2 - top)
                weights += weight2
                mixed += _weighted(weight2, past2_, at2 + e[None, :], inside, H * E)
            v = (mixed / weights[:, None]).to(dtype)
        total = tl.dot(v, tl.load(o_ + e[:, None] * D + d[None, :]), total)
    tl.store(out_ + here * D + d[None, :], total, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def feed_forward(
    x_, scale_, wi_, wo_, out_, rows, scale_run, wi_run, wo_run,
    F: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BF: tl.constexpr,
):  # fmt: skip
    """out = x + relu(norm(x) wi) wo; the hidden layer never leaves the processor.

    x_, out_: (R, rows, D) float32, scale_: (R, D), wi_: (R, D, F), wo_: (R, F, D)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside, here = (row < rows)[:, None], (run * rows + row.to(tl.int64))[:, None] * D + d[None, :]
    total = tl.load(x_ + here, mask=inside, other=0.0)
    dtype = wi_.dtype.element_ty
    normed = layer_norm(total, tl.load(scale_ + run * scale_run + d), D).to(dtype)
    f = tl.arange(0, BF)
    wi_ += run * wi_run + d[:, None] * F + f[None, :]
    wo_ += run * wo_run + f[:, None] * D + d[None, :]
    for start in range(0, F, BF):
        hidden = tl.maximum(tl.dot(normed, tl.load(wi_ + start)), 0.0).to(dtype)
        total = tl.dot(hidden, tl.load(wo_ + start * D), total)
    tl.store(out_ + here, total, mask=inside)


@triton.jit(do_not_specialize=["rows", "first"])
def score(
    x_, scale_, shared_, out_, log_sum_, rows, words, first, size, scale_run,
    D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """The logits of `size` tokens from `first` on, and the log of the sum of exp over the logits of all words.

    x_: (R, rows, D) float32, scale_: (R, D), shared_: (R, words, D) -> out_: (R, rows, size), log_sum_: (R, rows)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside, here = (row < rows)[:, None], run * rows + row.to(tl.int64)
    x = tl.load(x_ + here[:, None] * D + d[None, :], mask=inside, other=0.0)
    x = (layer_norm(x, tl.load(scale_ + run * scale_run + d), D) * (D**-0.5)).to(shared_.dtype.element_ty)
    shared_ += run * words * D
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, words, BV):
        word = start + tl.arange(0, BV)
        table = tl.load(shared_ + word[None, :] * D + d[:, None], mask=(word < words)[None, :], other=0.0)
        logit = tl.where((word < words)[None, :], tl.dot(x, table), -float("inf"))
        higher = tl.maximum(top, tl.max(logit, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(logit - higher[:, None]), 1)
        top = higher
        requested = ((word >= first) & (word < first + size))[None, :]
        tl.store(out_ + here[:, None] * size + (word - first)[None, :], logit, mask=inside & requested)
    tl.store(log_sum_ + here, top + tl.log(total), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def totals(base_, scores_, begin_, stop_, codes_, out_, rows, size, widest, BM: tl.constexpr, BC: tl.constexpr):
    """The scores of a beam's candidates, the trie's nodes from begin to stop; -inf beyond them.

    base_, begin_, stop_: (rows,), rows being those of all runs, scores_: (rows, size) by code, codes_: (nodes,)
    -> out_: (rows, widest)
    """
    row, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    inside, row = row < rows, row.to(tl.int64)
    child = tl.load(begin_ + row, mask=inside, other=0)[:, None] + j[None, :]
    real = child < tl.load(stop_ + row, mask=inside, other=0)[:, None]
    code = tl.load(codes_ + child, mask=real, other=0)
    logit = tl.load(scores_ + row[:, None] * size + code, mask=real, other=-float("inf"))
    total = tl.load(base_ + row, mask=inside, other=0.0)[:, None] + logit
    tl.store(out_ + row[:, None] * widest + j[None, :], total, mask=inside[:, None] & (j < widest)[None, :])
