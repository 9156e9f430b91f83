"""Keeping any transformers model to valid semantic IDs while it generates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import InputError, need
from ..sids.trie import Trie
from .catalogue import SidCatalogue
from .constraint import SidConstraint
from .tokens import SidTokens

need("transformers", "retriever", "constrained generation")
from transformers import LogitsProcessor  # noqa: E402

__all__ = ["GeneratedSid", "SidLogitsProcessor"]

WORST = -1e9  # what `generate` scores a beam for which there was no SID left


@dataclass(frozen=True)
class GeneratedSid:
    """A SID that a model generated: its codes, the score of its sequence, and the rows of its items."""

    codes: tuple[int, ...]
    score: float
    rows: list[int]


class SidLogitsProcessor(LogitsProcessor):  # type: ignore[misc]
    """model.generate(..., logits_processor=[SidLogitsProcessor(trie, start=1)])

    trie     `Trie.of(table)`, of a part of its items, or a `SidCatalogue`, which knows its tokens
    start    the number of tokens before the SID: 1 for encoder-decoders (the start token), the length of the prompt for
             decoder-only models. None: SIDs stand anywhere in a text, any number of them
    tokens   for each level, the vocabulary's token of every code; by default sidkit's, code + sizes before + 1
    end      the token that ends a SID, the only one allowed after the last level; by default 0. None: with start=None,
             text may follow at once
    begin    the token that opens a SID in a text; without it a token of the first level does. It sets start to None
    within   row numbers, or a mask over rows: only SIDs of these items (those in stock)
    """

    def __init__(
        self,
        trie: Trie | SidCatalogue,
        start: int | None = 1,
        tokens: Sequence[Sequence[int]] | None = None,
        end: int | None = 0,
        *,
        begin: int | None = None,
        within: Any = None,
    ) -> None:
        if isinstance(trie, SidCatalogue):
            known, trie = trie.tokens, trie.trie
            start = None if known.begin is not None else start
        else:
            known = SidTokens.of(trie.sizes, tokens, begin, end)
            start = None if begin is not None else start
        if start is not None and known.end is None:
            raise InputError("name the token that ends a SID (end), or start=None for SIDs in a text")
        alive = None if within is None else trie.alive(within)
        self.constraint = SidConstraint(trie, known, start, alive)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """input_ids: (n, t), scores: (n, V) -> scores, -inf for tokens that may not follow."""
        return self.constraint(input_ids, scores)

    def sids(self, sequences: Any, scores: Any = None, beams: int = 1) -> list[list[GeneratedSid]]:
        """The different SIDs that `generate` returned for each input, best first.

        sequences: (inputs * beams, t) and scores: (inputs * beams,) as `generate` returns them with
        `num_return_sequences=beams`. If there are fewer SIDs than beams, `generate` fills up with repetitions and
        rubbish: these are left out.
        """
        sequences = torch.as_tensor(sequences).cpu()
        values = [0.0] * len(sequences) if scores is None else torch.as_tensor(scores).tolist()
        answers: list[list[GeneratedSid]] = []
        for first in range(0, len(sequences), beams):
            kept: dict[tuple[int, ...], GeneratedSid] = {}
            for row in range(first, min(first + beams, len(sequences))):
                one = self._sid(sequences[row], values[row])
                if one is not None and values[row] > WORST and one.codes not in kept:
                    kept[one.codes] = one
            answers.append(list(kept.values()))
        return answers

    def _sid(self, sequence: Any, score: float) -> GeneratedSid | None:
        """The SID at the fixed position, or the last one of a text; None if no item has it."""
        constraint, tokens = self.constraint, sequence.tolist()
        if constraint.start is not None:
            tokens = tokens[constraint.start : constraint.start + constraint.levels]
        codes = constraint.tokens.sids_in(tokens)[-1:]
        leaf = int(constraint.trie.leaves(codes[0])) if codes else -1
        return None if leaf < 0 else GeneratedSid(codes[0], score, constraint.trie.items(leaf).tolist())
