"""Keeping any transformers model to valid semantic IDs while it generates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import InputError, need
from ..sids.trie import Trie
from .data import Vocabulary
from .device_trie import DeviceTrie

need("transformers", "retriever", "constrained generation")
from transformers import LogitsProcessor  # noqa: E402

__all__ = ["SidLogitsProcessor"]


class SidLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    """model.generate(..., logits_processor=[SidLogitsProcessor(trie, start=1)])

    trie     `Trie.of(table)`, or of a part of its items
    start    the number of tokens before the SID: 1 for encoder-decoders (the start token), the length of the prompt for
             decoder-only models
    tokens   for each level, the vocabulary's token of every code; by default sidkit's, code + sizes before + 1
    end      the token that ends a SID, the only one allowed after the last level; by default 0
    """

    def __init__(self, trie: Trie, start: int = 1, tokens: Sequence[Sequence[int]] | None = None, end: int = 0) -> None:
        vocabulary = Vocabulary(trie.sizes)
        given = tokens or [range(first, first + size) for first, size in zip(vocabulary.first, trie.sizes, strict=True)]
        if [len(level) for level in given] != list(trie.sizes):
            raise InputError(f"tokens for {[len(level) for level in given]} codes were given, not for {trie.sizes}")
        self.trie, self.vocabulary, self.start, self.end = trie, vocabulary, start, end
        self.tokens = [torch.as_tensor(list(level)) for level in given]
        self.device_trie: DeviceTrie | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """input_ids: (n, t), scores: (n, V) -> scores, -inf for tokens that continue no SID."""
        if self.device_trie is None or self.device_trie.codes[0].device != scores.device:
            self.device_trie = DeviceTrie(self.trie, self.vocabulary, scores.device)
            if (most := max(self.end, *(int(level.max()) for level in self.tokens))) >= scores.shape[1]:
                raise InputError(f"token {most} is needed for semantic IDs, and the model has {scores.shape[1]} tokens")
            self.tokens = [level.to(scores.device) for level in self.tokens]
            self.codes = [_codes_of(level, scores.shape[1]) for level in self.tokens]
        trie, prefix = self.device_trie, input_ids[:, self.start :]
        allowed, level = torch.full_like(scores, -torch.inf), prefix.shape[1]
        if level >= trie.levels:
            allowed[:, self.end] = 0.0
            return scores + allowed
        node = torch.zeros_like(input_ids[:, 0])
        for above in range(level):
            node = trie.step(node, self.codes[above][prefix[:, above]], above)
        child, real = trie.candidates(node.clamp(min=0), level)
        real &= (node >= 0)[:, None]
        token = self.tokens[level][trie.codes[level][child]]
        row, column = real.nonzero(as_tuple=True)
        allowed[row, token[row, column]] = 0.0
        allowed[node < 0, self.end] = 0.0  # a hypothesis that is no prefix, or has ended, may only end
        return scores + allowed


def _codes_of(tokens: Any, vocabulary: int) -> Any:
    """(vocabulary,) the code that each token stands for, -1 if none."""
    codes = torch.full((vocabulary,), -1, dtype=torch.long, device=tokens.device)
    codes[tokens] = torch.arange(len(tokens), device=tokens.device)
    return codes
