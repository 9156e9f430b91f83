"""Shops from logs of searches: a row per search, or a row per click."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from sidkit.errors import BadRowsError, InputError, SpecError
from sidkit.progress import Silent
from sidkit.search.align.pairs import normal_queries
from sidkit.search.read.assemble import ReadOptions
from sidkit.search.read.log import LogFiles, read_log
from sidkit.search.read.order import in_order
from sidkit.search.read.sessions import backwards, sessions_by_gap
from sidkit.search.shop import Shop, write_shop
from small_shops import contents, draft, write


@pytest.fixture
def items(tmp_path):
    return write(tmp_path / "items.parquet", item_id=["A", "B", "C"], title=["red mug", "blue mug", "green lamp"])


def read(items, log, output, options=None, **changes):
    given = LogFiles(items, log, **changes)
    scratch = output.with_suffix(".scratch")
    facts = read_log(given, output, options or ReadOptions(test_share=0.25), scratch, Silent())
    return facts, Shop.open(output)


def at(minute, second=0):
    return datetime.datetime(2011, 8, 11, 4, minute, second)


def click_log(tmp_path, **changes):
    columns = {
        "user": [7, 7, 7, 8, 7],
        "query": ["mug", "mug", "lamp", "mug", "red  mug"],
        "item": ["B", "A", "C", "B", "A"],
        "query_time": [at(0), at(0), at(20), at(40), at(59)],
        "click_time": [at(0, 9), at(0, 5), at(21), at(41), at(59, 2)],
    }
    return write(tmp_path / "log.parquet", **{**columns, **changes})


def test_clicks_of_one_search_are_one_record_in_the_order_of_clicking(items, tmp_path):
    facts, shop = read(items, click_log(tmp_path), tmp_path / "shop")
    log = shop.log()
    assert log["query"].to_pylist() == ["mug", "lamp", "mug", "red mug"]
    assert log["clicked"].to_pylist() == [["A", "B"], ["C"], ["B"], ["A"]]
    assert log["shown"].null_count == 4
    assert log["user"].to_pylist() == [7, 7, 8, 7]
    start = log["time"][0].as_py()
    assert [time - start for time in log["time"].to_pylist()] == [0, 1_200_000, 2_400_000, 3_540_000]
    assert log["split"].to_pylist() == ["train"] * 3 + ["test"]
    assert facts["source"]["gap"] == 1800


def test_a_pause_longer_than_the_gap_ends_a_session(items, tmp_path):
    _, shop = read(items, click_log(tmp_path), tmp_path / "shop")
    first, second, other, third = shop.log()["session"].to_pylist()
    assert first == second
    assert len({first, other, third}) == 3
    _, shop = read(items, click_log(tmp_path), tmp_path / "shop", gap=3600.0)
    assert len(set(shop.log()["session"].to_pylist())) == 2


def test_sessions_are_told_apart_by_hand():
    users = pa.array(["a", "b", "a", "a", None, None])
    assert sessions_by_gap(users, np.array([10, 11, 20, 31, 5, 5]), 10).tolist() == [0, 2, 0, 1, 3, 4]


def test_backwards_is_earlier_than_anything_before_it_in_the_session():
    session, time = pa.array([1, 2, 1, 1, 2, 1]), np.array([5, 9, 4, 4, 9, 6])
    assert backwards(session, time).tolist() == [False, False, True, True, False, False]
    assert backwards(pa.array([], pa.int64()), np.zeros(0, np.int64)).tolist() == []


def test_impressions_and_orders_are_told_by_flags(items, tmp_path):
    log = write(
        tmp_path / "log.parquet",
        user=["u"] * 5, query=["mug"] * 3 + ["lamp"] * 2, item=["A", "B", "C", "C", "A"], time=[1, 1, 1, 2, 2],
        is_clicked=[1, 0, 1, 1, 0], is_purchased=[False, False, True, False, False],
    )  # fmt: skip
    _, shop = read(items, log, tmp_path / "shop", ReadOptions(test_share=0.5))
    rows = shop.log().select(["shown", "clicked", "ordered"]).to_pylist()
    assert rows[0] == {"shown": ["A", "B", "C"], "clicked": ["A", "C"], "ordered": ["C"]}
    assert rows[1] == {"shown": ["C", "A"], "clicked": ["C"], "ordered": []}


def test_a_shop_is_read_back_as_the_same_shop(tmp_path):
    write_shop(tmp_path / "shop", draft())
    files = {name: str(tmp_path / "shop" / f"{name}.parquet") for name in ("items", "log", "users")}
    facts, _ = read(files["items"], files["log"], tmp_path / "again", users=files["users"])
    before, after = contents(tmp_path / "shop"), contents(tmp_path / "again")
    assert facts["split"] == {"by": "column", "column": "split"}
    for name in set(before) - {"shop.json"}:
        assert after[name] == before[name], name
    facts, shop = read(files["items"], files["log"], tmp_path / "anew", by_time=True, options=ReadOptions(test_from=12))
    assert facts["split"] == {"by": "time", "test_from": 12}
    assert shop.log()["split"].to_pylist() == ["train"] * 2 + ["test"] * 3


def test_columns_are_named_where_they_have_other_names(items, tmp_path):
    log = write(
        tmp_path / "log.parquet", who=["u", "v"], words=["mug", "lamp"], what=["A", "C"], moment=[1, 2], visit=[5, 6]
    )
    columns = {"user": "who", "query": "words", "item": "what", "time": "moment", "session": "visit"}
    _, shop = read(items, log, tmp_path / "shop", columns=columns)
    assert shop.log().select(["user", "session", "time", "query", "clicked"]).to_pylist()[0] == {
        "user": "u", "session": 5, "time": 1, "query": "mug", "clicked": ["A"],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"no column 'query' in log\.parquet"):
        read(items, log, tmp_path / "x")
    with pytest.raises(InputError, match=r"no column 'time' in log\.parquet .*did you mean time_column="):
        read(items, log, tmp_path / "x", columns={"query": "words", "item": "what"})


def test_queries_by_number_are_looked_up(items, tmp_path):
    queries = write(tmp_path / "queries.parquet", query_id=[4, 5], query=["mug", "lamp"])
    log = write(tmp_path / "log.parquet", user=[1, 1], query=[5, 4], item=["A", "B"], time=[1, 2])
    _, shop = read(items, log, tmp_path / "shop", queries=queries)
    assert shop.log()["query"].to_pylist() == ["lamp", "mug"]
    with pytest.raises(InputError, match=r"'query' in log\.parquet holds int64, not texts"):
        read(items, log, tmp_path / "shop")


@pytest.mark.parametrize("form", ["rows", "lists"])
def test_times_that_go_back_within_a_session_are_refused_or_left_out(items, tmp_path, form):
    what = {"item": ["A", "B", "C", "A"]} if form == "rows" else {"clicked": [["A"], ["B"], ["C"], ["A"]]}
    log = write(
        tmp_path / "log.parquet",
        user=[1] * 4,
        session=[1, 1, 1, 2],
        time=[5, 9, 7, 6],
        query=["a", "b", "c", "d"],
        **what,
    )
    message = (
        r"1 of 4 (rows|records) cannot be used: 1 of log\.parquet go back in time within their session: row 2 \('c'\)"
    )
    with pytest.raises(BadRowsError, match=message):
        read(items, log, tmp_path / "shop")
    facts, shop = read(items, log, tmp_path / "shop", ReadOptions(drop_bad_rows=True, test_share=0.3))
    assert shop.log()["query"].to_pylist() == ["a", "d", "b"]
    assert facts["left_out"][0]["rows"] == 1


def test_clicks_before_their_search_are_refused(items, tmp_path):
    log = click_log(tmp_path, click_time=[at(0, 9), at(0, 5), at(19), at(41), at(59, 2)])
    with pytest.raises(BadRowsError, match=r"have a click before the search: row 2 \('lamp'\)"):
        read(items, log, tmp_path / "shop")


@pytest.mark.parametrize("form", ["rows", "lists"])
def test_queries_of_blanks_and_missing_times_are_refused_or_left_out(items, tmp_path, form):
    what = {"item": ["A", "B", "C", "A"]} if form == "rows" else {"clicked": [["A"], ["B"], ["C"], ["A"]]}
    log = write(tmp_path / "log.parquet", user=[1] * 4, time=[5, 6, None, 8], query=["a", " \t", "c", "d"], **what)
    with pytest.raises(BadRowsError, match=r"2 of 4 (rows|records) cannot be used: 1 of log\.parquet have a query"):
        read(items, log, tmp_path / "shop")
    facts, shop = read(items, log, tmp_path / "shop", ReadOptions(drop_bad_rows=True))
    assert shop.log()["query"].to_pylist() == ["a", "d"]
    assert [one["reason"] for one in facts["left_out"]] == ["have a query of blanks alone", "have no time"]


def test_unknown_items_duplicates_and_items_without_title(tmp_path):
    items = write(
        tmp_path / "items.parquet", item_id=["A", "B", "A", "D", "D"], title=["mug", None, "mug", " ", "lamp"]
    )
    log = write(tmp_path / "log.parquet", user=[1, 1], time=[1, 2], query=["a", "b"], item=["A", "B"])
    with pytest.raises(BadRowsError, match=r"3 of 5 items cannot be used: 2 of items\.parquet have no title"):
        read(items, log, tmp_path / "shop")
    drop = ReadOptions(test_share=0.5, drop_bad_rows=True)
    with pytest.raises(InputError, match=r"1 of 2 clicks are of items that are not among the items \(it is 'B'\)"):
        read(items, log, tmp_path / "shop", drop)
    drop = ReadOptions(test_share=0.5, drop_bad_rows=True, drop_unknown=True)
    facts, shop = read(items, log, tmp_path / "shop", drop)
    assert shop.items["item_id"].to_pylist() == ["A", "D"]  # the first D has no title, so the second is no repetition
    assert shop.log()["clicked"].to_pylist() == [["A"], []]
    assert sum(one["rows"] for one in facts["left_out"]) == 4


def test_queries_of_characters_without_width_are_blank(items, tmp_path):
    log = click_log(tmp_path, query=["\u200b", " \ufeff", "lamp", "\u200bmug", "red\u200bmug"])
    with pytest.raises(BadRowsError, match=r"2 of log.parquet have a query of blanks alone"):
        read(items, log, tmp_path / "shop")
    _, shop = read(items, log, tmp_path / "shop", ReadOptions(test_share=0.25, drop_bad_rows=True))
    assert shop.queries["query"].to_pylist() == ["lamp", "mug", "red mug"]
    assert normal_queries(["\u200bmug", " red \u3000 mug"]).to_pylist() == ["mug", "red mug"]


def test_users_are_listed_once_and_have_an_id(items, tmp_path):
    users = write(tmp_path / "users.parquet", user=[7, 7, None, 8], age=["1", "2", "3", "4"])
    reasons = r"2 of 4 users cannot be used: 1 of users.parquet have no id: row 2; 1 of users.parquet have the id of an"
    with pytest.raises(BadRowsError, match=reasons):
        read(items, click_log(tmp_path), tmp_path / "shop", users=users)
    drop = ReadOptions(test_share=0.25, drop_bad_rows=True)
    facts, shop = read(items, click_log(tmp_path), tmp_path / "shop", drop, users=users)
    assert shop.users.to_pylist() == [{"user": 7, "age": "1"}, {"user": 8, "age": "4"}]
    assert [one["reason"] for one in facts["left_out"]] == ["have no id", "have the id of an earlier user"]
    assert "users.parquet\t1\t7\thave the id of an earlier user" in (tmp_path / "shop.left-out.tsv").read_text()


def test_times_that_cannot_be_seconds_are_pointed_out_where_they_cut_sessions(items, tmp_path):
    late = [1_319_583_790_290 + 1000 * i for i in range(5)]
    log = click_log(tmp_path, query_time=late, click_time=late)
    facts, _ = read(items, log, tmp_path / "shop")
    assert any("--gap 1800 counts their unit" in note for note in facts["notes"])
    facts, shop = read(items, log, tmp_path / "shop", gap=1_800_000.0)
    assert not any("--gap" in note for note in facts["notes"])
    assert len(set(zip(shop.log()["user"].to_pylist(), shop.log()["session"].to_pylist(), strict=True))) == 2
    log = click_log(tmp_path, query_time=late, click_time=late, session=[1, 1, 1, 2, 3])
    facts, _ = read(items, log, tmp_path / "shop")
    assert not any("--gap" in note for note in facts["notes"])


@pytest.mark.parametrize("gap", [0.0, -1.0, float("nan")])
def test_a_gap_is_above_zero(items, tmp_path, gap):
    with pytest.raises(SpecError, match="gap must be above 0"):
        read(items, click_log(tmp_path), tmp_path / "shop", gap=gap)


def test_a_log_without_times_is_told_what_else_there_is(items, tmp_path):
    log = write(tmp_path / "log.parquet", user=["u"], query=["mug"], clicked=[["A"]])
    with pytest.raises(
        InputError, match=r"no column 'time' in log.parquet .*clicked\); a log without times is split by"
    ):
        read(items, log, tmp_path / "shop")


def test_times_must_be_numbers_or_timestamps(items, tmp_path):
    log = write(tmp_path / "log.parquet", user=[1], time=["2011-08-11"], query=["a"], item=["A"])
    with pytest.raises(InputError, match=r"'time' in log\.parquet is string; times must be integers or timestamps"):
        read(items, log, tmp_path / "shop")


def test_ids_that_cannot_be_those_of_the_items_are_refused(tmp_path):
    items = write(tmp_path / "items.parquet", item_id=[1, 2], title=["mug", "lamp"])
    for what in ({"item": ["1", "x"]}, {"clicked": [["1"], ["x"]]}):
        log = write(tmp_path / "log.parquet", user=[1, 1], time=[1, 2], query=["a", "b"], **what)
        with pytest.raises(InputError, match=r"ids of log\.parquet are .*string.*, and cannot be read as .*int64"):
            read(items, log, tmp_path / "shop")
    log = write(tmp_path / "log.parquet", user=[1, 1], time=[1, 2], query=["a", "b"], item=["1", "2"])
    _, shop = read(items, log, tmp_path / "shop")
    assert shop.log()["clicked"].to_pylist() == [[1], [2]]


def test_queries_need_different_ids(items, tmp_path):
    queries = write(tmp_path / "queries.parquet", query_id=[4, 4], query=["mug", "lamp"])
    log = write(tmp_path / "log.parquet", user=[1], query=[4], item=["A"], time=[1])
    with pytest.raises(InputError, match="'query_id' must be different in every row; 4 is in row 0"):
        read(items, log, tmp_path / "shop", queries=queries)


@pytest.mark.parametrize("rows", [3, 10, 100])
def test_rows_are_put_in_order_through_buckets(tmp_path, rows):
    rng = np.random.default_rng(0)
    position = rng.permutation(100)
    table = pa.table({"value": position, "lists": [[int(i)] * (i % 3) for i in position]})
    parts = [table.slice(start, 17) for start in range(0, 100, 17)]
    made = pa.concat_tables(in_order(iter(parts), position, tmp_path / "sorting", rows))
    assert made["value"].to_pylist() == list(range(100))
    assert made["lists"].to_pylist() == [[i] * (i % 3) for i in range(100)]
    assert not (tmp_path / "sorting").exists()


def test_rows_in_order_pass_through():
    parts = [pa.table({"value": [0, 1]}), pa.table({"value": [2]})]
    assert list(in_order(iter(parts), np.arange(3), None)) == parts
