"""Parents found by their tokens."""

from __future__ import annotations

import numpy as np
import pytest

from sidkit.stages.cluster import parent_index
from sidkit.stages.cluster.parent_index import ParentIndex, distinct_parents


@pytest.fixture(params=["table", "sorted", "bytes"])
def kind(request, monkeypatch):
    """Each of the ways to look a parent up."""
    if request.param != "table":
        monkeypatch.setattr(parent_index, "DENSE", 0)
    if request.param == "bytes":
        monkeypatch.setattr(parent_index, "MOST_NUMBERS", 0)
    return request.param


@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_row_finds_its_parent_and_strangers_find_none(rng, kind, width):
    codes = rng.integers(0, 30, (200, width)).astype(np.int32)
    keys, parent_of = distinct_parents(codes)
    assert np.array_equal(keys, np.unique(codes, axis=0))
    assert np.array_equal(keys[parent_of], codes)
    index = ParentIndex.of(keys)
    assert (index.table is not None) == (kind == "table" or (kind == "sorted" and width == 1))
    assert np.array_equal(index.find(keys, codes), parent_of)
    strangers = rng.integers(-3, 40, (300, width)).astype(np.int32)
    known = {tuple(key): i for i, key in enumerate(keys.tolist())}
    assert index.find(keys, strangers).tolist() == [known.get(tuple(row), -1) for row in strangers.tolist()]
    assert index.find(keys, codes[:0]).tolist() == []
