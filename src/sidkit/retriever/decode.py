"""Beam search for semantic IDs, all users and beams at once, on the device the weights are on.

Constrained, the candidates of a beam are the children of its trie node and nothing else, so every result is a SID that
stands for items. Unconstrained, they are the whole vocabulary, token 0 ending a hypothesis as in transformers' beam
search, and results that are no SID are marked. Scores are sums of log-probabilities over the whole vocabulary, so both
equal what transformers' `generate` gives (tests/test_retriever.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..trie import Trie
from .data import Vocabulary
from .model import Shape, Weights
from .network import FORBIDDEN, cross_keys, decoder_bias, embed, encode, feed_forward, logits, norm

__all__ = ["Beams", "DeviceTrie", "beam_search", "free_search"]

Tensor = Any


class Beams(NamedTuple):
    """leaf: (n, beams) the SID's number in the trie, best first, -1 for none; score: (n, beams) its log-probability."""

    leaf: Tensor
    score: Tensor


class DeviceTrie:
    """A trie as tensors: children by range, and prefixes looked up by (parent, code)."""

    def __init__(self, trie: Trie, vocabulary: Vocabulary, device: Any) -> None:
        self.levels, self.sizes = len(trie.codes), trie.sizes
        self.children = [torch.as_tensor(bounds, device=device) for bounds in trie.children]
        self.codes = [torch.as_tensor(codes, device=device) for codes in trie.codes]
        self.tokens = [codes + first for codes, first in zip(self.codes, vocabulary.first, strict=True)]
        self.widest = [int((bounds[1:] - bounds[:-1]).max()) for bounds in trie.children]
        parents = [torch.repeat_interleave(bounds[1:] - bounds[:-1]) for bounds in self.children]
        self.keys = [parent * size + code for parent, size, code in zip(parents, self.sizes, self.codes, strict=True)]
        self.first = vocabulary.first

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


class _Decoder:
    """The decoder, one token further at each call; keeps the keys and values of the tokens so far."""

    def __init__(self, weights: Weights, shape: Shape, tokens: Tensor, levels: int) -> None:
        """tokens: (n, W), 0 being padding."""
        self.weights, self.shape = weights, shape
        mine, owner = torch.zeros_like(tokens), (tokens != 0).long()[None] - 1
        encoded = encode(weights, tokens[None], mine, owner)
        both = (cross_keys(encoded, kv, shape.heads, tokens.shape)[0].unbind(2) for kv in weights["cross.kv"].unbind(1))
        self.keys = [(key.permute(0, 2, 3, 1).contiguous(), value.transpose(1, 2).contiguous()) for key, value in both]
        self.hidden = torch.where(tokens != 0, 0.0, FORBIDDEN)[:, None, None]  # (n, 1, 1, W)
        self.bias = decoder_bias(weights, levels, levels)[0]
        self.past: list[Tensor] = [None] * shape.layers
        self.length = 0

    def __call__(self, token: Tensor, parent: Tensor | None) -> Tensor:
        """token: (n, k) the last of each beam, parent: (n, k) the beam it continues -> log-probabilities (n, k, V)."""
        w, shape, (n, k) = self.weights, self.shape, token.shape
        x = embed(w["shared"], token[None], 0.0)
        bias = self.bias[:, self.length, : self.length + 1].T  # (t, H)
        for i in range(shape.layers):
            norms = w["decoder.norm"][:, i]
            q, new_k, new_v = self._heads(x, norms[:, 0], w["decoder.qkv"][:, i], (n, k, 3)).unbind(2)
            past = torch.stack([new_k, new_v])[:, :, :, None]  # (2, n, k, 1, H, h)
            if parent is not None:
                index = parent[None, :, :, None, None, None].expand(2, -1, -1, *self.past[i].shape[3:])
                past = torch.cat([torch.gather(self.past[i], 2, index), past], 3)
            self.past[i] = past
            # as sums of products: with a handful of tokens, a matrix product for each beam and head is far slower
            scores = (q[:, :, None].float() * past[0]).sum(-1) + bias  # (n, k, t, H)
            mixed = (torch.softmax(scores, 2)[..., None].to(q.dtype) * past[1]).sum(2)
            x = x + (mixed.reshape(1, n * k, -1) @ w["decoder.o"][:, i]).float()
            q = self._heads(x, norms[:, 1], w["cross.q"][:, i], (n, k, 1))[:, :, 0]
            keys, values = self.keys[i]
            scores = (q.transpose(1, 2) @ keys).float() + self.hidden  # (n, H, k, W)
            mixed = (torch.softmax(scores, -1).to(q.dtype) @ values).transpose(1, 2)
            x = x + (mixed.reshape(1, n * k, -1) @ w["cross.o"][:, i]).float()
            x = feed_forward(x, norms[:, 2], w["decoder.wi"][:, i], w["decoder.wo"][:, i], 0.0)
        self.length += 1
        scores = logits(x, w["decoder.final"], w["shared"], w["decoder.o"].dtype)
        return torch.log_softmax(scores, -1).view(n, k, -1)

    def _heads(self, x: Tensor, scale: Tensor, matrix: Tensor, shape: tuple[int, int, int]) -> Tensor:
        found = norm(x, scale).to(matrix.dtype) @ matrix
        return found.view(*shape, self.shape.heads, self.shape.d_kv)


