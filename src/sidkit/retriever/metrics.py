"""How good recommendations are: hits, NDCG and reciprocal ranks, of items and of semantic IDs, as sums over users.

A SID may stand for several items, so "was the target found" has several readings, each with its name:

    item         the paper's: a SID stands for one item, drawn at random once per SID (seed 42)
    expected     the exact mean of `item` over all such draws: a SID of g items counts 1/g
    corrected    collision-corrected: a SID of g items takes g places in the list, in an order drawn at random; the mean
                 over these orders. With P places taken before the target's SID and m = min(g, max(0, K - P)) of its
                 places within the first K: hits m/g, NDCG (1/g) sum_i 1/log2(P + i + 1), MRR (1/g) sum_i 1/(P + i)
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
    """Sums over users, by name, and how many users there were."""

    sums: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def means(self) -> dict[str, float]:
        return {name: value / max(self.count, 1) for name, value in self.sums.items()}


class Judge:
    """Scores ranked SIDs against target items.

    invalid_consumes_rank   whether a generated sequence that is no SID takes a place in the item lists; SID-level
                            figures always count it, as the field does
    """

    def __init__(
        self, trie: Trie, items: int, device: Any, seed: int = SEED, invalid_consumes_rank: bool = False
    ) -> None:
        self.leaf = torch.as_tensor(trie.leaf_of(items), device=device)
        self.counts = torch.as_tensor(np.append(trie.counts, 1), device=device)  # leaf -1, no SID, counts 1
        self.chosen = torch.as_tensor(representatives(trie, seed), device=device)
        self.invalid_consumes_rank = invalid_consumes_rank

    def sums(self, leaf: Tensor, target: Tensor) -> dict[str, Tensor]:
        """leaf: (n, beams) ranked SIDs, -1 for none; target: (n,) item rows -> sums over users, float64."""
        wanted = self.leaf[target]
        match = (leaf == wanted[:, None]) & (wanted >= 0)[:, None]
        found, place = match.any(1), match.int().argmax(1, keepdim=True)
        rank = place[:, 0]  # from 0
        taken = torch.ones_like(leaf) if self.invalid_consumes_rank else (leaf >= 0).long()
        among = (taken.cumsum(1) - taken).gather(1, place)[:, 0]
        size = self.counts[leaf]
        before = (size.cumsum(1) - size).gather(1, place)[:, 0]
        group = self.counts[wanted]
        is_chosen = self.chosen[wanted.clamp(min=0)] == target
        sums: dict[str, Tensor] = {}
        for cut in CUTS:
            readings = {
                "item": (among, found & is_chosen, 1.0),
                "expected": (among, found, 1.0 / group.double()),
                "sid": (rank, found, 1.0),
            }
            for name, (at, hit, share) in readings.items():
                gain = (hit & (at < cut)).double() * share
                at = at.double()
                sums |= _named(name, cut, gain, gain / torch.log2(at + 2), gain / (at + 1))
            sums |= _named("corrected", cut, *_corrected(before, group, found, cut))
        return sums


def _corrected(before: Tensor, group: Tensor, found: Tensor, cut: int) -> tuple[Tensor, Tensor, Tensor]:
    place = before[:, None] + torch.arange(cut, device=before.device)  # the places of the SID's items, from 0
    inside = (place < torch.minimum(before + group, torch.full_like(group, cut))[:, None]) & found[:, None]
    share = inside.double() / group[:, None].double()
    place = place.double()
    return share.sum(1), (share / torch.log2(place + 2)).sum(1), (share / (place + 1)).sum(1)


def _named(name: str, cut: int, hits: Tensor, ndcg: Tensor, mrr: Tensor) -> dict[str, Tensor]:
    values = {"recall": hits, "hit_rate": hits, "ndcg": ndcg, "mrr": mrr}
    return {f"{name}_{metric}@{cut}": value.sum() for metric, value in values.items()}
