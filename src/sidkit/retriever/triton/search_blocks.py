"""The blocks of a beam search as Triton kernels: those of ../search_blocks.py with fewer trips to memory.

A beam search moves few numbers per product: a beam's state is read and written, and what is computed in between
(queries, keys, hidden layers, all but a level's logits) stays in the processor. Keys and values of earlier tokens are
read where they were written, through the beams' origins, and never copied. Matrix products take the dtype of the
matrices, everything else is float32. Equal to the plain blocks within rounding (tests/retriever/test_triton_beams.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton

from ..model import Shape, Weights
from ..network import embed, encoder_bias
from ..search_blocks import SearchBlocks
from . import search_kernels as kernels
from .t5_blocks import attention, matmul_add, norm_matmul

__all__ = ["KERNEL_BLOCKS"]

Tensor = Any
TILES: dict[str, dict[str, int]] = {
    "self_block": {"BM": 64, "num_warps": 4, "num_stages": 1},
    "feed_forward": {"BM": 128, "BF": 64, "num_warps": 8, "num_stages": 3},
    "score": {"BM": 128, "BV": 64, "num_warps": 8, "num_stages": 3},
}


def _tile(kernel: str, x: Tensor) -> dict[str, int]:
    """The sizes of a kernel's tiles: rows stay in registers, stages of the matrices in shared memory."""
    tile, d = TILES[kernel], x.shape[2]
    if d > 128:
        tile = tile | {"BM": 64, "num_warps": 8}
    rows, stage = 2 * tile["BM"] * d, 256 * d  # bytes; a stage has 64 columns of two matrices
    stages = (_shared_memory(x.device) - rows) // stage
    return tile | {"D": d, "num_stages": max(1, min(tile["num_stages"], stages))}


@cache
def _shared_memory(device: Any) -> int:
    """Bytes of shared memory that a program may use."""
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin if device.type == "cuda" else 1 << 18


def self_block(
    x: Tensor, scale: Tensor, qkv: Tensor, o: Tensor, bias: Tensor, past: list[Tensor], origin: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """As in ../search_blocks.py; the keys and values of the last token are not needed, and are returned empty."""
    (R, n, _), heads, levels = x.shape, bias.shape[1], bias.shape[2]
    size, out = o.shape[1] // heads, torch.empty_like(x)
    latest = torch.empty(R, n if len(past) + 1 < levels else 0, 2, heads, size, dtype=qkv.dtype, device=x.device)
    users = past[0].shape[1] if past else n
    pasts, origins = [*past, *[latest] * (3 - len(past))], [*origin[1:], *[bias] * (3 - len(origin))]
    tile = _tile("self_block", x) | ({"num_warps": 8} if size > 64 else {})
    kernels.self_block[triton.cdiv(n, tile["BM"]), R](
        x, scale, qkv, o, bias, *pasts, *origins[:2], out, latest,
        n, *(one.shape[1] for one in pasts), scale.stride(0), qkv.stride(0), o.stride(0),
        T=len(past) + 1, LEVELS=levels, BEAMS=n // users, H=heads, E=size, **tile,
    )  # fmt: skip
    return out, latest


def cross_block(x: Tensor, scale: Tensor, q: Tensor, o: Tensor, memory: Any) -> Tensor:
    """As in ../search_blocks.py; memory: keys and values (R, n, W, 2, H, h), and 0 or -1 for padding (R, n, W)."""
    both, owner = memory
    (R, users), heads = owner.shape[:2], both.shape[4]
    queries = norm_matmul(x, scale, q).view(R, users, -1, heads, both.shape[5])
    mine = torch.zeros(queries.shape[1:3], dtype=owner.dtype, device=x.device)
    k, v = both.unbind(3)
    return matmul_add(x, attention(queries, k, v, None, mine, owner), o)


def feed_forward(x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor) -> Tensor:
    """As in ../network.py, without dropout. x: (R, n, d), wi: (R, d, f), wo: (R, f, d)."""
    (R, n, _), out, tile = x.shape, torch.empty_like(x), _tile("feed_forward", x)
    kernels.feed_forward[triton.cdiv(n, tile["BM"]), R](
        x, scale, wi, wo, out, n, scale.stride(0), wi.stride(0), wo.stride(0), F=wi.shape[2], **tile
    )
    return out


def score(x: Tensor, final: Tensor, shared: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """As in ../search_blocks.py. x: (R, n, d) -> (R, n, size), (R, n)."""
    (R, n, _), tile = x.shape, _tile("score", x)
    out, log_sum = torch.empty(R, n, size, device=x.device), torch.empty(R, n, device=x.device)
    kernels.score[triton.cdiv(n, tile["BM"]), R](
        x, final, shared, out, log_sum, n, shared.shape[1], first, size, final.stride(0), **tile
    )
    return out, log_sum


def totals(base: Tensor, scores: Tensor, begin: Tensor, stop: Tensor, codes: Tensor, widest: int) -> Tensor:
    """As in ../search_blocks.py. base, begin, stop: (R, n, k), scores: (R, n, k, size) -> (R, n, k, widest)."""
    out, columns = torch.empty(*base.shape, widest, device=base.device), min(256, triton.next_power_of_2(widest))
    rows, base, begin, stop = 2048 // columns, base.contiguous(), begin.contiguous(), stop.contiguous()
    kernels.totals[triton.cdiv(base.numel(), rows), triton.cdiv(widest, columns)](
        base, scores, begin, stop, codes, out, base.numel(), scores.shape[-1], widest, BM=rows, BC=columns
    )
    return out


def read(weights: Weights, shape: Shape, tokens: Tensor) -> list[Any]:
    """tokens: (R, n, W) -> the memory that cross_block takes, for every layer."""
    (R, n, width), w = tokens.shape, weights
    slot, owner = torch.zeros_like(tokens[0]), (tokens != 0).long() - 1
    x, bias = embed(w["shared"], tokens, 0.0), encoder_bias(w["encoder.bias"], width).contiguous()
    names = ("norm", "qkv", "o", "wi", "wo")
    for norms, qkv, o, wi, wo in zip(*(w[f"encoder.{name}"].unbind(1) for name in names), strict=True):
        q, k, v = norm_matmul(x, norms[:, 0], qkv).view(R, n, width, 3, shape.heads, shape.d_kv).unbind(3)
        x = matmul_add(x, attention(q, k, v, bias, slot, owner), o)
        x = feed_forward(x, norms[:, 1], wi, wo)
    both = (norm_matmul(x, w["encoder.final"], kv) for kv in w["cross.kv"].unbind(1))
    return [(one.view(R, n, width, 2, shape.heads, shape.d_kv), owner) for one in both]


KERNEL_BLOCKS = SearchBlocks(read, self_block, cross_block, feed_forward, score, totals)
