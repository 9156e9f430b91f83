"""Ids whose text is more than the 2 GB that an Arrow array of strings can hold.

Either the limit is lowered, or chunks share their memory and are large only when they are put together.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.data import ids as ids_module
from sidkit.data import sequences
from sidkit.data.embeddings import open_embeddings
from sidkit.data.ids import one_array, require_unique
from sidkit.data.items import match, texts_of
from sidkit.data.sequence_columns import SequenceColumns
from sidkit.sids import table as sids
from sidkit.sids.table import SidTable

IDS = [f"item-{i:04}" for i in range(40)]
CODES = np.arange(80).reshape(40, 2) % 4
LONG = "x" * (1 << 26)
HUGE = pa.chunked_array([pa.array(["a", LONG])] * 33)  # 2.2 GB of text in 64 MB


@pytest.fixture
def small_reach(monkeypatch):
    monkeypatch.setattr(ids_module, "REACH", 200)


def chunked(array):
    return pa.chunked_array([array.slice(0, 25), array.slice(25)])


def encodings():
    texts = pa.array(IDS)
    return [texts, texts.cast(pa.large_string()), texts.dictionary_encode()]


def test_the_chunks_are_together_more_than_an_array_of_strings_can_hold():
    with pytest.raises(pa.ArrowInvalid, match="offset overflow"):
        HUGE.combine_chunks()


def test_ids_beyond_reach_become_large_strings_and_others_stay(small_reach):
    for array in encodings():
        assert one_array(chunked(array)).type == pa.large_string()
        assert one_array(chunked(array)).to_pylist() == IDS
    assert one_array(chunked(pa.array(IDS[:10]))).type == pa.string()
    assert one_array(chunked(pa.array(range(40)))).type == pa.int64()


@pytest.mark.parametrize("array", encodings(), ids=lambda array: str(array.type))
def test_a_table_is_written_and_read_with_ids_beyond_reach(tmp_path, small_reach, monkeypatch, array):
    monkeypatch.setattr(sids, "ROW_GROUP", 8)
    table = SidTable(chunked(array), CODES, (4, 4))
    table.to_parquet(tmp_path / "s.parquet")
    back = SidTable.from_parquet(tmp_path / "s.parquet")
    for one in (table, back):
        assert one.ids.type == pa.large_string()
        assert one.ids.to_pylist() == IDS
        assert one.items_of((0, 1)) == IDS[::2]
        assert one.row_of("item-0007") == 7
        assert one.strings().type == pa.large_string()
        assert one.strings()[17].as_py() == "<a_2><b_3>"
    assert pq.read_table(tmp_path / "s.parquet").column("sid").to_pylist() == table.strings().to_pylist()


@pytest.mark.parametrize("array", encodings(), ids=lambda array: str(array.type))
def test_embeddings_with_ids_beyond_reach_are_encoded_and_joined(tmp_path, small_reach, rng, array):
    X = rng.normal(size=(40, 4)).astype(np.float32)
    for part in (slice(0, 25), slice(25, 40)):
        columns = {"item_id": array[part], "embedding": X[part].tolist(), "title": [f"title of {i}" for i in IDS[part]]}
        pq.write_table(pa.table(columns), tmp_path / f"{part.start}.parquet")
    source = open_embeddings(tmp_path)
    assert source.ids.type == pa.large_string()
    fitted = sidkit.prq_kmeans((4, 4)).fit(source)
    table = SidTable(source.ids, fitted.fit_codes, fitted.sizes)
    assert texts_of(tmp_path, "title", table.ids) == [f"title of {i}" for i in IDS]
    assert match(chunked(pa.array([*IDS[::-1], "none"])), source.ids).tolist() == [*range(39, -1, -1), -1]


def test_repeated_ids_are_named_among_more_than_an_array_can_hold(monkeypatch):
    suspects = np.isin(np.arange(len(HUGE)), [0, 4])
    monkeypatch.setattr(ids_module, "_look_alikes", lambda ids: suspects)
    with pytest.raises(sidkit.SidkitError, match="'a' is in 0 and in 4"):
        require_unique(HUGE, "item_id", str)


def test_more_ids_are_looked_up_than_an_array_can_hold():
    rows = match(HUGE, pa.array(["b", "a"]))
    assert rows.tolist() == [1, -1] * 33


def test_more_events_are_read_than_an_array_can_hold(tmp_path, monkeypatch):
    users = [f"u{i % 2}" for i in range(len(HUGE))]
    pq.write_table(pa.table({"user": ["u"], "item": ["a"]}), tmp_path / "e.parquet")
    monkeypatch.setattr(sequences, "_read", lambda path, columns: pa.table({"item": HUGE, "user": users}))
    ordered = SequenceColumns(file_order=True)
    result = sequences.read_sequences(tmp_path / "e.parquet", pa.array([LONG]), columns=ordered)
    assert result.starts.tolist() == [0, 33, 66]
    assert result.rows.tolist() == [-1] * 33 + [0] * 33
    assert result.unknown_items == 1
