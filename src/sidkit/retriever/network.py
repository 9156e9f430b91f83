"""T5's forward pass over stacked runs and packed rows: padding is not computed.

    R      runs: models trained at once, each with its own weights and its own batch
    rows   each holds the histories of a few examples, one after the other
    W      history tokens of a row; D target tokens of a row; L tokens of a semantic ID
    H, h   heads and their width; V tokens of the vocabulary

A token sees the tokens of its example only: `owner` is the slot of the example that a token belongs to, -1 being
padding. Relative positions need no care, for the tokens of an example are neighbours. Matrix products run in the dtype
of the matrices, everything else in float32. Equal to transformers' T5 within rounding
(tests/retriever/test_retriever.py).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from .dropout import Dropout, drop
from .model import Shape, Weights

__all__ = [
    "Batch",
    "ForwardParts",
    "cross_keys",
    "decoder_bias",
    "embed",
    "encode",
    "encoder_bias",
    "feed_forward",
    "in_dtype",
    "logits",
    "loss",
    "norm",
]

Tensor = Any
EPSILON = 1e-6
FORBIDDEN = -1e9
FARTHEST = 128  # positions apart, beyond which all share a bucket
EXACT = ("shared", "encoder.bias", "decoder.bias", "encoder.norm", "decoder.norm", "encoder.final", "decoder.final")
DECODER = ("decoder.norm", "decoder.qkv", "decoder.o", "cross.q", "cross.o", "decoder.wi", "decoder.wo", "cross.kv")


class Batch(NamedTuple):
    """One step's examples of every run."""

    tokens: Tensor  # (R, rows, W) history
    slot: Tensor  # (rows, W) the slot that a token's position belongs to
    owner: Tensor  # (R, rows, W) the slot, or -1 where the token is padding
    target: Tensor  # (R, rows, D) the SIDs to generate, one after the other
    before: Tensor  # (R, rows, D) the token before each, 0 at the start of a SID
    mine: Tensor  # (rows, D) the slot that a target token belongs to
    weight: Tensor  # (R, rows, D) 1, or 0 where the slot is empty


def in_dtype(weights: Weights, dtype: Any) -> Weights:
    """The matrices in the dtype of matrix products; embeddings, norms and position biases stay float32."""
    return {name: value if name in EXACT else value.to(dtype) for name, value in weights.items()}


def norm(x: Tensor, scale: Tensor) -> Tensor:
    """T5's layer norm: x over its root mean square. x: (R, n, d), scale: (R, d)."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * scale[:, None]


def bucket(distance: Tensor, both_sides: bool, buckets: int) -> Tensor:
    """T5's relative position buckets: exact up to half of them, logarithmic beyond, up to FARTHEST."""
    first = torch.zeros_like(distance)
    if both_sides:
        buckets //= 2
        first = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    far = exact + (torch.log(distance.float() / exact) / math.log(FARTHEST / exact) * (buckets - exact)).long()
    return first + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def encoder_bias(table: Tensor, width: int) -> Tensor:
    """(R, H, W, W) of a table (R, buckets, H)."""
    position = torch.arange(width, device=table.device)
    return _by_bucket(table, bucket(position - position[:, None], True, table.shape[1]))


def decoder_bias(table: Tensor, width: int, levels: int) -> Tensor:
    """(R, H, D, D) for SIDs one after the other; the later tokens of a SID are forbidden."""
    level = torch.arange(width, device=table.device) % levels
    distance = level - level[:, None]
    return _by_bucket(table, bucket(distance, False, table.shape[1])).masked_fill(distance > 0, FORBIDDEN)


