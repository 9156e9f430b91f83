"""Recommending by counting, without any model: what a recommender has to beat, and what SIDs alone are good for.

The last item of every sequence is held out for the test and the one before it for validation; all else is counted.

    popular          for everybody what was taken most often
    followed         what came right after the user's last item most often, then what is popular
    by first token   SIDs, by their chance given the first token of the last item's SID: what a model could do that has
                     learned nothing but which tokens follow which. The better SIDs group items that follow each other,
                     and the fewer items share one, the higher it is

Figures are means over users with metrics' names: recall, hit_rate, ndcg and mrr at 5, 10 and 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import InputError
from ..progress import Progress, Silent
from ..sids.prefixes import require_codes
from ..sids.table import SidTable
from ..sids.trie import Trie

__all__ = ["CUTS", "Chances", "counted", "counted_by_token", "held_out", "places"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
CUTS = (5, 10, 20)
MU = 3.0  # counts that are spread as where less is known
AT_ONCE = 1 << 22  # candidates


def counted(sequences: Sequences, items: int, split: Literal["test", "valid"] = "test") -> dict[str, dict[str, float]]:
    """How well "popular" and "followed" find the held-out items, among so many. Equal counts: by popularity, by row."""
    last, target = held_out(sequences, split)
    seen = sequences.training()
    popular = np.empty(items, np.int64)  # the place of every item
    popular[np.argsort(-np.bincount(seen.rows, minlength=items), kind="stable")] = np.arange(items)
    start, after, _ = seen.transitions()
    return {"popular": places(popular[target]), "followed": places(_followed(start, after, popular, last, target))}


def counted_by_token(
    codes: Any,
    sizes: Sequence[int],
    sequences: Sequences,
    split: Literal["test", "valid"] = "valid",
    beams: int = 30,
    progress: Progress | None = None,
) -> dict[str, float]:
    """How well SIDs are found by their tokens' chances given the first token of the last item.

    codes: (n, levels). A token's chance is counted under that first token and the tokens before it; MU counts are added
    as they are spread under any first token, where MU counts are spread evenly. SIDs are found by beam search, and one
    that g items share counts 1/g, as in the `expected` reading of a model's figures.
    """
    array = require_codes(codes, sizes)
    last, target = held_out(sequences, split)
    before, after, _ = sequences.training().transitions()
    chances = Chances(array, sizes, before, after)
    asked, whose = np.unique(chances.first[last], return_inverse=True)
    best = chances.likeliest(asked, beams, progress)[0][whose]
    found = best == chances.leaf[target][:, None]
    place = np.where(found.any(1), found.argmax(1), max(CUTS))
    return places(place, 1 / chances.trie.counts[chances.leaf[target]])


class Chances:
    """Of SIDs, given the first token of the item before.

    first, leaf    (n,) of every item the trie's nodes of its first token and of its SID
    """

    def __init__(self, codes: NDArray[Any], sizes: Sequence[int], before: Integers, after: Integers) -> None:
        """before, after: (transitions,) rows of codes."""
        self.trie = Trie.of(SidTable(np.arange(len(codes)), codes, tuple(sizes)))
        nodes = [self.trie.leaf_of(len(codes))]
        for children in self.trie.children[::-1]:  # up to the root
            nodes.insert(0, np.repeat(np.arange(len(children) - 1), np.diff(children))[nodes[0]])
        self.first, self.leaf, token = nodes[1], nodes[-1], nodes[1][before]
        self.total = np.bincount(token, minlength=len(self.trie.codes[0]))
        self.levels = [
            _Level(children, node[after], above[after], token)
            for children, node, above in zip(self.trie.children, nodes[1:], nodes, strict=False)
        ]

    def likeliest(self, tokens: Integers, beams: int, progress: Progress | None = None) -> tuple[Integers, Floats]:
        """tokens: (F,) -> the likeliest SIDs after each, best first, and the logarithms of their chances, (F, beams);
        -1 and -inf where there are fewer."""
        chunk = max(1, AT_ONCE // (beams * max(int(level.width.max()) for level in self.levels)))
        found, progress = [(np.zeros((0, beams), np.int64), np.zeros((0, beams)))], progress or Silent()
        progress.start("count", len(tokens))
        for start in range(0, len(tokens), chunk):
            found.append(self._search(tokens[start : start + chunk], beams))
            progress.advance(len(found[-1][0]))
        return np.concatenate([leaf for leaf, _ in found]), np.concatenate([score for _, score in found])

    def _search(self, tokens: Integers, beams: int) -> tuple[Integers, Floats]:
        node, score = np.zeros((len(tokens), 1), np.int64), np.zeros((len(tokens), 1))
        total, token = self.total[tokens][:, None], tokens[:, None, None]
        for level in self.levels:
            step = np.arange(int(level.width.max()))
            there = (step < level.width[node][..., None]) & (score > -np.inf)[..., None]
            child = np.where(there, level.first[node][..., None] + step, 0)
            count = level.count(np.broadcast_to(token, child.shape), child)
            chance = (count + MU * level.spread[child]) / (total[..., None] + MU)
            sums = np.where(there, score[..., None] + np.log(chance), -np.inf).reshape(len(tokens), -1)
            best = np.argsort(-sums, axis=1, kind="stable")[:, :beams]
            parts = (part.reshape(len(tokens), -1) for part in (child, count, sums))
            node, total, score = (np.take_along_axis(part, best, 1) for part in parts)
        wider = ((0, 0), (0, beams - node.shape[1]))
        node = np.where(score > -np.inf, node, -1)
        return np.pad(node, wider, constant_values=-1), np.pad(score, wider, constant_values=-np.inf)


class _Level:
    """How often each node of a level came next.

    first, width   (parents,) the first child of every node above, and how many there are
    spread         (nodes,) the chance of each under its parent, whatever the first token
    keys, counts   sorted (first token, node), and how often
    """

    def __init__(self, children: Integers, node: Integers, above: Integers, token: Integers) -> None:
        """children: of the trie; node, above, token: of every transition."""
        self.first, self.width = children[:-1], np.diff(children)
        taken = np.bincount(node, minlength=children[-1])
        under, width = (
            np.repeat(each, self.width) for each in (np.bincount(above, minlength=len(self.width)), self.width)
        )
        self.spread = (taken + MU / width) / (under + MU)
        self.keys, self.counts = np.unique(token * len(taken) + node, return_counts=True)

    def count(self, token: Integers, node: Integers) -> Integers:
        key = token * len(self.spread) + node
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[at] == key, self.counts[at], 0) if len(self.keys) else np.zeros_like(key)


def held_out(sequences: Sequences, split: Literal["test", "valid"]) -> tuple[Integers, Integers]:
    """The item that is to be found in every sequence that has one, and the item before it: (before, item)."""
    if (sequences.rows < 0).any():
        raise InputError("items without a semantic ID have to be left out of the sequences first")
    _, position = sequences.held_out({"valid": 2, "test": 1}[split])
    return sequences.rows[position - 1], sequences.rows[position]


def _followed(start: Integers, after: Integers, popular: Integers, last: Integers, target: Integers) -> Integers:
    """The place of each target, from 0: among what followed `last` in the transitions, or behind all of that."""
    items = len(popular)
    key, count = np.unique(start * items + popular[after], return_counts=True)  # by item, then by popularity
    first = np.searchsorted(key, np.arange(items + 1) * items)  # where an item's followers begin
    place = np.empty(len(key) + 1, np.int64)  # of each follower, the most frequent first
    place[np.lexsort((key, -count, key // items))] = np.arange(len(key))
    wanted = last * items + popular[target]
    at = np.searchsorted(key, wanted)  # so many followers of earlier items, or more popular ones of this item
    known = np.append(key, -1)[at] == wanted
    return np.where(known, place[at] - first[last], first[last + 1] + popular[target] - at)


def places(place: Integers, share: Any = 1.0) -> dict[str, float]:
    """The mean figures of targets found at these places, counted from 0; of each, its share counts."""
    found: dict[str, float] = {}
    for cut in CUTS:
        hit = (place < cut) * share
        values = {"recall": hit, "hit_rate": hit, "ndcg": hit / np.log2(place + 2), "mrr": hit / (place + 1)}
        found |= {f"{name}@{cut}": float(value.mean()) if len(place) else 0.0 for name, value in values.items()}
    return found
