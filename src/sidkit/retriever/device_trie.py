"""Tries of semantic IDs as tensors on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..sids.trie import Trie
from .data import Vocabulary

__all__ = ["DeviceTrie"]

Tensor = Any


class DeviceTrie:
    """The tries of one or several runs: children as ranges of nodes, and prefixes looked up by (parent, code).

    The nodes of a level are numbered run after run: run r has root r, and its leaves begin at leaves[r].

    widest     per level, the largest number of children of a node
    children   per level, (parents + 1,) the first child of every node of the level above, and the end
    codes      per level, (nodes,)
    keys       per level, (nodes,) parent * size + code, sorted
    """

    def __init__(self, tries: Trie | Sequence[Trie], vocabulary: Vocabulary, device: Any) -> None:
        tries = [tries] if isinstance(tries, Trie) else tries
        self.levels, self.sizes, self.first = len(vocabulary.sizes), vocabulary.sizes, vocabulary.first
        self.widest: list[int] = []
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
        """The children of nodes (...) of the level above: their indices (..., widest), and which of them exist."""
        begin, stop = self.bounds(node, level)
        child = begin[..., None] + torch.arange(self.widest[level], device=node.device)
        return child.clamp(max=len(self.codes[level]) - 1), child < stop[..., None]

    def bounds(self, node: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """The first child of each node, and the first node after its children."""
        return self.children[level][node], self.children[level][node + 1]

    def step(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        """The child with this code, or -1: if there is none, if the code is outside the level, if the node is -1."""
        size = self.sizes[level]
        key = torch.where((node >= 0) & (code >= 0) & (code < size), node * size + code, -1)
        child = torch.searchsorted(self.keys[level], key).clamp(max=len(self.keys[level]) - 1)
        return torch.where(self.keys[level][child] == key, child, -1)

    def roots(self, users: int) -> Tensor:
        """(R, n, 1)"""
        roots = torch.arange(len(self.leaves), device=self.leaves.device)
        return roots[:, None, None].expand(-1, users, 1).contiguous()

    def leaves_of_runs(self, node: Tensor) -> Tensor:
        """Nodes of the last level (R, n, k), or -1, as indices of each run's own leaves."""
        return torch.where(node < 0, -1, node - self.leaves[:, None, None])
