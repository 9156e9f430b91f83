"""Which records are the test part, and which test pairs are drawn."""

import numpy as np
import pyarrow as pa
import pytest

from sidkit.errors import InputError, SpecError
from sidkit.search.shop.split import PairDraw, held_out_groups, time_boundary


def test_the_latest_share_of_times_is_the_test():
    times = np.array([5, 1, 2, 3, 4, 9, 8, 7, 6, 10])
    assert time_boundary(times, 0.2) == 9
    assert time_boundary(times, 0.5) == 6


def test_records_of_one_time_are_not_parted():
    assert time_boundary(np.array([1, 2, 3, 3, 3, 3, 3, 3, 3, 3]), 0.2) == 3
    assert time_boundary(np.array([3, 3, 3, 3, 4]), 0.4) == 4  # else nothing would be left to train on


def test_records_of_one_time_alone_cannot_be_split():
    with pytest.raises(InputError, match="all 4 records have the same time, 7"):
        time_boundary(np.full(4, 7), 0.1)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_lies_between_0_and_1(share):
    with pytest.raises(SpecError, match="test_share must lie between 0 and 1"):
        time_boundary(np.arange(4), share)


def test_groups_stay_together_and_make_up_the_share():
    groups = np.random.default_rng(0).integers(0, 200, 10_000)
    test = held_out_groups(groups, 0.1, seed=0)
    assert all(len(set(test[groups == group])) == 1 for group in range(200))
    assert 0.09 < test.mean() < 0.12
    assert np.array_equal(test, held_out_groups(groups, 0.1, seed=0))
    assert not np.array_equal(test, held_out_groups(groups, 0.1, seed=1))


def test_both_parts_get_a_group():
    for share in (0.001, 0.999):
        test = held_out_groups(np.array([0, 0, 0, 1]), share, seed=0)
        assert test.any()
        assert not test.all()
    with pytest.raises(InputError, match="needs at least 2 groups"):
        held_out_groups(np.zeros(4, np.int64), 0.1, seed=0)


def drawn(limit, cut, seed=0, n=20_000):
    draw = PairDraw(limit, seed)
    for start in range(0, n, cut):
        draw.add(pa.table({"pair": np.arange(start, min(n, start + cut))}))
    assert draw.seen == n
    return draw.table()["pair"].to_pylist()


def test_the_same_pairs_are_drawn_whatever_the_batches():
    pairs = drawn(100, 20_000)
    assert pairs == drawn(100, 7) == drawn(100, 999)
    assert len(set(pairs)) == 100
    assert pairs == sorted(pairs)
    assert pairs != drawn(100, 999, seed=1)


def test_every_pair_is_drawn_equally_often():
    counts = np.zeros(40, int)
    for seed in range(400):
        counts[drawn(10, 13, seed, 40)] += 1
    assert counts.sum() == 4000
    assert counts.min() > 60  # 100 expected, standard deviation 9
    assert counts.max() < 140


def test_fewer_pairs_than_the_limit_are_all_taken():
    assert drawn(100, 3, n=10) == list(range(10))
    assert PairDraw(5, 0).table() is None
