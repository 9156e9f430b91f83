"""`sidkit search train`, `evaluate`, `ask`: files that do not fit together, what is left out, what ranks the items."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("bm25s", reason="bm25s is not installed")

from command import run, sidkit
from sidkit import SidTable
from sidkit.search.model.model import SearchModel
from sidkit.search.shop import Shop
from sidkit.search.simulate import ShopPlan, simulate_shop
from toyshop import write_vectors

QUICK = ("--preset", "tiny", "--epochs", "0,0,1", "--words", 400, "--longest", 48, "--beams", 16, "--device", "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A shop, two tokenizers of the same sizes, and SIDs: items.parquet, queries.parquet, other.parquet by the second,
    some.parquet without the first item."""
    folder = tmp_path_factory.mktemp("commands")
    simulate_shop(folder / "shop", ShopPlan.of(200, 250, None, seed=1))
    shop, rng = Shop.open(folder / "shop"), np.random.default_rng(0)
    for name, key in (("items", "item_id"), ("queries", "query_id")):
        ids = shop.table(name)[key].to_pylist()
        write_vectors(folder / f"{name}-emb.parquet", key, ids, rng.normal(size=(len(ids), 8)).astype(np.float32))
    for tokenizer, seed in (("tok", 0), ("other", 1)):
        sidkit("fit", "items-emb.parquet", "-o", tokenizer, "--sizes", "4-4-2", "--seed", seed, cwd=folder)
    for name, tokenizer, source in (("items", "tok", "items"), ("queries", "tok", "queries"),
                                    ("other", "other", "queries")):  # fmt: skip
        sidkit("encode", tokenizer, f"{source}-emb.parquet", "-o", f"{name}.parquet", cwd=folder)
    table = SidTable.from_parquet(folder / "items.parquet")
    SidTable(table.ids[1:], table.codes[1:], table.sizes).to_parquet(folder / "some.parquet")
    return folder


@pytest.fixture(scope="module")
def left_out(files):
    """A model of the shop without its first item, and what its training printed."""
    words = ("search", "train", "shop", "some.parquet", "queries.parquet", "-o", "run", *QUICK)
    assert "--bad-rows drop leaves them out" in sidkit(*words, check=1, cwd=files)
    return run(*words, "--bad-rows", "drop", cwd=files)


def test_sids_of_another_tokenizer_are_refused_before_any_work(files):
    train = ("search", "train", "shop", "items.parquet")
    told = sidkit(*train, "queries.parquet", "-o", "x", *QUICK, "--tokenizer", "other", check=1, cwd=files)
    assert "items.parquet was made by the tokenizer tok (" in told
    assert "), not by other (" in told
    told = sidkit(*train, "other.parquet", "-o", "x", *QUICK, check=1, cwd=files)
    assert "items have SIDs of the tokenizer tok (" in told
    assert "queries of other (" in told
    assert not (files / "x").exists()


def test_an_item_without_a_sid_is_left_out_listed_and_missed(files, left_out):
    first = Shop.open(files / "shop").items["item_id"][0].as_py()
    assert "left out 1 of items.parquet that have no SID, listed in run.left-out.tsv" in left_out.stderr
    assert first in (files / "run.left-out.tsv").read_text()
    told = sidkit("search", "evaluate", "run", "shop", check=1, cwd=files)
    assert "1 of 200 items cannot be used" in told
    (files / "run.left-out.tsv").unlink()
    words = ("search", "evaluate", "run", "shop", "--bad-rows", "drop", "--json", "-o", "ranks.parquet")
    found = json.loads(sidkit(*words, cwd=files))
    assert found["left_out"] == [{"file": "items.parquet", "reason": "have no SID", "rows": 1}]
    assert first in (files / "run.left-out.tsv").read_text()
    ranks = pq.read_table(files / "ranks.parquet").to_pylist()
    assert all(row["semantic IDs"] == row["BM25"] == 0 for row in ranks if row["item_id"] == first)
    for kind, systems in found["figures"].items():
        hits = sum(row["semantic IDs"] > 0 for row in ranks if row["kind"] == kind)
        assert systems["semantic IDs"]["all"]["hits"] == hits


def test_the_next_command_has_the_vectors_that_are_there(files, left_out):
    assert left_out.stdout.endswith("wrote run; next: sidkit search evaluate run shop\n")


def test_scores_and_availability_change_the_order_of_items_within_a_sid(files, left_out):
    ask = ("search", "ask", "run", "mug", "-n", 40, "--json")
    plain, counted, shown = (
        json.loads(sidkit(*ask, *options, cwd=files))["items"]
        for options in ((), ("--score", "none", "--no-availability"), ("--score", "ctr", "--smoothing", 2))
    )
    counters = SearchModel.load(files / "run", "cpu").parts.items.select(["item_id", "shown", "clicked", "ordered"])
    counts = {row["item_id"]: row for row in counters.to_pylist()}
    for rows, key in ((plain, _by_composite), (counted, _by_clicks), (shown, _by_ctr)):
        for sid in {row["sid"] for row in rows}:
            ids = [row["item_id"] for row in rows if row["sid"] == sid]
            assert ids == sorted(ids, key=lambda one: (*key(counts[one]), one))
    assert [row["item_id"] for row in plain] != [row["item_id"] for row in counted]
    for option, value, message in (("--score", "best", "score must be composite"), ("--smoothing", 1, "above 1")):
        assert message in sidkit(*ask, option, value, check=1, cwd=files)


def _by_clicks(one):
    return -one["clicked"], -one["ordered"]


def _logs(one, smoothing):
    return (np.log(one[name] + smoothing) for name in ("shown", "clicked", "ordered"))


def _by_composite(one):
    shown, clicked, ordered = _logs(one, 10.0)
    ctr, cvr = clicked / (shown + clicked + ordered), ordered / clicked
    return one["shown"] == 0, -round(2 * ctr * cvr / (ctr + cvr), 12), *_by_clicks(one)


def _by_ctr(one):
    shown, clicked, ordered = _logs(one, 2.0)
    return one["shown"] == 0, -round(clicked / (shown + clicked + ordered), 12), *_by_clicks(one)
