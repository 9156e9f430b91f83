"""A split of the users, and how well a model ranks what each of them took next."""

from __future__ import annotations

from collections.abc import Iterator
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
from .decode import Beams, DeviceTrie, beam_search, free_search
from .metrics import Judge, Tally
from .model import Shape, Weights

__all__ = ["Evaluator"]

Tensor = Any
CANDIDATES = 1 << 16  # beams decoded at once


class Evaluator:
    """The histories of a split on the device, sorted by length so that hardly any padding is computed."""

    def __init__(
        self, table: SidTable, sequences: Sequences, split: Split, history: int, device: Any, trie: Trie | None = None
    ) -> None:
        self.examples = examples(sequences, split, history)
        self.by_length = np.argsort(self.examples.length, kind="stable")
        self.trie, vocabulary = trie or Trie.of(table), Vocabulary(table.sizes)
        self.device_trie = DeviceTrie(self.trie, vocabulary, device)
        self.judge = Judge(self.trie, len(table), device)
        self.tokens = torch.as_tensor(vocabulary.tokens(table.codes), device=device)
        self.items = torch.as_tensor(sequences.rows, device=device)
        self.device = device

    def __len__(self) -> int:
        return len(self.examples)

    def ranked(
        self, weights: Weights, shape: Shape, beams: int, constrained: bool = True
    ) -> Iterator[tuple[NDArray[Any], Beams]]:
        """Which examples, and their best SIDs, some at a time."""
        search = beam_search if constrained else free_search
        for start in range(0, len(self), max(1, CANDIDATES // beams)):
            some = self.by_length[start : start + max(1, CANDIDATES // beams)]
            yield some, search(weights, shape, self.device_trie, self._histories(some), beams)

    def __call__(
        self, weights: Weights, shape: Shape, beams: int, constrained: bool = True, progress: Progress | None = None
    ) -> Tally:
        """All figures, as sums over the users."""
        progress = progress or Silent()
        found: list[Tensor] = []
        for some, beams_of in self.ranked(weights, shape, beams, constrained):
            found.append(F.pad(beams_of.leaf, (0, beams - beams_of.leaf.shape[1]), value=-1))
            progress.advance(len(some))
        leaf = torch.cat(found)
        target = self.items[torch.as_tensor(self.examples.position[self.by_length], device=self.device)]
        sums = self.judge.sums(leaf, target) | {"valid_share": (leaf >= 0).double().mean(1).sum()}
        values = torch.stack(list(sums.values())).tolist()  # one trip from the device
        return Tally(dict(zip(sums, values, strict=True)), len(self))

    def _histories(self, some: NDArray[Any]) -> Tensor:
        """(n, W) tokens, padded on the left."""
        position = torch.as_tensor(self.examples.position[some], device=self.device)[:, None]
        length = torch.as_tensor(self.examples.length[some], device=self.device)[:, None]
        back = torch.arange(int(self.examples.length[some].max()), 0, -1, device=self.device)
        tokens = self.tokens[self.items[(position - back).clamp(min=0)]]  # (n, items, L)
        return torch.where((back <= length)[..., None], tokens, 0).flatten(1)
