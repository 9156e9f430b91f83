"""Rows that are slow to decode are decoded once: the same rows, a fit with the same bits, and nothing left behind."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.data.embeddings import open_embeddings, without
from sidkit.progress import Silent
from sidkit.rows import scratch
from sidkit.rows.sources import ArraySource


@pytest.fixture
def parquet(rng, tmp_path):
    X = rng.normal(size=(1000, 8)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 8)
    (tmp_path / "in").mkdir()
    table = pa.table({"item_id": np.arange(1000), "embedding": vectors})
    pq.write_table(table, tmp_path / "in" / "items.parquet", row_group_size=300)
    return X, open_embeddings(tmp_path / "in" / "items.parquet")


def test_the_copy_has_the_rows_of_the_source(parquet, tmp_path):
    X, source = parquet
    copy = scratch.checked_copy(source, tmp_path / "s", Silent())
    assert isinstance(copy, scratch.Scratch)
    assert list((tmp_path / "s").iterdir()) == []  # it has no name, so nothing can be left behind
    for size, start in ((1000, 0), (7, 0), (300, 301), (2000, 999), (5, 1000)):
        assert np.array_equal(np.concatenate([X[:start], *copy.chunks(size, start)]), X)
    assert np.array_equal(copy.take(np.array([999, 0, 0, 5])), X[[999, 0, 0, 5]])
    assert copy.name(3) == source.name(3)
    with pytest.raises(sidkit.SidkitError, match="there is no row 1000"):
        copy.take(np.array([1000]))


def test_a_fit_from_a_file_decodes_it_once(parquet, tmp_path, monkeypatch):
    X, source = parquet
    decoded = []
    real = type(source).chunks
    monkeypatch.setattr(type(source), "chunks", lambda self, *a: decoded.append(a) or real(self, *a))
    spec = sidkit.prq_kmeans(sizes=(16, 8), iterations=4)
    fitted = spec.fit(source)
    assert len(decoded) == 1
    assert np.array_equal(fitted.fit_codes, spec.fit(X).fit_codes)
    assert np.array_equal(fitted.encode(source), fitted.fit_codes)
    assert len(decoded) == 2


@pytest.mark.parametrize("why", ["no room", "in memory", "full"])
def test_without_room_for_a_copy_the_file_is_decoded_each_time(parquet, why, tmp_path, monkeypatch):
    X, source = parquet
    if why == "no room":
        monkeypatch.setattr(scratch, "ROOM", 1e30)
    elif why == "in memory":
        monkeypatch.setattr(scratch, "_in_memory", lambda folder: True)
    else:
        full = partial(open, "/dev/full", "r+b", buffering=0)
        monkeypatch.setattr(scratch, "_unnamed_file", lambda folder, size: full())
    assert scratch.checked_copy(source, tmp_path, Silent()) is source
    spec = sidkit.prq_kmeans(sizes=(16, 8), iterations=2)
    assert np.array_equal(spec.fit(source).fit_codes, spec.fit(X).fit_codes)


def test_arrays_are_not_copied_and_dropped_rows_stay_dropped(parquet, tmp_path):
    X, source = parquet
    assert isinstance(scratch.checked_copy(ArraySource(X), tmp_path, Silent()), ArraySource)
    left = scratch.checked_copy(without(source, [0, 999]), tmp_path, Silent())
    assert isinstance(left, scratch.Scratch)
    assert np.array_equal(np.concatenate(list(left.chunks(100))), X[1:-1])


def test_a_bad_row_met_while_encoding_is_counted_with_all_others(rng):
    X = rng.normal(size=(40_000, 4)).astype(np.float32)
    fitted = sidkit.prq_kmeans(sizes=(4,), iterations=1).fit(X)
    X[[7, 39_999]] = np.nan
    with pytest.raises(sidkit.SidkitError, match="2 of 40000 rows cannot be used: row 7 holds NaN, row 39999"):
        fitted.encode(X)
