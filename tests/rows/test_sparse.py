"""Residuals that are mostly zero are kept from pass to pass, and no bit of a fit depends on it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from sidkit.engine import native
from sidkit.rows import sparse
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.rows.sparse import SparseChunks
from sidkit.tokenizer.recipes import recipe


def chunks(share, seed=0, lengths=(40, 40, 13), dtype=np.float32):
    """Random rows, of which this share is not zero."""
    rng = np.random.default_rng(seed)
    for n in lengths:
        yield (rng.normal(size=(n, 6)) * (rng.random((n, 1)) < share)).astype(dtype)


def taken(some, n):
    """As `add_in_tree` takes them: no more than there are, so that no iterator comes to its end."""
    found = iter(some)
    return [next(found).copy() for _ in range(n)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_come_again_as_they_were(dtype):
    kept = SparseChunks()
    assert kept.replayed() is None
    given = taken(kept.recorded(chunks(0.3, dtype=dtype), 93), 3)
    for _ in range(2):
        again = taken(kept.replayed(), 3)
        for one, other in zip(given, again, strict=True):
            assert other.dtype == dtype
            np.testing.assert_array_equal(one, other)


def test_a_pass_that_is_left_early_is_not_known():
    kept = SparseChunks()
    taken(kept.recorded(chunks(0.3), 93), 2)
    assert kept.replayed() is None
    taken(kept.recorded(chunks(0.3), 93), 3)
    assert kept.replayed() is not None


def test_rows_that_are_mostly_other_than_zero_are_not_kept(monkeypatch):
    kept = SparseChunks()
    assert len(taken(kept.recorded(chunks(0.9), 93), 3)) == 3
    assert kept.replayed() is None
    looked = []
    monkeypatch.setattr(sparse, "_busy", lambda x: looked.append(len(x)))
    taken(kept.recorded(chunks(0.1), 93), 3)
    assert not looked  # what did not pay once is not tried again
    assert kept.replayed() is None


def test_no_more_bytes_are_kept_than_allowed(monkeypatch):
    monkeypatch.setattr(sparse, "MOST", 10 * 6 * 4)
    kept = SparseChunks()
    given = taken(kept.recorded(chunks(0.3), 93), 3)
    assert sum(np.count_nonzero(x.any(axis=1)) for x in given) > 10
    assert kept.replayed() is None


def test_another_process_begins_anew():
    kept = SparseChunks()
    taken(kept.recorded(chunks(0.3), 93), 3)
    assert copy.deepcopy(kept).replayed() is None  # copied as a message to a process is


def own_codes(n=900, d=16):
    """Rows with few to a parent: after three levels most residuals are zero."""
    return np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["prq-opq", "rq-opq", "res-kmeans-fsq"])
def test_fits_have_the_same_bits_with_and_without(name, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(native, "ready", lambda *_: False)
    elif not native.prepare(float("inf")):
        pytest.skip(native.reason())
    spec = recipe(name, sizes=(16, 8, 8, 4, 4), iterations=3)
    replays = []
    replayed = SparseChunks._replayed
    monkeypatch.setattr(SparseChunks, "_replayed", lambda self, kept: replays.append(1) or replayed(self, kept))
    fast = spec.fit(own_codes(), seed=0)
    assert replays or name == "res-kmeans-fsq"
    monkeypatch.setattr(sparse, "MOST", 0)
    replays.clear()
    plain = spec.fit(own_codes(), seed=0)
    assert not replays
    np.testing.assert_array_equal(fast.fit_codes, plain.fit_codes)
    for one, other in zip(fast.stages, plain.stages, strict=True):
        for (key, a), (_, b) in zip(one.arrays.items(), other.arrays.items(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=key)


def test_rows_without_stages_are_not_copied():
    rows = LocalRows(ArraySource(np.zeros((100, 4), np.float32)), chunk=32)
    rows.reduce(lambda x, codes: (x.sum(axis=0),))
    assert rows._sparse.replayed() is None


def test_the_bytes_of_a_process_are_given_back():
    used = sparse.ROOM.used
    kept = SparseChunks()
    taken(kept.recorded(chunks(0.3), 93), 3)
    assert sparse.ROOM.used > used
    dense, early = SparseChunks(), SparseChunks()
    taken(dense.recorded(chunks(0.45, lengths=(40, 40, 13, 1)), 94), 4)  # too dense somewhere, or not
    taken(early.recorded(chunks(0.3), 93), 2)
    del kept, dense, early
    assert sparse.ROOM.used == used


def test_a_process_keeps_no_more_than_its_room(monkeypatch):
    one, two = SparseChunks(), SparseChunks()
    taken(one.recorded(chunks(0.3), 93), 3)
    monkeypatch.setattr(sparse, "MOST", sparse.ROOM.used + 100)
    taken(two.recorded(chunks(0.3), 93), 3)
    assert one.replayed() is not None
    assert two.replayed() is None
