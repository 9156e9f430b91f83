"""Shops from judged pairs and from counted pairs: toy files in the form of contests' tables."""

import numpy as np
import pyarrow as pa
import pytest

from command import sidkit
from sidkit.errors import BadRowsError, InputError, SpecError
from sidkit.progress import Silent
from sidkit.search.read.assemble import ReadOptions
from sidkit.search.read.clicks import ClickFiles, read_clicks
from sidkit.search.read.judgements import JudgementFiles, read_judgements
from sidkit.search.shop import Shop
from small_shops import write


@pytest.fixture
def files(tmp_path):
    """Items and queries by number, judged and counted."""
    items = write(
        tmp_path / "items.parquet",
        item=pa.array([0, 1, 2, 3], pa.int32()),
        raw_id=["100", "101", "102", "103"],
        title=["angle", "deck coating", "hole saw", "floor stain"],
        brand=["Simpson", "BEHR", "", "BEHR"],
        category=["", "Paint > Deck", "Tools > Power > Saws > Hole", "Paint"],
        text=["angle; Simpson", "", "hole saw", "floor stain; BEHR"],
    )
    queries = write(
        tmp_path / "queries.parquet", query=pa.array([0, 1, 2], pa.int32()), text=["hole  saw", "stain", "angle"]
    )
    judged = write(
        tmp_path / "judgements.parquet",
        query=pa.array([0, 0, 1, 1, 2, 0], pa.int32()),
        item=pa.array([2, 0, 3, 1, 0, 3], pa.int32()),
        label=pa.array([3.0, 1.33, 2.33, 2.0, 2.67, 2.5], pa.float32()),
        split=pa.array(["train", "train", "train", "train", "test", "test"]).dictionary_encode(),
    )
    counted = write(
        tmp_path / "clicks.parquet",
        query=pa.array([0, 1, 1, 2, 1], pa.int32()),
        item=pa.array([2, 3, 1, 0, 3], pa.int32()),
        count=pa.array([3, 2, 1, 5, 4], pa.int32()),
    )
    return {"items": items, "queries": queries, "judgements": judged, "clicks": counted}


def judgements(files, output, options=None, **changes):
    named = {name: files[name] for name in ("items", "queries", "judgements")}
    given = JudgementFiles(**{**named, "label_min": 2.33, **changes})
    facts = read_judgements(given, output, options or ReadOptions(), output.with_suffix(".scratch"), Silent())
    return facts, Shop.open(output)


def clicks(files, output, options=None, **changes):
    named = {name: files[name] for name in ("items", "queries", "clicks")}
    given = ClickFiles(**{**named, **changes})
    facts = read_clicks(given, output, options or ReadOptions(), output.with_suffix(".scratch"), Silent())
    return facts, Shop.open(output)


def test_items_are_read_whatever_they_are_called(files, tmp_path):
    _, shop = judgements(files, tmp_path / "shop")
    assert shop.items.to_pylist()[1:3] == [
        {"item_id": 1, "title": "deck coating", "brand": "BEHR", "seller": None, "category_1": "Paint",
         "category_2": "Deck", "category_3": None, "price": None, "keywords": None,
         "text": "deck coating; BEHR; Paint > Deck"},
        {"item_id": 2, "title": "hole saw", "brand": None, "seller": None, "category_1": "Tools", "category_2": "Power",
         "category_3": "Saws > Hole", "price": None, "keywords": None, "text": "hole saw"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "categories", "levels"),
    [
        (
            pa.list_(pa.string()),
            [["Paint", "Deck", "Oil", "Dark"], ["Tools"], None, []],
            ("Paint", "Deck", "Oil > Dark"),
        ),
        (pa.large_list(pa.large_string()), [["Paint"], None, [], ["Tools"]], ("Paint", None, None)),
        (pa.string(), ["Paint > Deck", None, "", "Tools"], ("Paint", "Deck", None)),
        (pa.list_(pa.list_(pa.string())), [[["Paint"]], None, [], [[]]], (None, None, None)),
    ],
)
def test_categories_are_a_path_or_a_list_of_levels(files, tmp_path, kind, categories, levels):
    ids = judgements(files, tmp_path / "first")[1].items["item_id"].to_pylist()
    items = write(tmp_path / "other.parquet", item_id=ids, title=["a"] * 4, categories=pa.array(categories, kind))
    _, shop = judgements(files, tmp_path / "shop", items=items)
    assert tuple(shop.items[f"category_{level}"][0].as_py() for level in (1, 2, 3)) == levels
    assert shop.items["text"][0].as_py() == "; ".join(["a", *([" > ".join(filter(None, levels))] if levels[0] else [])])


