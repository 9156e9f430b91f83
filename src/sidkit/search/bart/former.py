"""A query-former: the long history of a user as a few vectors before the input of the encoder.

    h   (c, v) vectors of the items of a history, oldest first, and before them one of zeros that stands for none
    Q   (M, d) learned queries

    A = softmax(Q W_q (h W_k)' / sqrt(d / heads)) h W_v        by head
    Y = layer_norm(Q + A W_o)
    out = layer_norm(Y + gelu(Y W_1) W_2)                       (M, d)

An option: without `History` nothing of this is computed. Its weights are named former.*, which transformers' BART does
not have; they lie in a second file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from .network import Blocks, Dropout
    from .shape import BartShape
    from .weights import Weights

__all__ = ["History", "first_former", "former_weights", "summarise"]

Tensor = Any
PREFIX = "former."
WIDENED = 2  # hidden units of the feed-forward layer, for each of d
SCALE = 0.02  # of first weights, as BART's


class History(NamedTuple):
    """The vectors (Th, v) of n histories laid end to end; starts: (n + 1,) int32; longest: vectors of the longest."""

    vectors: Tensor
    starts: Tensor
    longest: int


class _Queries(NamedTuple):
    starts: Tensor
    longest: int


def summarise(w: Weights, heads: int, history: History, dropout: Dropout, blocks: Blocks) -> Tensor:
    """M vectors for each of n histories: (n M, d)."""
    queries = w["former.queries"]
    n, count = len(history.starts) - 1, len(queries)
    starts = torch.arange(n + 1, dtype=torch.int32, device=queries.device) * count
    q = F.linear(queries, w["former.q.weight"], w["former.q.bias"]).repeat(n, 1)
    kv = F.linear(history.vectors.to(queries.dtype), w["former.kv.weight"], w["former.kv.bias"])
    mixed = blocks.cross_attention(q, kv, _Queries(starts, count), history, heads)
    y = _added(w, "out", "norm1", queries.repeat(n, 1), mixed, dropout, blocks)
    hidden = blocks.gelu_linear(y, w["former.fc1.weight"], w["former.fc1.bias"])
    return _added(w, "fc2", "norm2", y, hidden, dropout, blocks)


def first_former(shape: BartShape, count: int, width: int, seed: int) -> Weights:
    """First weights for `count` vectors of a history whose items have `width` dimensions."""
    d, generator = shape.d_model, torch.Generator().manual_seed(seed)
    linear = {"q": (d, d), "kv": (2 * d, width), "out": (d, d), "fc1": (WIDENED * d, d), "fc2": (d, WIDENED * d)}
    weights: Weights = {"former.queries": torch.randn(count, d, generator=generator) * SCALE}
    for name, size in linear.items():
        weights[f"former.{name}.weight"] = torch.randn(*size, generator=generator) * SCALE
        weights[f"former.{name}.bias"] = torch.zeros(size[0])
    for name in ("norm1", "norm2"):
        weights[f"former.{name}.weight"], weights[f"former.{name}.bias"] = torch.ones(d), torch.zeros(d)
    return weights


def former_weights(weights: Weights) -> Weights:
    """Those of the query-former, float32 on the CPU; none where the option is off."""
    return {
        name: value.detach().float().cpu().contiguous() for name, value in weights.items() if name.startswith(PREFIX)
    }


def _added(w: Weights, name: str, norm: str, x: Tensor, z: Tensor, dropout: Dropout, blocks: Blocks) -> Tensor:
    gamma, beta = w[f"former.{norm}.weight"], w[f"former.{norm}.bias"]
    z, bias = F.linear(z, w[f"former.{name}.weight"]), w[f"former.{name}.bias"]
    return blocks.add_norm(x, z, bias, gamma, beta, dropout)
