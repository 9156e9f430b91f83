"""Attention of short packed sequences as differentiable functions.

Queries, keys and values are read where a joint projection left them, and their gradients are written as that
projection takes them back: nothing is copied in between.
"""

from __future__ import annotations

from typing import Any

import torch

from . import kernels

__all__ = ["LONGEST", "cross_attention", "self_attention"]

Tensor = Any
LONGEST = 128  # tokens of a sequence that fit a program's registers
TILES = (16, 32, 64)  # and smaller tiles for shorter ones


def self_attention(qkv: Tensor, starts: Tensor, longest: int, heads: int, causal: bool) -> Tensor:
    """qkv: (T, 3 d), starts: (S + 1,) int32 -> (T, d)."""
    return _SelfAttention.apply(qkv, starts, longest, heads, causal)


def cross_attention(
    q: Tensor, kv: Tensor, q_starts: Tensor, k_starts: Tensor, q_longest: int, k_longest: int, heads: int
) -> Tensor:
    """q: (Tq, d), kv: (Tk, 2 d), both with S sequences -> (Tq, d)."""
    return _CrossAttention.apply(q, kv, q_starts, k_starts, q_longest, k_longest, heads)


class _SelfAttention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, starts: Tensor, longest: int, heads: int, causal: bool) -> Tensor:
        ctx.save_for_backward(qkv, starts)
        ctx.how = (longest, longest, heads, causal)
        q, k, v = qkv.chunk(3, 1)
        return _forward(q, k, v, starts, starts, *ctx.how)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        qkv, starts = ctx.saved_tensors
        out = torch.empty_like(qkv)
        _backward(qkv.chunk(3, 1), out.chunk(3, 1), grad.contiguous(), starts, starts, *ctx.how)
        return out, None, None, None, None


class _CrossAttention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor, q_starts: Tensor, k_starts: Tensor, q_longest: int, k_longest: int, heads: int
    ) -> Tensor:
        ctx.save_for_backward(q, kv, q_starts, k_starts)
        ctx.how = (q_longest, k_longest, heads, False)
        k, v = kv.chunk(2, 1)
        return _forward(q, k, v, q_starts, k_starts, *ctx.how)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        q, kv, q_starts, k_starts = ctx.saved_tensors
        dq, dkv = torch.empty_like(q), torch.empty_like(kv)
        given, wanted = (q, *kv.chunk(2, 1)), (dq, *dkv.chunk(2, 1))
        _backward(given, wanted, grad.contiguous(), q_starts, k_starts, *ctx.how)
        return dq, dkv, None, None, None, None, None


def _forward(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor,
    q_longest: int, k_longest: int, heads: int, causal: bool,
) -> Tensor:  # fmt: skip
    out, width = torch.empty(q.shape, dtype=q.dtype, device=q.device), q.shape[1] // heads
    for tile in _tiles(q_longest, k_longest, causal or q_starts is k_starts):
        kernels.forward_kernel[(len(q_starts) - 1, heads)](
            q, k, v, out, q_starts, k_starts, q.stride(0), k.stride(0), out.stride(0), width**-0.5,
            CAUSAL=causal, D=width, **tile,
        )  # fmt: skip
    return out


def _backward(
    given: Any, wanted: Any, grad: Tensor, q_starts: Tensor, k_starts: Tensor,
    q_longest: int, k_longest: int, heads: int, causal: bool,
) -> None:  # fmt: skip
    (q, k, v), (dq, dk, dv) = given, wanted
    width = q.shape[1] // heads
    for tile in _tiles(q_longest, k_longest, causal or q_starts is k_starts):
        kernels.backward_kernel[(len(q_starts) - 1, heads)](
            q, k, v, grad, dq, dk, dv, q_starts, k_starts, q.stride(0), k.stride(0), grad.stride(0),
            dq.stride(0), dk.stride(0), width**-0.5, CAUSAL=causal, D=width, **tile,
        )  # fmt: skip


def _tiles(q_longest: int, k_longest: int, square: bool) -> list[dict[str, int]]:
    """The tiles that serve all sequences: each takes those too long for the one before it. Square ones serve
    self-attention, where a sequence has as many queries as keys."""
    sizes = [size for size in TILES if size < k_longest] + [_power(k_longest)]
    return [
        {
            "BQ": size if square else _power(q_longest),
            "BK": size,
            "ABOVE": above,
            "num_warps": 8 if size > 64 else 4,
        }
        for above, size in zip([-1, *sizes], sizes, strict=False)
    ]


def _power(n: int) -> int:
    """A power of two, 16 at least, which matrix units need."""
    return max(16, 1 << (n - 1).bit_length())
