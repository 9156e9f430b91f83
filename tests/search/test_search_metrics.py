"""HitRate and MRR of lists, by hand; differences against scipy."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ttest_rel

from sidkit.errors import InputError
from sidkit.search.evaluate.metrics import by_intent, compare, ranks_of, totals


def test_ranks_start_at_one_and_are_zero_where_absent():
    lists = [[4, 2, 9], [4, 2, 9], [-1, -1, -1], [1, -1, -1]]
    assert ranks_of(lists, [4, 9, 5, -1]).tolist() == [1, 3, 0, 0]
    with pytest.raises(InputError, match="do not fit targets"):
        ranks_of(lists, [1, 2])


def test_totals_are_sums_that_add():
    ranks = np.array([1, 0, 4, 60])
    found = totals(ranks)
    assert (found.pairs, found.hits, found.reciprocals) == (4, 2, 1.25)
    assert (found.hit_rate, found.mrr) == (0.5, 0.3125)
    assert totals(ranks[:1]) + totals(ranks[1:]) == found
    assert totals(ranks, cut=100).hits == 3
    assert found.figures()["hit_rate@50"] == 0.5
    assert totals([]).figures() == {"pairs": 0, "hits": 0, "reciprocals": 0.0, "hit_rate@50": None, "mrr@50": None}
    with pytest.raises(InputError, match="do not add"):
        found + totals(ranks, cut=10)


def test_intent_classes_are_counted_apart_and_missing_ones_named():
    found = by_intent([1, 2, 0, 0], pa.array(["weak", "broad", "weak", None]))
    assert list(found) == ["all", "broad", "unknown", "weak"]
    assert found["weak"].hit_rate == 0.5
    assert found["all"] == found["broad"] + found["unknown"] + found["weak"]


def test_a_difference_has_the_paired_t_test_of_scipy(rng):
    a, b = rng.integers(0, 80, 400), rng.integers(0, 80, 400)
    found = compare(a, b)
    for name, f in (("hit_rate@50", lambda r: (r > 0) & (r <= 50)), ("mrr@50", lambda r: reciprocal(r))):
        expected = ttest_rel(f(b).astype(float), f(a).astype(float))
        assert found[name].t == pytest.approx(expected.statistic)
        assert found[name].p_value == pytest.approx(expected.pvalue)
        assert found[name].mean == pytest.approx(f(b).mean() - f(a).mean())
        assert found[name].low < found[name].mean < found[name].high


def reciprocal(ranks):
    inside = (ranks > 0) & (ranks <= 50)
    return np.where(inside, 1 / np.maximum(ranks, 1), 0.0)


def test_pairs_of_one_query_are_drawn_together(rng):
    gains = rng.integers(0, 2, 60)
    a, b = np.repeat(1 - gains, 10), np.repeat(gains, 10)  # ten equal pairs a query tell no more than one
    alone, grouped = compare(a, b), compare(a, b, groups=np.repeat(np.arange(60), 10))
    assert grouped["mrr@50"].groups == 60
    assert grouped["mrr@50"].mean == alone["mrr@50"].mean
    width = lambda one: one.high - one.low  # noqa: E731
    assert width(grouped["mrr@50"]) == pytest.approx(np.sqrt(10) * width(alone["mrr@50"]), rel=0.2)
    assert grouped["mrr@50"].p_value > alone["mrr@50"].p_value


def test_equal_systems_differ_by_nothing():
    found = compare([1, 0, 3], [1, 0, 3])["hit_rate@50"]
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)
    assert np.isnan(found.p_value)
    with pytest.raises(InputError, match="not of the same pairs"):
        compare([1], [1, 2])
