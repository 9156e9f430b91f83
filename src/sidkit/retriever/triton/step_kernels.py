"""Triton: what a training step has beside T5's blocks; fused_step.py calls them. x_ points to where x lies."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .kernels import kept, layer_norm, through_norm

__all__ = [
    "adam",
    "embed",
    "entropy",
    "grad_entropy",
    "grad_norm_drop",
    "histories",
    "norm_drop",
    "targets",
]


@triton.jit
def histories(
    order_, at_, slot_, item_, level_, position_, length_, items_, tokens_, history_, owner_,
    n, batches, slots, catalogue, levels, B: tl.constexpr,
):  # fmt: skip
    """The history tokens of a run's batch, and whose they are; 0 and -1 are padding."""
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    slot = tl.load(slot_ + i, mask=inside, other=0)
    which = tl.load(order_ + (run * batches + tl.load(at_)) * slots + slot, mask=inside, other=-1)
    used = tl.load(length_ + which, mask=which >= 0, other=0)
    item = tl.load(item_ + i, mask=inside, other=0)
    real = item < used
    place = tl.load(position_ + which, mask=real, other=0) - used + item
    row = run * catalogue + tl.load(items_ + place, mask=real, other=0)
    token = tl.load(tokens_ + row * levels + tl.load(level_ + i, mask=inside, other=0), mask=real, other=0)
    tl.store(history_ + run * n + i, token, mask=inside)
    tl.store(owner_ + run * n + i, tl.where(real, slot, -1), mask=inside)


@triton.jit
def targets(
    order_, at_, mine_, within_, position_, items_, tokens_, target_, before_, weight_,
    n, width, batches, slots, catalogue, levels, B: tl.constexpr,
):  # fmt: skip
    """The SIDs to generate, the token before each, and which places hold one; 0 elsewhere."""
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    mine = tl.load(mine_ + i, mask=inside, other=0)
    which = tl.load(order_ + (run * batches + tl.load(at_)) * slots + mine, mask=inside, other=-1)
    there = which >= 0
    row = run * catalogue + tl.load(items_ + tl.load(position_ + which, mask=there, other=0), mask=there, other=0)
    within = tl.load(within_ + i % width, mask=inside, other=0)
    tokens_ += row * levels + within
    tl.store(target_ + run * n + i, tl.load(tokens_, mask=there, other=0), mask=inside)
    tl.store(before_ + run * n + i, tl.load(tokens_ - 1, mask=there & (within > 0), other=0), mask=inside)
    tl.store(weight_ + run * n + i, there.to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["place", "least"])
