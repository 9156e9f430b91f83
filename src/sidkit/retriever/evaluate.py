"""A split of the users, and how well a model ranks what each of them took next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..progress import Progress, Silent
from ..sequences import Sequences
from ..sids import SidTable
from ..trie import Trie
from .data import Split, Vocabulary, examples
from .decode import PLAIN, Beams, DeviceTrie, blocks_for, stacked_search
from .metrics import Judge, Tally
from .model import Shape, Weights

__all__ = ["Evaluator", "judged_together"]

Tensor = Any
CANDIDATES = 1 << 16  # beams decoded at once in plain torch; kernels need far less memory for each
FUSED, USERS = 8, 8192  # so many times as many, of so many users at most


class Evaluator:
    """The histories of a split on the device, sorted by length so that hardly any padding is computed."""

    def __init__(
        self, table: SidTable, sequences: Sequences, split: Split, history: int, device: Any, trie: Trie | None = None
    ) -> None:
        found = examples(sequences, split, history)
        self.by_length = np.argsort(found.length, kind="stable")
        self.longest = found.length[self.by_length]  # up to each of them
        self.trie, self.vocabulary = trie or Trie.of(table), Vocabulary(table.sizes)
        self.judge = Judge(self.trie, len(table), device)
        self.tokens = torch.as_tensor(self.vocabulary.tokens(table.codes), device=device)
        self.items = torch.as_tensor(sequences.rows, device=device)
        self.position = torch.as_tensor(found.position[self.by_length], device=device)
        self.length = torch.as_tensor(self.longest, device=device)

    def __len__(self) -> int:
        return len(self.by_length)

    def __call__(
        self, weights: Weights, shape: Shape, beams: int, constrained: bool = True, progress: Progress | None = None
    ) -> Tally:
        """All figures, as sums over the users."""
        return judged_together([self], weights, shape, beams, constrained, progress)[0]

    def sums(self, leaf: Tensor) -> dict[str, Tensor]:
        """leaf: (n, beams) of the users sorted by length."""
        return self.judge.sums(leaf, self.items[self.position]) | {"valid_share": (leaf >= 0).double().mean(1).sum()}

    def histories(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Of some users, sorted by length: the items (n, longest), padded on the left, and which places hold one."""
        back = torch.arange(int(self.longest[stop - 1]), 0, -1, device=self.items.device)
        items = self.items[(self.position[start:stop, None] - back).clamp(min=0)]
        return items, back <= self.length[start:stop, None]


def ranked(
    judges: Sequence[Evaluator], weights: Weights, shape: Shape, beams: int, constrained: bool
) -> Iterator[tuple[NDArray[Any], Beams]]:
    """Which examples, and their best SIDs by every run, some examples at a time."""
    one, device = judges[0], judges[0].items.device
    trie = DeviceTrie([judge.trie for judge in judges], one.vocabulary, device)
    shared = min(len(judge.tokens) for judge in judges)
    table = torch.stack([judge.tokens[:shared] for judge in judges])  # (R, items, L)
    fast = blocks_for(weights, shape, trie.levels, USERS, int(one.longest.max(initial=0)) * trie.levels, beams)
    at_once = min(USERS, max(1, CANDIDATES * (1 if fast is PLAIN else FUSED) // (beams * len(judges))))
    for start in range(0, len(one), at_once):
        stop = min(start + at_once, len(one))
        items, there = one.histories(start, stop)
        tokens = torch.where(there[..., None], table[:, items], 0).flatten(2)
        yield one.by_length[start:stop], stacked_search(weights, shape, trie, tokens, beams, constrained)


def judged_together(
    judges: Sequence[Evaluator], weights: Weights, shape: Shape, beams: int,
    constrained: bool = True, progress: Progress | None = None,
) -> list[Tally]:  # fmt: skip
    """All figures of runs with stacked weights, as sums over the users; the judges differ in their tables alone."""
    progress, found = progress or Silent(), list[Tensor]()
    for some, best in ranked(judges, weights, shape, beams, constrained):
        found.append(F.pad(best.leaf, (0, beams - best.leaf.shape[2]), value=-1))
        progress.advance(len(some))
    sums = [judge.sums(leaf) for judge, leaf in zip(judges, torch.cat(found, 1), strict=True)]
    values = torch.stack([torch.stack(list(each.values())) for each in sums]).tolist()  # one trip from the device
    return [Tally(dict(zip(sums[0], each, strict=True)), len(judges[0])) for each in values]
