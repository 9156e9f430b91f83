"""The `Blocks` of a forward pass as Triton kernels: bfloat16 on a GPU, sequences of at most 128 tokens."""

from __future__ import annotations

from typing import Any

from ..network import PLAIN, Blocks, Dropout, PackedRows
from . import attention, layers
from .attention import LONGEST

__all__ = ["FUSED"]

Tensor = Any


def _self_attention(qkv: Tensor, rows: PackedRows, heads: int, causal: bool) -> Tensor:
    if rows.longest > LONGEST:
        return PLAIN.self_attention(qkv, rows, heads, causal)
    return attention.self_attention(qkv, rows.starts, rows.longest, heads, causal)


def _cross_attention(q: Tensor, kv: Tensor, rows: PackedRows, source: PackedRows, heads: int) -> Tensor:
    if max(rows.longest, source.longest) > LONGEST:
        return PLAIN.cross_attention(q, kv, rows, source, heads)
    return attention.cross_attention(q, kv, rows.starts, source.starts, rows.longest, source.longest, heads)


def _add_norm(x: Tensor, z: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, dropout: Dropout) -> Tensor:
    return layers.add_norm(x, z, bias, gamma, beta, dropout.rate, dropout.seed, dropout.next())


FUSED = Blocks(_self_attention, _cross_attention, _add_norm, layers.gelu_linear, LONGEST)
