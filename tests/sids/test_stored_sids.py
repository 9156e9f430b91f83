"""SIDs of large catalogues: ids that stay in their files, and figures that are counted part by part."""

import numpy as np
import pyarrow as pa
import pytest

from sidkit.errors import InputError
from sidkit.report.evidence import gather
from sidkit.report.made import sids_digest
from sidkit.sids import prefixes
from sidkit.sids.prefixes import by_first_token, prefix_mates, prefix_numbers
from sidkit.sids.quality import quality
from sidkit.sids.separable import separable
from sidkit.sids.stored_ids import StoredIds
from sidkit.sids.table import SidTable

SIZES = (12, 5, 3)


def codes(n=500):
    return np.minimum(np.random.default_rng(3).geometric(0.25, (n, 3)) - 1, np.array(SIZES) - 1)


@pytest.fixture
def folder(tmp_path):
    names = pa.array([f"B{i * 7919 % 4096:04x}" for i in range(500)])
    for part, (start, stop) in enumerate([(0, 200), (200, 200), (200, 500)]):
        SidTable(names[start:stop], codes()[start:stop], SIZES).to_parquet(tmp_path / f"{part}.parquet")
    return tmp_path


def test_ids_that_stay_in_their_files_are_the_same_ids(folder):
    stored, whole = SidTable.from_parquet(folder, ids=False), SidTable.from_parquet(folder)
    assert isinstance(stored._ids, StoredIds)
    rows = np.array([499, 3, 199, 200, 3])
    assert stored.ids_of(rows) == whole.ids_of(rows) == whole.ids.take(pa.array(rows)).to_pylist()
    assert sids_digest(stored) == sids_digest(whole)
    assert [one for part in stored.id_batches() for one in part.to_pylist()] == whole.ids.to_pylist()
    assert isinstance(stored._ids, StoredIds)  # none of this has read them all
    assert stored.row_of("B0000") == 0
    assert stored.ids.equals(whole.ids)
    assert np.array_equal(stored.codes, whole.codes)


def test_ids_that_are_repeated_are_found_without_being_in_memory(folder):
    SidTable(["B0000", "x"], codes()[:2], SIZES).to_parquet(folder / "3.parquet")
    with pytest.raises(InputError, match="must be different in every row; 'B0000' is in row 0 and in row 500"):
        SidTable.from_parquet(folder, ids=False)


def test_parts_by_first_token_hold_every_row_once_and_no_prefix_twice(monkeypatch):
    monkeypatch.setattr(prefixes, "AT_ONCE", 40)
    parts = list(by_first_token(codes(), SIZES))
    assert len(parts) > 3
    assert sorted(np.concatenate(parts).tolist()) == list(range(500))
    firsts = [set(codes()[part, 0].tolist()) for part in parts]
    assert sum(map(len, firsts)) == len(set.union(*firsts))
    assert [min(one) for one in firsts] == sorted(min(one) for one in firsts)


def test_items_with_the_same_prefix_are_counted_for_the_rows_that_are_asked_about(monkeypatch):
    rows = np.array([5, 499, 5, 17, 300])
    expected = [[int((number == number[row]).sum()) for row in rows] for number in prefix_numbers(codes(), SIZES)]
    for most in (1 << 22, 40, 1):
        monkeypatch.setattr(prefixes, "AT_ONCE", most)
        assert prefix_mates(codes(), SIZES, rows).tolist() == expected


def test_a_report_does_not_depend_on_the_size_of_its_parts(monkeypatch, folder):
    table = SidTable.from_parquet(folder)
    titles, kinds = [f"red thing {i % 9}" for i in range(500)], [f"k{i % 4}" if i % 9 else "" for i in range(500)]
    visits = np.random.default_rng(1).integers(0, 500, (60, 5)).tolist()
    from sidkit.data.sequences import Sequences

    whole = gather(table, texts=titles, categories=kinds, sequences=Sequences.of(visits)).facts
    room = separable(table.codes, SIZES)
    assert whole["collision_groups"][0]["items"] == whole["largest_bucket"]
    monkeypatch.setattr(prefixes, "AT_ONCE", 30)
    parts = gather(table, texts=titles, categories=kinds, sequences=Sequences.of(visits)).facts
    for key, value in whole.items():
        if key != "categories":
            assert parts[key] == value, key
    for key, value in whole["categories"].items():
        assert parts["categories"][key] == pytest.approx(value, rel=1e-12)
    assert separable(table.codes, SIZES) == room
    assert quality(table.codes, SIZES)["items"] == 500
