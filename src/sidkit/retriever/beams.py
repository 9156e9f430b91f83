"""Beam search for semantic IDs, all runs, users and beams at once, on the device of the weights.

    R   runs: models of one shape with stacked weights, each with its own SIDs
    n   users, the same number for every run; k beams of a user; N = n k; V tokens of the vocabulary

Constrained, the candidates of a beam are the children of its trie node and nothing else, so every result is the SID of
an item. Unconstrained, they are the whole vocabulary, token 0 ending a hypothesis as in transformers' beam search, and
results that are no SID have leaf -1. Scores are sums of log-probabilities over the whole vocabulary, so both equal the
scores of transformers' `generate` (tests/retriever/test_retriever.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..decoding.device_trie import DeviceTrie
from .backend import choose_blocks
from .model import Shape, Weights
from .network import decoder_bias, embed
from .search_blocks import SearchBlocks

__all__ = ["Beams", "Decoder", "beam_search", "search_and_score", "stacked_search"]

Tensor = Any
MATRICES = ("decoder.qkv", "decoder.o", "cross.q", "cross.o", "decoder.wi", "decoder.wo")


class Beams(NamedTuple):
    """leaf: (n, beams) the index of the SID in the trie, best first, -1 for none; score: (n, beams) its
    log-probability.

    Of stacked runs, both are (R, n, beams).
    """

    leaf: Tensor
    score: Tensor


class Decoder:
    """The decoder, one token per call; keeps the keys and values of the earlier tokens."""

    def __init__(self, weights: Weights, shape: Shape, tokens: Tensor, levels: int, blocks: SearchBlocks) -> None:
        """tokens: (R, n, W), 0 being padding."""
        self.weights, self.blocks, self.users = weights, blocks, tokens.shape[1]
        self.memory = blocks.read(weights, shape, tokens)
        self.bias = decoder_bias(weights["decoder.bias"], levels, levels).contiguous()
        self.shared = weights["shared"].to(weights["decoder.o"].dtype)
        self.layers = shape.layers
        self.restart()

    def restart(self) -> None:
        """Forget the tokens so far, not the histories."""
        self.past: list[list[Tensor]] = [[] for _ in range(self.layers)]  # by layer and token, as self_block takes it
        self.origin: list[Tensor] = []

    def __call__(self, token: Tensor, parent: Tensor | None, first: int, size: int) -> tuple[Tensor, Tensor]:
        """token: (R, n, k) the last of each beam, parent: (R, n, k) the beam it continues -> the logits
        (R, n, k, size) of tokens from first on, and the log (R, n, k) of the sum of exp over all tokens."""
        if parent is not None:
            before = self.past[0][-1].shape[1] // self.users  # beams of a user at the last token
            row = (parent + torch.arange(self.users, device=parent.device)[:, None] * before).flatten(1)
            self.origin = [torch.gather(origin, 1, row) for origin in self.origin] + [row]
        w, blocks = self.weights, self.blocks
        x = embed(w["shared"], token, 0.0)
        for layer, past in enumerate(self.past):
            qkv, o, cross_q, cross_o, wi, wo = (w[name][:, layer] for name in MATRICES)
            norms = w["decoder.norm"][:, layer].unbind(1)
            x, latest = blocks.self_block(x, norms[0], qkv, o, self.bias, past, self.origin)
            past.append(latest)
            x = blocks.cross_block(x, norms[1], cross_q, cross_o, self.memory[layer])
            x = blocks.feed_forward(x, norms[2], wi, wo)
        scores, log_sum = blocks.score(x, w["decoder.final"], self.shared, first, size)
        return scores.view(*token.shape, size), log_sum.view(token.shape)


@torch.no_grad()  # type: ignore[untyped-decorator]
def stacked_search(
    weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int, constrained: bool = True
) -> Beams:
    """The best SIDs of every run for its users' histories (R, n, W) of tokens, 0 being padding."""
    blocks = choose_blocks(weights, shape, trie.levels, tokens.shape[1], tokens.shape[2], beams)
    decoder = Decoder(weights, shape, tokens, trie.levels, blocks)
    return (_constrained if constrained else _free)(decoder, trie, beams)