@torch.no_grad()  # type: ignore[untyped-decorator]
def beam_search(weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int) -> Beams:
    """The best SIDs of the trie for histories (n, W) of tokens, 0 being padding."""
    decoder = _Decoder(weights, shape, tokens, trie.levels)
    n, device = len(tokens), tokens.device
    node, token = torch.zeros(n, 1, dtype=torch.long, device=device), torch.zeros(n, 1, dtype=torch.long, device=device)
    score, parent = torch.zeros(n, 1, device=device), None
    for level in range(trie.levels):
        chances = decoder(token, parent)
        child, real = trie.candidates(node, level)  # (n, k, widest)
        total = score[..., None] + torch.gather(chances, 2, trie.tokens[level][child])
        total = total.masked_fill(~real, -torch.inf).flatten(1)
        score, place = total.topk(min(beams, total.shape[1]))
        node, parent = torch.gather(child.flatten(1), 1, place), place // child.shape[2]
        token = trie.tokens[level][node]
    return Beams(torch.where(score == -torch.inf, -1, node), score)


@torch.no_grad()  # type: ignore[untyped-decorator]
def free_search(weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int) -> Beams:
    """The best token sequences whatever they are; those that are no SID have leaf -1.

    As in transformers, a hypothesis that ends early leaves the beam, and all are ranked by score per token.
    """
    decoder = _Decoder(weights, shape, tokens, trie.levels)
    n, device = len(tokens), tokens.device
    token, parent = torch.zeros(n, 1, dtype=torch.long, device=device), None
    node, score = torch.zeros_like(token), torch.zeros(n, 1, device=device)
    ended = torch.full((n, beams), -torch.inf, device=device)  # score per token of hypotheses that ended early
    for level in range(trie.levels):
        chances = decoder(token, parent)
        total, place = (score[..., None] + chances).flatten(1).topk(min(2 * beams, chances[0].numel()))
        word, origin = place % chances.shape[2], place // chances.shape[2]
        stops = word == 0
        if level < trie.levels - 1:
            ended = torch.cat([ended, torch.where(stops, total / (level + 1), -torch.inf)], 1).topk(beams).values
            total = total.masked_fill(stops, -torch.inf)
        score, kept = total.topk(min(beams, total.shape[1]))
        token, parent = torch.gather(word, 1, kept), torch.gather(origin, 1, kept)
        node = trie.step(torch.gather(node, 1, parent), token - trie.first[level], level)
    merged = torch.cat([score / trie.levels, ended], 1)
    best, place = merged.topk(beams)
    leaf = torch.gather(torch.cat([node, torch.full_like(ended, -1, dtype=torch.long)], 1), 1, place)
    return Beams(leaf, best * trie.levels)