def test_a_query_is_a_search_in_each_part_and_high_labels_are_clicks(files, tmp_path):
    facts, shop = judgements(files, tmp_path / "shop")
    rows = shop.log().select(["query", "shown", "clicked", "ordered", "split"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("hole saw", [2, 0], [2], None, "train"),
        ("stain", [3, 1], [3], None, "train"),  # 2.33 in float32 is at least 2.33
        ("angle", [0], [0], None, "test"),
        ("hole saw", [3], [3], None, "test"),
    ]
    assert facts["split"] == {"by": "column", "column": "split"}
    assert facts["notes"] == ["no orders in the test part, so there is no order.parquet"]
    assert shop.log()["user"].null_count == shop.log()["time"].null_count == 4
    assert shop.rows("users") == 0


def test_without_a_split_queries_are_drawn_for_the_test(tmp_path, files):
    rng = np.random.default_rng(0)
    query = [f"query {i}" for i in rng.integers(0, 60, 400)]
    judged = write(tmp_path / "many.parquet", query=query, item=rng.integers(0, 4, 400), label=rng.integers(1, 4, 400))
    options = ReadOptions(test_share=0.2, seed=3)
    facts, shop = judgements(files, tmp_path / "shop", options, judgements=judged, queries=None, label_min=2)
    parts = [set(shop.log(part)["query"].to_pylist()) for part in ("train", "test")]
    assert not parts[0] & parts[1]
    assert 0.15 < facts["counts"]["shown"]["test"] / 400 < 0.3
    assert facts["split"] == {"by": "query", "test_share": 0.2}
    again, _ = judgements(files, tmp_path / "again", options, judgements=judged, queries=None, label_min=2)
    assert again == facts
    other, _ = judgements(
        files, tmp_path / "other", ReadOptions(test_share=0.2), judgements=judged, queries=None, label_min=2
    )
    assert other["counts"] != facts["counts"]


def test_labels_need_a_limit_that_they_reach(files, tmp_path):
    with pytest.raises(SpecError, match=r"labels in judgements\.parquet run from 1\.33 to 3; give label_min"):
        judgements(files, tmp_path / "shop", label_min=None)
    with pytest.raises(InputError, match=r"no label in .* is at least 4; the highest is 3"):
        judgements(files, tmp_path / "shop", label_min=4.0)
    judged = write(tmp_path / "plain.parquet", query=["a", "b"], item=[0, 1])
    with pytest.raises(SpecError, match="label_min is about labels"):
        judgements(files, tmp_path / "shop", judgements=judged, queries=None)
    _, shop = judgements(files, tmp_path / "shop", judgements=judged, queries=None, label_min=None)
    assert shop.log()["clicked"].to_pylist() in ([[0], [1]], [[1], [0]])  # without labels all are clicks


def test_bad_judgements_are_counted_and_refused_or_left_out(files, tmp_path):
    judged = write(
        tmp_path / "bad.parquet",
        query=pa.array([0, 9, 2, 1, 2]),
        item=[2, 1, 0, 3, 1],
        label=pa.array([3.0, 3.0, None, 3.0, 3.0]),
        split=["train", "train", "train", "dev", "test"],
    )
    with pytest.raises(BadRowsError) as caught:
        judgements(files, tmp_path / "shop", judgements=judged)
    assert str(caught.value) == (
        "3 of 5 judgements cannot be used: "
        "1 of bad.parquet have a query that queries.parquet does not have: row 1 ('9'); "
        "1 of bad.parquet have no label: row 2 ('2'); "
        "1 of bad.parquet have a split that is neither 'train' nor 'test': row 3 ('1'). "
        "bad_rows='drop' leaves them out and lists them"
    )
    facts, shop = judgements(files, tmp_path / "shop", ReadOptions(drop_bad_rows=True), judgements=judged)
    assert shop.log()["query"].to_pylist() == ["hole saw", "angle"]
    assert [one["rows"] for one in facts["left_out"]] == [1, 1, 1]


def test_a_pair_stands_for_as_many_searches_as_clicks(files, tmp_path):
    facts, shop = clicks(files, tmp_path / "shop")
    counts = {}
    for row in shop.log().to_pylist():
        counts[row["query"], *row["clicked"]] = counts.get((row["query"], *row["clicked"]), 0) + 1
    assert counts == {("hole saw", 2): 3, ("stain", 3): 6, ("stain", 1): 1, ("angle", 0): 5}  # 2 + 4: listed twice
    pairs = shop.pairs("click")
    test = shop.log("test")
    assert len(pairs) == len({(row["query"], *row["clicked"]) for row in test.to_pylist()}) == 1
    assert facts["split"] == {"by": "pair", "test_share": 0.1}
    assert shop.counters["shown"].equals(shop.counters["clicked"])


def test_a_split_keeps_pairs_or_queries_together(files, tmp_path):
    rng = np.random.default_rng(0)
    query = [f"query {i}" for i in rng.integers(0, 30, 300)]
    counted = write(tmp_path / "many.parquet", query=query, item=rng.integers(0, 4, 300), n=rng.integers(1, 5, 300))
    for split in ("pair", "query"):
        _, shop = clicks(files, tmp_path / split, clicks=counted, queries=None, split=split)
        parts = [shop.log(part) for part in ("train", "test")]
        pairs = [{(row["query"], *row["clicked"]) for row in part.to_pylist()} for part in parts]
        queries = [set(part["query"].to_pylist()) for part in parts]
        assert not pairs[0] & pairs[1]
        assert bool(queries[0] & queries[1]) == (split == "pair")
    with pytest.raises(SpecError, match="split must be pair or query, not 'user'"):
        clicks(files, tmp_path / "x", split="user")


def test_bad_pairs_are_counted_and_refused_or_left_out(files, tmp_path):
    counted = write(
        tmp_path / "bad.parquet", query=["a", " ", None, "b", "c"], item=[0, 1, 2, 3, 1], count=[1, 1, 1, 0, 2]
    )
    with pytest.raises(BadRowsError, match=r"3 of 5 pairs cannot be used: 1 of bad\.parquet have no query: row 2; "):
        clicks(files, tmp_path / "shop", clicks=counted, queries=None)
    facts, shop = clicks(files, tmp_path / "shop", ReadOptions(drop_bad_rows=True), clicks=counted, queries=None)
    assert sorted(shop.queries["query"].to_pylist()) == ["a", "c"]
    assert [one["reason"] for one in facts["left_out"]] == [
        "have no query", "have a query of blanks alone", "have a count below 1",
    ]  # fmt: skip
    listed = (tmp_path / "shop.left-out.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in listed] == ["2", "1", "3"]


def test_items_that_the_file_of_items_lacks_are_refused_or_left_out(files, tmp_path):
    counted = write(tmp_path / "more.parquet", query=["a", "b", "c"], item=[0, 1, 44], count=[1, 1, 9])
    with pytest.raises(InputError, match=r"more\.parquet: 1 of 3 clicks are of items .*\(it is 44\); unknown='drop'"):
        clicks(files, tmp_path / "shop", clicks=counted, queries=None)
    facts, _ = clicks(files, tmp_path / "shop", ReadOptions(drop_unknown=True), clicks=counted, queries=None)
    assert facts["left_out"] == [{"file": "more.parquet", "reason": "are not among the items", "rows": 1}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": "none.parquet"}, "no such file or folder: none.parquet"),
        ({"item_column": "sku"}, r"no column 'sku' in clicks\.parquet \(columns: query, item, count\); did you mean"),
        ({"id_column": "sku"}, r"no column 'sku' in items\.parquet"),
        ({"title_column": "name"}, r"no column 'name' in items\.parquet"),
        ({"queries": None}, "'query' in clicks.parquet holds int32, not texts; name the table"),
        ({"query_text_column": "words"}, r"no column 'words' in queries\.parquet"),
        ({"item_column": "count", "count_column": "label"}, "no column 'label' in clicks"),
    ],
)
def test_missing_files_and_columns_are_named(files, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        clicks(files, tmp_path / "shop", **change)
    assert not (tmp_path / "shop").exists()


def test_empty_files_and_wrong_types_are_refused(files, tmp_path):
    empty = write(tmp_path / "empty.parquet", query=pa.array([], pa.string()), item=pa.array([], pa.int64()))
    with pytest.raises(InputError, match=r"empty\.parquet holds no rows"):
        clicks(files, tmp_path / "shop", clicks=empty)
    with pytest.raises(InputError, match=r"empty\.parquet holds no rows"):
        clicks(files, tmp_path / "shop", items=empty)
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"cannot read .*text\.parquet"):
        clicks(files, tmp_path / "shop", clicks=str(tmp_path / "text.parquet"))
    floats = write(tmp_path / "floats.parquet", query=["a"], item=[0.5])
    with pytest.raises(InputError, match=r"'item' in floats\.parquet is double; ids must be strings or integers"):
        clicks(files, tmp_path / "shop", clicks=floats, queries=None)
    words = write(tmp_path / "words.parquet", query=["a"], item=[0], count=["many"])
    with pytest.raises(InputError, match=r"'count' in words\.parquet must hold whole numbers"):
        clicks(files, tmp_path / "shop", clicks=words, queries=None)
    many = write(tmp_path / "many.parquet", query=["a"], item=[0], count=[10**12])
    with pytest.raises(InputError, match=r"stand for 1,000,000,000,000 records"):
        clicks(files, tmp_path / "shop", clicks=many, queries=None)


def test_the_commands_print_what_they_wrote(files, tmp_path):
    named = ("--items", files["items"], "--queries", files["queries"])
    printed = sidkit("search", "read", "judgements", *named, "--judgements", files["judgements"], "--label-min", 2.33,
                     "-o", tmp_path / "judged")  # fmt: skip
    assert "4 items, 4 searches (2 to train, 2 to test), 3 different queries" in printed
    assert "next: sidkit embed" in printed
    printed = sidkit(
        "search", "read", "clicks", *named, "--clicks", files["clicks"], "-o", tmp_path / "clicked", "--json"
    )
    assert f'"output": "{tmp_path}/clicked", "format": "sidkit-shop"' in printed
    refused = sidkit("search", "read", "clicks", *named, "--clicks", files["clicks"], "-o", tmp_path, check=1)
    assert "is read from" in refused
