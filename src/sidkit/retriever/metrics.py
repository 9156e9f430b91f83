"""How good recommendations are: hits, NDCG and reciprocal ranks, of items and of semantic IDs, as sums over users.

A SID may stand for several items, so whether the target was recommended has several readings, each with its name:

    item         the paper's: a SID stands for one item, drawn at random once per SID (seed 42)
    expected     the exact mean of `item` over all such draws: a SID of g items counts 1/g
    corrected    collision-corrected: a SID of g items takes g ranks of the list, in an order drawn at random; the mean
                 over these orders. With P ranks taken before the target's SID and m = min(g, max(0, K - P)) of its
                 ranks within the first K: hits m/g, NDCG (1/g) sum_i 1/log2(P + i + 1), MRR (1/g) sum_i 1/(P + i)
    sid          the target's SID was generated, whichever items it stands for: higher the more items collide

There is one target per user, so Recall@K and HitRate@K are the same number; both names are given.
Everything is a sum over users and a count of users; means are taken last, never of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..measure.ranking import CUTS
from ..sids.trie import Trie

__all__ = ["Judge", "Tally", "representatives"]

Tensor = Any
SEED = 42


def representatives(trie: Trie, seed: int = SEED) -> NDArray[np.int64]:
    """(leaves,) the row of one item per SID, drawn once for all users; it depends on the table and the seed alone."""
    drawn = np.random.default_rng(seed).integers(trie.counts)
    rows: NDArray[np.int64] = trie.rows[trie.bounds[:-1] + drawn]
    return rows


@dataclass
class Tally:
    """Sums of figures over users, by name, and the number of users.

    seen   by list ("model": the `expected` reading of the beams; "fused"; "followed": counting), figures of targets by
           how often they were seen in training (`sidkit.measure.seen`), where that was asked for
    """

    sums: dict[str, float] = field(default_factory=dict)
    count: int = 0
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        return {name: value / max(self.count, 1) for name, value in self.sums.items()}


class Judge:
    """Scores ranked SIDs against target items.

    invalid_consumes_rank   whether a generated sequence that is no SID takes a rank in the item lists; SID-level
                            figures always count it, as the field does
    """

    def __init__(
        self, trie: Trie, items: int, device: Any, seed: int = SEED, invalid_consumes_rank: bool = False
    ) -> None:
        self.leaf = torch.as_tensor(trie.leaf_of(items), device=device)
        self.counts = torch.as_tensor(np.append(trie.counts, 1), device=device)  # leaf -1, no SID, counts 1
        self.chosen = torch.as_tensor(representatives(trie, seed), device=device)
        self.invalid_consumes_rank = invalid_consumes_rank

    def _found(self, leaf: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of every user: the target's leaf (-1 if it is outside the trie), whether it was found, in which column, and
        at which rank of the item list, from 0."""
        own_leaf = self.leaf[target]
        match = (leaf == own_leaf[:, None]) & (own_leaf >= 0)[:, None]
        hit, column = match.any(1), match.int().argmax(1, keepdim=True)
        takes_rank = torch.ones_like(leaf) if self.invalid_consumes_rank else (leaf >= 0).long()
        return own_leaf, hit, column, (takes_rank.cumsum(1) - takes_rank).gather(1, column)[:, 0]

    def expected(self, leaf: Tensor, target: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Of every user the rank of the target in the item list, beyond every cut if it was not found, and what a hit
        counts: the `expected` reading, user by user."""
        own_leaf, hit, _, rank = self._found(leaf, target)
        ranks = torch.where(hit, rank, max(CUTS) + leaf.shape[1])
        return ranks.cpu().numpy(), (1.0 / self.counts[own_leaf].double()).cpu().numpy()

    def sums(self, leaf: Tensor, target: Tensor) -> dict[str, Tensor]:
        """leaf: (n, beams) ranked SIDs, -1 for none; target: (n,) item rows -> sums over users, float64."""
        own_leaf, hit, column, item_rank = self._found(leaf, target)
        sid_rank = column[:, 0]  # ranks count from 0
        size = self.counts[leaf]
        items_before = (size.cumsum(1) - size).gather(1, column)[:, 0]
        group = self.counts[own_leaf]
        is_chosen = self.chosen[own_leaf.clamp(min=0)] == target
        sums: dict[str, Tensor] = {}
        for cut in CUTS:
            readings = {
                "item": (item_rank, hit & is_chosen, 1.0),
                "expected": (item_rank, hit, 1.0 / group.double()),
                "sid": (sid_rank, hit, 1.0),
            }
            for name, (rank, counts, share) in readings.items():
                gain = (counts & (rank < cut)).double() * share
                rank = rank.double()
                sums |= _named(name, cut, gain, gain / torch.log2(rank + 2), gain / (rank + 1))
            sums |= _named("corrected", cut, *_corrected(items_before, group, hit, cut))
        return sums


def _corrected(items_before: Tensor, group: Tensor, hit: Tensor, cut: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hits, NDCG and MRR of each user, (n,): means over the orders of the target's group."""
    rank = items_before[:, None] + torch.arange(cut, device=group.device)  # of the group's items, from 0
    inside = (rank < torch.minimum(items_before + group, torch.full_like(group, cut))[:, None]) & hit[:, None]
    share = inside.double() / group[:, None].double()
    rank = rank.double()
    return share.sum(1), (share / torch.log2(rank + 2)).sum(1), (share / (rank + 1)).sum(1)


def _named(name: str, cut: int, hits: Tensor, ndcg: Tensor, mrr: Tensor) -> dict[str, Tensor]:
    values = {"recall": hits, "hit_rate": hits, "ndcg": ndcg, "mrr": mrr}
    return {f"{name}_{metric}@{cut}": value.sum() for metric, value in values.items()}
