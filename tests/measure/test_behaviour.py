"""Prefix agreement: by hand, against loops over all transitions and all items, and its errors against resampling."""

from itertools import pairwise

import numpy as np
import pytest

from sidkit.data.sequences import Sequences
from sidkit.errors import InputError
from sidkit.measure.behaviour import category_paths, prefix_agreement


def test_four_items_by_hand():
    """Items 0, 1 share a SID, 2 shares their first token, 3 is apart. Targets: 1 twice, 2 once, 3 once (T = 4).

    0 -> 1 shares both levels, 1 -> 2 the first, 2 -> 3 none, 0 -> 1 both: 3/4 and 2/4.
    Popular: another item than the source in its group, by target counts 0, 2, 1, 1. Level 1, from 0: 3/4; from 1:
    1/2; from 2: 2/3; from 0: 3/4. Level 2, from 0: 2/4; from 1: 0; from 2: 0; from 0: 2/4.
    Uniform, level 1: 2/3 four times; level 2: 1/3, 1/3, 0, 1/3.
    """
    codes = np.array([[0, 0], [0, 0], [0, 1], [1, 0]])
    figures = prefix_agreement(codes, (2, 2), [[0, 1, 2, 3], [0, 0, 1, -1], [3]])
    assert figures["share"] == pytest.approx([3 / 4, 2 / 4])
    assert figures["chance_popular"] == pytest.approx([(3 / 4 + 1 / 2 + 2 / 3 + 3 / 4) / 4, 1 / 4])
    assert figures["chance_uniform"] == pytest.approx([2 / 3, 1 / 4])
    assert figures["lift"] == pytest.approx([9 / 8, 2])
    assert (figures["sequences"], figures["events"], figures["events_unknown"]) == (3, 9, 1)
    assert (figures["transitions"], figures["transitions_repeated"], figures["transitions_unknown"]) == (4, 1, 1)


def by_loops(codes, lists, categories, level):
    """Share and chances as the words say: every transition, and every item it might have gone to."""
    steps = [(a, b) for items in lists for a, b in pairwise(items) if a != b]
    often = np.bincount([b for _, b in steps], minlength=len(codes))
    same = [[tuple(p[:level]) == tuple(q[:level]) for q in codes] for p in codes]
    sums = np.zeros(4)
    for a, b in steps:
        others = [j for j in range(len(codes)) if j != a]
        alike = [j for j in others if categories[j] == categories[b]]
        sums += [
            same[a][b],
            np.mean([same[a][j] for j in others]),
            sum(often[j] * same[a][j] for j in others) / sum(often[j] for j in others),
            sum(often[j] * same[a][j] for j in alike) / sum(often[j] for j in alike),
        ]
    return sums / len(steps)


def test_it_equals_loops_over_transitions_and_items(rng):
    codes = rng.integers(0, 3, size=(40, 2))
    lists = [rng.integers(0, 40, size=rng.integers(1, 9)).tolist() for _ in range(30)]
    categories = [f"{c} > {rng.integers(2)}" for c in rng.integers(0, 3, 40)]
    figures = prefix_agreement(codes, (3, 3), lists, categories)
    for level in range(2):
        share, uniform, popular, within = by_loops(codes, lists, categories, level + 1)
        assert figures["share"][level] == pytest.approx(share)
        assert figures["chance_uniform"][level] == pytest.approx(uniform)
        assert figures["chance_popular"][level] == pytest.approx(popular)
        assert figures["chance_category"][level] == pytest.approx(within)
        assert figures["lift_category"][level] == pytest.approx(share / within)


def test_category_paths_are_judged_as_if_they_were_sids(rng):
    lists = [rng.integers(0, 60, 6).tolist() for _ in range(40)]
    paths = rng.integers(0, 3, size=(60, 2))
    categories = [f"top {a} > part {b}" for a, b in paths]
    figures = prefix_agreement(paths, (3, 3), lists, categories)
    assert figures["category_share"] == figures["share"]
    assert figures["category_lift"] == pytest.approx(figures["lift"])
    assert figures["lift_category"][1] == pytest.approx(figures["share"][1] / figures["chance_category"][1])
    assert [len(set(level.tolist())) for level in category_paths(["a > b", "a", "", "a > c"])] == [2, 4]


def test_random_codes_have_lift_one_and_codes_made_from_sessions_a_high_one(rng):
    items, kinds = 3000, 20
    kind = rng.integers(0, kinds, items)
    members = [np.flatnonzero(kind == k) for k in range(kinds)]
    lists = [rng.choice(members[k], 6) for k in rng.integers(0, kinds, 1500)]
    random = prefix_agreement(rng.integers(0, kinds, size=(items, 1)), (kinds,), lists)
    assert abs(random["lift"][0] - 1) < 4 * random["lift_error"][0]
    assert prefix_agreement(kind[:, None], (kinds,), lists)["lift"][0] == pytest.approx(kinds, rel=0.05)
    appended = prefix_agreement(kind[:, None], (kinds,), lists, [f"sort {k}" for k in kind])
    assert appended["lift_category"] == pytest.approx([1.0])


def test_standard_errors_match_resampled_sequences(rng):
    codes = rng.integers(0, 4, size=(50, 1))
    pick = [np.flatnonzero(codes[:, 0] == c) for c in range(4)]
    lists = [
        (rng.choice(pick[rng.integers(4)], 12) if rng.random() < 0.3 else rng.integers(0, 50, 5)).tolist()
        for _ in range(300)
    ]
    figures = prefix_agreement(codes, (4,), lists)
    again = [
        prefix_agreement(codes, (4,), [lists[i] for i in rng.integers(0, 300, 300)])["share"][0] for _ in range(300)
    ]
    assert figures["share_error"][0] == pytest.approx(np.std(again), rel=0.15)


def test_one_sequence_has_no_error_and_unique_sids_have_no_lift():
    figures = prefix_agreement(np.arange(3)[:, None], (3,), [[0, 1, 2]])
    assert (figures["share"], figures["share_error"], figures["lift"]) == ([0.0], [None], [None])


def test_what_does_not_fit_is_refused():
    codes = np.zeros((3, 1), int)
    with pytest.raises(InputError, match="name row 3, but there are 3 items"):
        prefix_agreement(codes, (1,), [[0, 3]])
    with pytest.raises(InputError, match="no transition between two different items"):
        prefix_agreement(codes, (1,), Sequences.of([[0, 0], [1, -1]]))
    with pytest.raises(InputError, match="2 categories do not fit 3 items"):
        prefix_agreement(codes, (1,), [[0, 1]], ["a", "b"])
    with pytest.raises(InputError, match="no transition has a category on both sides"):
        prefix_agreement(codes, (1,), [[0, 1]], ["a", "", ""])
