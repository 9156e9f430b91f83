"""Joins of many items: the same answers as those of a table of strings, in parts that need little memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.data import ids as ids_module
from sidkit.data import items as items_module
from sidkit.data import joined
from sidkit.data.ids import IdIndex, match
from sidkit.data.items import text_column, texts_of
from sidkit.data.joined import OrderedTexts, as_labels, label_column, texts_at
from sidkit.errors import InputError

IDS = [f"P{i * 7919 % 1000:03}" for i in range(600)]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Two files with titles of most of the items, in another order, and of items that are not wanted."""
    monkeypatch.setattr(joined, "BATCH", 37)
    monkeypatch.setattr(joined, "BLOCK", 64)
    order = np.random.default_rng(0).permutation(1000)[:900]
    for part, rows in enumerate(np.split(order, 2)):
        titles = [None if i % 50 == 0 else f"title {i}" for i in rows.tolist()]
        table = {"item_id": [f"P{i:03}" for i in rows], "title": titles, "kind": [f"k{i % 3}" for i in rows]}
        pq.write_table(pa.table(table), tmp_path / f"{part}.parquet")
    return tmp_path


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.int64()])
def test_an_index_of_hashes_finds_the_rows_that_a_table_of_strings_finds(kind, monkeypatch):
    rng = np.random.default_rng(1)
    numbers = rng.choice(3000, 800, replace=False)
    is_number = pa.types.is_integer(kind)
    ids = pa.array(numbers.tolist() if is_number else [f"{i}" for i in numbers]).cast(kind)
    wanted = pa.array([f"{i}" for i in rng.integers(0, 3000, 500)] + [None, ""])
    expected = match(wanted, ids)
    assert 0 < (expected >= 0).sum() < 500
    monkeypatch.setattr(ids_module, "MANY", 0)
    for part in (1, 7, 1 << 18):
        monkeypatch.setattr(ids_module, "PART", part)
        assert np.array_equal(match(wanted, ids), expected)
        chunks = pa.chunked_array([ids.slice(0, 300), ids.slice(300)])
        assert np.array_equal(match(pa.chunked_array([wanted]), chunks), expected)
    if is_number:
        assert np.array_equal(match(pa.array([5, -1, *numbers[:9].tolist()]), ids)[2:], np.arange(9))


def test_ids_with_the_same_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(ids_module, "_hashes", lambda ids: np.full(len(ids), 5 << 40, np.uint64))
    index = IdIndex(pa.array(["a", "b", "c"]), pa.string())
    assert index.rows(pa.array(["c", "x", "a", "b"])).tolist() == [2, -1, 0, 1]


def test_texts_and_labels_are_those_of_a_table_in_memory(shop, monkeypatch):
    expected = texts_of(shop, "title", pa.array(IDS))
    assert "" in expected
    assert texts_at(shop, "title", "item_id", IDS) == expected
    kinds = label_column(shop, "kind", pa.array(IDS), "item_id")
    assert kinds.to_pylist() == texts_of(shop, "kind", pa.array(IDS))
    ordered = OrderedTexts(shop, "title", pa.array(IDS), "item_id", shop)
    assert len(ordered) == 600
    assert ordered[:].to_pylist() == expected
    assert ordered[60:130].to_pylist() == expected[60:130]
    assert ordered[7].as_py() == expected[7]
    assert sorted(path.suffix for path in shop.iterdir()) == [".parquet", ".parquet"]  # nothing is left
    monkeypatch.setattr(items_module, "MANY", 10)
    assert isinstance(text_column(shop, "title", pa.array(IDS)), OrderedTexts)
    assert texts_of(shop, "title", pa.array(IDS)) == expected


def test_an_id_that_comes_twice_is_an_error(shop):
    twice = next(one for one in pq.read_table(shop / "0.parquet")["item_id"].to_pylist() if one in IDS)
    pq.write_table(pa.table({"item_id": [twice], "title": ["again"], "kind": ["k"]}), shop / "2.parquet")
    for join in (
        lambda: texts_at(shop, "title", "item_id", IDS),
        lambda: label_column(shop, "kind", pa.array(IDS), "item_id"),
        lambda: OrderedTexts(shop, "title", pa.array(IDS), "item_id", shop),
    ):
        with pytest.raises(InputError, match=f"must be different in every row; '{twice}' is in several"):
            join()


def test_labels_of_any_kind_become_numbers_and_names():
    numbers, names = as_labels(["x", None, "y", "x", ""])
    assert [names[number] for number in numbers] == ["x", None, "y", "x", ""]
