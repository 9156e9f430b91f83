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
from typing import Any, NamedTuple

import numpy as np
import torch

from ..trie import Trie
from .data import Vocabulary
from .model import Shape, Weights
from .network import FORBIDDEN, cross_keys, decoder_bias, embed, encode, feed_forward, logits, norm

__all__ = ["Beams", "Decoder", "DeviceTrie", "beam_search", "free_search", "stacked_search"]

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
        begin, stop = self.children[level][node], self.children[level][node + 1]
        child = begin[..., None] + torch.arange(self.widest[level], device=node.device)
        return child.clamp(max=len(self.codes[level]) - 1), child < stop[..., None]

    def step(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        """The child with this code, or -1: of no such child, of a code outside the level, of node -1."""
        size = self.sizes[level]
        key = torch.where((node >= 0) & (code >= 0) & (code < size), node * size + code, -1)
        place = torch.searchsorted(self.keys[level], key).clamp(max=len(self.keys[level]) - 1)
        return torch.where(self.keys[level][place] == key, place, -1)

    def roots(self, users: int) -> Tensor:
        """(R, n, 1)"""
        return torch.arange(len(self.leaves), device=self.leaves.device)[:, None, None].expand(-1, users, 1)

    def own(self, node: Tensor) -> Tensor:
        """Nodes of the last level (R, n, k), or -1, as each run numbers its leaves."""
        return torch.where(node < 0, -1, node - self.leaves[:, None, None])


class Decoder:
    """The decoder, one token further at each call; keeps the keys and values of the tokens so far.

    past[i]   of layer i, for every token so far, keys and values (R, N then, 2, H, h)
    origin    for every token so far, (R, N now) in which row of it a beam began
    """

    def __init__(self, weights: Weights, shape: Shape, tokens: Tensor, levels: int) -> None:
        """tokens: (R, n, W), 0 being padding."""
        self.weights, self.shape, self.users = weights, shape, tokens.shape[1]
        self.past: list[list[Tensor]] = [[] for _ in range(shape.layers)]
        self.origin: list[Tensor] = []
        self.bias = decoder_bias(weights, levels, levels).contiguous()  # (R, H, levels, levels)
        self._read(tokens)

    def __call__(self, token: Tensor, parent: Tensor | None, first: int, size: int) -> tuple[Tensor, Tensor]:
        """token: (R, n, k) the last of each beam, parent: (R, n, k) the beam it continues ->

        the logits (R, n, k, size) of tokens from first on, and the logarithm (R, n, k) of the sum of all tokens' exp.
        """
        if parent is not None:
            before = self.past[0][-1].shape[1] // self.users  # beams of a user then
            row = (parent + torch.arange(self.users, device=parent.device)[:, None] * before).flatten(1)
            self.origin = [torch.gather(origin, 1, row) for origin in self.origin] + [row]
        x = embed(self.weights["shared"], token, 0.0)
        for layer in range(self.shape.layers):
            x = self._layer(x, layer)
        chances, whole = self._score(x, first, size)
        return chances.view(*token.shape, size), whole.view(token.shape)

    def _read(self, tokens: Tensor) -> None:
        """Encodes the histories; keeps every layer's keys (R, n, H, h, W) and values (R, n, H, W, h) of them."""
        w, heads = self.weights, self.shape.heads
        encoded = encode(w, tokens, torch.zeros_like(tokens[0]), (tokens != 0).long() - 1)
        both = (cross_keys(encoded, kv, heads, tokens.shape[1:]).unbind(3) for kv in w["cross.kv"].unbind(1))
        self.keys = [(k.permute(0, 1, 3, 4, 2).contiguous(), v.transpose(2, 3).contiguous()) for k, v in both]
        self.hidden = torch.where(tokens != 0, 0.0, FORBIDDEN)[:, :, None, None]  # (R, n, 1, 1, W)

    def _layer(self, x: Tensor, i: int) -> Tensor:
        """x: (R, N, d) -> the same."""
        w, norms = self.weights, self.weights["decoder.norm"][:, i]
        q, *own = self._heads(norm(x, norms[:, 0]), w["decoder.qkv"][:, i], 3).unbind(2)
        seen = [
            torch.gather(past, 1, origin[..., None, None, None].expand(-1, -1, *past.shape[2:]))
            for past, origin in zip(self.past[i], self.origin, strict=True)
        ]
        seen.append(torch.stack(own, 2))
        self.past[i].append(seen[-1])
        k, v = torch.stack(seen, 2).unbind(3)  # (R, N, t, H, h)
        bias = self.bias[:, :, len(seen) - 1, : len(seen)].transpose(1, 2)[:, None]
        # as sums of products: with a handful of tokens, a matrix product for each beam and head is far slower
        scores = (q[:, :, None].float() * k).sum(-1) + bias  # (R, N, t, H)
        mixed = (torch.softmax(scores, 2)[..., None].to(q.dtype) * v).sum(2)
        x = x + (mixed.flatten(2) @ w["decoder.o"][:, i]).float()
        q = self._heads(norm(x, norms[:, 1]), w["cross.q"][:, i], 1).unflatten(1, (self.users, -1))[:, :, :, 0]
        keys, values = self.keys[i]
        scores = (q.transpose(2, 3) @ keys).float() + self.hidden  # (R, n, H, k, W)
        mixed = (torch.softmax(scores, -1).to(q.dtype) @ values).transpose(2, 3)
        x = x + (mixed.flatten(3).flatten(1, 2) @ w["cross.o"][:, i]).float()
        return feed_forward(x, norms[:, 2], w["decoder.wi"][:, i], w["decoder.wo"][:, i], 0.0)

    def _heads(self, x: Tensor, matrix: Tensor, parts: int) -> Tensor:
        return (x.to(matrix.dtype) @ matrix).unflatten(2, (parts, self.shape.heads, self.shape.d_kv))

    def _score(self, x: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
        w = self.weights
        scores = logits(x, w["decoder.final"], w["shared"], w["decoder.o"].dtype)
        return scores[..., first : first + size], scores.logsumexp(-1)


@torch.no_grad()  # type: ignore[untyped-decorator]
def stacked_search(
    weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int, constrained: bool = True
) -> Beams:
    """The best SIDs of every run for its users' histories (R, n, W) of tokens, 0 being padding."""
    decoder = Decoder(weights, shape, tokens, trie.levels)
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
        child, real = trie.candidates(node, level)  # (R, n, k, widest)
        total = (score - whole)[..., None] + torch.gather(chances, 3, trie.codes[level][child])
        total = total.masked_fill(~real, -torch.inf).flatten(2)
        score, place = total.topk(min(beams, total.shape[2]))
        node, parent = torch.gather(child.flatten(2), 2, place), place // child.shape[3]
        token = trie.codes[level][node] + trie.first[level]
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