def beam_search(weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int) -> Beams:
    """The best SIDs of the trie for histories (n, W) of tokens, 0 being padding."""
    best = stacked_search(weights, shape, trie, tokens[None], beams)
    return Beams(best.leaf[0], best.score[0])


@torch.no_grad()  # type: ignore[untyped-decorator]
def search_and_score(
    weights: Weights, shape: Shape, trie: DeviceTrie, tokens: Tensor, beams: int, codes: Tensor
) -> tuple[Beams, Tensor]:
    """As `beam_search`, and the log-probability (n, k) of further SIDs of each user: codes (n, k, levels)."""
    blocks = choose_blocks(weights, shape, trie.levels, len(tokens), tokens.shape[1], beams)
    decoder = Decoder(weights, shape, tokens[None], trie.levels, blocks)
    best = _constrained(decoder, trie, beams)
    scores = [_scored(decoder, trie, part[None])[0] for part in codes.split(beams, 1)]  # no wider than the beams
    return Beams(best.leaf[0], best.score[0]), torch.cat([best.score[0][:, :0], *scores], 1)


def _scored(decoder: Decoder, trie: DeviceTrie, codes: Tensor) -> Tensor:
    """The log-probability (R, n, k) of SIDs (R, n, k, levels)."""
    decoder.restart()
    total, k = torch.zeros(codes.shape[:3], device=codes.device), codes.shape[2]
    token, parent = torch.zeros_like(codes[:, :, :1, 0]), None
    for level in range(trie.levels):
        scores, log_sum = decoder(token, parent, trie.first[level], trie.sizes[level])
        code = codes[..., level]
        total += torch.gather(scores.expand(-1, -1, k, -1), 3, code[..., None])[..., 0].float() - log_sum
        token = code + trie.first[level]
        parent = torch.arange(k, device=codes.device).expand(token.shape) if level else torch.zeros_like(token)
    return total


def _constrained(decoder: Decoder, trie: DeviceTrie, beams: int) -> Beams:
    node, parent = trie.roots(decoder.users), None
    token, score = torch.zeros_like(node), torch.zeros_like(node, dtype=torch.float32)
    for level in range(trie.levels):
        scores, log_sum = decoder(token, parent, trie.first[level], trie.sizes[level])
        codes, widest, (begin, stop) = trie.codes[level], trie.widest[level], trie.bounds(node, level)
        total = decoder.blocks.totals(score - log_sum, scores, begin, stop, codes, widest).flatten(2)
        score, candidate = total.topk(min(beams, total.shape[2]))
        parent = candidate // widest
        node = (torch.gather(begin, 2, parent) + candidate % widest).clamp(max=len(codes) - 1)  # of -inf: any
        token = codes[node] + trie.first[level]
    return Beams(trie.leaves_of_runs(torch.where(score == -torch.inf, -1, node)), score)


def _free(decoder: Decoder, trie: DeviceTrie, beams: int) -> Beams:
    """As in transformers, a hypothesis that ends early leaves the beam, and all are ranked by score per token."""
    node, parent, words = trie.roots(decoder.users), None, 1 + sum(trie.sizes)
    token, score = torch.zeros_like(node), torch.zeros_like(node, dtype=torch.float32)
    ended = torch.full_like(score, -torch.inf).expand(-1, -1, beams)  # score per token of those that ended early
    for level in range(trie.levels):
        scores, log_sum = decoder(token, parent, 0, words)
        total = ((score - log_sum)[..., None] + scores).flatten(2)
        total, candidate = total.topk(min(2 * beams, total.shape[2]))
        word, origin = candidate % words, candidate // words
        stops = word == 0
        if level < trie.levels - 1:
            ended = torch.cat([ended, torch.where(stops, total / (level + 1), -torch.inf)], 2).topk(beams).values
            total = total.masked_fill(stops, -torch.inf)
        score, best = total.topk(min(beams, total.shape[2]))
        token, parent = torch.gather(word, 2, best), torch.gather(origin, 2, best)
        node = trie.step(torch.gather(node, 2, parent), token - trie.first[level], level)
    score, best = torch.cat([score / trie.levels, ended], 2).topk(beams)
    leaf = torch.gather(torch.cat([node, torch.full_like(ended, -1, dtype=torch.long)], 2), 2, best)
    return Beams(trie.leaves_of_runs(leaf), score * trie.levels)
