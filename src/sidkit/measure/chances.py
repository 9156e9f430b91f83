"""The chances of SIDs given the first token of the item before, counted over transitions.

A token's chance is counted under that first token and the tokens before it. MU further counts are distributed as under
any first token; there, MU further counts are distributed evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress, Silent
from ..sids.trie import Trie

__all__ = ["Chances"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
MU = 3.0
AT_ONCE = 1 << 22  # candidates scored at once


class Chances:
    """Chances of SIDs given the first token of the item before. Nodes of the trie stand for tokens and SIDs."""

    def __init__(self, codes: NDArray[Any], sizes: Sequence[int], before: Integers, after: Integers) -> None:
        """before, after: (transitions,) rows of codes."""
        self.codes, self.trie = codes, Trie.of_codes(codes, sizes)
        nodes, token = self._nodes(after), self.first_of(before)
        self.total = np.bincount(token, minlength=len(self.trie.codes[0]))
        self.levels = [
            _LevelCounts(children, node, above, token)
            for children, node, above in zip(self.trie.children, nodes[1:], nodes, strict=False)
        ]

    def first_of(self, rows: Integers) -> Integers:
        """The nodes of the first tokens of these rows."""
        nodes: Integers = np.searchsorted(self.trie.codes[0], self.codes[rows, 0])
        return nodes

    def leaf_of(self, rows: Integers) -> Integers:
        """The nodes of the SIDs of these rows."""
        return self.trie.leaves(self.codes[rows])

    def _nodes(self, rows: Integers) -> list[Integers]:
        """The nodes of these rows, from the root to the SID."""
        nodes = [self.leaf_of(rows)]
        for children in self.trie.children[::-1]:
            nodes.insert(0, np.searchsorted(children, nodes[0], "right") - 1)
        return nodes

    def likeliest(self, tokens: Integers, beams: int, progress: Progress | None = None) -> tuple[Integers, Floats]:
        """tokens: (F,) -> the likeliest SIDs after each, best first, and the logarithms of their chances, (F, beams);
        -1 and -inf where there are fewer."""
        chunk = max(1, AT_ONCE // (beams * max(int(level.width.max()) for level in self.levels)))
        parts, progress = [(np.zeros((0, beams), np.int64), np.zeros((0, beams)))], progress or Silent()
        progress.start("count", len(tokens))
        for start in range(0, len(tokens), chunk):
            parts.append(self._search(tokens[start : start + chunk], beams))
            progress.advance(len(parts[-1][0]))
        return np.concatenate([leaf for leaf, _ in parts]), np.concatenate([score for _, score in parts])

    def _search(self, tokens: Integers, beams: int) -> tuple[Integers, Floats]:
        node, score = np.zeros((len(tokens), 1), np.int64), np.zeros((len(tokens), 1))
        total, token = self.total[tokens][:, None], tokens[:, None, None]
        for level in self.levels:
            step = np.arange(int(level.width.max()))
            exists = (step < level.width[node][..., None]) & (score > -np.inf)[..., None]
            child = np.where(exists, level.first[node][..., None] + step, 0)
            count = level.count(np.broadcast_to(token, child.shape), child)
            chance = (count + MU * level.prior[child]) / (total[..., None] + MU)
            sums = np.where(exists, score[..., None] + np.log(chance), -np.inf).reshape(len(tokens), -1)
            best = np.argsort(-sums, axis=1, kind="stable")[:, :beams]
            parts = (part.reshape(len(tokens), -1) for part in (child, count, sums))
            node, total, score = (np.take_along_axis(part, best, 1) for part in parts)
        wider = ((0, 0), (0, beams - node.shape[1]))
        node = np.where(score > -np.inf, node, -1)
        return np.pad(node, wider, constant_values=-1), np.pad(score, wider, constant_values=-np.inf)


class _LevelCounts:
    """How often each node of a level came next.

    first, width   (parents,) the first child of every node above, and how many children it has
    prior          (nodes,) the chance of each under its parent, whatever the first token
    keys, counts   sorted (first token, node), and how often each occurred
    """

    def __init__(self, children: Integers, node: Integers, above: Integers, token: Integers) -> None:
        """children: of the trie; node, above, token: of every transition."""
        self.first, self.width = children[:-1], np.diff(children)
        taken = np.bincount(node, minlength=children[-1])
        under, width = (
            np.repeat(each, self.width) for each in (np.bincount(above, minlength=len(self.width)), self.width)
        )
        self.prior = (taken + MU / width) / (under + MU)
        self.keys, self.counts = np.unique(token * len(taken) + node, return_counts=True)

    def count(self, token: Integers, node: Integers) -> Integers:
        key = token * len(self.prior) + node
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[at] == key, self.counts[at], 0) if len(self.keys) else np.zeros_like(key)
