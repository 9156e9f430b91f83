"""Tries of semantic IDs as tensors on a device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..sids.trie import Trie
from ..sids.vocabulary import Vocabulary

__all__ = ["DeviceTrie"]

Tensor = Any


class DeviceTrie:
    """The tries of one or several runs: children as ranges of nodes, sorted by their codes.

    The nodes of a level are numbered run after run: run r has root r, and its leaves begin at leaves[r].

    widest     per level, the largest number of children of a node
    children   per level, (parents + 1,) the first child of every node of the level above, and the end
    codes      per level, (nodes,)
    """

    def __init__(
        self, tries: Trie | Sequence[Trie], vocabulary: Vocabulary, device: Any, dtype: Any = torch.int64
    ) -> None:
        """dtype: of children and codes; that of a trie's own arrays (int32) shares its memory on a CPU."""
        tries = [tries] if isinstance(tries, Trie) else tries
        self.levels, self.sizes, self.first = len(vocabulary.sizes), vocabulary.sizes, vocabulary.first
        self.widest: list[int] = []
        self.children: list[Tensor] = []
        self.codes: list[Tensor] = []
        for level in range(self.levels):
            begin = np.cumsum([0, *(len(trie.codes[level]) for trie in tries)])
            if len(tries) == 1:
                joined, codes = tries[0].children[level], tries[0].codes[level]
            else:
                bounds = [trie.children[level][:-1] + start for trie, start in zip(tries, begin, strict=False)]
                joined = np.concatenate([*bounds, begin[-1:]])
                codes = np.concatenate([trie.codes[level] for trie in tries])
            self.widest.append(int(np.diff(joined).max()))
            self.children.append(_tensor(joined, device, dtype))
            self.codes.append(_tensor(codes, device, dtype))
        self.leaves = torch.as_tensor(begin[:-1], device=device)  # (R,)
        self._none = torch.tensor(-1, device=device)  # a number would be copied there each time
        self._counts = [torch.arange(widest, device=device, dtype=dtype) for widest in self.widest]
        self._keys: dict[int, Tensor] = {}

    def candidates(self, node: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """The children of nodes (...) of the level above: their indices (..., widest), and which of them exist.

        Those that do not exist repeat the first child.
        """
        begin, stop = self.bounds(node, level)
        child = begin[..., None] + self._counts[level]
        real = child < stop[..., None]
        return torch.where(real, child, begin[..., None]), real

    def bounds(self, node: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """The first child of each node, and the first node after its children."""
        return self.children[level][node], self.children[level][1:][node]

    def step(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        """The child with this code, or -1: if there is none, if the code is outside the level, if the node is -1.

        A CPU halves the range of children again and again, in the trie's own, perhaps mapped, arrays. On a GPU that
        would be a hundred small kernels: it searches once in the keys of all nodes of the level.
        """
        return self._by_key(node, code, level) if node.is_cuda else self._by_halving(node, code, level)

    def _by_halving(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        codes, (low, end) = self.codes[level], self.bounds(node.clamp(min=0), level)
        high = end
        for _ in range(self.widest[level].bit_length()):
            middle = (low + high) // 2
            below = (codes[middle.clamp(max=len(codes) - 1)] < code) & (low < high)
            low, high = torch.where(below, middle + 1, low), torch.where(below, high, middle)
        at = low.clamp(max=len(codes) - 1)
        return torch.where((node >= 0) & (low < end) & (codes[at] == code), at, -1)

    def _by_key(self, node: Tensor, code: Tensor, level: int) -> Tensor:
        # The codes -1 and size stand for all outside the level: no key of any parent has them.
        keys, size = self._keys_of(level), self.sizes[level]
        key = torch.add(code.clamp(-1, size), node, alpha=size + 2)
        at = torch.searchsorted(keys, key)
        return torch.where(keys[at] == key, at, self._none)

    def _keys_of(self, level: int) -> Tensor:
        """(nodes + 1,) parent * (size + 2) + code of every node, ascending, and a last one that is never asked for.

        They are made when a level is first searched.
        """
        if level not in self._keys:
            children = self.children[level]
            parents = torch.arange(len(children) - 1, device=children.device)
            parent = parents.repeat_interleave(children.diff(), output_size=len(self.codes[level]))
            keys = torch.full((len(parent) + 1,), torch.iinfo(torch.int64).max, device=children.device)
            torch.add(self.codes[level], parent, alpha=self.sizes[level] + 2, out=keys[:-1])
            self._keys[level] = keys
        return self._keys[level]

    def roots(self, users: int) -> Tensor:
        """(R, n, 1)"""
        roots = torch.arange(len(self.leaves), device=self.leaves.device)
        return roots[:, None, None].expand(-1, users, 1).contiguous()

    def leaves_of_runs(self, node: Tensor) -> Tensor:
        """Nodes of the last level (R, n, k), or -1, as indices of each run's own leaves."""
        return torch.where(node < 0, -1, node - self.leaves[:, None, None])


def _tensor(array: Any, device: Any, dtype: Any) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # a mapped file; nothing writes to it
        return torch.as_tensor(array, dtype=dtype, device=device)
