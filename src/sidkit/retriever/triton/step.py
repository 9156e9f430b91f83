"""What a training step has besides T5's blocks, by Triton kernels: batches, embeddings, the loss, and Adam.

Nothing here is compiled for a number of runs, so a stack of another size starts without a wait. Shapes and results are
those of ../network.py and ../step.py, whose functions these replace (tests/retriever/test_triton_training.py); dropout
is that of t5_blocks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import torch
import torch.nn.functional as F
import triton

from ..step import BETAS, EPSILON
from . import step_kernels as kernels
from .t5_blocks import Drop, drop_arguments

__all__ = ["adam", "embed", "finish", "gather_examples", "head"]

Tensor = Any
BLOCK, ROWS = 1024, 32  # numbers, or rows of embeddings, per program
LOGITS = {"BM": 64, "BV": 64, "num_warps": 4, "num_stages": 3}


def gather_examples(
    order: Tensor, at: Tensor, slot: Tensor, item: Tensor, level: Tensor, mine: Tensor, within: Tensor,
    position: Tensor, length: Tensor, items: Tensor, tokens: Tensor, read: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As in ../step.py; the target of an empty slot is 0."""
    (R, catalogue, levels), (batches, slots) = tokens.shape, order.shape[1:]
    history, owner = (torch.empty(R, *slot.shape, dtype=torch.long, device=order.device) for _ in range(2))
    target, before = (torch.empty(R, *mine.shape, dtype=torch.long, device=order.device) for _ in range(2))
    weight = torch.empty(R, *mine.shape, device=order.device)
    kernels.histories[triton.cdiv(slot.numel(), BLOCK), R](
        order, at, slot, item, level, position, length, items, read, history, owner,
        slot.numel(), batches, slots, catalogue, levels, length.shape[1], B=BLOCK,
    )  # fmt: skip
    kernels.targets[triton.cdiv(mine.numel(), BLOCK), R](
        order, at, mine, within, position, items, tokens, target, before, weight,
        mine.numel(), mine.shape[1], batches, slots, catalogue, levels, B=BLOCK,
    )  # fmt: skip
    return history, slot, owner, target, before, mine, weight


class Embed(torch.autograd.Function):  # type: ignore[misc]
    """dropout(table[tokens]). table: (R, V, d), tokens: (R, n) -> (R, n, d)."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, tokens: Tensor, share: float, seed: Any, site: int) -> Any:
        ctx.drop, ctx.words = (share, site), table.shape[1]
        ctx.save_for_backward(tokens, seed)
        x = torch.empty(*tokens.shape, table.shape[2], device=table.device)
        return _embed(table, tokens, x, (share, seed, site), gradient=False)[1]

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Any:
        (tokens, seed), (share, site) = ctx.saved_tensors, ctx.drop
        dtable = torch.zeros(len(dx), ctx.words, dx.shape[2], device=dx.device)
        return _embed(dtable, tokens, dx.contiguous(), (share, seed, site), gradient=True)[0], *[None] * 4


def _embed(table: Tensor, tokens: Tensor, x: Tensor, drop: Drop, gradient: bool) -> tuple[Tensor, Tensor]:
    (R, n, d), (share, seed, site) = x.shape, drop
    kernels.embed[triton.cdiv(n, ROWS), R](
        table, tokens, x, seed, n, table.shape[1], site, *drop_arguments(share),
        D=d, BM=ROWS, DROP=share > 0, GRADIENT=gradient,
    )  # fmt: skip
    return table, x


class NormDrop(torch.autograd.Function):  # type: ignore[misc]
    """dropout(norm(x)) factor, in another dtype. x: (R, n, d), scale: (R, d) -> (R, n, d)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, factor: float, dtype: Any, share: float, seed: Any, site: int
    ) -> Any:
        (R, n, d), y = x.shape, torch.empty(x.shape, dtype=dtype, device=x.device)
        x, ctx.rest = x.contiguous(), (factor, share, site)
        ctx.save_for_backward(x, scale, seed)
        kernels.norm_drop[triton.cdiv(n, ROWS), R](
            x, scale, y, seed, n, scale.stride(0), factor, site, *drop_arguments(share), D=d, BM=ROWS, DROP=share > 0
        )
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        (x, scale, seed), (factor, share, site), (R, n, d) = ctx.saved_tensors, ctx.rest, dy.shape
        dx, dscale = torch.empty_like(x), torch.zeros(R, d, device=x.device)
        kernels.grad_norm_drop[triton.cdiv(n, ROWS), R](
            x, scale, dy.contiguous(), dx, dscale, seed, n, scale.stride(0), factor, site, *drop_arguments(share),
            D=d, BM=ROWS, DROP=share > 0,
        )  # fmt: skip
        return dx, dscale, *[None] * 5


