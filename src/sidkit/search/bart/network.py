"""The forward pass of BART over packed rows, and its loss.

    S    sequences of a batch, laid end to end: no padding is computed
    Te   tokens of all inputs, Td of all outputs; d the width, H heads, V the vocabulary

Queries attend within their own sequence. Dropout follows transformers: after the embeddings, and on what each block
adds. What lies between matrix products comes as `Blocks`: in plain torch here, as Triton kernels in `triton/`.
Equal to transformers' loss and gradients within rounding (tests/search/test_bart.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from .former import History, summarise
from .shape import OFFSET
from .weights import Weights

__all__ = ["PLAIN", "Blocks", "Dropout", "PackedRows", "add", "decode", "embed", "encode", "layers", "loss", "packed"]

Tensor = Any


class PackedRows(NamedTuple):
    """Sequences laid end to end.

    tokens, position: (T,) token ids, and the index of each within its sequence; starts: (S + 1,) int32, where each
    sequence begins, and the end of the last; longest: tokens of the longest sequence, as a number.
    history: of the first n sequences; each begins with as many tokens as there are vectors of a history, which take
    their place.
    """

    tokens: Tensor
    position: Tensor
    starts: Tensor
    longest: int
    history: History | None = None


def packed(tokens: Tensor, starts: Tensor, longest: int, padding: int = 0) -> PackedRows:
    """tokens: (T,), starts: (S + 1,) with starts[S] = T, on one device; the last `padding` tokens have position 0."""
    index = torch.arange(len(tokens), device=tokens.device)
    position = index - starts[torch.searchsorted(starts, index, right=True) - 1]
    position[len(tokens) - padding :] = 0
    return PackedRows(tokens, position, starts.to(torch.int32), longest)


class Dropout:
    """A rate, a seed for every step, and the sites where it is applied within one.

    seed: () an integer in the memory of the device. Kernels read it there, so that a recorded step drops other numbers
    each time that it is replayed. Plain torch draws from its own generator.
    """

    def __init__(self, rate: float = 0.0, seed: Tensor | None = None) -> None:
        self.rate, self.seed, self.site = rate, seed, 0

    def next(self) -> int:
        """A site that has not been used in this step."""
        self.site += 1
        return self.site


def self_attention(qkv: Tensor, rows: PackedRows, heads: int, causal: bool) -> Tensor:
    """qkv: (T, 3 d) -> (T, d): every token over the tokens of its own sequence."""
    q, k, v = qkv.unflatten(1, (3, heads, -1)).unbind(1)
    return _attend(q, k, v, rows, rows, causal)


def cross_attention(q: Tensor, kv: Tensor, rows: PackedRows, source: PackedRows, heads: int) -> Tensor:
    """q: (Tq, d), kv: (Tk, 2 d) -> (Tq, d): every query over the keys of the same sequence."""
    k, v = kv.unflatten(1, (2, heads, -1)).unbind(1)
    return _attend(q.unflatten(1, (heads, -1)), k, v, rows, source, causal=False)


def add_norm(x: Tensor, z: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, dropout: Dropout) -> Tensor:
    """layer_norm(x + dropout(z + bias)), all (T, d)."""
    return F.layer_norm(x + F.dropout(z + bias, dropout.rate), x.shape[-1:], gamma, beta)


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """gelu(x weight' + bias)."""
    return F.gelu(F.linear(x, weight, bias))


class Blocks(NamedTuple):
    """The functions of a forward pass besides matrix products.

    recorded: sequences of at most so many tokens are computed without waiting for the device, so that a step can be
    recorded; 0 for none.
    """

    self_attention: Any = self_attention
    cross_attention: Any = cross_attention
    add_norm: Any = add_norm
    gelu_linear: Any = gelu_linear
    recorded: int = 0


PLAIN = Blocks()


def encode(w: Weights, heads: int, x: PackedRows, dropout: Dropout, blocks: Blocks = PLAIN) -> Tensor:
    """The output of the encoder: (Te, d)."""
    words = F.embedding(x.tokens, w["shared"])
    if x.history is not None:
        vectors = summarise(w, heads, x.history, dropout, blocks)
        n = len(x.history.starts) - 1
        words = words.index_copy(0, _first_tokens(x.starts, n, len(vectors) // n), vectors)
    y = F.dropout(_embedded(w, "encoder", words, x.position), dropout.rate)
    for layer in layers(w, "encoder"):
        y = _attention_block(layer, heads, y, x, dropout, blocks, causal=False)
        y = _feed_forward(layer, y, dropout, blocks)
    return y


def decode(
    w: Weights, heads: int, x: PackedRows, memory: Tensor, source: PackedRows, dropout: Dropout, blocks: Blocks = PLAIN
) -> Tensor:
    """The output of the decoder for the tokens so far, given the encoder's output for the source: (Td, d)."""
    y = F.dropout(embed(w, "decoder", x.tokens, x.position), dropout.rate)
    for layer in layers(w, "decoder"):
        y = _attention_block(layer, heads, y, x, dropout, blocks, causal=True)
        q = F.linear(y, layer["cross.q.weight"], layer["cross.q.bias"])
        kv = F.linear(memory, layer["cross.kv.weight"], layer["cross.kv.bias"])
        mixed = blocks.cross_attention(q, kv, x, source, heads)
        y = add(layer, "cross.out", "norm3", y, mixed, dropout, blocks)
        y = _feed_forward(layer, y, dropout, blocks)
    return y


def loss(
    w: Weights,
    heads: int,
    source: PackedRows,
    target: PackedRows,
    labels: Tensor,
    dropout: Dropout,
    blocks: Blocks = PLAIN,
) -> Tensor:
    """The mean cross-entropy of the labels (Td,), -100 being none."""
    memory = encode(w, heads, source, dropout, blocks)
    y = decode(w, heads, target, memory, source, dropout, blocks)
    return F.cross_entropy((y @ w["shared"].T).float(), labels, ignore_index=-100)


def embed(w: Weights, side: str, tokens: Tensor, position: Tensor) -> Tensor:
    """tokens, position: (T,) -> (T, d)."""
    return _embedded(w, side, F.embedding(tokens, w["shared"]), position)


def _embedded(w: Weights, side: str, words: Tensor, position: Tensor) -> Tensor:
    y = words + F.embedding(position + OFFSET, w[f"{side}.positions"])
    return F.layer_norm(y, y.shape[-1:], w[f"{side}.start.weight"], w[f"{side}.start.bias"])


def _first_tokens(starts: Tensor, n: int, count: int) -> Tensor:
    """The indices of the first `count` tokens of each of the first n sequences: (n count,)."""
    return (starts[:n, None].long() + torch.arange(count, device=starts.device)).flatten()


def layers(w: Weights, side: str) -> list[Weights]:
    """The weights of each layer of the encoder or the decoder, without the side's name."""
    stacked = {name.removeprefix(f"{side}."): value.unbind(0) for name, value in w.items() if _in_layers(name, side)}
    count = len(next(iter(stacked.values())))
    return [{name: value[i] for name, value in stacked.items()} for i in range(count)]


def _in_layers(name: str, side: str) -> bool:
    return name.startswith(f"{side}.") and not name.startswith((f"{side}.start.", f"{side}.positions"))


def _attention_block(
    layer: Weights, heads: int, x: Tensor, rows: PackedRows, dropout: Dropout, blocks: Blocks, causal: bool
) -> Tensor:
    qkv = F.linear(x, layer["qkv.weight"], layer["qkv.bias"])
    return add(layer, "out", "norm1", x, blocks.self_attention(qkv, rows, heads, causal), dropout, blocks)


def _feed_forward(layer: Weights, x: Tensor, dropout: Dropout, blocks: Blocks) -> Tensor:
    hidden = blocks.gelu_linear(x, layer["fc1.weight"], layer["fc1.bias"])
    return add(layer, "fc2", "norm2", x, hidden, dropout, blocks)


def add(layer: Weights, name: str, norm: str, x: Tensor, z: Tensor, dropout: Dropout, blocks: Blocks) -> Tensor:
    """x plus the output of a block, through its last matrix, and the norm after it."""
    z, bias = F.linear(z, layer[f"{name}.weight"]), layer[f"{name}.bias"]
    return blocks.add_norm(x, z, bias, layer[f"{norm}.weight"], layer[f"{norm}.bias"], dropout)


def _attend(q: Tensor, k: Tensor, v: Tensor, rows: PackedRows, source: PackedRows, causal: bool) -> Tensor:
    """q: (Tq, H, h), k and v: (Tk, H, h) -> (Tq, H h), by a mask over padded sequences."""
    q, q_real = _padded(q, rows)
    (k, k_real), (v, _) = _padded(k, source), _padded(v, source)
    mask = k_real[:, None, None, :]
    if causal:
        mask = mask & torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return mixed.transpose(1, 2)[q_real].flatten(1)


def _padded(x: Tensor, rows: PackedRows) -> tuple[Tensor, Tensor]:
    """(T, H, h) -> (S, H, longest, h), and which of these are tokens (S, longest)."""
    lengths = rows.starts.diff()
    real = torch.arange(rows.longest, device=x.device) < lengths[:, None]
    out = x.new_zeros(len(lengths), rows.longest, *x.shape[1:])
    out[real] = x
    return out.transpose(1, 2), real