def _by_bucket(table: Tensor, which: Tensor) -> Tensor:
    """table: (R, buckets, H), which: (A, B) -> (R, H, A, B). A matrix product, because its gradient is one too."""
    chosen = (torch.arange(table.shape[1], device=table.device)[:, None] == which.flatten()).to(table.dtype)
    return (table.transpose(1, 2) @ chosen).unflatten(2, which.shape)


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mine: Tensor, owner: Tensor, dropout: Dropout
) -> Tensor:
    """q: (R, rows, A, H, h), k and v: (R, rows, B, H, h), bias: (R, H, A, B) or None, mine: (rows, A) or
    (R, rows, A), owner: (R, rows, B) -> (R, rows * A, H * h)."""
    scores = q.transpose(2, 3) @ k.permute(0, 1, 3, 4, 2)  # (R, rows, H, A, B)
    scores = scores.float()
    if bias is not None:
        scores = scores + bias[:, None]
    seen = (mine[..., :, None] == owner[..., None, :])[..., None, :, :]
    shares = torch.softmax(scores.masked_fill(~seen, FORBIDDEN), -1).to(v.dtype)
    mixed = drop(shares, dropout) @ v.transpose(2, 3)  # (R, rows, H, A, h)
    return mixed.transpose(2, 3).flatten(3).flatten(1, 2)


def feed_forward(x: Tensor, scale: Tensor, wi: Tensor, wo: Tensor, dropout: Dropout) -> Tensor:
    """x + relu(norm(x) wi) wo. x: (R, n, d), wi: (R, d, f), wo: (R, f, d)."""
    hidden = drop(F.relu(norm(x, scale).to(wi.dtype) @ wi), dropout)
    return x + drop((hidden @ wo).float(), dropout)


def encoder_layer(
    x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, wi: Tensor, wo: Tensor,
    bias: Tensor, slot: Tensor, owner: Tensor, dropout: Dropout,
) -> Tensor:  # fmt: skip
    """x: (R, rows * W, d) -> the same."""
    heads = bias.shape[1]
    parts = (norm(x, norms[:, 0]).to(qkv.dtype) @ qkv).unflatten(2, (3, heads, -1)).unflatten(1, owner.shape[1:])
    q, k, v = parts.unbind(3)
    x = x + drop((attend(q, k, v, bias, slot, owner, dropout) @ o).float(), dropout)
    return feed_forward(x, norms[:, 1], wi, wo, dropout)


def decoder_layer(
    x: Tensor, norms: Tensor, qkv: Tensor, o: Tensor, cross_q: Tensor, cross_o: Tensor, wi: Tensor, wo: Tensor,
    keys: Tensor, bias: Tensor, mine: Tensor, owner: Tensor, dropout: Dropout,
) -> Tensor:  # fmt: skip
    """x: (R, rows * D, d), keys: (R, rows, W, 2, H, h) -> the same as x."""
    heads, rows = bias.shape[1], mine.shape
    parts = (norm(x, norms[:, 0]).to(qkv.dtype) @ qkv).unflatten(2, (3, heads, -1)).unflatten(1, rows)
    q, k, v = parts.unbind(3)
    x = x + drop((attend(q, k, v, bias, mine, mine[None], dropout) @ o).float(), dropout)
    q = (norm(x, norms[:, 1]).to(cross_q.dtype) @ cross_q).unflatten(2, (heads, -1)).unflatten(1, rows)
    k, v = keys.unbind(3)
    x = x + drop((attend(q, k, v, None, mine, owner, dropout) @ cross_o).float(), dropout)
    return feed_forward(x, norms[:, 2], wi, wo, dropout)


def embed(table: Tensor, tokens: Tensor, dropout: Dropout) -> Tensor:
    """table: (R, V, d), tokens: (R, ...) -> (R, n, d) in float32."""
    flat = tokens.flatten(1)
    runs = torch.arange(len(table), device=flat.device)[:, None]
    return drop(F.embedding(flat + runs * table.shape[1], table.flatten(0, 1)).float(), dropout)


def logits(x: Tensor, final: Tensor, shared: Tensor, dtype: Any, dropout: Dropout = 0.0) -> Tensor:
    """(R, n, V) in float32, of decoder outputs (R, n, d); T5 scales them by d^-1/2 where embeddings are tied."""
    x, words = drop(norm(x, final), dropout) * x.shape[-1] ** -0.5, shared.shape[1]
    table = F.pad(shared, (0, 0, 0, -words % 8)).to(dtype)  # matrix units want aligned rows
    return (x.to(dtype) @ table.transpose(1, 2))[..., :words].float()


