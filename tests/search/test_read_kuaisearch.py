"""KuaiSearch as it is released: toy files of the same form."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from command import sidkit
from sidkit.errors import BadRowsError, InputError, StoreError
from sidkit.files.unfinished import Unfinished
from sidkit.progress import Silent
from sidkit.search.read.assemble import ReadOptions
from sidkit.search.read.kuaisearch import KuaiSearchFiles, read_kuaisearch
from sidkit.search.read.prices import median_prices, weighted_medians
from sidkit.search.shop import Shop
from sidkit.search.simulate.make import ShopPlan, simulate_shop
from sidkit.search.simulate.released import write_released
from small_shops import contents, write_lines


def item(number, title="杯子", brand="Hobbeck", third="马克杯"):
    levels = {f"category_level{level}_name": name for level, name in ((1, "家居"), (2, "杯具"), (3, third))}
    levels |= {f"category_level{level}_id": level for level in (1, 2, 3)}
    return {"item_id": number, "item_title": title, "brand_id": 1, "brand_name": brand, "seller_id": 2,
            "seller_name": "UNKNOWN", **levels}  # fmt: skip


def search(time, query, shown, clicked=(), ordered=(), user=1, session=None):
    return {"user_id": user, "session_id": time if session is None else session, "impressed_item_ids": list(shown),
            "clicked_item_ids": list(clicked), "purchased_item_ids": list(ordered), "time_index": time, "query": query,
            "split": "train"}  # fmt: skip


def result(number, price):
    return {"user_id": 1, "target_item_id": number, "target_item_price": price, "is_clicked": 1, "split": "train"}


ITEMS = [item(5), item(3, brand="UNKNOWN", third="UNKNOWN"), item(9)]
SEARCHES = [
    search(40, "红 杯子", [5, 3], [3], [3]),
    search(10, " 杯子 ", [5, 9], [9]),
    search(20, "杯子", [3], [3]),
    search(30, "灯", [9, 5], [], user=2),
]
RESULTS = [result(5, 100.0), result(3, 10.0), result(3, 30.0), result(3, 20.0), result(9, 0.0), result(7, 1.0)]
USERS = [{"user_id": 1, "gender": "F", "age_bucket": "31-40", "fre_country": "中国", "fre_province": "UNKNOWN",
          "fre_city": "鞍山"}]  # fmt: skip
RELEVANCE = [
    {"query": "灯", "item_title": "台灯", "brand": "UNKNOWN", "seller_name": "x", "attr_value": "a,b", "score": 2}
]


@pytest.fixture
def released(tmp_path):
    tables = {"items": ITEMS, "recall": SEARCHES, "rank": RESULTS, "users": USERS, "relevance": RELEVANCE}
    for name, rows in tables.items():
        write_lines(tmp_path / "ks" / name / "train.jsonl", rows)
    return tmp_path / "ks"


def read(folder, output, part_bytes=1 << 20, options=None, **given):
    options = options or ReadOptions(test_share=0.25)
    with Unfinished(output, resume=True) as scratch:
        facts = read_kuaisearch(KuaiSearchFiles(folder, **given), output, options, scratch, Silent(), part_bytes)
    return Shop.open(output), facts


def test_the_released_files_become_a_shop(released, tmp_path):
    shop, facts = read(released, tmp_path / "shop")
    assert shop.items.to_pylist()[:2] == [
        {"item_id": 5, "title": "杯子", "brand": "Hobbeck", "seller": None, "category_1": "家居", "category_2": "杯具",
         "category_3": "马克杯", "price": 100.0, "keywords": None, "text": "杯子; Hobbeck; 家居 > 杯具 > 马克杯"},
        {"item_id": 3, "title": "杯子", "brand": None, "seller": None, "category_1": "家居", "category_2": "杯具",
         "category_3": None, "price": 20.0, "keywords": None, "text": "杯子; 家居 > 杯具"},
    ]  # fmt: skip
    assert shop.items["price"].to_pylist()[2] is None  # a price of 0 is none
    log = shop.log()
    assert log["time"].to_pylist() == [10, 20, 30, 40]
    assert log["query"].to_pylist() == ["杯子", "杯子", "灯", "红 杯子"]
    assert log["split"].to_pylist() == ["train", "train", "train", "test"]
    assert shop.counters.to_pylist() == [
        {"item_id": 5, "shown": 2, "clicked": 0, "ordered": 0},
        {"item_id": 3, "shown": 1, "clicked": 1, "ordered": 0},
        {"item_id": 9, "shown": 2, "clicked": 1, "ordered": 0},
    ]
    assert shop.pairs("order").to_pylist() == [
        {"query_id": 2, "query": "红 杯子", "item_id": 3, "user": 1, "session": 40, "time": 40, "intent": None}
    ]
    assert shop.users.to_pylist() == [
        {"user": 1, "gender": "F", "age_bucket": "31-40", "country": "中国", "province": None, "city": "鞍山"}
    ]
    assert shop.table("relevance").to_pylist()[0]["brand"] is None
    assert facts["split"] == {"by": "time", "test_from": 40, "test_share": 0.25}
    assert not (tmp_path / "shop.unfinished").exists()
    assert not (tmp_path / "shop.left-out.tsv").exists()


def test_single_files_and_several_files_of_a_table_are_found(released, tmp_path):
    whole, _ = read(released, tmp_path / "a")
    (released / "items" / "train.jsonl").rename(released / "items.jsonl")
    lines = (released / "recall" / "train.jsonl").read_text().splitlines(keepends=True)
    (released / "recall" / "train.jsonl").write_text("".join(lines[:1]))
    (released / "recall" / "train2.jsonl").write_text("".join(lines[1:]))
    parted, _ = read(released, tmp_path / "b")
    for name in ("items", "log", "counters", "click"):
        assert parted.table(name).equals(whole.table(name))


def test_the_lite_release_is_read_when_asked_for(released, tmp_path):
    for name in ("items", "recall", "rank", "users"):
        (released / name).rename(released / f"{name}_lite")
    with pytest.raises(
        InputError, match=r"no items\.jsonl and no items/\*\.jsonl in .*; it has items_lite: add lite=True"
    ):
        read(released, tmp_path / "shop")
    shop, facts = read(released, tmp_path / "shop", lite=True)
    assert shop.rows("log") == 4
    assert facts["source"]["lite"]
    assert shop.has("relevance")  # there is one for both


def test_tables_that_may_be_missing_are_noted(released, tmp_path):
    for name in ("rank", "users", "relevance"):
        (released / name / "train.jsonl").unlink()
    shop, facts = read(released, tmp_path / "shop")
    assert facts["notes"][:3] == ["no rank rows were read", "no users rows were read", "no relevance rows were read"]
    assert shop.items["price"].null_count == 3
    assert shop.users.to_pylist() == [{"user": 1}, {"user": 2}]
    (released / "recall" / "train.jsonl").unlink()
    with pytest.raises(InputError, match=r"no recall\.jsonl and no recall/"):
        read(released, tmp_path / "other")
    with pytest.raises(InputError, match="no such folder"):
        read(tmp_path / "none", tmp_path / "other")


def test_prices_can_be_left_out(released, tmp_path):
    (released / "rank" / "train.jsonl").write_text("not looked at")
    shop, _ = read(released, tmp_path / "shop", prices=False)
    assert shop.items["price"].null_count == 3


def test_a_time_can_be_named_from_which_searches_are_the_test(released, tmp_path):
    shop, facts = read(released, tmp_path / "shop", options=ReadOptions(test_from=20))
    assert shop.log("train")["time"].to_pylist() == [10]
    assert facts["split"] == {"by": "time", "test_from": 20}
    for time, part in ((5, "training"), (50, "test")):
        with pytest.raises(InputError, match=rf"no records are left for the {part} part .*times run from 10 to 40"):
            read(released, tmp_path / "shop", options=ReadOptions(test_from=time))


def test_clicks_on_unknown_items_are_refused_or_left_out_and_listed(released, tmp_path):
    write_lines(released / "recall" / "train.jsonl", [*SEARCHES, search(25, "杯子", [5, 77, 78], [77], [77])])
    message = (
        r"recall/train\.jsonl: 2 of 10 results shown, 1 of 4 clicks, 1 of 2 orders are of items that are not among the "
        r"items \(2 different ones, the first is 77\); unknown='drop' leaves them out and lists them"
    )
    with pytest.raises(InputError, match=message):
        read(released, tmp_path / "shop")
    assert not (tmp_path / "shop").exists()
    shop, facts = read(released, tmp_path / "shop", options=ReadOptions(test_share=0.25, drop_unknown=True))
    assert shop.log()["shown"].to_pylist()[2] == [5]
    assert shop.log()["clicked"].to_pylist()[2] == []
    assert facts["left_out"] == [{"file": "recall/train.jsonl", "reason": "are not among the items", "rows": 2}]
    assert "2 of 10 results shown, 1 of 4 clicks, 1 of 2 orders are left out" in facts["notes"][0]
    listed = (tmp_path / "shop.left-out.tsv").read_text().splitlines()
    assert listed[0] == "file\trow\tvalue\treason"
    assert sorted(line.split("\t")[2] for line in listed[1:]) == ["77", "78"]


def test_bad_items_and_searches_are_refused_or_left_out_and_listed(released, tmp_path):
    items = [*ITEMS, item(5, "again"), item(8, "UNKNOWN"), item(6, "  ")]
    write_lines(released / "items" / "train.jsonl", items)
    write_lines(released / "recall" / "train.jsonl", [*SEARCHES, search(50, " \u3000", [5]), search(None, "x", [5])])
    with pytest.raises(BadRowsError) as caught:
        read(released, tmp_path / "shop")
    assert str(caught.value) == (
        "3 of 6 items cannot be used: 2 of items/train.jsonl have no title: row 4 ('8'), row 5 ('6'); "
        "1 of items/train.jsonl have the id of an earlier item: row 3 ('5'). "
        "bad_rows='drop' leaves them out and lists them"
    )
    shop, facts = read(released, tmp_path / "shop", options=ReadOptions(test_share=0.25, drop_bad_rows=True))
    assert shop.items["item_id"].to_pylist() == [5, 3, 9]
    assert shop.rows("log") == 4
    assert [(one["reason"], one["rows"]) for one in facts["left_out"]] == [
        ("have no title", 2),
        ("have the id of an earlier item", 1),
        ("have a query of blanks alone", 1),
        ("have no time", 1),
    ]
    assert len((tmp_path / "shop.left-out.tsv").read_text().splitlines()) == 6


def test_lines_that_are_no_json_are_left_out_and_listed(released, tmp_path):
    write_lines(released / "recall" / "train.jsonl", [*SEARCHES, "{oops"])
    with pytest.raises(InputError, match=r"line 5 of .*recall/train\.jsonl is not JSON"):
        read(released, tmp_path / "shop")
    _, facts = read(released, tmp_path / "shop", options=ReadOptions(test_share=0.25, drop_bad_rows=True))
    assert facts["left_out"] == [{"file": "recall/train.jsonl", "reason": "cannot be read", "rows": 1}]
    assert "line 5 is not JSON" in (tmp_path / "shop.left-out.tsv").read_text()


def test_a_log_without_orders_is_read(released, tmp_path):
    write_lines(released / "recall" / "train.jsonl", [one | {"purchased_item_ids": []} for one in SEARCHES])
    shop, facts = read(released, tmp_path / "shop")
    assert not shop.has("order")
    assert facts["notes"] == ["no orders in the test part, so there is no order.parquet"]


def test_fields_that_may_be_missing_are_null(released, tmp_path):
    few = ("time_index", "query", "clicked_item_ids")
    write_lines(released / "recall" / "train.jsonl", [{name: one[name] for name in few} for one in SEARCHES])
    write_lines(released / "items" / "train.jsonl", [{"item_id": i, "item_title": "x"} for i in (3, 5, 9)])
    shop, _ = read(released, tmp_path / "shop")
    assert shop.log()["user"].null_count == shop.log()["ordered"].null_count == 4
    assert shop.counters["shown"].equals(shop.counters["clicked"])
    write_lines(released / "recall" / "train.jsonl", [{"time_index": 1, "clicked_item_ids": []}])
    with pytest.raises(InputError, match=r"no field 'query' in .*recall/train\.jsonl"):
        read(released, tmp_path / "shop")


def test_searches_that_are_not_in_order_within_a_session_are_put_in_order_and_counted(released, tmp_path):
    write_lines(released / "recall" / "train.jsonl", [one | {"session_id": 1} for one in SEARCHES])
    shop, facts = read(released, tmp_path / "shop")
    assert shop.log()["time"].to_pylist() == [10, 20, 30, 40]
    assert facts["notes"][0].startswith("3 searches were listed after a later one of their session")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    plan = ShopPlan.of(300, rows=600)
    write_released(folder / "ks", plan)
    simulate_shop(folder / "shop", plan)
    read(folder / "ks", folder / "read", options=ReadOptions())
    return folder


def test_a_simulated_shop_comes_back_through_the_released_form(simulated):
    ours, theirs = Shop.open(simulated / "shop"), Shop.open(simulated / "read")

    def numbers(column):
        values = pc.cast(pc.utf8_slice_codeunits(pc.list_flatten(column.combine_chunks()), 1), pa.int64())
        return values.to_pylist(), pc.list_value_length(column).to_pylist()

    for name in ("session", "time", "query", "split"):
        assert ours.log()[name].equals(theirs.log()[name]), name
    for name in ("shown", "clicked", "ordered"):
        values, lengths = numbers(ours.log()[name])
        assert pc.list_flatten(theirs.log()[name]).to_pylist() == values
        assert pc.list_value_length(theirs.log()[name]).to_pylist() == lengths
        assert ours.counters[name].equals(theirs.counters[name])
    for name in ("title", "brand", "seller", "category_1", "category_2", "category_3", "text"):
        assert ours.items[name].equals(theirs.items[name]), name
    seen = theirs.items["price"].is_valid()
    assert theirs.items["price"].filter(seen).equals(ours.items["price"].filter(seen))
    assert pc.sum(seen).as_py() > 200
    assert ours.queries.equals(theirs.queries)


class Stopping(Silent):
    """Stops the work like Ctrl-C, after some parts."""

    def __init__(self, after):
        self.left = after

    def advance(self, rows):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 4, 25])
def test_a_read_that_was_stopped_resumes_and_ends_as_if_it_had_not(simulated, tmp_path, after):
    given, size = KuaiSearchFiles(simulated / "ks"), 50_000
    with pytest.raises(KeyboardInterrupt):
        read_kuaisearch(given, tmp_path / "shop", ReadOptions(), tmp_path / "scratch", Stopping(after), size)
    assert not (tmp_path / "shop").exists()
    parts = {part: part.stat().st_mtime_ns for part in (tmp_path / "scratch" / "parts").glob("*.parquet")}
    assert len(parts) >= min(after, 10)  # 25: it was stopped when all parts were there
    seen = []

    class Watching(Silent):
        def advance(self, rows):
            seen.append({part: part.stat().st_mtime_ns for part in parts if part.exists()})

    read_kuaisearch(given, tmp_path / "shop", ReadOptions(), tmp_path / "scratch", Watching(), size)
    assert seen[0] == parts  # not made again
    assert contents(tmp_path / "shop") == contents(simulated / "read")


def test_parts_of_other_files_are_refused(released, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        read_kuaisearch(
            KuaiSearchFiles(released), tmp_path / "shop", ReadOptions(), tmp_path / "shop.unfinished", Stopping(2)
        )
    with (released / "recall" / "train.jsonl").open("a") as file:
        file.write(json.dumps(search(60, "灯", [5])) + "\n")
    with pytest.raises(StoreError, match="holds parts of other files, or of files that changed since"):
        read(released, tmp_path / "shop")


def test_medians_take_every_price_as_often_as_it_occurs():
    item, price = np.array([4, 4, 1, 1, 9, 4]), np.array([3.0, 1.0, 5.0, 7.0, 2.0, 8.0])
    known, medians = weighted_medians(item, price, np.array([1, 1, 3, 1, 2, 5]))
    assert dict(zip(known.tolist(), medians.tolist(), strict=True)) == {1: 5.0, 4: 8.0, 9: 2.0}
    assert weighted_medians(item[:2], price[:2], np.ones(2, np.int64))[1].tolist() == [2.0]


def test_medians_do_not_depend_on_how_many_passes_they_take(monkeypatch):
    from sidkit.search.read import prices

    rng = np.random.default_rng(0)
    item, price = rng.integers(0, 50, 3000), rng.integers(1, 90, 3000).astype(float)
    tables = [
        pa.table({"item": item[i::7], "price": price[i::7], "count": np.ones(len(item[i::7]), int)}) for i in range(7)
    ]
    wanted = np.arange(60)[::-1].copy()
    expected = [np.median(price[item == one]) if one < 50 else np.nan for one in wanted]
    for rows in (1 << 20, 500):
        monkeypatch.setattr(prices, "ROWS", rows)
        np.testing.assert_array_equal(median_prices(lambda: iter(tables), wanted), expected)


def test_the_command_names_resume_where_the_data_are_refused(released, tmp_path):
    write_lines(released / "items" / "train.jsonl", ITEMS[:2])
    refused = sidkit("search", "read", "kuaisearch", released, "-o", tmp_path / "shop", check=1)
    assert refused.startswith("error: recall/train.jsonl: 2 of 7 results shown, 1 of 3 clicks are of items")
    assert refused.endswith("What was read is kept; --resume does not read it again\n")
    assert (tmp_path / "shop.unfinished" / "parts" / "recall-0-00000.parquet").exists()
    options = ("--resume", "--unknown", "drop", "--test-share", "0.25")
    printed = sidkit("search", "read", "kuaisearch", released, "-o", tmp_path / "shop", *options)
    assert "next: sidkit embed" in printed
    assert Shop.open(tmp_path / "shop").rows("items") == 2
