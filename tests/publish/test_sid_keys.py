"""SIDs as keys of a database."""

import numpy as np
import pytest

from sidkit.publish.sid_keys import SidKeys

SIZES = [(4, 4, 4), (1, 256, 257, 3), (8192,) * 3, (65536,) * 5, (2**31, 2**31, 2), (2**31, 2**31, 3)]


@pytest.mark.parametrize("sizes", SIZES)
def test_keys_sort_as_codes_do_and_come_back(sizes):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in sizes], axis=1).astype(np.int32)
    codes = np.concatenate([codes, np.zeros((1, len(sizes)), np.int32), np.array([sizes], np.int64) - 1]).astype(
        np.int32
    )
    keys = SidKeys(sizes)
    made = keys.of(codes)
    assert (keys.codes_of(made) == codes).all()
    order = sorted(range(len(codes)), key=made.__getitem__)
    assert codes[order].tolist() == sorted(codes.tolist())


def test_numbers_are_used_while_they_fit_64_bits():
    assert SidKeys((4, 4, 4)).of(np.array([[1, 2, 3]])) == [27]
    assert SidKeys((2**31, 2**31)).whole
    assert SidKeys((2**21, 2**21, 2**21 - 1)).whole
    assert not SidKeys((2**21,) * 3).whole
    assert SidKeys((300,) * 8).of(np.array([[1, 2, 3, 4, 5, 6, 7, 299]])) == [
        bytes([0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 1, 43])
    ]


@pytest.mark.parametrize("sizes", SIZES)
def test_a_prefix_is_a_range_of_keys(sizes):
    rng, keys = np.random.default_rng(1), SidKeys(sizes)
    codes = np.stack([rng.integers(0, min(size, 5), 200) for size in sizes], axis=1)
    made = keys.of(codes)
    for row in codes[:20].tolist():
        for depth in range(len(sizes) + 1):
            low, high = keys.span(row[:depth])
            inside = [low <= key <= high for key in made]
            assert inside == [code[:depth] == row[:depth] for code in codes.tolist()]


def test_no_keys_are_needed_for_no_rows():
    keys = SidKeys((4, 4))
    assert keys.of(np.zeros((0, 2), np.int32)) == []
    assert keys.codes_of([]).shape == (0, 2)
