"""Recommending by counting: a hand-worked case, and a slow count over every item."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from sidkit.data.sequences import Sequences
from sidkit.errors import InputError
from sidkit.measure.chances import Chances
from sidkit.measure.counting import counted, counted_by_token


def test_a_case_worked_by_hand():
    """Training leaves 0 1 0 | 0 2 | 1, so 0 is the most popular, then 1, 2, 3 and 4; 0 was followed by 1 and by 2."""
    results = counted(Sequences.of([[0, 1, 0, 1, 2], [0, 2, 3, 4], [1, 0, 2]]), 5)
    ranks = {"popular": [3, 5, 3], "followed": [3, 5, 2]}  # of 2 after 1, 4 after 3, 2 after 0
    for name, user_ranks in ranks.items():
        assert results[name]["mrr@5"] == pytest.approx(np.mean([1 / rank for rank in user_ranks]))
        assert results[name]["ndcg@10"] == pytest.approx(np.mean([1 / np.log2(rank + 1) for rank in user_ranks]))
        assert results[name]["recall@5"] == results[name]["hit_rate@5"] == 1


def slow(lists, items, split):
    """The rank of every user's target in a list of all items."""
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
    results, ranks = counted(Sequences.of(lists), 12, split), slow(lists, 12, split)
    for name, figures in results.items():
        at = np.array(ranks[name])
        for cut in (5, 10, 20):
            assert figures[f"recall@{cut}"] == pytest.approx((at < cut).mean())
            assert figures[f"ndcg@{cut}"] == pytest.approx(np.mean((at < cut) / np.log2(at + 2)))


def chance(codes, before, after, token, item):
    """The chance of an item's SID, token by token, counted over the items and steps one by one."""
    result = 1.0
    for level in range(codes.shape[1]):
        same = (codes[:, :level] == codes[item, :level]).all(1)  # share the tokens before
        hits = same & (codes[:, level] == codes[item, level])
        seen, matches, same_token = same[after], hits[after], codes[before, 0] == token
        spread = (matches.sum() + 3 / len(np.unique(codes[same, level]))) / (seen.sum() + 3)
        result *= ((matches & same_token).sum() + 3 * spread) / ((seen & same_token).sum() + 3)
    return result


@pytest.fixture
def shop():
    rng = np.random.default_rng(1)
    codes = np.stack([2 * rng.integers(3, size=15), rng.integers(2, size=15), rng.integers(2, size=15)], 1)
    return codes, [rng.integers(15, size=rng.integers(0, 9)).tolist() for _ in range(40)]


def test_chances_of_sids_as_a_slow_count_finds(shop):
    codes, lists = shop
    steps = np.array([pair for one in lists for pair in pairwise(one)])
    chances = Chances(codes, (5, 2, 2), *steps.T)
    for number, token in enumerate(np.unique(codes[:, 0])):
        slowly = {int(chances.leaf_of([item])[0]): chance(codes, *steps.T, token, item) for item in range(15)}
        assert sum(slowly.values()) == pytest.approx(1.0)
        (leaves,), (scores,) = chances.likeliest(np.array([number]), 15)
        assert (np.diff(scores[: len(slowly)]) <= 0).all()
        assert (leaves[len(slowly) :] == -1).all()
        results = dict(zip(leaves[: len(slowly)].tolist(), np.exp(scores[: len(slowly)]), strict=True))
        assert results == pytest.approx(slowly)


def test_sids_are_ranked_by_their_chances(shop):
    codes, lists = shop
    steps = np.array([pair for one in lists for pair in pairwise(one[:-2])])
    chances, gains = Chances(codes, (5, 2, 2), *steps.T), []
    for one in lists:
        if len(one) > 2:
            leaves, _ = chances.likeliest(chances.first_of(one[-3:-2]), 12)
            rank = leaves[0].tolist().index(chances.leaf_of(one[-2:-1])[0])
            gains.append((rank < 5) / np.log2(rank + 2) / (codes == codes[one[-2]]).all(1).sum())
    results = counted_by_token(codes, (5, 2, 2), Sequences.of(lists), beams=12)
    assert results["ndcg@5"] == pytest.approx(np.mean(gains))


def test_by_token_few_beams_find_the_likeliest_and_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    codes = np.stack([np.arange(64) // 16, np.arange(64) // 4 % 4, np.arange(64) % 4], 1)
    walks = Sequences.of([(rng.integers(64) + 5 * np.arange(8)) % 64 for _ in range(200)])
    complete = counted_by_token(codes, (4, 4, 4), walks, beams=64)
    assert complete["recall@20"] > 0.5 > 20 / 64
    assert counted_by_token(codes, (4, 4, 4), walks, beams=20)["ndcg@5"] == pytest.approx(complete["ndcg@5"], abs=0.02)
    monkeypatch.setattr("sidkit.measure.chances.AT_ONCE", 1)
    assert counted_by_token(codes, (4, 4, 4), walks, beams=64) == complete


def test_what_no_beam_holds_is_no_hit_in_a_small_catalogue():
    """Four items, one beam, which holds another SID than the target's."""
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    sequences = Sequences.of([[0, 1, 0, 1, 0, 1, 2, 3]])
    results = counted_by_token(codes, (2, 2), sequences, beams=1)
    assert results["recall@20"] == 0


def test_better_ids_count_for_more():
    """Items follow their neighbours on a ring: IDs that know it are better than shuffled ones, and crowded ones."""
    rng = np.random.default_rng(3)
    ring = np.stack([np.arange(256) // 16, np.arange(256) % 16], 1)
    walks = Sequences.of([(rng.integers(256) + np.cumsum(rng.integers(1, 4, size=8))) % 256 for _ in range(2000)])
    crowded = np.stack([ring[:, 0], ring[:, 1] // 8], 1)  # eight items to a SID
    good, shuffled, sharing = (
        counted_by_token(codes, (16, 16), walks)["ndcg@20"] for codes in (ring, rng.permutation(ring), crowded)
    )
    assert good > 2 * shuffled
    assert good > 1.5 * sharing


def test_nothing_to_count():
    results = counted(Sequences.of([[1, 0], [2, 1]]), 3)  # no transition in training: all that is left is popularity
    assert results["followed"] == results["popular"]
    assert counted(Sequences.of([]), 3)["popular"]["ndcg@20"] == 0
    codes = np.array([[0, 0], [0, 1], [1, 0]])
    assert counted_by_token(codes, (2, 2), Sequences.of([]))["ndcg@20"] == 0
    assert counted_by_token(codes, (2, 2), Sequences.of([[0, 1, 2]]))["recall@5"] == 1  # three SIDs, all recommended
    with pytest.raises(InputError, match="without a semantic ID"):
        counted(Sequences(np.array([0, -1]), np.array([0, 2]), 1), 3)
