"""The model of ../network.py by the kernels of t5_blocks.py and step.py, with gradients; equal within rounding
(tests/retriever/test_triton_training.py)."""

from __future__ import annotations

from typing import Any

import torch

from .. import network
from . import step
from .t5_blocks import attention, attention_gradient, hidden, hidden_gradient, matmul_add, norm_gradient

__all__ = ["KernelDropout", "Layers"]

Tensor = Any


class KernelDropout:
    """The arguments of dropout in the kernels: a share, a seed for every run, and the index of each dropout site.

    seed: (R,) int32, on the device
    """

    def __init__(self, share: float, seed: Tensor) -> None:
        self.share, self.seed, self.site = share, seed, 0

    def start_step(self, seeds: Tensor, steps: Tensor) -> None:
        """Before a step: the runs' seeds and steps, (R,) each, alone decide what it drops."""
        mixed = (seeds.long() * 0x9E3779B1 + steps.long() * 0xC2B2AE3D) & 0x7FFFFFFF
        self.seed, self.site = mixed.to(torch.int32), 0

    def next(self) -> tuple[float, Tensor, int]:
        """For the next block; a block has two sites."""
        self.site += 2
        return self.share, self.seed, self.site


class SideStream:
    """A second CUDA stream for gradients of matrices, which no block waits for."""

    def __init__(self, device: Any) -> None:
        self.stream = torch.cuda.Stream(device) if torch.device(device).type == "cuda" else None
        self.inputs: list[Tensor] = []  # what the stream reads must not be freed before it is done

    def product(self, rows: Tensor, g: Tensor) -> Tensor:
        """rows^T g, to be used after `join`. rows: (R, n, a), g: (R, n, b) -> (R, a, b)."""
        if self.stream is None:
            return torch.bmm(rows.transpose(1, 2), g)
        self.inputs += [rows, g]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return torch.bmm(rows.transpose(1, 2), g)

    def join(self) -> None:
        """Wait for the products."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.inputs.clear()


class Unstacked(torch.autograd.Function):  # type: ignore[misc]
    """The matrices of the layers, (R, layers, ...) -> (R, ...) for each; backward waits for their gradients."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, side: SideStream) -> Any:
        ctx.side = side
        return matrices.unbind(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.side.join()
        return torch.stack(grads, 1), None


class FeedForward(torch.autograd.Function):  # type: ignore[misc]
    """x + dropout(dropout(relu(norm(x) wi)) wo)"""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor, side: SideStream, share: float, seed: Any, site: int
    ) -> Any:
        x, ctx.side, ctx.drop = x.contiguous(), side, (share, site)
        h, normed = hidden(x, scale, wi, relu=True, drop=(share, seed, site))
        ctx.save_for_backward(x, scale, wi, wo, h, normed, seed)
        return matmul_add(x, h, wo, (share, seed, site + 1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, wi, wo, h, normed, seed = ctx.saved_tensors
        (share, site), dy = ctx.drop, dy.contiguous()
        dh, dropped = hidden_gradient(dy, wo, h, (share, seed, site + 1), relu=True)
        dwo, dwi = ctx.side.product(h, dropped), ctx.side.product(normed, dh)
        return *norm_gradient(x, scale, dh, wi, dy), dwi, dwo, *[None] * 4


class Attend(torch.autograd.Function):  # type: ignore[misc]
    """x + dropout(attention(norm(x) w) o): w gives queries, keys and values, or queries alone where keys are given."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, w: Tensor, o: Tensor, bias: Tensor | None, keys: Tensor | None,
        mine: Tensor, owner: Tensor, heads: int, side: SideStream, share: float, seed: Any, site: int,
    ) -> Any:  # fmt: skip
        x, ctx.side, ctx.drop, ctx.heads = x.contiguous(), side, (share, site), heads
        bias, keys = (None if part is None else part.contiguous() for part in (bias, keys))
        parts, normed = hidden(x, scale, w)
        q, k, v = _by_head(parts, keys, mine, heads)
        mixed = attention(q, k, v, bias, mine, owner, (share, seed, site))
        ctx.save_for_backward(x, scale, w, o, bias, keys, mine, owner, parts, normed, mixed, seed)
        return matmul_add(x, mixed, o, (share, seed, site + 1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, w, o, bias, keys, mine, owner, parts, normed, mixed, seed = ctx.saved_tensors
        (share, site), dy = ctx.drop, dy.contiguous()
        dmixed, dropped = hidden_gradient(dy, o, mixed, (share, seed, site + 1))
        do = ctx.side.product(mixed, dropped)
        dparts, dkeys = torch.empty_like(parts), None if keys is None else torch.empty_like(keys)
        (q, k, v), (dq, dk, dv) = (_by_head(*both, mine, ctx.heads) for both in ((parts, keys), (dparts, dkeys)))
        dbias = attention_gradient(q, k, v, bias, mine, owner, dmixed, dq, dk, dv, (share, seed, site))
        dw = ctx.side.product(normed, dparts)
        return *norm_gradient(x, scale, dparts, w, dy), dw, do, dbias, dkeys, *[None] * 7


def _by_head(parts: Tensor, keys: Tensor | None, mine: Tensor, heads: int) -> tuple[Tensor, ...]:
    """Queries, keys and values, (R, rows, tokens, H, h) each: all of parts, or of parts and keys."""
    parts = parts.view(len(parts), *mine.shape[-2:], -1, heads, parts.shape[2] // heads // (3 if keys is None else 1))
    return parts.unbind(3) if keys is None else (parts[:, :, :, 0], *keys.unbind(3))


class Layers:
    """All parts of the model of ../network.py; the share to drop is that of `drop`.

    The matrices have to come from `unstack`, because their gradients are computed on a second stream.
    """

    def __init__(self, drop: KernelDropout, device: Any) -> None:
        self.drop, self.side = drop, SideStream(device)
        self.biases: dict[Any, tuple[Tensor, Tensor]] = {}

    @property
    def parts(self) -> network.ForwardParts:
        return network.ForwardParts(**{name: getattr(self, name) for name in network.ForwardParts._fields})

    def embed(self, table: Tensor, tokens: Tensor, dropout: float) -> Tensor:
        return step.embed(table, tokens, self.drop.next())

    def encoder_bias(self, table: Tensor, width: int) -> Tensor:
        return self._bias(network.encoder_bias, table, width)

    def decoder_bias(self, table: Tensor, width: int, levels: int) -> Tensor:
        return self._bias(network.decoder_bias, table, width, levels)

    def _bias(self, plain: Any, table: Tensor, *size: int) -> Tensor:
        """plain(table, *size), which is linear in the table: its result for each bucket alone is computed once."""
        if (plain, size) not in self.biases:
            buckets, device = table.shape[1], table.device
            zero = plain(torch.zeros(1, buckets, 1, device=device), *size)[0]
            self.biases[plain, size] = zero, plain(torch.eye(buckets, device=device)[None], *size)[0] - zero
        zero, each = self.biases[plain, size]
        return (table.transpose(1, 2) @ each.flatten(1)).unflatten(2, each.shape[1:]) + zero

    def finish(self, x: Tensor, scale: Tensor, dtype: Any, dropout: float) -> Tensor:
        return step.finish(x, scale, dtype, self.drop.next())

    def head(
        self, x: Tensor, final: Tensor, shared: Tensor, target: Tensor, weight: Tensor, dtype: Any, dropout: float,
        smoothing: float = 0.0,
    ) -> Tensor:  # fmt: skip
        return step.head(x, final, shared, target, weight, dtype, self.drop.next(), smoothing)

    def unstack(self, matrices: Tensor) -> tuple[Tensor, ...]:
        layers: tuple[Tensor, ...] = Unstacked.apply(matrices, self.side)
        return layers

    def encoder_layer(
        self, x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, wi: Tensor, wo: Tensor,
        bias: Tensor, slot: Tensor, owner: Tensor, dropout: float,
    ) -> Tensor:  # fmt: skip
        first, second = norms.unbind(1)  # one gradient for all, where norms[:, 0] has one each
        x = self.attend(x, first, qkv, o, bias, None, slot, owner)
        return self.feed_forward(x, second, wi, wo)

    def decoder_layer(
        self, x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, cross_q: Tensor, cross_o: Tensor, wi: Tensor,
        wo: Tensor, keys: Tensor, bias: Tensor, mine: Tensor, owner: Tensor, dropout: float,
    ) -> Tensor:  # fmt: skip
        first, second, third = norms.unbind(1)
        x = self.attend(x, first, qkv, o, bias, None, mine, mine[None])
        x = self.attend(x, second, cross_q, cross_o, None, keys, mine, owner)
        return self.feed_forward(x, third, wi, wo)

    def feed_forward(self, x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor) -> Tensor:
        return FeedForward.apply(x, scale, wi, wo, self.side, *self.drop.next())

    def attend(
        self, x: Tensor, scale: Tensor, w: Tensor, o: Tensor, bias: Tensor | None, keys: Tensor | None,
        mine: Tensor, owner: Tensor,
    ) -> Tensor:  # fmt: skip
        """bias: (R, H, A, A) and no keys, or keys: (R, rows, W, 2, H, h) and no bias."""
        heads = keys.shape[4] if keys is not None else bias.shape[1]  # type: ignore[union-attr]
        return Attend.apply(x, scale, w, o, bias, keys, mine, owner, heads, self.side, *self.drop.next())
