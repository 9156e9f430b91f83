"""Recommending by counting: a hand-worked case, and a slow count over every item."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch", reason="the retriever needs torch")

from sidkit.errors import InputError
from sidkit.retriever.counting import counted
from sidkit.sequences import Sequences


def test_a_case_worked_by_hand():
    """Training leaves 0 1 0 | 0 2 | 1, so 0 is the most popular, then 1, 2, 3 and 4; 0 was followed by 1 and by 2."""
    found = counted(Sequences.of([[0, 1, 0, 1, 2], [0, 2, 3, 4], [1, 0, 2]]), 5)
    ranks = {"popular": [3, 5, 3], "followed": [3, 5, 2]}  # of 2 after 1, 4 after 3, 2 after 0
    for name, places in ranks.items():
        assert found[name].count == 3
        assert found[name].sums["item_mrr@5"] == pytest.approx(sum(1 / place for place in places))
        assert found[name].sums["item_ndcg@10"] == pytest.approx(sum(1 / np.log2(place + 1) for place in places))
        assert found[name].sums["item_recall@5"] == found[name].sums["item_hit_rate@5"] == 3


def slow(lists, items, split):
    """The place of every user's target in a list of all items."""
    counts, followers = Counter(), Counter()
    for one in lists:
        counts.update(one[:-2])
        followers.update(pairwise(one[:-2]))
    ranks = {"popular": [], "followed": []}
    back = {"test": 1, "valid": 2}[split]
    for one in lists:
        if len(one) > back:
            target, last = one[-back], one[-back - 1]
            popular = sorted(range(items), key=lambda item: (-counts[item], item))
            ranks["popular"].append(popular.index(target))
            ranks["followed"].append(sorted(popular, key=lambda item: -followers[last, item]).index(target))
    return ranks


@pytest.mark.parametrize("split", ["test", "valid"])
def test_as_a_slow_count_finds(split):
    rng = np.random.default_rng(0)
    lists = [rng.integers(12, size=rng.integers(0, 9)).tolist() for _ in range(60)]
    found, ranks = counted(Sequences.of(lists), 12, split), slow(lists, 12, split)
    for name, tally in found.items():
        at = np.array(ranks[name])
        assert tally.count == len(at)
        for cut in (5, 10, 20):
            assert tally.sums[f"item_recall@{cut}"] == (at < cut).sum()
            assert tally.sums[f"item_ndcg@{cut}"] == pytest.approx(sum(1 / np.log2(at[at < cut] + 2)))


def test_nothing_to_count():
    found = counted(Sequences.of([[1, 0], [2, 1]]), 3)  # no transition in training: all that is left is popularity
    assert found["followed"].sums == found["popular"].sums
    assert counted(Sequences.of([]), 3)["popular"].count == 0
    with pytest.raises(InputError, match="have no semantic ID"):
        counted(Sequences(np.array([0, -1]), np.array([0, 2]), 1), 3)