class Entropy(torch.autograd.Function):  # type: ignore[misc]
    """(R,) the mean cross-entropy of tokens (R, n) with weights (R, n), of y (R, n, d) and embeddings (R, V, d).

    smoothing: the share of each target's probability that is spread over all tokens.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, shared: Tensor, target: Tensor, weight: Tensor, smoothing: float) -> Any:
        (R, n, d), words = y.shape, shared.shape[1]
        table = F.pad(shared, (0, 0, 0, -words % 8)).to(y.dtype)  # matrix units want aligned rows
        each, log_sum = torch.empty(R, n, device=y.device), torch.empty(R, n, device=y.device)
        kernels.entropy[triton.cdiv(n, LOGITS["BM"]), R](
            y, table, target, each, log_sum, n, words, table.stride(0), smoothing, D=d, **LOGITS
        )
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1)
        ctx.words, ctx.smoothing = words, smoothing
        ctx.save_for_backward(y, table, target, log_sum, weight)
        return (each * weight).sum(1)

    @staticmethod
    def backward(ctx: Any, dloss: Tensor) -> Any:
        (y, table, target, log_sum, weight), words = ctx.saved_tensors, ctx.words
        (R, n, d), padded = y.shape, table.shape[1]
        dlogits = torch.empty(R, n, padded, dtype=y.dtype, device=y.device)
        kernels.grad_entropy[triton.cdiv(n, LOGITS["BM"]), triton.cdiv(padded, LOGITS["BV"]), R](
            y, table, target, log_sum, dloss[:, None] * weight, dlogits, n, words, padded, table.stride(0),
            ctx.smoothing, D=d, **LOGITS,
        )  # fmt: skip
        dtable = torch.bmm(dlogits.transpose(1, 2), y)[:, :words]
        return torch.bmm(dlogits, table), dtable.float(), None, None, None


def embed(table: Tensor, tokens: Tensor, drop: Drop) -> Tensor:
    """table: (R, V, d) float32, tokens: (R, ...) -> (R, n, d) float32."""
    return Embed.apply(table, tokens.flatten(1), *drop)


def finish(x: Tensor, scale: Tensor, dtype: Any, drop: Drop, factor: float = 1.0) -> Tensor:
    """dropout(norm(x)) factor in a dtype: the end of the encoder and of the decoder."""
    return NormDrop.apply(x, scale, factor, dtype, *drop)


def head(
    x: Tensor, final: Tensor, shared: Tensor, target: Tensor, weight: Tensor, dtype: Any, drop: Drop,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """As in ../network.py."""
    y = finish(x, final, dtype, drop, x.shape[2] ** -0.5)
    return Entropy.apply(y, shared, target.flatten(1), weight.flatten(1), smoothing)


def adam(
    weights: list[Tensor], copies: list[Tensor], grads: Sequence[Tensor], first: list[Tensor], second: list[Tensor],
    step: Tensor, rate: float | Tensor,
) -> None:  # fmt: skip
    """As in ../step.py."""
    rates = rate if isinstance(rate, torch.Tensor) else torch.full_like(step, rate)
    for w, copy, grad, m, v in zip(weights, copies, grads, first, second, strict=True):
        n = w[0].numel()
        kernels.adam[triton.cdiv(n, BLOCK), len(w)](
            w, copy, grad.contiguous(), m, v, step, rates, n, *BETAS, *map(log, BETAS), EPSILON,
            COPY=copy is not w, B=BLOCK,
        )  # fmt: skip