def finish(x: Tensor, scale: Tensor, dtype: Any, dropout: Dropout) -> Tensor:
    """The encoder's last step: norm and dropout, in the dtype of matrix products."""
    return drop(norm(x, scale), dropout).to(dtype)


def head(
    x: Tensor, final: Tensor, shared: Tensor, target: Tensor, weight: Tensor, dtype: Any, dropout: Dropout,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """(R,) the mean cross-entropy of decoder outputs (R, rows * D, d), target tokens and weights (R, rows, D).

    smoothing: the share of each target's probability that is spread over all tokens.
    """
    scores = logits(x, final, shared, dtype, dropout)
    flat = scores.flatten(0, 1), target.flatten()
    each = F.cross_entropy(*flat, reduction="none", label_smoothing=smoothing).view(len(target), -1)
    weight = weight.flatten(1)
    return (each * weight).sum(1) / weight.sum(1).clamp(min=1)


def unstack(matrices: Tensor) -> tuple[Tensor, ...]:
    """(R, layers, ...) -> (R, ...) for each layer."""
    layers: tuple[Tensor, ...] = matrices.unbind(1)
    return layers


class ForwardParts(NamedTuple):
    """The pieces of the forward pass: as they stand here, compiled, or as kernels."""

    embed: Any = embed
    encoder_bias: Any = encoder_bias
    encoder_layer: Any = encoder_layer
    finish: Any = finish
    decoder_bias: Any = decoder_bias
    decoder_layer: Any = decoder_layer
    head: Any = head
    unstack: Any = unstack

    @classmethod
    def compiled(cls) -> ForwardParts:
        """Each compiled for the one shape it will meet; what was compiled before is forgotten."""
        torch.compiler.reset()  # torch gives up on a function after a handful of shapes
        return cls(*(torch.compile(part, dynamic=False, fullgraph=True) for part in cls()[:-1]))  # unstack is no work


EAGER = ForwardParts()


def encode(
    weights: Weights, tokens: Tensor, slot: Tensor, owner: Tensor, dropout: Dropout = 0.0, parts: ForwardParts = EAGER
) -> Tensor:
    """(R, rows * W, d) in the dtype of matrix products."""
    x = parts.embed(weights["shared"], tokens, dropout)
    bias = parts.encoder_bias(weights["encoder.bias"], tokens.shape[2])
    names = ("norm", "qkv", "o", "wi", "wo")
    for layer in zip(*(parts.unstack(weights[f"encoder.{name}"]) for name in names), strict=True):
        x = parts.encoder_layer(x, *layer, bias, slot, owner, dropout)
    return parts.finish(x, weights["encoder.final"], weights["encoder.o"].dtype, dropout)


def cross_keys(encoded: Tensor, kv: Tensor, heads: int, rows: Any) -> Tensor:
    """A decoder layer's keys and values of the encoder's output: (R, rows, W, 2, H, h). kv: (R, d, 2 * H * h)."""
    return (encoded @ kv).unflatten(2, (2, heads, -1)).unflatten(1, rows)


def loss(
    weights: Weights, shape: Shape, levels: int, batch: Batch, dropout: Dropout = 0.0, parts: ForwardParts = EAGER
) -> Tensor:
    """(R,) the mean cross-entropy over the target tokens of each run."""
    encoded = encode(weights, batch.tokens, batch.slot, batch.owner, dropout, parts)
    x = parts.embed(weights["shared"], batch.before, dropout)
    bias = parts.decoder_bias(weights["decoder.bias"], batch.target.shape[2], levels)
    for *layer, kv in zip(*(parts.unstack(weights[name]) for name in DECODER), strict=True):
        keys = cross_keys(encoded, kv, shape.heads, batch.tokens.shape[1:])
        x = parts.decoder_layer(x, *layer, keys, bias, batch.mine, batch.owner, dropout)
    final, shared = weights["decoder.final"], weights["shared"]
    return parts.head(x, final, shared, batch.target, batch.weight, encoded.dtype, dropout)
