"""Counts as sparse tables, worked by hand and by loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sidkit.data.sequences import Sequences
from sidkit.measure.counting_tables import CountTables, largest_of_rows


def test_tables_by_hand():
    """0 1 0 | 0 2 | 1: users who took 0: two, 1: two, 2: one; 0 and 1 share one user, 0 and 2 one."""
    tables = CountTables.of(Sequences.of([[0, 1, 0], [0, 2], [1]]), 4)
    assert tables.followed.toarray().tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert tables.popular.tolist() == [3, 2, 1, 0]
    flow = np.zeros((4, 4))
    flow[0, 1] = flow[1, 0] = 1 / np.sqrt(4 * 3)
    flow[0, 2] = 1 / np.sqrt(4 * 2)
    np.testing.assert_allclose(tables.flow.toarray(), flow, rtol=1e-6)
    near = np.zeros((4, 4))
    near[0, 1] = near[1, 0] = 1 / 2
    near[0, 2] = near[2, 0] = 1 / np.sqrt(2)
    np.testing.assert_allclose(tables.together.toarray(), near, rtol=1e-6)


def test_flow_is_that_of_loops():
    rng = np.random.default_rng(2)
    lists = [rng.integers(12, size=rng.integers(1, 9)).tolist() for _ in range(40)]
    flow, times = np.zeros((12, 12)), np.bincount(np.concatenate(lists), minlength=12)
    for one in lists:
        for start, before in enumerate(one):
            for step, after in enumerate(one[start + 1 : start + 6], 1):
                flow[before, after] += (before != after) / step / np.sqrt((times[before] + 1) * (times[after] + 1))
    tables = CountTables.of(Sequences.of(lists), 12)
    np.testing.assert_allclose(tables.flow.toarray(), flow, rtol=1e-5)
    position, length = np.array([len(lists[0])]), np.array([len(lists[0])])
    wanted = sum(flow[item] / ago for ago, item in enumerate(reversed(lists[0]), 1))
    found = (tables.histories(np.array(lists[0]), position, length) @ tables.flow).toarray()[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert CountTables.of(Sequences.of([[3]]), 5).flow.nnz == 0


def test_a_history_adds_up_its_items_by_how_long_ago_they_were():
    rng = np.random.default_rng(0)
    sequences = Sequences.of([rng.integers(12, size=rng.integers(1, 9)) for _ in range(40)])
    tables = CountTables.of(sequences, 12)
    dense, rows = tables.together.toarray(), sequences.rows
    position, length = sequences.starts[1:], np.minimum(np.diff(sequences.starts), 5)
    scores = tables.near(rows, position, length).toarray()
    for user, (end, n) in enumerate(zip(position, length, strict=True)):
        wanted = sum(dense[rows[end - ago]] / ago for ago in range(1, n + 1))
        np.testing.assert_allclose(scores[user], wanted, rtol=1e-5)
    assert (tables.after(rows[position - 1]).toarray() == tables.followed.toarray()[rows[position - 1]]).all()


@pytest.mark.parametrize("most", [1, 3, 100])
def test_the_nearest_of_every_item_are_kept(most, monkeypatch):
    monkeypatch.setattr("sidkit.measure.counting_tables.BLOCK", 5)
    rng = np.random.default_rng(1)
    sequences = Sequences.of([rng.integers(12, size=rng.integers(1, 9)) for _ in range(40)])
    every = CountTables.of(sequences, 12).together.toarray()
    kept = CountTables.of(sequences, 12, nearest=most).together.toarray()
    for row, short in zip(every, kept, strict=True):
        best = np.lexsort((np.arange(12), -row))[:most]
        assert set(np.flatnonzero(short)) == {place for place in best if row[place] > 0}
        assert (short[short > 0] == row[short > 0]).all()


def test_equal_values_go_to_earlier_columns():
    table = csr_array(np.array([[0, 2, 1, 2, 2], [0, 0, 0, 0, 0], [1, 0, 0, 0, 3.0]]))
    assert largest_of_rows(table, 2).toarray().tolist() == [[0, 2, 0, 2, 0], [0] * 5, [1, 0, 0, 0, 3]]
