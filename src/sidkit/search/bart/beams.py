"""Beam search for item SIDs with BART: the children of a trie node are the only candidates of a beam.

    n   queries; k beams of a query; N = n k rows of the decoder; V tokens of the vocabulary

Scores are sums of log-probabilities over the whole vocabulary, as transformers' `generate` has them under the same
constraint before the end token. The keys of the input are computed once for all beams of a query.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ...decoding.device_trie import DeviceTrie
from ...retriever.search_blocks import totals
from .network import PLAIN, Blocks, Dropout, PackedRows, add, embed, encode, layers
from .weights import Weights

__all__ = ["BartBeams", "beam_search"]

Tensor = Any
LOGITS = 1 << 28  # logits computed at once


class BartBeams(NamedTuple):
    """leaf: (n, beams) the index of the SID in the trie, best first, -1 for none; score: its log-probability."""

    leaf: Tensor
    score: Tensor


@torch.no_grad()  # type: ignore[untyped-decorator]
def beam_search(
    w: Weights, heads: int, trie: DeviceTrie, source: PackedRows, beams: int, start: int, first: int,
    blocks: Blocks = PLAIN,
) -> BartBeams:  # fmt: skip
    """The best SIDs of the trie for packed inputs; start: the decoder's first token, first: the token of level 1's
    code 0, from which the codes of all levels follow each other."""
    n = len(source.starts) - 1
    decoder = _Decoder(w, heads, source, encode(w, heads, source, Dropout(), blocks), blocks)
    node = trie.roots(n)  # (1, n, 1)
    token, parent = torch.full_like(node, start), None
    score = torch.zeros_like(node, dtype=torch.float32)
    for level, size in enumerate(trie.sizes):
        offset = first + sum(trie.sizes[:level])
        y = decoder.step(token[0], None if parent is None else parent[0])
        logits, mass = _scores(y, w["shared"], offset, size)
        codes, widest, (begin, stop) = trie.codes[level], trie.widest[level], trie.bounds(node, level)
        base = score - mass.view(1, n, -1)
        total = totals(base, logits.view(1, n, -1, size), begin, stop, codes, widest).flatten(2)
        score, best = total.topk(min(beams, total.shape[2]))
        parent = best // widest
        node = (torch.gather(begin, 2, parent) + best % widest).clamp(max=len(codes) - 1)
        token = codes[node] + offset
    leaf = trie.leaves_of_runs(torch.where(score == -torch.inf, -1, node))
    return BartBeams(leaf[0], score[0])


class _Decoder:
    """The decoder, one token further at each call; it holds the keys and values of the tokens so far."""

    def __init__(self, w: Weights, heads: int, source: PackedRows, memory: Tensor, blocks: Blocks) -> None:
        self.w, self.heads, self.source, self.blocks = w, heads, source, blocks
        self.layers = layers(w, "decoder")
        self.cross = [F.linear(memory, layer["cross.kv.weight"], layer["cross.kv.bias"]) for layer in self.layers]
        self.past: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.layers]
        self.length = 0

    def step(self, token: Tensor, parent: Tensor | None) -> Tensor:
        """token: (n, k), parent: (n, k) the beam that each continues -> (n k, d)."""
        (n, k), run, none = token.shape, self.blocks, Dropout()
        if parent is not None:
            before = len(self.past[0][0][0]) // n
            row = (parent + torch.arange(n, device=parent.device)[:, None] * before).flatten()
            self.past = [[(keys[row], values[row]) for keys, values in layer] for layer in self.past]
        tokens = token.flatten()
        y = embed(self.w, "decoder", tokens, torch.full_like(tokens, self.length))
        starts = torch.arange(n + 1, dtype=torch.int32, device=y.device) * k
        rows = PackedRows(tokens, tokens, starts, k)
        for layer, past, cross in zip(self.layers, self.past, self.cross, strict=True):
            qkv = F.linear(y, layer["qkv.weight"], layer["qkv.bias"]).unflatten(1, (3, self.heads, -1))
            q, key, value = qkv.unbind(1)
            past.append((key, value))
            y = add(layer, "out", "norm1", y, _over_past(q, past).flatten(1), none, run)
            q = F.linear(y, layer["cross.q.weight"], layer["cross.q.bias"])
            y = add(
                layer, "cross.out", "norm3", y, run.cross_attention(q, cross, rows, self.source, self.heads), none, run
            )
            y = add(layer, "fc2", "norm2", y, run.gelu_linear(y, layer["fc1.weight"], layer["fc1.bias"]), none, run)
        self.length += 1
        return y


def _over_past(q: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
    """q: (N, H, h) over the keys and values (N, H, h) of each token so far -> (N, H, h)."""
    scores = torch.stack([(q.float() * key).sum(-1) for key, _ in past], -1) * q.shape[-1] ** -0.5  # (N, H, t)
    weights = torch.softmax(scores, -1).to(q.dtype)
    return sum(weights[..., t, None] * value for t, (_, value) in enumerate(past))


def _scores(y: Tensor, shared: Tensor, offset: int, size: int) -> tuple[Tensor, Tensor]:
    """y: (N, d) -> the logits (N, size) of a level's tokens, and the logarithm (N,) of the sum of all tokens' exp."""
    at_once = max(1, LOGITS // len(shared))
    masses = [(part @ shared.T).float().logsumexp(-1) for part in y.split(at_once)]
    return (y @ shared[offset : offset + size].T).float(), torch.cat(masses)
