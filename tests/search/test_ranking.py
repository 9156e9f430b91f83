"""From beams to items, worked out by hand."""

import math

import numpy as np
import pyarrow as pa
import pytest

from sidkit.errors import InputError, SpecError
from sidkit.search.model.ranking import Counters, ItemRanker, Ranking, composite, first_of_each
from sidkit.sids.table import SidTable
from sidkit.sids.trie import Trie


def counters(shown, clicked, ordered):
    return Counters(np.array(shown), np.array(clicked), np.array(ordered))


def test_the_composite_score_is_that_of_the_formula():
    score, ctr, cvr = composite(counters([90], [40], [0]))
    t = math.log(100 * 50 * 10)
    assert ctr[0] == pytest.approx(math.log(50) / t)
    assert cvr[0] == pytest.approx(math.log(10) / math.log(50))
    assert score[0] == pytest.approx(2 * ctr[0] * cvr[0] / (ctr[0] + cvr[0]))


def ranker(counted, codes=None, ids=None, **options):
    n = len(counted.shown)
    codes = np.zeros((n, 2), int) if codes is None else np.array(codes)
    ids = [f"i{i}" for i in range(n)] if ids is None else ids
    table = SidTable(ids, codes, (4, 4))
    return ItemRanker(Trie.of(table), counted, table.ids, Ranking(**options))


def test_items_of_a_sid_go_by_availability_then_score_then_clicks_orders_and_id():
    # item 0 was never shown; 1 and 2 have equal counts, 2 has the lower id; 3 has the best score
    counted = counters([0, 5, 5, 5], [9, 1, 1, 4], [9, 0, 0, 4])
    made = ranker(counted, ids=["a", "z", "b", "c"])
    assert made.lists([[0]])[0, :4].tolist() == [3, 2, 1, 0]
    assert ranker(counted, ids=["a", "z", "b", "c"], availability=False).lists([[0]])[0, 0] == 0


def test_without_a_score_clicks_then_orders_decide():
    counted = counters([9, 9, 9], [1, 3, 3], [5, 1, 2])
    assert ranker(counted, score="none").lists([[0]])[0, :3].tolist() == [2, 1, 0]


def test_each_score_can_be_chosen():
    counted = counters([100, 10], [20, 8], [10, 1])
    for name, values in zip(("composite", "ctr", "cvr"), composite(counted), strict=True):
        best = ranker(counted, score=name).lists([[0]])[0, 0]
        assert best == values.argmax(), name


def test_a_sid_brings_five_items_and_a_list_is_cut_at_fifty():
    n = 200
    codes = np.stack([np.arange(n) // 10 // 4, np.arange(n) // 10 % 4], 1)  # 20 SIDs of 10 items
    table = SidTable(list(range(n)), codes, (5, 4))
    counted = counters(np.full(n, 1), np.arange(n), np.zeros(n, int))
    made = ItemRanker(Trie.of(table), counted, table.ids, Ranking(score="none"))
    found = made.lists([np.arange(20), np.arange(20)[::-1]])
    assert found.shape == (2, 50)
    assert found[0, :6].tolist() == [9, 8, 7, 6, 5, 19]
    assert found[1, :2].tolist() == [199, 198]
    assert (found >= 0).all()
    few = ItemRanker(Trie.of(table), counted, table.ids, Ranking(score="none", per_sid=2, cut=3))
    assert few.lists([[0, 1]]).tolist() == [[9, 8, 19]]


def test_a_sid_that_comes_twice_or_is_none_leaves_no_gap():
    counted = counters([1, 1, 1], [3, 2, 1], [0, 0, 0])
    made = ranker(counted, codes=[[0, 0], [0, 1], [3, 3]])
    assert made.lists([[1, -1, 1, 0, 2]])[0, :4].tolist() == [1, 0, 2, -1]


def test_first_of_each_keeps_first_occurrences_in_order():
    rows = np.array([[3, 1, 3, -1, 2, 1], [-1, -1, 7, 7, 7, 7]])
    assert first_of_each(rows, 4).tolist() == [[3, 1, 2, -1], [7, -1, -1, -1]]
    assert first_of_each(rows, 2).tolist() == [[3, 1], [7, -1]]


def test_a_trie_finds_every_sid_and_no_other(rng):
    codes = rng.integers(0, 4, (60, 3))
    table = SidTable(list(range(60)), codes, (4, 4, 4))
    trie = Trie.of(table)
    assert np.array_equal(trie.leaves(codes), trie.leaf_of(60))
    everything = np.stack(np.meshgrid(*[np.arange(-1, 5)] * 3, indexing="ij"), -1)
    found = trie.leaves(everything)
    known = {tuple(code) for code in codes.tolist()}
    for code, leaf in zip(everything.reshape(-1, 3).tolist(), found.reshape(-1), strict=True):
        assert (leaf >= 0) == (tuple(code) in known)


def test_counters_are_joined_by_id_and_zero_where_missing():
    table = pa.table({"item_id": ["b", "a"], "shown": [5, 6], "clicked": [1, 2], "ordered": [0, 1]})
    made = Counters.of(table, pa.array(["a", "c", "b"]))
    assert made.shown.tolist() == [6, 0, 5]
    assert made.ordered.tolist() == [1, 0, 0]
    with pytest.raises(InputError, match="counts are at least 0"):
        Counters.of(table.set_column(1, "shown", [[-1, 2]]), pa.array(["a"]))


def test_wrong_options_are_named():
    with pytest.raises(SpecError, match="score must be composite, ctr, cvr or none, not 'best'"):
        Ranking(score="best")
    with pytest.raises(SpecError, match="smoothing must be above 1"):
        Ranking(smoothing=1.0)
    with pytest.raises(SpecError, match="cut must be at least 1"):
        Ranking(cut=0)
    trie = Trie.of(SidTable([1, 2], np.zeros((2, 1), int), (2,)))
    with pytest.raises(InputError, match="2 ids and 1 counters do not fit the rows of the SIDs"):
        ItemRanker(trie, counters([1], [1], [1]), [1, 2]).lists([[0]])
