"""One sorted order of rows answers every question about prefixes, whatever the sizes."""

from itertools import product

import numpy as np
import pytest

from sidkit.sids.prefixes import PrefixIndex
from sidkit.sids.table import SidTable
from sidkit.sids.trie import Trie

SIZES = [(3, 2, 4), (7,), (2**31 - 1, 2**31 - 1, 2**31 - 1), (65536,) * 5, (1, 1, 1)]


def random_codes(rng, sizes, n=200):
    """Codes at the ends of their range, so that rows collide at every level."""
    ends = np.array([[0, min(1, size - 1), size // 2, size - 1] for size in sizes])
    return np.take_along_axis(ends, rng.integers(0, 4, (len(sizes), n)), axis=1).T.astype(np.int32)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_range_holds_the_rows_of_its_prefix(rng, sizes):
    codes = random_codes(rng, sizes)
    index = PrefixIndex(codes, sizes)
    assert np.array_equal(index.rows, np.lexsort(codes.T[::-1]))
    for level in range(len(sizes) + 1):
        for prefix in {tuple(row) for row in codes[:, :level].tolist()}:
            rows = np.flatnonzero((codes[:, :level] == prefix).all(axis=1))
            low, high = index.range_of(prefix)
            assert sorted(index.rows[low:high]) == rows.tolist()
            if level < len(sizes):
                tokens, counts = np.unique(codes[rows, level], return_counts=True)
                branches = index.branches(low, high, level)
                assert branches.codes.tolist() == tokens.tolist()
                assert branches.counts.tolist() == counts.tolist()
                assert (branches.starts + branches.counts).tolist() == [*branches.starts[1:], high]


def test_prefixes_that_no_row_has_are_empty_ranges(rng):
    codes = np.array([[0, 1], [2, 1], [2, 3]], np.int32)
    index = PrefixIndex(codes, (5, 5))
    assert [index.range_of(prefix) for prefix in ((1,), (3,), (4,), (0, 0), (0, 2), (2, 2), (-1,), (10**17,))] == [
        (0, 0)
    ] * 8
    assert [index.range_of(prefix) for prefix in ((), (0,), (2,), (2, 1), (2, 3))] == [
        (0, 3), (0, 1), (1, 3), (1, 2), (2, 3),
    ]  # fmt: skip


def test_rows_may_have_other_numbers_and_there_may_be_none():
    index = PrefixIndex(np.array([[1], [0], [1]], np.int32), (2,), np.array([30, 10, 20]))
    assert index.rows.tolist() == [10, 30, 20]
    assert index.bounds(0).tolist() == [0, 1, 3]
    empty = PrefixIndex(np.empty((0, 2), np.int32), (2, 2))
    assert (len(empty), empty.levels, empty.range_of((1,)), empty.range_of(())) == (0, 2, (0, 0), (0, 0))
    assert PrefixIndex(np.empty((3, 0), np.int32), ()).range_of(()) == (0, 3)


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_and_tries_agree_with_slow_counting(rng, sizes):
    codes = random_codes(rng, sizes, 60)
    table = SidTable(np.arange(60), codes, sizes)
    for level in range(1, len(sizes) + 1):
        prefixes, counts = np.unique(codes[:, :level], axis=0, return_counts=True)
        slow = dict(zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True))
        assert list(table.prefix_counts(level).items()) == list(slow.items())
    part = rng.choice(60, 25, replace=False)
    trie = Trie.of(table, part)
    children = {(): 0}
    for level in range(len(sizes)):
        following = {}
        for (prefix, node), code in product(children.items(), np.unique(codes[:, level]).tolist()):
            below = range(trie.children[level][node], trie.children[level][node + 1])
            match = [child for child in below if trie.codes[level][child] == code]
            occupied = (codes[part, : level + 1] == (*prefix, code)).all(axis=1).any()
            assert len(match) == occupied
            following |= {(*prefix, code): child for child in match}
        children = following
    for sid, leaf in children.items():
        assert trie.items(leaf).tolist() == sorted(part[(codes[part] == sid).all(axis=1)])
    assert len(trie) == len(children)
    assert trie.counts.sum() == 25
