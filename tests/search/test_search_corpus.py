"""A shop with SIDs as a corpus: which pairs, events and pasts there are, and what is refused."""

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.errors import InputError, SpecError
from sidkit.search.read.left_out import LeftOut
from sidkit.search.shop import Shop, write_shop
from sidkit.search.training.corpus import SearchData
from small_shops import RECORDS, draft, log_table

SIZES = (4, 4)
ITEMS = SidTable(["A", "B", "C"], [[0, 0], [0, 1], [1, 0]], SIZES)


@pytest.fixture
def shop(tmp_path):
    write_shop(tmp_path / "shop", draft())
    return Shop.open(tmp_path / "shop")


def query_sids(shop, without=()):
    ids = [one for one in shop.queries["query_id"].to_pylist() if one not in without]
    return SidTable(ids, [[i % 4, 3] for i in range(len(ids))], SIZES)


def test_pairs_and_events_of_the_training_part(shop):
    data = SearchData.of(shop, ITEMS, query_sids(shop))
    corpus, texts = data.corpus, data.corpus.queries
    assert {(texts[q], data.table.ids[i].as_py()) for q, i in zip(*corpus.pairs, strict=True)} == {
        ("mug", "A"), ("red mug", "A"), ("lamp", "C")
    }  # fmt: skip
    events = corpus.events
    assert [(texts[q], int(i)) for q, i in zip(events.query, events.item, strict=True)] == [
        ("mug", 0), ("red mug", 0), ("lamp", 2)  # an item that was clicked and ordered is one event
    ]  # fmt: skip
    assert sorted(texts[i] for i in corpus.training_queries) == ["lamp", "mug", "red mug"]
    past, count = events.clicks.latest(np.arange(3), 2)
    assert past.tolist() == [[-1, -1], [-1, 0], [-1, -1]]
    assert count.tolist() == [0, 1, 0]
    asked, _ = events.queries.latest(np.arange(3), 1)
    assert [texts[i] if i >= 0 else None for i in asked[:, 0]] == [None, "mug", None]


def test_a_test_event_knows_what_its_user_did_before_and_no_more(shop):
    data = SearchData.of(shop, ITEMS, query_sids(shop))
    test = data.test("click")
    by_query = {data.corpus.queries[q]: i for i, q in enumerate(test.query)}
    event = test.event[[by_query["mug"], by_query["green lamp"]]]
    assert test.events.clicks.latest(event, 2)[0].tolist() == [[-1, 2], [-1, -1]]  # bob clicked the lamp; cid nothing
    assert test.events.others.latest(event, 2)[0].tolist() == [[-1, 0], [-1, -1]]  # ann clicked A for "mug"
    assert test.item[by_query["mug"]] == 1


def test_training_never_reads_the_test_part(shop):
    """The same training events, whatever the test part holds."""
    changed = [*RECORDS[:3], ("bob", 3, 5, "mug", [0], [0, 1, 2], [2], "test")]  # before all others
    folder = shop.folder.parent / "other"
    write_shop(folder, draft(log=[log_table(changed)]))
    for one, other in zip(*(vars(d.corpus.events).values() for d in (
        SearchData.of(shop, ITEMS, query_sids(shop)),
        SearchData.of(Shop.open(folder), ITEMS, query_sids(Shop.open(folder))),
    )), strict=True):  # fmt: skip
        if isinstance(one, np.ndarray):
            assert one.tolist() == other.tolist()
        else:
            assert one.latest(np.arange(3), 3)[0].tolist() == other.latest(np.arange(3), 3)[0].tolist()


def test_items_without_a_sid_are_refused_or_left_out(shop, tmp_path):
    some = SidTable(["A", "C"], [[0, 0], [1, 0]], SIZES)
    with pytest.raises(InputError, match=r"1 of 3 items cannot be used.*have no SID: row 1 \('B'\)"):
        SearchData.of(shop, some, query_sids(shop))
    left_out = LeftOut(tmp_path / "list.tsv", drop=True)
    data = SearchData.of(shop, some, query_sids(shop), left_out)
    assert data.table.ids.to_pylist() == ["A", "C"]
    assert left_out.facts() == [{"file": "items.parquet", "reason": "have no SID", "rows": 1}]
    test = data.test("click")
    assert sorted(test.item.tolist()) == [-1, 1]  # the pair of B stays, and nobody can find it


def test_a_query_without_a_sid_stays_without(shop):
    missing = shop.queries["query_id"].to_pylist()[0]
    data = SearchData.of(shop, ITEMS, query_sids(shop, [missing]))
    assert data.corpus.query_codes[0].tolist() == [-1, -1]
    assert (data.corpus.query_codes[1:] >= 0).all()


@pytest.mark.parametrize(
    ("items", "queries", "why"),
    [
        (SidTable(["x"], [[0, 0]], SIZES), None, "none of the shop's items has a SID: the first is 'A'"),
        (None, SidTable(["x"], [[0, 0]], SIZES), "none of the shop's queries has a SID"),
        (None, SidTable([0], [[0, 0]], (4, 5)), "items have SIDs of sizes 4-4, queries of 4-5"),
    ],
)
def test_sids_that_do_not_fit(shop, items, queries, why):
    with pytest.raises(InputError, match=why):
        SearchData.of(shop, items or ITEMS, queries or query_sids(shop))


def test_a_training_part_without_clicks(tmp_path):
    silent = [(*one[:5], [], [], one[7]) if one[7] == "train" else one for one in RECORDS]
    write_shop(tmp_path / "shop", draft(log=[log_table(silent)]))
    opened = Shop.open(tmp_path / "shop")
    with pytest.raises(InputError, match="no search in the training part"):
        SearchData.of(opened, ITEMS, query_sids(opened))


def test_the_last_stage_answers_with_clicks_or_orders_or_both(shop):
    made = {one: SearchData.of(shop, ITEMS, query_sids(shop), positives=one) for one in ("both", "clicks", "orders")}
    assert {one: data.corpus.events.item.tolist() for one, data in made.items()} == {
        "both": [0, 0, 2], "clicks": [0, 0, 2], "orders": [0]
    }  # fmt: skip
    with pytest.raises(SpecError, match="positives must be both, clicks, orders, not 'views'"):
        SearchData.of(shop, ITEMS, query_sids(shop), positives="views")


def test_a_log_without_orders_has_none_to_learn_from(tmp_path):
    bare = [(*one[:6], [], one[7]) for one in RECORDS]
    write_shop(tmp_path / "shop", draft(log=[log_table(bare)]))
    opened = Shop.open(tmp_path / "shop")
    assert len(SearchData.of(opened, ITEMS, query_sids(opened)).corpus.events) == 3
    with pytest.raises(InputError, match="no orders to learn from"):
        SearchData.of(opened, ITEMS, query_sids(opened), positives="orders")
