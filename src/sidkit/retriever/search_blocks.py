"""The blocks of a beam search in plain torch, and the tuple by which a search calls them.

R   runs; n users, the same number for every run; k beams of a user; N = n k
W   tokens of a history; V tokens of the vocabulary; H heads of width h
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch

from .model import Shape, Weights
from .network import FORBIDDEN, cross_keys, encode, feed_forward, logits, norm

__all__ = ["PLAIN_BLOCKS", "SearchBlocks"]

Tensor = Any


def read(weights: Weights, shape: Shape, tokens: Tensor) -> list[Any]:
    """Encode histories. tokens: (R, n, W) -> for every layer the keys (R, n, H, h, W) and values (R, n, H, W, h) of the
    encoder's output, and the mask (R, n, 1, 1, W) to add to scores: 0, or FORBIDDEN where a token is padding."""
    encoded = encode(weights, tokens, torch.zeros_like(tokens[0]), (tokens != 0).long() - 1)
    mask = torch.where(tokens != 0, 0.0, FORBIDDEN)[:, :, None, None]
    both = (cross_keys(encoded, kv, shape.heads, tokens.shape[1:]).unbind(3) for kv in weights["cross.kv"].unbind(1))
    return [(k.permute(0, 1, 3, 4, 2).contiguous(), v.transpose(2, 3).contiguous(), mask) for k, v in both]


def self_block(
    x: Tensor, scale: Tensor, qkv: Tensor, o: Tensor, bias: Tensor, past: list[Tensor], origin: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """x + self-attention of x over the tokens of its beam; and the keys and values (R, N, 2, H, h) of x.

    x: (R, N, d), bias: (R, H, levels, levels). For each earlier token, past: keys and values (R, N then, 2, H, h), and
    origin: (R, N) the row of past that a beam descends from.
    """
    q, k, v = (norm(x, scale).to(qkv.dtype) @ qkv).unflatten(2, (3, bias.shape[1], -1)).unbind(2)
    latest = torch.stack([k, v], 2)
    earlier = [
        torch.gather(rows, 1, at[..., None, None, None].expand(-1, -1, *rows.shape[2:]))
        for rows, at in zip(past, origin, strict=True)
    ]
    k, v = torch.stack([*earlier, latest], 2).unbind(3)  # (R, N, t, H, h)
    bias = bias[:, :, len(past), : len(past) + 1].transpose(1, 2)[:, None]
    # as sums of products: with a handful of tokens, a matrix product for each beam and head is far slower
    scores = (q[:, :, None].float() * k).sum(-1) + bias  # (R, N, t, H)
    mixed = (torch.softmax(scores, 2)[..., None].to(q.dtype) * v).sum(2)
    return x + (mixed.flatten(2) @ o).float(), latest


def cross_block(x: Tensor, scale: Tensor, q: Tensor, o: Tensor, memory: Any) -> Tensor:
    """x + attention of x: (R, N, d) over the history; memory: of one layer, as `read` returns it."""
    keys, values, mask = memory
    n, heads = keys.shape[1:3]
    q = (norm(x, scale).to(q.dtype) @ q).unflatten(2, (heads, -1)).unflatten(1, (n, -1))
    scores = (q.transpose(2, 3) @ keys).float() + mask  # (R, n, H, k, W)
    mixed = (torch.softmax(scores, -1).to(q.dtype) @ values).transpose(2, 3)
    return x + (mixed.flatten(3).flatten(1, 2) @ o).float()


def score(x: Tensor, final: Tensor, shared: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """x: (R, N, d) -> the logits (R, N, size) of `size` tokens from `first` on, and the log of the sum (R, N) of exp
    over all tokens' logits."""
    scores = logits(x, final, shared, shared.dtype)
    return scores[..., first : first + size], scores.logsumexp(-1)


def totals(base: Tensor, scores: Tensor, begin: Tensor, stop: Tensor, codes: Tensor, widest: int) -> Tensor:
    """The score of each candidate (R, n, k, widest), -inf where there is none.

    base: (R, n, k) to add, scores: (R, n, k, size) by code, begin and stop: (R, n, k) the candidates' range among the
    nodes of a level, codes: (nodes,) of that level.
    """
    child = begin[..., None] + torch.arange(widest, device=base.device)
    code = codes[child.clamp(max=len(codes) - 1)]
    return (base[..., None] + torch.gather(scores, 3, code)).masked_fill(child >= stop[..., None], -torch.inf)


class SearchBlocks(NamedTuple):
    """The functions of a beam search: in plain torch as here, or as Triton kernels."""

    read: Any = read
    self_block: Any = self_block
    cross_block: Any = cross_block
    feed_forward: Any = partial(feed_forward, dropout=0.0)
    score: Any = score
    totals: Any = totals


PLAIN_BLOCKS = SearchBlocks()
