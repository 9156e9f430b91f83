"""Beam search for semantic IDs, all runs, users and beams at once, on the device the weights are on.

    R   runs: models of one shape with stacked weights, each with its own SIDs
    n   users, the same number for every run; k beams of a user; N = n k; V tokens of the vocabulary

Constrained, the candidates of a beam are the children of its trie node and nothing else, so every result is a SID that
stands for items. Unconstrained, they are the whole vocabulary, token 0 ending a hypothesis as in transformers' beam
search, and results that are no SID are marked. Scores are sums of log-probabilities over the whole vocabulary, so both
equal what transformers' `generate` gives (tests/test_retriever.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ..sids.trie import Trie
from .data import Vocabulary
from .model import Shape, Weights
from .network import FORBIDDEN, cross_keys, decoder_bias, embed, encode, feed_forward, fused_fits, logits, norm

__all__ = [
    "PLAIN",
    "Beams",
    "Blocks",
    "Decoder",
    "DeviceTrie",
    "beam_search",
    "blocks_for",
    "free_search",
    "stacked_search",
]

Tensor = Any


class Beams(NamedTuple):
    """leaf: (n, beams) the SID's number in the trie, best first, -1 for none; score: (n, beams) its log-probability.

    Of stacked runs, both are (R, n, beams).
    """

    leaf: Tensor
    score: Tensor


class DeviceTrie:
    """The tries of one or several runs as tensors: children by range, and prefixes looked up by (parent, code).

    Nodes are numbered through a level, run after run: run r has root r, and its leaves begin at leaves[r].
    """

    def __init__(self, tries: Trie | Sequence[Trie], vocabulary: Vocabulary, device: Any) -> None:
        tries = [tries] if isinstance(tries, Trie) else tries
        self.levels, self.sizes, self.first = len(vocabulary.sizes), vocabulary.sizes, vocabulary.first
        self.widest: list[int] = []  # most children of a node
        self.children: list[Tensor] = []
        self.codes: list[Tensor] = []
        self.keys: list[Tensor] = []
        for level, size in enumerate(self.sizes):
            begin = np.cumsum([0, *(len(trie.codes[level]) for trie in tries)])
            bounds = [trie.children[level][:-1] + start for trie, start in zip(tries, begin, strict=False)]
            joined = np.concatenate([*bounds, begin[-1:]])
            codes, counts = np.concatenate([trie.codes[level] for trie in tries]), np.diff(joined)
            self.widest.append(int(counts.max()))
            self.children.append(torch.as_tensor(joined, device=device))
            self.codes.append(torch.as_tensor(codes, device=device))
            self.keys.append(torch.as_tensor(np.repeat(np.arange(len(counts)), counts) * size + codes, device=device))
        self.leaves = torch.as_tensor(begin[:-1], device=device)  # (R,)

    def candidates(self, node: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """The children of nodes (...) of the level above: their numbers (..., widest), and which of them exist."""
        begin, stop = self.bounds(node, level)
        child = begin[..., None] + torch.arange(self.widest[level], device=node.device)
        return child.clamp(max=len(self.codes[level]) - 1), child < stop[..., None]

    def bounds(self, node: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """The first of those children, and the first node behind them."""
        return self.children[level][node], self.children[level][node + 1]

    def step(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        """The child with this code, or -1: of no such child, of a code outside the level, of node -1."""
        size = self.sizes[level]
        key = torch.where((node >= 0) & (code >= 0) & (code < size), node * size + code, -1)
        place = torch.searchsorted(self.keys[level], key).clamp(max=len(self.keys[level]) - 1)
        return torch.where(self.keys[level][place] == key, place, -1)

    def roots(self, users: int) -> Tensor:
        """(R, n, 1)"""
        return (
            torch.arange(len(self.leaves), device=self.leaves.device)[:, None, None].expand(-1, users, 1).contiguous()
        )

    def own(self, node: Tensor) -> Tensor:
        """Nodes of the last level (R, n, k), or -1, as each run numbers its leaves."""
        return torch.where(node < 0, -1, node - self.leaves[:, None, None])


def read(weights: Weights, shape: Shape, tokens: Tensor) -> list[Any]:
    """tokens: (R, n, W) -> for every layer the keys (R, n, H, h, W) and values (R, n, H, W, h) of what was encoded, and
    what to add where tokens are padding (R, n, 1, 1, W)."""
    encoded = encode(weights, tokens, torch.zeros_like(tokens[0]), (tokens != 0).long() - 1)
    hidden = torch.where(tokens != 0, 0.0, FORBIDDEN)[:, :, None, None]
    both = (cross_keys(encoded, kv, shape.heads, tokens.shape[1:]).unbind(3) for kv in weights["cross.kv"].unbind(1))
    return [(k.permute(0, 1, 3, 4, 2).contiguous(), v.transpose(2, 3).contiguous(), hidden) for k, v in both]


def self_block(
    x: Tensor, scale: Tensor, qkv: Tensor, o: Tensor, bias: Tensor, past: list[Tensor], origin: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """x: (R, N, d), bias: (R, H, levels, levels), for each token before this one keys and values (R, N then, 2, H, h)
    and (R, N) in which of those rows a beam began -> x with what it attends to, this token's keys and values."""
    q, k, v = (norm(x, scale).to(qkv.dtype) @ qkv).unflatten(2, (3, bias.shape[1], -1)).unbind(2)
    own = torch.stack([k, v], 2)
    before = [
        torch.gather(rows, 1, at[..., None, None, None].expand(-1, -1, *rows.shape[2:]))
        for rows, at in zip(past, origin, strict=True)
    ]
    k, v = torch.stack([*before, own], 2).unbind(3)  # (R, N, t, H, h)
    bias = bias[:, :, len(past), : len(past) + 1].transpose(1, 2)[:, None]
    # as sums of products: with a handful of tokens, a matrix product for each beam and head is far slower
    scores = (q[:, :, None].float() * k).sum(-1) + bias  # (R, N, t, H)
    mixed = (torch.softmax(scores, 2)[..., None].to(q.dtype) * v).sum(2)
    return x + (mixed.flatten(2) @ o).float(), own


