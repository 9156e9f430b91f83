"""How well a model ranks the next item of every user of a split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..data.sequences import Sequences
from ..decoding.device_trie import DeviceTrie
from ..measure.counting import followed_by_seen
from ..measure.seen import ranks_by_seen, times_seen
from ..progress import Progress, Silent
from ..sids.table import SidTable
from ..sids.trie import Trie
from .backend import choose_blocks
from .beams import stacked_search
from .data import Split, Vocabulary, examples
from .metrics import Judge, Tally
from .model import Shape, Weights
from .search_blocks import PLAIN_BLOCKS

__all__ = ["Evaluator", "JointEvaluator"]

Tensor = Any
PLAIN_LOGITS = 1 << 25  # of all beams that are searched at once in plain torch: about 700 MB
KERNEL_LOGITS = 1 << 27  # the same by kernels, which hold one level's at a time
MOST_USERS = 8192  # whose beams are searched at once
SCORED_USERS = 1 << 16  # whose figures are computed at once


def users_at_once(sizes: Sequence[int], beams: int, kernels: bool = False) -> int:
    """Users whose beams (of all runs) are searched at once, so that memory is bounded whatever the codebook."""
    most = KERNEL_LOGITS // max(sizes) if kernels else PLAIN_LOGITS // (1 + sum(sizes))
    return min(MOST_USERS, max(1, most // beams))


class Evaluator:
    """The histories of a split on the device, sorted by length so that hardly any padding is computed."""

    def __init__(
        self,
        table: SidTable,
        sequences: Sequences,
        split: Split,
        history: int,
        device: Any,
        trie: Trie | None = None,
        invalid_consumes_rank: bool = False,
        users_at_once: int = 0,
        by_seen: bool = False,
    ) -> None:
        """users_at_once: whose beams are searched at once, at most; 0: as many as the memory holds. by_seen: whether
        figures are also taken by how often targets were seen in training."""
        self.users_at_once = users_at_once
        self.times = times_seen(sequences, len(table)) if by_seen else None
        held_out = examples(sequences, split, history)
        self.by_length = np.argsort(held_out.length, kind="stable")
        self.longest = held_out.length[self.by_length]  # of the users up to each
        self.trie, self.vocabulary = trie or Trie.of(table), Vocabulary(table.sizes)
        self.seen_counted = {}
        if by_seen and split != "train" and len(self.trie.rows) == len(table):  # counting has no part of the catalogue
            self.seen_counted["followed"] = followed_by_seen(sequences, len(table), split)
        self.judge = Judge(self.trie, len(table), device, invalid_consumes_rank=invalid_consumes_rank)
        self.tokens = torch.as_tensor(self.vocabulary.tokens(table.codes), device=device)
        self.items = torch.as_tensor(sequences.rows, device=device)
        self.position = torch.as_tensor(held_out.position[self.by_length], device=device)
        self.length = torch.as_tensor(self.longest, device=device)

    def __len__(self) -> int:
        return len(self.by_length)

    def __call__(
        self, weights: Weights, shape: Shape, beams: int, constrained: bool = True, progress: Progress | None = None
    ) -> Tally:
        """All figures, as sums over the users."""
        return JointEvaluator([self])(weights, shape, beams, constrained, progress)[0]

    def sums(self, leaf: Tensor) -> dict[str, Tensor]:
        """Sums of all figures. leaf: (n, beams) of the users sorted by length."""
        target, total = self.items[self.position], dict[str, Tensor]()
        for leaves, targets in zip(leaf.split(SCORED_USERS), target.split(SCORED_USERS), strict=True):
            part = self.judge.sums(leaves, targets)
            total = {name: value + total.get(name, 0) for name, value in part.items()}
        return total

    def by_seen(self, leaf: Tensor) -> dict[str, dict[str, Any]]:
        """Figures by how often targets were seen, where that was asked for."""
        if self.times is None:
            return {}
        target = self.items[self.position]
        rank, share = self.judge.expected(leaf, target)
        return {"model": ranks_by_seen(rank, self.times[target.cpu().numpy()], share)} | self.seen_counted

    def histories(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Of users start to stop, sorted by length: items (n, longest), padded on the left, and which are real."""
        back = torch.arange(int(self.longest[stop - 1]), 0, -1, device=self.items.device)
        items = self.items[(self.position[start:stop, None] - back).clamp(min=0)]
        return items, back <= self.length[start:stop, None]


class JointEvaluator:
    """Evaluators of runs with stacked weights, in one sweep over their users; they differ in their tables alone."""

    def __init__(self, evaluators: Sequence[Evaluator]) -> None:
        self.evaluators, first = list(evaluators), evaluators[0]
        self.trie = DeviceTrie([one.trie for one in evaluators], first.vocabulary, first.items.device)
        shared = min(len(one.tokens) for one in evaluators)
        self.tokens = torch.stack([one.tokens[:shared] for one in evaluators])  # (R, items, L)

    def __call__(
        self, weights: Weights, shape: Shape, beams: int, constrained: bool = True, progress: Progress | None = None
    ) -> list[Tally]:
        """All figures of every run, as sums over the users."""
        progress, leaves, users = progress or Silent(), list[Tensor](), len(self.evaluators[0])
        valid = torch.zeros(len(self.evaluators), dtype=torch.float64, device=self.tokens.device)
        at_once = self._at_once(weights, shape, beams)
        for start in range(0, users, at_once):
            stop = min(start + at_once, users)
            items, real = self.evaluators[0].histories(start, stop)
            tokens = torch.where(real[..., None], self.tokens[:, items], 0).flatten(2)
            best = stacked_search(weights, shape, self.trie, tokens, beams, constrained)
            generated = (best.score > -torch.inf).sum(2).clamp(min=1)
            valid += ((best.leaf >= 0).sum(2) / generated.double()).sum(1)
            leaves.append(F.pad(best.leaf, (0, beams - best.leaf.shape[2]), value=-1))
            progress.advance(stop - start)
        found = list(zip(self.evaluators, torch.cat(leaves, 1), strict=True))
        sums, seen = [one.sums(leaf) for one, leaf in found], [one.by_seen(leaf) for one, leaf in found]
        sums = [each | {"valid_share": share} for each, share in zip(sums, valid, strict=True)]
        values = torch.stack([torch.stack(list(each.values())) for each in sums]).tolist()  # one trip from the device
        return [
            Tally(dict(zip(sums[0], each, strict=True)), users, groups)
            for each, groups in zip(values, seen, strict=True)
        ]

    def _at_once(self, weights: Weights, shape: Shape, beams: int) -> int:
        longest = int(self.evaluators[0].longest.max(initial=0)) * self.trie.levels
        blocks = choose_blocks(weights, shape, self.trie.levels, MOST_USERS, longest, beams)
        fitting = users_at_once(self.trie.sizes, beams * len(self.evaluators), blocks is not PLAIN_BLOCKS)
        return min(fitting, self.evaluators[0].users_at_once or fitting)
