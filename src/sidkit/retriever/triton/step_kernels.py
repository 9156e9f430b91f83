"""Triton: what a training step has besides T5's blocks: batches, embeddings, the loss and Adam; step.py launches these
kernels.

A name such as x_ is a pointer, x is what it points to. Shapes: R runs, n rows of width D; x_run is the stride of x_
from run to run.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .functions import keep_mask, layer_norm, layer_norm_gradient

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
    n, batches, slots, catalogue, levels, examples, B: tl.constexpr,
):  # fmt: skip
    """The history tokens of every run's batch, and the slots that they belong to; 0 and -1 are padding.

    order_: (R, batches, slots), at_: (1,), slot_, item_, level_: (n,) of the layout, position_: (examples,),
    length_: (R, examples), items_: (all,), tokens_: (R, catalogue, levels) -> history_, owner_: (R, n)
    """
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    slot = tl.load(slot_ + i, mask=inside, other=0)
    which = tl.load(order_ + (run * batches + tl.load(at_)) * slots + slot, mask=inside, other=-1)
    used = tl.load(length_ + run * examples + which, mask=which >= 0, other=0)
    item = tl.load(item_ + i, mask=inside, other=0)
    real = item < used
    at = tl.load(position_ + which, mask=real, other=0) - used + item
    row = run * catalogue + tl.load(items_ + at, mask=real, other=0)
    token = tl.load(tokens_ + row * levels + tl.load(level_ + i, mask=inside, other=0), mask=real, other=0)
    tl.store(history_ + run * n + i, token, mask=inside)
    tl.store(owner_ + run * n + i, tl.where(real, slot, -1), mask=inside)


@triton.jit
def targets(
    order_, at_, mine_, within_, position_, items_, tokens_, target_, before_, weight_,
    n, width, batches, slots, catalogue, levels, B: tl.constexpr,
):  # fmt: skip
    """The SIDs to generate, the token before each, and weight 1; of an empty slot all are 0.

    order_: (R, batches, slots), at_: (1,), mine_: (n,) of the layout, within_: (width,) the level of a target token,
    position_: (examples,), items_: (all,), tokens_: (R, catalogue, levels) -> target_, before_, weight_: (R, n)
    """
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    mine = tl.load(mine_ + i, mask=inside, other=0)
    which = tl.load(order_ + (run * batches + tl.load(at_)) * slots + mine, mask=inside, other=-1)
    real = which >= 0
    row = run * catalogue + tl.load(items_ + tl.load(position_ + which, mask=real, other=0), mask=real, other=0)
    within = tl.load(within_ + i % width, mask=inside, other=0)
    tokens_ += row * levels + within
    tl.store(target_ + run * n + i, tl.load(tokens_, mask=real, other=0), mask=inside)
    tl.store(before_ + run * n + i, tl.load(tokens_ - 1, mask=real & (within > 0), other=0), mask=inside)
    tl.store(weight_ + run * n + i, real.to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["site", "least"])
def embed(
    table_, token_, x_, seed_, n, words, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """x = dropout(table[token]); GRADIENT: table[token] += dropout(x).

    table_: (R, words, D), token_: (R, n), seed_: (R,), x_: (R, n, D)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside = row[:, None] < n
    token = run * words + tl.load(token_ + run * n + row, mask=row < n, other=0)
    table_ += token[:, None] * D + d
    x_ += run * n * D + row[:, None] * D + d
    x = tl.load(x_ if GRADIENT else table_, mask=inside, other=0.0)
    if DROP:
        x *= tl.where(keep_mask(seed_, run, site, row, least, D), gain, 0.0)
    if GRADIENT:
        tl.atomic_add(table_, x, mask=inside, sem="relaxed")
    else:
        tl.store(x_, x, mask=inside)