def cross_block(x: Tensor, scale: Tensor, q: Tensor, o: Tensor, memory: Any) -> Tensor:
    """x: (R, N, d), memory: of one layer, as `read` gives it -> x with what it attends to in the history."""
    keys, values, hidden = memory
    n, heads = keys.shape[1:3]
    q = (norm(x, scale).to(q.dtype) @ q).unflatten(2, (heads, -1)).unflatten(1, (n, -1))
    scores = (q.transpose(2, 3) @ keys).float() + hidden  # (R, n, H, k, W)
    mixed = (torch.softmax(scores, -1).to(q.dtype) @ values).transpose(2, 3)
    return x + (mixed.flatten(3).flatten(1, 2) @ o).float()


def score(x: Tensor, final: Tensor, shared: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """The logits (R, N, size) of tokens from first on, and the logarithm (R, N) of the sum of all tokens' exp."""
    scores = logits(x, final, shared, shared.dtype)
    return scores[..., first : first + size], scores.logsumexp(-1)


def totals(base: Tensor, chances: Tensor, begin: Tensor, stop: Tensor, codes: Tensor, widest: int) -> Tensor:
    """base: (R, n, k) to add, chances: (R, n, k, size) by code, the nodes from begin to stop (R, n, k) of a level and
    the codes (nodes,) of all its nodes -> (R, n, k, widest) the score of each candidate, -inf where there is none."""
    child = begin[..., None] + torch.arange(widest, device=base.device)
    code = codes[child.clamp(max=len(codes) - 1)]
    return (base[..., None] + torch.gather(chances, 3, code)).masked_fill(child >= stop[..., None], -torch.inf)


class Blocks(NamedTuple):
    """What a search is made of: in plain torch, or as Triton kernels."""

    read: Any = read
    self_block: Any = self_block
    cross_block: Any = cross_block
    feed_forward: Any = partial(feed_forward, dropout=0.0)
    score: Any = score
    totals: Any = totals


PLAIN = Blocks()


def blocks_for(weights: Weights, shape: Shape, levels: int, users: int, width: int, beams: int) -> Blocks:
    """The fastest that serve so many users with histories of so many tokens."""
    matrix = weights["decoder.o"]
    largest = users * max(3 * width, beams) * max(shape.inner, shape.d_model)  # numbers of one run, counted in 32 bits
    if levels <= 4 and largest < 1 << 31 and fused_fits(shape, matrix.dtype, matrix.device, max(width, beams)):
        from .triton.decode import FUSED

        return FUSED
    return PLAIN


class Decoder:
    """The decoder, one token further at each call; keeps the keys and values of the tokens so far."""

    def __init__(self, weights: Weights, shape: Shape, tokens: Tensor, levels: int, blocks: Blocks) -> None:
        """tokens: (R, n, W), 0 being padding."""
        self.weights, self.blocks, self.users = weights, blocks, tokens.shape[1]
        self.memory = blocks.read(weights, shape, tokens)
        self.bias = decoder_bias(weights["decoder.bias"], levels, levels).contiguous()
        self.shared = weights["shared"].to(weights["decoder.o"].dtype)
        self.past: list[list[Tensor]] = [[] for _ in range(shape.layers)]  # by layer and token, as self_block takes it
        self.origin: list[Tensor] = []

    def __call__(self, token: Tensor, parent: Tensor | None, first: int, size: int) -> tuple[Tensor, Tensor]:
        """token: (R, n, k) the last of each beam, parent: (R, n, k) the beam it continues -> the logits
        (R, n, k, size) of tokens from first on, and the logarithm (R, n, k) of the sum of all tokens' exp."""
        if parent is not None:
            before = self.past[0][-1].shape[1] // self.users  # beams of a user then
            row = (parent + torch.arange(self.users, device=parent.device)[:, None] * before).flatten(1)
            self.origin = [torch.gather(origin, 1, row) for origin in self.origin] + [row]
        w, run = self.weights, self.blocks
        x = embed(w["shared"], token, 0.0)
        own = ("decoder.qkv", "decoder.o", "cross.q", "cross.o", "decoder.wi", "decoder.wo")
        for i, past in enumerate(self.past):
            qkv, o, cross_q, cross_o, wi, wo = (w[name][:, i] for name in own)
            norms = w["decoder.norm"][:, i].unbind(1)
            x, kept = run.self_block(x, norms[0], qkv, o, self.bias, past, self.origin)
            past.append(kept)
            x = run.cross_block(x, norms[1], cross_q, cross_o, self.memory[i])
            x = run.feed_forward(x, norms[2], wi, wo)
        chances, whole = run.score(x, w["decoder.final"], self.shared, first, size)
        return chances.view(*token.shape, size), whole.view(token.shape)


@torch.no_grad()  # type: ignore[untyped-decorator]
def stacked_search(
    weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int, constrained: bool = True
) -> Beams:
    """The best SIDs of every run for its users' histories (R, n, W) of tokens, 0 being padding."""
    blocks = blocks_for(weights, shape, trie.levels, tokens.shape[1], tokens.shape[2], beams)
    decoder = Decoder(weights, shape, tokens, trie.levels, blocks)
    return (_constrained if constrained else _free)(decoder, trie, beams)


def beam_search(weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int) -> Beams:
    """The best SIDs of the trie for histories (n, W) of tokens, 0 being padding."""
    found = stacked_search(weights, shape, trie, tokens[None], beams)
    return Beams(found.leaf[0], found.score[0])


def free_search(weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int) -> Beams:
    """The best token sequences whatever they are; those that are no SID have leaf -1."""
    found = stacked_search(weights, shape, trie, tokens[None], beams, constrained=False)
    return Beams(found.leaf[0], found.score[0])


def _constrained(decoder: Decoder, trie: DeviceTrie, beams: int) -> Beams:
    node, parent = trie.roots(decoder.users), None
    token, score = torch.zeros_like(node), torch.zeros_like(node, dtype=torch.float32)
    for level in range(trie.levels):
        chances, whole = decoder(token, parent, trie.first[level], trie.sizes[level])
        codes, widest, (begin, stop) = trie.codes[level], trie.widest[level], trie.bounds(node, level)
        total = decoder.blocks.totals(score - whole, chances, begin, stop, codes, widest).flatten(2)
        score, place = total.topk(min(beams, total.shape[2]))
        parent = place // widest
        node = (torch.gather(begin, 2, parent) + place % widest).clamp(max=len(codes) - 1)  # of -inf: any
        token = codes[node] + trie.first[level]
    return Beams(trie.own(torch.where(score == -torch.inf, -1, node)), score)


def _free(decoder: Decoder, trie: DeviceTrie, beams: int) -> Beams:
    """As in transformers, a hypothesis that ends early leaves the beam, and all are ranked by score per token."""
    node, parent, words = trie.roots(decoder.users), None, 1 + sum(trie.sizes)
    token, score = torch.zeros_like(node), torch.zeros_like(node, dtype=torch.float32)
    ended = torch.full_like(score, -torch.inf).expand(-1, -1, beams)  # score per token of those that ended early
    for level in range(trie.levels):
        chances, whole = decoder(token, parent, 0, words)
        total = ((score - whole)[..., None] + chances).flatten(2)
        total, place = total.topk(min(2 * beams, total.shape[2]))
        word, origin = place % words, place // words
        stops = word == 0
        if level < trie.levels - 1:
            ended = torch.cat([ended, torch.where(stops, total / (level + 1), -torch.inf)], 2).topk(beams).values
            total = total.masked_fill(stops, -torch.inf)
        score, kept = total.topk(min(beams, total.shape[2]))
        token, parent = torch.gather(word, 2, kept), torch.gather(origin, 2, kept)
        node = trie.step(torch.gather(node, 2, parent), token - trie.first[level], level)
    merged = torch.cat([score / trie.levels, ended], 2)
    best, place = merged.topk(beams)
    leaf = torch.gather(torch.cat([node, torch.full_like(ended, -1, dtype=torch.long)], 2), 2, place)
    return Beams(trie.own(leaf), best * trie.levels)
