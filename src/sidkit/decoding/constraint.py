"""Which tokens may follow, for a whole batch of rows at once.

A row of tokens is in one of these states:

    depth 0 .. L - 1   that many tokens of a SID are complete: only tokens that continue a SID of the catalogue
    depth L            the SID is complete: only the end token, where there is one
    free               ordinary text: everything but tokens of SIDs out of their order

A SID begins in one of three ways: at a fixed position (`start`), after a marker (`begin`), or wherever the
model writes a token of the first level. The last two take a state from the last tokens of a row alone, so that
several SIDs and any text before, between and after them are possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import InputError, SpecError
from ..sids.trie import Trie
from ..sids.vocabulary import Vocabulary
from .device_trie import DeviceTrie
from .tokens import SidTokens

__all__ = ["FREE", "SidConstraint"]

Tensor = Any
FREE = -1


class SidConstraint:
    """The mask of valid tokens over a vocabulary, on the device of the scores.

    trie     `Trie.of(table)`, or that of a catalogue's folder
    tokens   which token stands for which code
    start    the position of the first token of the SID; None where SIDs occur anywhere in a text
    alive    per level, which nodes may be generated (`Trie.alive`); None for all
    """

    def __init__(self, trie: Trie, tokens: SidTokens, start: int | None = None, alive: Any = None) -> None:
        if tokens.sizes != tuple(trie.sizes):
            raise InputError(f"tokens for {tokens.sizes} codes were given, not for {tuple(trie.sizes)}")
        if start is not None and tokens.begin is not None:
            raise SpecError("a SID starts at a position (start) or after a token (begin), not both")
        self.trie, self.tokens, self.start, self.alive = trie, tokens, start, alive
        self._device: _OnDevice | None = None

    @property
    def levels(self) -> int:
        return len(self.trie.sizes)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """input_ids: (n, t), scores: (n, V) -> scores, -inf for tokens that may not follow."""
        if self.start is not None:
            sid = input_ids[:, self.start :]
            out, rows = torch.full_like(scores, -torch.inf), torch.arange(len(scores), device=scores.device)
            self._constrain(out, scores, rows, sid, min(sid.shape[1], self.levels))
            return out
        return self.masked_tail(scores, input_ids[:, -self.levels :])

    def masked_tail(self, scores: Tensor, tail: Tensor) -> Tensor:
        """Rows whose state follows from their last tokens, tail: (n, at most L), -1 where a row is shorter."""
        on = self._tables(scores)
        if not tail.shape[1]:
            return self.masked(scores, tail, torch.full((len(scores),), FREE, device=scores.device))
        last = tail[:, -1]
        depth = torch.where(last >= 0, on.level_of[last.clamp(min=0)], -1).long() + 1
        if self.tokens.begin is not None:
            depth = torch.where((depth == 0) & (last != self.tokens.begin), FREE, depth)
        else:
            depth = torch.where(depth == 0, FREE, depth)
        if self.tokens.end is None:
            depth = torch.where(depth == self.levels, FREE, depth)
        # The SID of a row of depth k is its last k tokens: put them first.
        width = tail.shape[1]
        at = width - depth.clamp(min=0)[:, None] + torch.arange(self.levels, device=tail.device)
        return self.masked(scores, tail.gather(1, at.clamp(0, width - 1)), depth)

    def masked(self, scores: Tensor, sid: Tensor, depth: Tensor) -> Tensor:
        """sid: (n, at least the deepest row) tokens of each row's SID; depth: (n,) how many of them count, or FREE."""
        out = torch.full_like(scores, -torch.inf)
        for level in depth.unique().tolist():
            rows = (depth == level).nonzero()[:, 0]
            self._constrain(out, scores, rows, sid[rows], level)
        return out

    def _constrain(self, out: Tensor, scores: Tensor, rows: Tensor, sid: Tensor, depth: int) -> None:
        """Write the scores of valid tokens of rows of one state to out, whose rows are -inf."""
        on = self._tables(scores)
        if depth == FREE:
            out[rows] = scores[rows].masked_fill(on.not_in_text, -torch.inf)
        elif depth == self.levels:
            self._end(out, scores, rows, on)
        else:
            self._continue(out, scores, rows, sid[:, :depth], on)

    def _continue(self, out: Tensor, scores: Tensor, rows: Tensor, sid: Tensor, on: _OnDevice) -> None:
        level, trie = sid.shape[1], on.trie
        node = torch.zeros_like(rows)
        for above in range(level):
            node = trie.step(node, on.code_at[above][sid[:, above]], above)
        lost = node < 0  # no prefix of the catalogue, or a hypothesis that ended before
        if self.tokens.end is None:
            if lost.any():
                self._end(out, scores, rows[lost], on)
                rows, node, lost = rows[~lost], node[~lost], lost[~lost]
        elif level:
            # Without a look at the rows: a GPU would have to wait for it, and could not capture the mask in a graph.
            only = scores[rows, self.tokens.end]
            out[rows, self.tokens.end] = torch.where(lost, only, on.never)
        child, _ = trie.candidates(node.clamp(min=0), level)
        token = on.tokens[level][trie.codes[level][child]]
        value = scores[rows[:, None], token]
        if on.alive is not None:
            value = torch.where(on.alive[level][child], value, on.never)
        if level:
            value = torch.where(lost[:, None], on.never, value)
        # Candidates that do not exist repeat the first child: they write the same value to the same token.
        out[rows[:, None], token] = value

    def _end(self, out: Tensor, scores: Tensor, rows: Tensor, on: _OnDevice) -> None:
        """Only the end token; where there is none, text without tokens of SIDs."""
        if self.tokens.end is None:
            out[rows] = scores[rows].masked_fill(on.in_sids, -torch.inf)
        else:
            out[rows, self.tokens.end] = scores[rows, self.tokens.end]

    def _tables(self, scores: Tensor) -> _OnDevice:
        if self._device is None or not self._device.fits(scores):
            if self.tokens.largest >= scores.shape[1]:
                raise InputError(
                    f"token {self.tokens.largest} is needed for semantic IDs, and the model has "
                    f"{scores.shape[1]} tokens"
                )
            self._device = _OnDevice(self, scores.shape[1], scores.device)
        return self._device