@triton.jit(do_not_specialize=["site", "least"])
def norm_drop(
    x_, scale_, y_, seed_, n, scale_run, factor, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """y = dropout(norm(x)) factor. x_: (R, n, D) float32, scale_: (R, D), seed_: (R,) -> y_: (R, n, D)."""
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at, inside = row[:, None] * D + d, row[:, None] < n
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    y = layer_norm(x, tl.load(scale_ + run * scale_run + d), D) * factor
    if DROP:
        y *= tl.where(keep_mask(seed_, run, site, row, least, D), gain, 0.0)
    tl.store(y_ + run * n * D + at, y.to(y_.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["site", "least"])
def grad_norm_drop(
    x_, scale_, dy_, dx_, dscale_, seed_, n, scale_run, factor, site, least, gain,
    D: tl.constexpr, BM: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """The gradients of norm_drop in x and, added to dscale, in scale.

    x_, dy_: (R, n, D), scale_: (R, D), seed_: (R,) -> dx_: (R, n, D), dscale_: (R, D)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at, inside = row[:, None] * D + d, row[:, None] < n
    dy = tl.load(dy_ + run * n * D + at, mask=inside, other=0.0).to(tl.float32) * factor
    if DROP:
        dy *= tl.where(keep_mask(seed_, run, site, row, least, D), gain, 0.0)
    x = tl.load(x_ + run * n * D + at, mask=inside, other=0.0)
    dx, dscale = layer_norm_gradient(dy, x, tl.load(scale_ + run * scale_run + d), D)
    tl.atomic_add(dscale_ + run * D + d, dscale, sem="relaxed")
    tl.store(dx_ + run * n * D + at, dx, mask=inside)


@triton.jit
def entropy(
    y_, table_, target_, each_, log_sum_, n, words, table_run, smoothing,
    D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """The cross-entropy of each row's target, and the log of the sum of exp over the logits of all words.

    smoothing: the share of the target's probability that is spread over all words.
    y_: (R, n, D), table_: (R, words padded, D), target_: (R, n) -> each_, log_sum_: (R, n)
    """
    run, row, d = tl.program_id(1).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside = row < n
    y = tl.load(y_ + run * n * D + row[:, None] * D + d, mask=inside[:, None], other=0.0)
    target = tl.load(target_ + run * n + row, mask=inside, other=0)
    table_ += run * table_run
    top, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    hit, mean = tl.zeros((BM,), tl.float32), tl.zeros((BM,), tl.float32)
    for start in range(0, words, BV):
        word = start + tl.arange(0, BV)
        table = tl.load(table_ + word[None, :] * D + d[:, None], mask=(word < words)[None, :], other=0.0)
        logit = tl.where((word < words)[None, :], tl.dot(y, table), -float("inf"))
        hit += tl.sum(tl.where(word[None, :] == target[:, None], logit, 0.0), 1)
        mean += tl.sum(tl.where((word < words)[None, :], logit, 0.0), 1) / words
        higher = tl.maximum(top, tl.max(logit, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(logit - higher[:, None]), 1)
        top = higher
    log_sum = top + tl.log(total)
    tl.store(each_ + run * n + row, log_sum - (1 - smoothing) * hit - smoothing * mean, mask=inside)
    tl.store(log_sum_ + run * n + row, log_sum, mask=inside)


@triton.jit
def grad_entropy(
    y_, table_, target_, log_sum_, weight_, dlogit_, n, words, padded, table_run, smoothing,
    D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """dlogit = weight (softmax(logits) - (1 - smoothing at the target) - smoothing / words), of words up to `padded`;
    beyond the last word it is 0.

    y_: (R, n, D), table_: (R, padded, D), target_, log_sum_, weight_: (R, n) -> dlogit_: (R, n, padded)
    """
    run, row, d = tl.program_id(2).to(tl.int64), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    inside, word = row < n, tl.program_id(1) * BV + tl.arange(0, BV)
    y = tl.load(y_ + run * n * D + row[:, None] * D + d, mask=inside[:, None], other=0.0)
    target = tl.load(target_ + run * n + row, mask=inside, other=0)
    log_sum = tl.load(log_sum_ + run * n + row, mask=inside, other=0.0)
    weight = tl.load(weight_ + run * n + row, mask=inside, other=0.0)
    real = (word < words)[None, :]
    table = tl.load(table_ + run * table_run + word[None, :] * D + d[:, None], mask=real, other=0.0)
    probability = tl.where(real, tl.exp(tl.dot(y, table) - log_sum[:, None]), 0.0)
    wanted = (word[None, :] == target[:, None]).to(tl.float32) * (1 - smoothing)
    wanted += tl.where(real, smoothing / words, 0.0)
    dlogit = (probability - wanted) * weight[:, None]
    to = dlogit_ + run * n * padded + row[:, None] * padded + word
    tl.store(to, dlogit.to(dlogit_.dtype.element_ty), mask=inside[:, None] & (word < padded)[None, :])


@triton.jit
def _complement(log, step):
    """1 - exp(log step), of scalars; by a series where the difference would be lost in rounding."""
    x = log * step
    small = -x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))))
    return tl.where(x > -0.1, small, 1 - tl.exp(x))


@triton.jit
def adam(
    w_, copy_, grad_, first_, second_, step_, rate_, n, one, two, log_one, log_two, epsilon,
    COPY: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One step of Adam for the n numbers of each run, in place; COPY: the new weights go to copy, too.

    w_, copy_, grad_, first_, second_: (R, n), step_, rate_: (R,); log_one and log_two are the logarithms of one and two
    """
    run, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * B + tl.arange(0, B)
    inside, at, step, rate = i < n, run * n + i, tl.load(step_ + run), tl.load(rate_ + run)
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
