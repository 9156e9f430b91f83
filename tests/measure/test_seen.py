"""Figures by how often targets were seen in training."""

import numpy as np
import pytest

from sidkit.data.sequences import Sequences
from sidkit.measure.ranking import mean_figures
from sidkit.measure.seen import ranks_by_seen, seen_group, times_seen


def test_groups_by_hand():
    """Training leaves 0 0 0 0 0 1; of the targets, 0 was seen five times, 1 once and 2 never."""
    sequences = Sequences.of([[0, 0, 0, 0, 0, 1, 2, 2], [1, 0], [2, 1, 2]])
    times = times_seen(sequences, 3)
    assert times.tolist() == [5, 1, 1]
    assert seen_group(np.array([0, 1, 4, 5, 99])).tolist() == [0, 1, 1, 2, 2]
    figures = ranks_by_seen(np.array([0, 3, 7, 30]), np.array([0, 1, 4, 5]))
    assert {name: one["users"] for name, one in figures.items()} == {"0": 1, "1-4": 2, "5+": 1}
    assert figures["1-4"]["share"] == 0.5
    assert figures["0"]["recall@5"] == figures["0"]["ndcg@5"] == 1
    assert figures["1-4"]["recall@5"] == 0.5
    assert figures["1-4"]["recall@10"] == 1
    assert figures["1-4"]["ndcg@10"] == pytest.approx((1 / np.log2(5) + 1 / np.log2(9)) / 2)
    assert figures["5+"]["recall@20"] == 0


def test_groups_add_up_to_all():
    rng = np.random.default_rng(0)
    rank, times, share = rng.integers(40, size=500), rng.integers(9, size=500), 1 / rng.integers(1, 4, 500)
    figures, every = ranks_by_seen(rank, times, share), mean_figures(rank, share)
    assert sum(one["share"] for one in figures.values()) == pytest.approx(1)
    for name in ("recall@5", "ndcg@10", "ndcg@20"):
        assert sum(one["share"] * one[name] for one in figures.values()) == pytest.approx(every[name])


def test_a_group_without_users_has_no_figure():
    figures = ranks_by_seen(np.array([0]), np.array([7]))
    assert figures["0"] == {"users": 0, "share": 0.0} | {
        f"{name}@{cut}": None for cut in (5, 10, 20) for name in ("recall", "ndcg")
    }
