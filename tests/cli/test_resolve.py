"""sidkit resolve, encode --policy and encode --keep old.parquet: published IDs stay, and what a policy cost is told."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from command import sidkit as command
from sidkit.sids.table import SidTable

OLD, NEW = 11_500, 601


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A tokenizer, 11,500 published items that were spread, and a catalogue with 601 more."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 12))
    X = (centres[rng.integers(0, 300, OLD + NEW)] + 0.3 * rng.normal(size=(OLD + NEW, 12))).astype(np.float32)
    rows = rng.permutation(OLD + NEW)  # new items are not the last rows
    seen = np.sort(rows[:OLD])
    ids = np.array([f"item-{row}" for row in range(len(X))])
    write(folder / "all.parquet", ids, X, popularity=rng.integers(0, 100, len(X)))
    write(folder / "old.parquet", ids[seen], X[seen], popularity=np.zeros(OLD))
    sidkit.prq_kmeans((16, 16, 256), iterations=3).fit(X[seen]).save(folder / "tok")
    command("encode", "tok", "old.parquet", "-o", "published.parquet", "--spread", cwd=folder)
    return folder


def write(path, ids, X, **more):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"item_id": ids, "embedding": vectors, **more}), path)


def by_id(path):
    table = SidTable.from_parquet(path)
    return dict(zip(table.ids.to_pylist(), map(tuple, table.codes.tolist()), strict=True))


def test_published_ids_stay_and_new_items_get_none_of_them(shop):
    published = by_id(shop / "published.parquet")
    assert len(set(published.values())) == OLD
    command("encode", "tok", "all.parquet", "-o", "again.parquet", "--spread", cwd=shop)
    again = by_id(shop / "again.parquet")
    assert sum(again[item] != sid for item, sid in published.items()) > 20, "the case that --keep is for"
    printed = command("encode", "tok", "all.parquet", "-o", "kept.parquet", "--keep", "published.parquet", cwd=shop)
    kept = by_id(shop / "kept.parquet")
    assert len(kept) == OLD + NEW
    assert sum(kept[item] != sid for item, sid in published.items()) == 0
    taken, new = set(published.values()), {item: sid for item, sid in kept.items() if item not in published}
    assert len(new) == NEW
    assert sum(sid in taken for sid in new.values()) == 0
    assert len(set(new.values())) == NEW
    assert "11,500 items keep their published SIDs, 601 are new; policy nearest:" in printed
    plain = sidkit.load(shop / "tok").encode(shop / "all.parquet")
    assert all(tuple(plain[row, :2]) == kept[f"item-{row}"][:2] for row in range(OLD + NEW))


def test_resolve_gives_what_encode_gives_and_says_what_it_cost(shop):
    command("encode", "tok", "all.parquet", "-o", "plain.parquet", cwd=shop)
    words = ("resolve", "plain.parquet", "--policy", "nearest", "--keep", "published.parquet", "-o", "out.parquet")
    facts = json.loads(command(*words, "--json", cwd=shop))["collisions"]
    assert by_id(shop / "out.parquet") == by_id(shop / "kept.parquet")
    assert (facts["kept"], facts["new"], facts["sharing"]) == (OLD, NEW, 0)
    assert 0 < facts["moved"] < NEW
    assert facts["added_cost"] > 0
    near = facts["neighbours"]
    assert 0 < near["overlap_after"] < 1
    page = shop / "report.html"
    printed = command("report", "out.parquet", "-o", page, cwd=shop)
    assert "601 are new; policy nearest:" in printed
    assert "What the collision policy cost" in page.read_text()
    assert f"{facts['added_cost_per_moved_item']:.4f}</td>" in page.read_text()
    assert json.loads(command("report", "out.parquet", "--json", cwd=shop))["collisions"]["moved"] == facts["moved"]


@pytest.mark.parametrize("policy", ["least-cost", "sinkhorn", "popular", "capacity"])
def test_every_policy_leaves_published_ids_alone(shop, policy):
    words = ["resolve", "plain.parquet", "--policy", policy, "--keep", "published.parquet", "-o", "p.parquet"]
    words += ["--popularity", "popularity"] if policy == "popular" else []
    words += ["--capacity", "2"] if policy == "capacity" else []
    facts = json.loads(command(*words, "--neighbours", "0", "--json", cwd=shop))["collisions"]
    published, made = by_id(shop / "published.parquet"), by_id(shop / "p.parquet")
    assert all(made[item] == sid for item, sid in published.items())
    assert "neighbours" not in facts
    if policy != "capacity":
        assert not {sid for item, sid in made.items() if item not in published} & set(published.values())
    if policy == "least-cost":
        assert facts["added_cost"] <= facts["greedy_added_cost"]


def test_a_counter_goes_on_from_the_published_one(shop):
    command("encode", "tok", "old.parquet", "-o", "counted.parquet", "--policy", "counter", "--room", "64", cwd=shop)
    old = by_id(shop / "counted.parquet")
    assert len(set(old.values())) == OLD
    command("encode", "tok", "all.parquet", "-o", "more.parquet", "--keep", "counted.parquet", cwd=shop)
    table = SidTable.from_parquet(shop / "more.parquet")
    assert table.sizes == (16, 16, 256, 64)
    made = by_id(shop / "more.parquet")
    assert all(made[item] == sid for item, sid in old.items())
    assert len(set(made.values())) == OLD + NEW


def test_columns_and_published_ids_are_kept_in_one_command(shop):
    keep = ("--keep", "popularity", "--keep", "./published.parquet")
    command("encode", "tok", "all.parquet", "-o", "both.parquet", *keep, cwd=shop)
    assert pq.read_schema(shop / "both.parquet").names == ["item_id", "codes", "sid", "popularity"]
    assert by_id(shop / "both.parquet") == by_id(shop / "kept.parquet")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "nerest"), "no collision policy 'nerest'"),
        (("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "popular"), "needs --popularity"),
        (("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "capacity"), "how many items a SID may have"),
        (
            ("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "keep", "--spread"),
            "--spread is --policy nearest",
        ),
        (("encode", "tok", "all.parquet", "-o", "x.parquet", "--keep", "a.parquet", "--keep", "b.parquet"), "one file"),
        (("encode", "tok", "all.parquet", "-o", "x.parquet", "--keep", "gone.parquet"), "gone.parquet"),
        (
            ("encode", "tok", "all.parquet", "-o", "x", "--keep", "published.parquet", "--ray", "local"),
            "--keep needs all",
        ),
        (("encode", "tok", "all.parquet", "-o", "published.parquet", "--keep", "published.parquet"), "is read from"),
        (
            ("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "counter", "--room", "1"),
            "at least 2 values",
        ),
        (
            ("encode", "tok", "all.parquet", "-o", "x.parquet", "--policy", "popular", "--popularity", "item_id"),
            "must hold a number for every item, not string",
        ),
        (("resolve", "kept.parquet", "-o", "x.parquet", "--tokenizer", "other"), "was made by the tokenizer tok"),
        (("resolve", "plain.parquet", "-o", "x.parquet", "--embeddings", "old.parquet"), "no vectors for 601 of these"),
    ],
)
def test_bad_requests_are_refused(shop, words, message):
    if not (shop / "other").exists():
        X = np.random.default_rng(1).normal(size=(400, 12)).astype(np.float32)
        sidkit.prq_kmeans((16, 16, 256), iterations=1).fit(X).save(shop / "other")
    assert message in command(*words, cwd=shop, check=1)


def test_sids_that_note_nothing_need_their_tokenizer_named(shop):
    table = SidTable.from_parquet(shop / "plain.parquet")
    SidTable(table.ids, table.codes, table.sizes).to_parquet(shop / "bare.parquet")
    refused = command("resolve", "bare.parquet", "-o", "x.parquet", cwd=shop, check=1)
    assert "does not note its tokenizer; name it with --tokenizer" in refused
    words = ("resolve", "bare.parquet", "-o", "x.parquet", "--tokenizer", "tok", "--policy", "keep")
    assert "0 of 12,101 items moved" in command(*words, cwd=shop)
