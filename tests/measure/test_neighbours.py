"""Neighbour agreement: by hand, against loops over all pairs, and with a draw of items."""

from itertools import combinations

import numpy as np
import pytest

from planted import planted
from sidkit.errors import InputError, SpecError
from sidkit.measure.neighbours import neighbour_agreement
from sidkit.rows.sources import ArraySource


def test_four_items_by_hand():
    """On a circle at 0, 10, 20 and 90 degrees the nearest are 1, 0 (tie with 2: the first), 1, 2.

    Codes 0, 0, 1, 1: pairs (0, 1), (1, 0) share, (2, 1) does not, (3, 2) does: 3/4. By code the one nearest to 2 is
    3, which is not its nearest; the others agree: 3/4. All four could share, so of the 2/3 between chance and that,
    5/12 are reached.
    """
    angle = np.deg2rad([0, 10, 20.5, 90])
    figures = neighbour_agreement([[0], [0], [1], [1]], (2,), np.c_[np.cos(angle), np.sin(angle)], neighbours=1)
    assert figures["share"] == pytest.approx([3 / 4])
    assert figures["chance"] == pytest.approx([1 / 3])
    assert figures["lift"] == pytest.approx([9 / 4])
    assert figures["most"] == [1.0]
    assert figures["above_chance"] == pytest.approx([5 / 8])
    assert figures["overlap"] == pytest.approx(3 / 4)
    assert figures["overlap_chance"] == pytest.approx(1 / 3)
    assert figures["share_error"] == [0.0]


def by_loops(x, codes, k):
    """Share per level, and overlap as the mean over every way to choose k items of longest common prefix."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    n, levels = codes.shape
    share, overlap = np.zeros(levels), 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        near = set(sorted(others, key=lambda j: -(u[i] @ u[j]))[:k])
        common = {j: next((at for at in range(levels) if codes[i, at] != codes[j, at]), levels) for j in others}
        share += [sum(common[j] >= level + 1 for j in near) / k for level in range(levels)]
        cut = sorted(common.values())[-k]
        sure = [j for j in others if common[j] > cut]
        choices = list(combinations([j for j in others if common[j] == cut], k - len(sure)))
        overlap += np.mean([len(near & {*sure, *choice}) for choice in choices]) / k
    return share / n, overlap / n


@pytest.mark.parametrize("k", [1, 3])
def test_it_equals_loops_over_all_pairs(rng, k):
    x, codes = rng.normal(size=(14, 3)), rng.integers(0, 2, size=(14, 3))
    share, overlap = by_loops(x, codes, k)
    figures = neighbour_agreement(codes, (2, 2, 2), x, neighbours=k)
    assert figures["share"] == pytest.approx(share)
    assert figures["overlap"] == pytest.approx(overlap)


def test_a_draw_stays_within_its_error_and_chunks_change_nothing(rng, monkeypatch):
    from sidkit.measure import neighbours as module

    x, label = planted(rng, clusters=30, each=100, noise=0.4)
    codes = np.stack([label, rng.integers(0, 3, len(label))], axis=1)
    complete = neighbour_agreement(codes, (30, 3), x.astype(np.float32), queries=len(x))
    sampled = neighbour_agreement(codes, (30, 3), x.astype(np.float32), queries=400, seed=1)
    assert (complete["queries"], complete["share_error"], sampled["queries"]) == (3000, [0.0, 0.0], 400)
    for level in range(2):
        assert abs(sampled["share"][level] - complete["share"][level]) < 4 * sampled["share_error"][level]
    assert abs(sampled["overlap"] - complete["overlap"]) < 4 * sampled["overlap_error"]
    monkeypatch.setattr(module, "CHUNK", 7)
    assert neighbour_agreement(codes, (30, 3), ArraySource(x.astype(np.float32)), queries=400, seed=1) == sampled


def test_planted_clusters_agree_and_shuffled_codes_do_not(rng):
    x, label = planted(rng, clusters=20, each=50)
    assert neighbour_agreement(label[:, None], (20,), x)["share"] == [1.0]
    assert neighbour_agreement(rng.permutation(label)[:, None], (20,), x)["lift"][0] == pytest.approx(1, abs=0.2)


def test_groups_smaller_than_the_number_of_neighbours_lower_no_score(rng):
    x, label = planted(rng, clusters=40, each=4)
    figures = neighbour_agreement(label[:, None], (40,), x)
    assert (figures["share"], figures["most"]) == (pytest.approx([0.3]), pytest.approx([0.3]))
    assert figures["above_chance"] == pytest.approx([1.0])


@pytest.mark.parametrize("codes", [np.zeros(40, int), np.arange(40)])
def test_one_group_for_all_or_one_for_each_leave_nothing_above_chance(rng, codes):
    assert neighbour_agreement(codes[:, None], (40,), rng.normal(size=(40, 3)))["above_chance"] == [None]


def test_many_copies_of_an_item_do_not_count_itself(rng):
    x = np.ones((40, 3))
    figures = neighbour_agreement(np.arange(40)[:, None], (40,), x, neighbours=5)
    assert figures["share"] == [0.0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="2 vectors do not fit 3 rows of codes"):
        neighbour_agreement(np.zeros((3, 1), int), (1,), np.eye(2))
    with pytest.raises(SpecError, match="cannot find 3 neighbours"):
        neighbour_agreement(np.zeros((3, 1), int), (1,), np.eye(3), neighbours=3)
