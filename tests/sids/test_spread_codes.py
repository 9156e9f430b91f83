"""Free codes of the last level for items that would share a SID, from codes and costs alone."""

import numpy as np
import pytest

from sidkit.sids.spread import assign_last_tokens


def spread_codes(codes, sizes, costs, progress=None):
    """The codes with as many different SIDs as the last level has room for, at the least cost."""
    return assign_last_tokens(codes, sizes, costs, "least-cost", progress=progress).codes


def costs_of(table):
    """A cost function that also notes the rows it was called with."""
    requested = []

    def costs(rows):
        requested.append(rows.tolist())
        return np.asarray(table, np.float64)[rows]

    return costs, requested


def test_four_items_worked_by_hand():
    """Items 0, 1 and 3 share (0, 2). Moving 3 to code 1 and 0 to code 0 adds 1 + 2; every other way adds more."""
    codes = [[0, 2], [0, 2], [1, 2], [0, 2]]
    costs, requested = costs_of([[2, 9, 0], [5, 9, 0], [0, 0, 0], [9, 1, 0]])
    assert spread_codes(codes, (2, 3), costs).tolist() == [[0, 0], [0, 2], [1, 2], [0, 1]]
    assert requested == [[0, 1, 3]]


def test_prefixes_without_collisions_are_not_looked_at():
    costs, requested = costs_of(np.zeros((3, 3)))
    codes = np.array([[0, 1], [0, 2], [1, 1]], np.int32)
    out = spread_codes(codes, (2, 3), costs)
    assert out.tolist() == codes.tolist()
    assert out is not codes
    assert requested == []
    assert spread_codes(codes[:0], (2, 3), costs).shape == (0, 2)


def test_items_beyond_the_codes_share():
    costs, _ = costs_of([[0, 3], [0, 1], [0, 2]])
    assert spread_codes([[0], [0], [0]], (2,), costs).tolist() == [[0], [1], [0]]


def test_progress_counts_the_items_that_may_move():
    class Listener:
        def __init__(self):
            self.calls = []

        def start(self, label, rows):
            self.calls.append((label, rows))

        def advance(self, rows):
            self.calls.append(rows)

        def note(self, text): ...

    report = Listener()
    costs, _ = costs_of(np.zeros((5, 4)))
    spread_codes([[0, 0], [0, 0], [1, 0], [1, 1], [1, 1]], (2, 4), costs, report)
    assert report.calls == [("spread", 5), 5]


@pytest.mark.parametrize("at_once", [1, 8, 64])
def test_how_many_costs_are_in_memory_at_once_does_not_matter(rng, monkeypatch, at_once):
    codes = rng.integers(0, (6, 1), (40, 2))
    table = rng.normal(size=(40, 8))
    complete = spread_codes(codes, (6, 8), costs_of(table)[0])
    monkeypatch.setattr("sidkit.sids.spread.AT_ONCE", at_once * 8)
    costs, requested = costs_of(table)
    if np.bincount(codes[:, 0]).max() <= max(8, at_once):
        assert np.array_equal(spread_codes(codes, (6, 8), costs), complete)
    assert all(len(rows) <= max(8, at_once) for rows in requested)