def embed(
    table_, token_, x_, seed_, n, words, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """Rows of the table to x; as a gradient, rows of x added to the table."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside = row[:, None] < n
    token = run * words + tl.load(token_ + run * n + row, mask=row < n, other=0)
    table_ += token[:, None] * D + d
    x_ += run * n * D + row[:, None] * D + d
    x = tl.load(x_ if GRADIENT else table_, mask=inside, other=0.0)
    if DROP:
        x *= tl.where(kept(seed_, run, place, row, least, D), gain, 0.0)
    if GRADIENT:
        tl.atomic_add(table_, x, mask=inside, sem="relaxed")
    else:
        tl.store(x_, x, mask=inside)


@triton.jit(do_not_specialize=["place", "least"])
def norm_drop(
    x_, scale_, y_, seed_, n, scale_run, factor, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at, inside = row[:, None] * D + d, row[:, None] < n
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    y = layer_norm(x, tl.load(scale_ + run * scale_run + d), D) * factor
    if DROP:
        y *= tl.where(kept(seed_, run, place, row, least, D), gain, 0.0)
    tl.store(y_ + run * n * D + at, y.to(y_.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["place", "least"])
def grad_norm_drop(
    x_, scale_, dy_, dx_, dscale_, seed_, n, scale_run, factor, place, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """dscale is added to what is there."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at, inside = row[:, None] * D + d, row[:, None] < n
    dy = tl.load(dy_ + run * n * D + at, mask=inside, other=0.0).to(tl.float32) * factor
    if DROP:
        dy *= tl.where(kept(seed_, run, place, row, least, D), gain, 0.0)
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    dx, dscale = through_norm(dy, x, tl.load(scale_ + run * scale_run + d), D)
    tl.atomic_add(dscale_ + run * D + d, dscale, sem="relaxed")
    tl.store(dx_ + run * n * D + at, dx, mask=inside)


@triton.jit
def entropy(
    y_, table_, target_, each_, whole_, n, words, table_run, D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr
):
    """The cross-entropy of each row's target, and the logarithm of the sum of exp over all words."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside = row < n
    y = tl.load(y_ + run * n * D + row[:, None] * D + d, mask=inside[:, None], other=0.0)
    target = tl.load(target_ + run * n + row, mask=inside, other=0)
    table_ += run * table_run
    top, whole = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    hit = tl.zeros((BM,), tl.float32)
    for start in range(0, words, BV):
        word = start + tl.arange(0, BV)
        table = tl.load(table_ + word[None, :] * D + d[:, None], mask=(word < words)[None, :], other=0.0)
        logit = tl.where((word < words)[None, :], tl.dot(y, table), -float("inf"))
        hit += tl.sum(tl.where(word[None, :] == target[:, None], logit, 0.0), 1)
        higher = tl.maximum(top, tl.max(logit, 1))
        whole = whole * tl.exp(top - higher) + tl.sum(tl.exp(logit - higher[:, None]), 1)
        top = higher
    whole = top + tl.log(whole)
    tl.store(each_ + run * n + row, whole - hit, mask=inside)
    tl.store(whole_ + run * n + row, whole, mask=inside)


@triton.jit
def grad_entropy(
    y_, table_, target_, whole_, weight_, dlogit_, n, words, padded, table_run,
    D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """weight (chances - the target's one), of words up to `padded`; what is no word gets 0."""
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside, word = row < n, tl.program_id(1) * BV + tl.arange(0, BV)
    y = tl.load(y_ + run * n * D + row[:, None] * D + d, mask=inside[:, None], other=0.0)
    target = tl.load(target_ + run * n + row, mask=inside, other=0)
    whole = tl.load(whole_ + run * n + row, mask=inside, other=0.0)
    weight = tl.load(weight_ + run * n + row, mask=inside, other=0.0)
    real = (word < words)[None, :]
    table = tl.load(table_ + run * table_run + word[None, :] * D + d[:, None], mask=real, other=0.0)
    chance = tl.where(real, tl.exp(tl.dot(y, table) - whole[:, None]), 0.0)
    dlogit = (chance - (word[None, :] == target[:, None]).to(tl.float32)) * weight[:, None]
    to = dlogit_ + run * n * padded + row[:, None] * padded + word
    tl.store(to, dlogit.to(dlogit_.dtype.element_ty), mask=inside[:, None] & (word < padded)[None, :])


@triton.jit
def _complement(log, step):
    """1 - exp(log step), which for small exponents would be lost in rounding."""
    x = log * step
    small = -x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))))
    return tl.where(x > -0.1, small, 1 - tl.exp(x))


@triton.jit
def adam(
    w_, copy_, grad_, first_, second_, step_, n, rate, one, two, log_one, log_two, epsilon,
    COPY: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One step of Adam for the n numbers of each run, in place; the logarithms are those of one and two."""
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside, at, step = i < n, run * n + i, tl.load(step_ + run)
    grad = tl.load(grad_ + at, mask=inside, other=0.0).to(tl.float32)
    first = tl.load(first_ + at, mask=inside, other=0.0)
    second = tl.load(second_ + at, mask=inside, other=0.0)
    first += (grad - first) * (1 - one)
    second = second * two + grad * grad * (1 - two)
    size = tl.sqrt(second) / tl.sqrt(_complement(log_two, step)) + epsilon
    w = tl.load(w_ + at, mask=inside, other=0.0) - rate / _complement(log_one, step) * first / size
    tl.store(first_ + at, first, mask=inside)
    tl.store(second_ + at, second, mask=inside)
    tl.store(w_ + at, w, mask=inside)
    if COPY:
        tl.store(copy_ + at, w.to(copy_.dtype.element_ty), mask=inside)
