"""T5's blocks as Triton kernels: fewer, larger steps than a compiler finds, for models as small as TIGER's.

    norm_matmul    norm(x) w, or relu of it with dropout       attention    all of a row's head in one program
    matmul_add     x + dropout(h w)                            Layers       a model's layers, with gradients

Shapes as in network.py: R runs, each with its own weights. Nothing random is stored: whether an element is dropped is a
hash of the run's seed, the place in the model and the element's number, computed again for the gradient. Matrix
products take the dtype of the matrices (bfloat16), everything else is float32. Equal to network.py within rounding
(tests/test_fused.py, in Triton's interpreter where there is no GPU).
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from . import fused_kernels as kernels

__all__ = ["Dropout", "Layers", "attention", "matmul_add", "norm_matmul"]

Tensor = Any
TILES: dict[str, dict[str, int]] = {  # as measured on an H200 with the paper's model
    "norm_matmul": {"BM": 64, "BN": 64, "num_warps": 4, "num_stages": 3},
    "matmul_add": {"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 4},
    "grad_hidden": {"BM": 64, "BN": 64, "num_warps": 4, "num_stages": 3},
    "grad_norm": {"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 4},
    "attend": {"num_warps": 4, "num_stages": 1},
    "grad_attend": {"ROWS": 4, "num_warps": 4, "num_stages": 3},
}


class Dropout:
    """What the kernels need to drop elements: a share, a seed for every run, and a number for each place of the model.

    seed: (R,) int32, on the device
    """

    def __init__(self, share: float, seed: Tensor) -> None:
        self.share, self.seed, self.place = share, seed, 0

    def begin(self, seeds: Tensor, step: Tensor) -> None:
        """Before a step: seeds and step, (R,), decide alone what it drops."""
        mixed = (seeds.long() * 0x9E3779B1 + step.long() * 0xC2B2AE3D) & 0x7FFFFFFF
        self.seed, self.place = mixed.to(torch.int32), 0

    def next(self) -> tuple[float, Tensor, int]:
        """For the next block; blocks use two places each."""
        self.place += 2
        return self.share, self.seed, self.place


def _split(blocks: int, runs: int, columns: int) -> tuple[int, int]:
    """Into how many programs to deal the column blocks of a row block, and how many each takes, to fill a GPU."""
    wanted = max(1, -(-264 // (blocks * runs)))
    turns = max(1, columns // wanted)
    return -(-columns // turns), turns


def _drops(share: float) -> dict[str, float]:
    """The least hash that stays, as the bits of an int32, and what is left is multiplied by."""
    least = round(share * 2**32)
    return {"least": least if least < 2**31 else least - 2**32, "gain": 1 / (1 - share)}


def norm_matmul(
    x: Tensor, scale: Tensor, w: Tensor, relu: bool = False, drop: tuple[float, Tensor, int] | None = None
) -> Tensor:
    """x: (R, n, d) float32, scale: (R, d), w: (R, d, m) -> (R, n, m) in the dtype of w."""
    return _forward(x, scale, w, relu, drop, keep=False)[0]


def _forward(x: Tensor, scale: Tensor, w: Tensor, relu: bool, drop: Any, keep: bool) -> tuple[Tensor, Tensor]:
    """norm_matmul, and norm(x) where it is to be kept."""
    (R, n, d), m, tile = x.shape, w.shape[2], TILES["norm_matmul"]
    y = torch.empty(R, n, m, dtype=w.dtype, device=x.device)
    kept = torch.empty(R, n, d, dtype=w.dtype, device=x.device) if keep else y
    share, seed, place = drop or (0.0, y, 0)
    blocks = triton.cdiv(n, tile["BM"])
    split, turns = _split(blocks, R, triton.cdiv(m, tile["BN"]))
    kernels.norm_matmul[blocks, split, R](
        x, scale, w, y, kept, seed, n, m, scale.stride(0), w.stride(0), place, *_drops(share).values(),
        D=d, TURNS=turns, RELU=relu, DROP=share > 0, KEEP=keep, **tile,
    )  # fmt: skip
    return y, kept


def matmul_add(x: Tensor, h: Tensor, w: Tensor, drop: tuple[float, Tensor, int] | None = None) -> Tensor:
    """x: (R, n, d) float32, h: (R, n, m), w: (R, m, d) -> (R, n, d) float32."""
    (R, n, d), m, tile = x.shape, w.shape[1], TILES["matmul_add"]
    y = torch.empty_like(x)
    share, seed, place = drop or (0.0, y, 0)
    kernels.matmul_add[triton.cdiv(n, tile["BM"]), R](
        x, h, w, y, seed, n, m, w.stride(0), place, *_drops(share).values(), D=d, DROP=share > 0, **tile
    )
    return y


def _hidden_gradient(dy: Tensor, w: Tensor, h: Tensor, relu: bool, drop: Any) -> tuple[Tensor, Tensor]:
    """Of matmul_add: the gradient of h, and dy as it came through dropout."""
    (R, n, d), m, tile = dy.shape, w.shape[1], TILES["grad_hidden"]
    dh, kept = torch.empty_like(h), torch.empty(R, n, d, dtype=w.dtype, device=dy.device)
    share, seed, place = drop
    blocks = triton.cdiv(n, tile["BM"])
    split, turns = _split(blocks, R, triton.cdiv(m, tile["BN"]))
    kernels.grad_hidden[blocks, split, R](
        dy, w, h, dh, kept, seed, n, m, w.stride(0), place, *_drops(share).values(),
        D=d, TURNS=turns, RELU=relu, DROP=share > 0, **tile,
    )  # fmt: skip
    return dh, kept


def _norm_gradient(x: Tensor, scale: Tensor, g: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """Of x + f(norm_matmul(x)): the gradients of x and of scale."""
    (R, n, d), m, tile = x.shape, w.shape[2], TILES["grad_norm"]
    blocks = triton.cdiv(n, tile["BM"])
    dx, dscale = torch.empty_like(x), torch.empty(R, blocks, d, device=x.device)
    kernels.grad_norm[blocks, R](x, scale, g, w, dy, dx, dscale, n, m, scale.stride(0), w.stride(0), D=d, **tile)
    return dx, dscale.sum(1)


def _attention_arguments(q: Tensor, k: Tensor, mine: Tensor, owner: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    (R, rows, A, heads, E), B = q.shape, k.shape[2]
    numbers = {
        "q_run": q.stride(0), "q_row": q.stride(1), "q_at": q.stride(2),
        "k_run": k.stride(0), "k_row": k.stride(1), "k_at": k.stride(2),
        "mine_run": mine.stride(0) if mine.ndim == 3 else 0, "owner_run": owner.stride(0) if len(owner) == R else 0,
        "rows": rows, "heads": heads, "A": A, "B": B,
    }  # fmt: skip
    size = {"AP": max(16, triton.next_power_of_2(A)), "BP": max(16, triton.next_power_of_2(B)), "E": E}
    return numbers, size


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mine: Tensor, owner: Tensor,
    drop: tuple[float, Tensor, int] | None = None,
) -> Tensor:  # fmt: skip
    """As network.attend. q: (R, rows, A, H, h), k and v: (R, rows, B, H, h), views of one layout each, bias:
    (R, H, A, B) or None, mine: (rows, A) or (R, rows, A), owner: (R or 1, rows, B) -> (R, rows * A, H * h)."""
    R, rows, A, heads, E = q.shape
    out = torch.empty(R, rows * A, heads * E, dtype=q.dtype, device=q.device)
    numbers, size = _attention_arguments(q, k, mine, owner)
    share, seed, place = drop or (0.0, out, 0)
    kernels.attend[rows, heads, R](
        q, k, v, out if bias is None else bias, mine, owner, out, seed, place=place, **_drops(share),
        BIAS=bias is not None, DROP=share > 0, **numbers, **size, **TILES["attend"],
    )  # fmt: skip
    return out


def _attention_gradient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mine: Tensor, owner: Tensor,
    do: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, drop: Any,
) -> Tensor | None:  # fmt: skip
    """Writes dq, dk and dv, which are laid out as q, k and v; returns the gradient of bias."""
    (R, rows, A, heads), B = q.shape[:4], k.shape[2]
    numbers, size = _attention_arguments(q, k, mine, owner)
    tile = TILES["grad_attend"]
    chunks = triton.cdiv(rows, tile["ROWS"])
    part = do if bias is None else torch.empty(R, heads, chunks, A, B, device=q.device)
    share, seed, place = drop
    kernels.grad_attend[chunks, heads, R](
        q, k, v, do if bias is None else bias, mine, owner, do, dq, dk, dv, part, seed, place=place, **_drops(share),
        BIAS=bias is not None, DROP=share > 0, **numbers, **size, **tile,
    )  # fmt: skip
    return None if bias is None else part.sum(2)


class Aside:
    """A second stream for what nobody waits for: gradients of matrices, beside those that the next block needs."""

    def __init__(self, device: Any) -> None:
        self.stream = torch.cuda.Stream(device) if torch.device(device).type == "cuda" else None
        self.held: list[Tensor] = []  # what the other stream reads must not be freed before

    def product(self, rows: Tensor, g: Tensor) -> Tensor:
        """rows^T g, to be used after `join`."""
        if self.stream is None:
            return torch.bmm(rows.transpose(1, 2), g)
        self.held += [rows, g]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return torch.bmm(rows.transpose(1, 2), g)

    def join(self) -> None:
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.held.clear()


class Unstacked(torch.autograd.Function):  # type: ignore[misc]
    """The matrices of the layers, (R, layers, ...) -> one for each; their gradients are waited for here."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, aside: Aside) -> Any:
        ctx.aside = aside
        return matrices.unbind(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.aside.join()
        return torch.stack(grads, 1), None


class FeedForward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor, aside: Aside, share: float, seed: Any, place: int
    ) -> Any:
        x, ctx.aside = x.contiguous(), aside
        h, normed = _forward(x, scale, wi, True, (share, seed, place), keep=True)
        ctx.save_for_backward(x, scale, wi, wo, h, normed, seed)
        ctx.drop = share, place
        return matmul_add(x, h, wo, (share, seed, place + 1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, wi, wo, h, normed, seed = ctx.saved_tensors
        (share, place), dy = ctx.drop, dy.contiguous()
        dh, dropped = _hidden_gradient(dy, wo, h, True, (share, seed, place + 1))
        dwi = ctx.aside.product(normed, dh)
        dx, dscale = _norm_gradient(x, scale, dh, wi, dy)
        return dx, dscale, dwi, ctx.aside.product(h, dropped), *[None] * 4


class SelfBlock(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, qkv: Tensor, o: Tensor, bias: Tensor, mine: Tensor, owner: Tensor,
        aside: Aside, share: float, seed: Any, place: int,
    ) -> Any:  # fmt: skip
        x, bias, ctx.aside = x.contiguous(), bias.contiguous(), aside
        parts, normed = _forward(x, scale, qkv, False, None, keep=True)
        parts = parts.view(len(x), *mine.shape[-2:], 3, bias.shape[1], -1)
        q, k, v = parts.unbind(3)
        mixed = attention(q, k, v, bias, mine, owner, (share, seed, place))
        ctx.save_for_backward(x, scale, qkv, o, bias, mine, owner, parts, normed, mixed, seed)
        ctx.drop = share, place
        return matmul_add(x, mixed, o, (share, seed, place + 1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, qkv, o, bias, mine, owner, parts, normed, mixed, seed = ctx.saved_tensors
        (share, place), dy = ctx.drop, dy.contiguous()
        dmixed, dropped = _hidden_gradient(dy, o, mixed, False, (share, seed, place + 1))
        do = ctx.aside.product(mixed, dropped)
        grads = torch.empty_like(parts)
        (q, k, v), (dq, dk, dv) = parts.unbind(3), grads.unbind(3)
        dbias = _attention_gradient(q, k, v, bias, mine, owner, dmixed, dq, dk, dv, (share, seed, place))
        grads = grads.view(*x.shape[:2], -1)
        dqkv = ctx.aside.product(normed, grads)
        dx, dscale = _norm_gradient(x, scale, grads, qkv, dy)
        return dx, dscale, dqkv, do, dbias, *[None] * 6


class CrossBlock(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, wq: Tensor, o: Tensor, keys: Tensor, mine: Tensor, owner: Tensor,
        aside: Aside, share: float, seed: Any, place: int,
    ) -> Any:  # fmt: skip
        x, keys, ctx.aside = x.contiguous(), keys.contiguous(), aside
        q, normed = _forward(x, scale, wq, False, None, keep=True)
        q = q.view(len(x), *mine.shape[-2:], *keys.shape[4:])
        k, v = keys.unbind(3)
        mixed = attention(q, k, v, None, mine, owner, (share, seed, place))
        ctx.save_for_backward(x, scale, wq, o, keys, mine, owner, q, normed, mixed, seed)
        ctx.drop = share, place
        return matmul_add(x, mixed, o, (share, seed, place + 1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, wq, o, keys, mine, owner, q, normed, mixed, seed = ctx.saved_tensors
        (share, place), dy = ctx.drop, dy.contiguous()
        dmixed, dropped = _hidden_gradient(dy, o, mixed, False, (share, seed, place + 1))
        do = ctx.aside.product(mixed, dropped)
        dq, dkeys = torch.empty_like(q), torch.empty_like(keys)
        (k, v), (dk, dv) = keys.unbind(3), dkeys.unbind(3)
        _attention_gradient(q, k, v, None, mine, owner, dmixed, dq, dk, dv, (share, seed, place))
        dq = dq.view(*x.shape[:2], -1)
        dwq = ctx.aside.product(normed, dq)
        dx, dscale = _norm_gradient(x, scale, dq, wq, dy)
        return dx, dscale, dwq, do, dkeys, *[None] * 6


class Layers:
    """network.py's encoder_layer and decoder_layer, by the kernels; the share to drop is that of `drop`.

    The matrices have to come from `unstack`: their gradients are computed on a stream of their own.
    """

    def __init__(self, drop: Dropout, device: Any) -> None:
        self.drop, self.aside = drop, Aside(device)

    def unstack(self, matrices: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = Unstacked.apply(matrices, self.aside)
        return found

    def encoder_layer(
        self, x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, wi: Tensor, wo: Tensor,
        bias: Tensor, slot: Tensor, owner: Tensor, dropout: float,
    ) -> Tensor:  # fmt: skip
        first, second = norms.unbind(1)  # one gradient for all, where norms[:, 0] has one each
        x = self.self_block(x, first, qkv, o, bias, slot, owner)
        return self.feed_forward(x, second, wi, wo)

    def decoder_layer(
        self, x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, cross_q: Tensor, cross_o: Tensor, wi: Tensor,
        wo: Tensor, keys: Tensor, bias: Tensor, mine: Tensor, owner: Tensor, dropout: float,
    ) -> Tensor:  # fmt: skip
        first, second, third = norms.unbind(1)
        x = self.self_block(x, first, qkv, o, bias, mine, mine[None])
        x = self.cross_block(x, second, cross_q, cross_o, keys, mine, owner)
        return self.feed_forward(x, third, wi, wo)

    def feed_forward(self, x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor) -> Tensor:
        """x + dropout(dropout(relu(norm(x) wi)) wo)"""
        return FeedForward.apply(x, scale, wi, wo, self.aside, *self.drop.next())

    def self_block(
        self, x: Tensor, scale: Tensor, qkv: Tensor, o: Tensor, bias: Tensor, mine: Tensor, owner: Tensor
    ) -> Tensor:
        """x + dropout(attention(norm(x) qkv) o)"""
        return SelfBlock.apply(x, scale, qkv, o, bias, mine, owner, self.aside, *self.drop.next())

    def cross_block(
        self, x: Tensor, scale: Tensor, wq: Tensor, o: Tensor, keys: Tensor, mine: Tensor, owner: Tensor
    ) -> Tensor:
        """x + dropout(attention(norm(x) wq, keys) o)"""
        return CrossBlock.apply(x, scale, wq, o, keys, mine, owner, self.aside, *self.drop.next())