class _OnDevice:
    """Tables of a constraint for one vocabulary on one device.

    level_of      (V,) the level of every token, -1 if it is none of a SID
    code_at       per level, (V + 1,) the code of every token, -1 if it is none of that level; the last for no token
    in_sids       (V,) tokens of SIDs
    not_in_text   (V,) tokens that may not follow ordinary text
    never         the score of what may not follow
    """

    def __init__(self, constraint: SidConstraint, vocabulary: int, device: Any) -> None:
        tokens, trie = constraint.tokens, constraint.trie
        level_of = np.full(vocabulary, -1, np.int8)
        code_at = np.full((len(tokens.levels), vocabulary + 1), -1, np.int32)
        for level, ids in enumerate(tokens.levels):
            level_of[ids], code_at[level, ids] = level, np.arange(len(ids))
        free = level_of < 0
        if tokens.begin is None:  # a first token opens a SID, if any item has it
            leads = trie.codes[0] if constraint.alive is None else trie.codes[0][constraint.alive[0]]
            free = free.copy()
            free[tokens.levels[0][leads]] = True
        self.level_of, self.code_at, self.in_sids, self.not_in_text = (
            torch.as_tensor(each, device=device) for each in (level_of, code_at, level_of >= 0, ~free)
        )
        self.never = torch.tensor(-torch.inf, device=device)
        self.trie = DeviceTrie(trie, Vocabulary(tuple(trie.sizes)), device, torch.int32)
        self.tokens = [torch.as_tensor(level, device=device) for level in tokens.levels]
        self.alive = None
        if constraint.alive is not None:
            self.alive = [torch.as_tensor(level, device=device) for level in constraint.alive]

    def fits(self, scores: Tensor) -> bool:
        return bool(self.level_of.device == scores.device and len(self.level_of) == scores.shape[1])
