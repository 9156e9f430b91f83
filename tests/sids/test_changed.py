"""What changed between two sets of SIDs, worked by hand."""

import numpy as np
import pytest

from sidkit.errors import InputError
from sidkit.sids.changed import difference
from sidkit.sids.table import SidTable


def test_six_items_worked_by_hand():
    """c and d leave (0); e follows them into (1); a and b stay; f is gone and g is new."""
    old = SidTable(list("abcdef"), [[0, 0], [0, 1], [0, 2], [0, 2], [2, 0], [3, 3]], (4, 4))
    new = SidTable(list("gabcde"), [[3, 3], [0, 0], [0, 3], [1, 2], [1, 2], [1, 2]], (4, 4))
    facts = difference(old, new)
    assert (facts["shared"], facts["added"], facts["removed"], facts["moved"]) == (5, 1, 1, 4)
    assert facts["tokens_kept"] == [3, 1, 1]
    assert facts["tokens"] == [0.6, 0.4]
    assert facts["prefixes"] == [0.6, 0.8]
    assert facts["levels"] == [
        {"old": 2, "new": 2, "split": 1, "merged": 1, "same_items": 0},
        {"old": 4, "new": 3, "split": 0, "merged": 1, "same_items": 2},
    ]
    (split,) = facts["splits"]
    assert split["prefix"] == "<a_0>"
    assert split["parts"] == [{"prefix": "<a_0>", "items": 2}, {"prefix": "<a_1>", "items": 2}]
    assert facts["merges"][0]["prefix"] == "<a_1>"
    assert {(one["level"], one["items"], one["in"]) for one in facts["merges"]} == {(1, 3, 2), (2, 3, 2)}
    assert facts["moved_items"][0] == {"item_id": "b", "old": "<a_0><b_1>", "new": "<a_0><b_3>", "tokens_kept": 1}


def test_equal_tables_and_renumbered_ones(rng):
    codes = rng.integers(0, 5, (80, 2))
    old = SidTable(np.arange(80), codes, (5, 5))
    assert difference(old, old)["moved"] == 0
    facts = difference(old, SidTable(np.arange(80), (codes + 1) % 5, (5, 5)))
    assert facts["tokens"] == [1.0, 1.0]
    assert facts["splits"] == facts["merges"] == []
    assert [level["same_items"] for level in facts["levels"]] == [level["old"] for level in facts["levels"]]


def test_tables_that_have_nothing_in_common():
    one, other = SidTable(["a"], [[0]], (2,)), SidTable(["b"], [[1]], (2,))
    assert difference(one, other)["shared"] == 0
    with pytest.raises(InputError, match="have 1 and 2 tokens"):
        difference(one, SidTable(["b"], [[1, 0]], (2, 2)))
