"""A shop on disk: what is written is what is read, counted by hand, and checked when it is opened."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.errors import InputError, StoreError
from sidkit.search.shop import Keys, Shop, write_shop
from sidkit.search.shop import row_groups as row_groups_module
from sidkit.search.shop.texts import item_text, normalise
from sidkit.search.shop.write import require_shop_folder
from small_shops import RECORDS, contents, draft, items_table, log_table


@pytest.fixture
def shop(tmp_path):
    write_shop(tmp_path / "shop", draft())
    return tmp_path / "shop"


def test_every_table_of_a_small_shop_is_as_counted_by_hand(shop):
    opened = Shop.open(shop)
    assert opened.items["title"].to_pylist() == ["red mug", "blue mug", "green lamp"]
    record = {"user": "ann", "session": 1, "time": 10, "query": "mug", "split": "train"}
    assert opened.log().to_pylist()[0] == record | {"shown": ["A", "B"], "clicked": ["A"], "ordered": ["A"]}
    assert opened.log("test", ["time"])["time"].to_pylist() == [20, 21]
    assert opened.counters.to_pylist() == [
        {"item_id": "A", "shown": 3, "clicked": 2, "ordered": 1},
        {"item_id": "B", "shown": 1, "clicked": 0, "ordered": 0},
        {"item_id": "C", "shown": 1, "clicked": 1, "ordered": 0},
    ]
    assert opened.queries.to_pylist() == [
        {"query_id": 0, "query": "mug", "train_records": 1, "test_records": 1},
        {"query_id": 1, "query": "red mug", "train_records": 1, "test_records": 0},
        {"query_id": 2, "query": "lamp", "train_records": 1, "test_records": 0},
        {"query_id": 3, "query": "green lamp", "train_records": 0, "test_records": 1},
    ]
    assert opened.pairs("order").to_pylist() == [
        {"query_id": 0, "query": "mug", "item_id": "B", "user": "bob", "session": 3, "time": 20, "intent": None}
    ]
    assert [(one["query_id"], one["item_id"]) for one in opened.pairs("click").to_pylist()] == [(0, "B"), (3, "C")]
    assert opened.users["user"].to_pylist() == ["ann", "bob", "cid"]
    assert opened.facts["counts"]["clicked"] == {"train": 3, "test": 2}
    assert opened.facts["tables"]["log"] == 5


def test_a_shop_is_the_same_however_its_tables_were_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(row_groups_module, "ROWS", 2)
    write_shop(tmp_path / "one", draft(pairs=1))
    pieces = [log_table([one]) for one in RECORDS]
    items = [items_table().slice(row, 1) for row in range(3)]
    write_shop(tmp_path / "many", draft(pairs=1, log=pieces, items=items))
    assert contents(tmp_path / "one") == contents(tmp_path / "many")


def test_items_that_were_not_shown_count_as_shown_where_they_were_clicked(tmp_path):
    records = [(*one[:4], None, *one[5:]) for one in RECORDS]
    write_shop(tmp_path / "shop", draft(log=[log_table(records)]))
    opened = Shop.open(tmp_path / "shop")
    assert opened.counters["shown"].to_pylist() == [2, 0, 1]
    assert opened.log()["shown"].null_count == 5


def test_a_row_that_stands_for_several_records_is_written_as_often_and_is_one_test_pair(tmp_path):
    table = log_table().append_column("records", pa.array([3, 1, 1, 4, 1]))
    facts = write_shop(tmp_path / "shop", draft(log=[table]))
    opened = Shop.open(tmp_path / "shop")
    assert opened.log()["query"].to_pylist() == ["mug"] * 3 + ["red mug", "lamp"] + ["mug"] * 4 + ["green lamp"]
    assert opened.counters["clicked"].to_pylist() == [4, 0, 1]
    assert opened.queries["test_records"].to_pylist() == [4, 0, 0, 1]
    assert facts["counts"]["pairs"]["click"] == {"available": 2, "drawn": 2}


def test_intents_go_to_the_test_pairs_alone(tmp_path):
    table = log_table().append_column("intent", pa.array(["weak", "broad", "broad", "weak", "precise"]))
    write_shop(tmp_path / "shop", draft(log=[table]))
    opened = Shop.open(tmp_path / "shop")
    assert opened.pairs("click")["intent"].to_pylist() == ["weak", "precise"]
    assert "intent" not in opened.log().column_names


def test_profiles_keep_their_columns(tmp_path):
    users = pa.table({"user": ["ann"], "city": ["Ravensea"]})
    write_shop(tmp_path / "shop", draft(users=[users]))
    assert Shop.open(tmp_path / "shop").users.to_pylist() == [{"user": "ann", "city": "Ravensea"}]


def test_a_log_without_orders_has_no_test_set_of_orders_and_says_so(tmp_path):
    records = [(*one[:6], [], one[7]) for one in RECORDS]
    write_shop(tmp_path / "shop", draft())
    write_shop(tmp_path / "shop", draft(log=[log_table(records)]))  # the earlier order.parquet goes
    assert not (tmp_path / "shop" / "order.parquet").exists()
    opened = Shop.open(tmp_path / "shop")
    assert opened.facts["notes"] == ["no orders in the test part, so there is no order.parquet"]
    assert not opened.has("order")
    assert opened.rows("order") == 0
    with pytest.raises(InputError, match=r"has no order\.parquet: no orders in the test part"):
        opened.pairs("order")


def test_a_write_that_fails_leaves_the_shop_of_before(shop):
    before = contents(shop)

    def broken():
        yield log_table()
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        write_shop(shop, draft(log=broken()))
    assert contents(shop) == before
    assert [path.name for path in shop.parent.iterdir()] == ["shop"]


def test_batches_of_a_split_have_the_columns_asked_for(shop):
    parts = list(Shop.open(shop).batches("log", ["query"], split="train", rows=2))
    assert [part.to_pydict() for part in parts] == [{"query": ["mug", "red mug"]}, {"query": ["lamp"]}]


def test_ids_can_be_integers(tmp_path):
    numbers = items_table(ids=[7, 8, 9])
    write_shop(tmp_path / "shop", draft(keys=Keys(pa.int64()), items=[numbers]))
    opened = Shop.open(tmp_path / "shop")
    assert opened.log("test")["clicked"].to_pylist() == [[8], [9]]
    assert opened.keys.item == pa.int64()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda shop: shutil.rmtree(shop), "is not a shop: it has no shop.json; make shops with"),
        (lambda shop: (shop / "shop.json").write_text("{"), "cannot read .*shop.json"),
        (lambda shop: (shop / "shop.json").write_text('{"format": "x"}'), "is not of the format sidkit-shop"),
        (lambda shop: set_fact(shop, "version", 9), "has version 9; this sidkit reads version 1"),
        (lambda shop: set_fact(shop, "tables", {"items": 3}), "lists no table 'log'"),
        (lambda shop: (shop / "queries.parquet").unlink(), "queries.parquet is missing, though shop.json lists it"),
        (lambda shop: rewrite(shop, "log", lambda t: t.slice(1)), "has 4 rows, but shop.json counts 5"),
        (
            lambda shop: rewrite(shop, "log", lambda t: t.drop_columns("clicked")),
            "no column 'clicked' in .*log.parquet",
        ),
        (lambda shop: rewrite(shop, "items", as_float), "'item_id' in .*items.parquet is double; ids of a shop"),
        (
            lambda shop: rewrite(shop, "counters", lambda t: t.set_column(1, "shown", pa.array(["1", "1", "1"]))),
            "'shown' in .*counters.parquet is string, expected int64",
        ),
    ],
)
def test_a_shop_that_is_not_whole_is_refused_when_it_is_opened(shop, change, message):
    change(shop)
    with pytest.raises(InputError, match=message):
        Shop.open(shop)


def test_a_changed_fact_and_a_flipped_bit_are_noticed(shop):
    text = (shop / "shop.json").read_text()
    (shop / "shop.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(StoreError, match=r"shop\.json was changed after it was written"):
        Shop.open(shop)
    (shop / "shop.json").write_text(text)
    data = bytearray((shop / "log.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (shop / "log.parquet").write_bytes(data)
    with pytest.raises(StoreError, match=r"log\.parquet is damaged"):
        Shop.open(shop)


def set_fact(shop, name, value):
    facts = json.loads((shop / "shop.json").read_text())
    facts.pop("sha256")
    (shop / "shop.json").write_text(json.dumps(facts | {name: value}))


def rewrite(shop, name, change):
    pq.write_table(change(pq.read_table(shop / f"{name}.parquet")), shop / f"{name}.parquet")


def as_float(table):
    return table.set_column(0, "item_id", pa.array([1.0, 2.0, 3.0]))


def test_unknown_tables_and_splits_are_named(shop):
    with pytest.raises(InputError, match="no table 'item'; did you mean 'items'"):
        Shop.open(shop).table("item")
    with pytest.raises(InputError, match="a split is 'train' or 'test', not 'valid'"):
        Shop.open(shop).log("valid")


def test_a_folder_with_other_files_or_with_inputs_is_not_written_over(shop, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(StoreError, match="holds other files and no shop"):
        require_shop_folder(tmp_path / "full")
    with pytest.raises(StoreError, match=r"is read from .*; write to another folder"):
        require_shop_folder(shop, shop / "items.parquet")
    require_shop_folder(shop, tmp_path / "items.parquet", None)
    require_shop_folder(tmp_path / "new")


def test_shops_without_items_or_records_are_refused(tmp_path):
    with pytest.raises(InputError, match="there are no items"):
        write_shop(tmp_path / "shop", draft(items=[]))
    with pytest.raises(InputError, match="there are no records"):
        write_shop(tmp_path / "shop", draft(log=[]))
    assert not (tmp_path / "shop").exists()


def test_queries_have_one_form_whatever_their_blanks():
    texts = pa.array(["  red \t mug ", "红色\u3000 杯子\n", "\u00a0", "", None])
    assert normalise(texts).to_pylist() == ["red mug", "红色 杯子", "", "", None]


def test_the_text_of_an_item_skips_what_is_missing():
    columns = (
        ["mug", "lamp", None],
        ["Hobbeck", None, None],
        ["Home", "Light", None],
        [None] * 3,
        ["Mugs", None, None],
    )
    texts = item_text(*(pa.array(column, pa.string()) for column in columns))
    assert texts.to_pylist() == ["mug; Hobbeck; Home > Mugs", "lamp; Light", None]


def test_many_different_queries_are_counted_in_parts(tmp_path, monkeypatch):
    from sidkit.search.shop import counts

    monkeypatch.setattr(counts, "COMPACT", 3)
    kept = counts.QueryCounts()
    words = np.array([f"q{i}" for i in np.random.default_rng(0).integers(0, 9, 60)])
    for start in range(0, 60, 4):
        kept.add(pa.array(words[start : start + 4]), np.ones(4, np.int64), np.zeros(4, np.int64))
    table = kept.table()
    first, number = np.unique(words, return_index=True), dict(zip(*np.unique(words, return_counts=True), strict=True))
    assert table["query"].to_pylist() == first[0][np.argsort(first[1])].tolist()
    assert table["train_records"].to_pylist() == [number[word] for word in table["query"].to_pylist()]
