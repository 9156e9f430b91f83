"""Recommendations of items: how many of one SID, what is left out, and the command for one history or many users."""

import json
import shutil
from dataclasses import asdict
from math import exp

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from sidkit import SidTable
from sidkit.errors import SpecError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from sidkit.retriever import Plan, Retriever, Shape
from sidkit.retriever.model import new_weights
from sidkit.retriever.recommendations import Wanted
from sidkit.retriever.store import save
from toys import peaked

PLAN = Plan(Shape(1, 16, 16, 2, 8), history=3, beams=6)
IDS = ["a,b", *(f"p{i}" for i in range(1, 24))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A retriever whose 24 items share twelve SIDs, two and two, and files beside it."""
    folder = tmp_path_factory.mktemp("recommend")
    codes = np.stack([np.arange(12) // 4, np.arange(12) % 4], 1)
    table = SidTable(IDS, np.concatenate([codes, codes]), (3, 4))
    weights = peaked(new_weights(PLAN.shape, 8, 3))
    save(Retriever(table, PLAN, weights, {"plan": asdict(PLAN)}), folder / "run")
    lists = [["p1", "p2"], ["p3", "new", "p4", "p5", "p6"], ["new", "newer"], ["p7"]]
    pq.write_table(pa.table({"who": ["u1", "u2", "u3", "u4"], "items": lists}), folder / "lists.parquet")
    pq.write_table(pa.table({"user_id": [10, 20, 30, 40], "items": lists}), folder / "named.parquet")
    events = [(user, item, time) for user, items in enumerate(lists) for time, item in enumerate(items)]
    user, item, time = zip(*np.random.default_rng(0).permutation(np.array(events, object)).tolist(), strict=True)
    pq.write_table(pa.table({"user": user, "item": item, "timestamp": time}), folder / "events.parquet")
    return folder


@pytest.fixture(scope="module")
def retriever(folder):
    return Retriever.load(folder / "run", "cpu")


def asked(folder, *words):
    return json.loads(sidkit("recommend", folder / "run", *words, "--device", "cpu", "--json"))


def test_of_one_sid_as_many_items_come_as_asked_for(retriever):
    everything = retriever.recommend(["p1"], k=6)
    assert [everything[0].sid, everything[1].sid] == [everything[0].sid] * 2
    assert everything[0].score == everything[1].score
    single = retriever.recommend(["p1"], k=6, per_sid=1)
    assert len({one.sid for one in single}) == len(single) == 6
    assert single == [next(one for one in retriever.recommend(["p1"], k=12) if one.sid == each.sid) for each in single]
    with pytest.raises(SpecError, match="per_sid must be at least 1, not 0"):
        retriever.recommend(["p1"], per_sid=0)


def test_the_history_is_left_out_if_asked_for_and_the_list_stays_as_long(retriever):
    best = [one.item for one in retriever.recommend(["p1"], k=3)]
    without = retriever.recommend(best, k=24, exclude_history=True)
    assert {one.item for one in without} == set(IDS) - set(best)
    twin = retriever.recommend(["p1"], k=12, per_sid=1, exclude_history=True, beams=12)
    assert "p13" in {one.item for one in twin}  # the other item on the SID of p1


def test_the_probability_is_that_of_the_sid(retriever):
    ranked = retriever.recommend(["p1", "p2"], k=12, per_sid=1, beams=12)
    assert [one.probability for one in ranked] == pytest.approx([exp(one.score) for one in ranked])
    assert 0 < sum(one.probability for one in ranked) <= 1 + 1e-6


def test_the_command_prints_what_python_returns(folder, retriever):
    answer = asked(folder, "--history", "p1,p2", "-k", 4)
    ranked = retriever.recommend(["p1", "p2"], k=4, per_sid=1)
    assert [(one["item_id"], tuple(one["codes"])) for one in answer["items"]] == [one[:2] for one in ranked]
    assert [one["probability"] for one in answer["items"]] == pytest.approx([one.probability for one in ranked])
    assert [one["rank"] for one in answer["items"]] == [1, 2, 3, 4]
    assert answer["items"][0]["sid"] == retriever.table.template.write(ranked[0].sid)
    assert {one["items_on_sid"] for one in answer["items"]} == {2}
    assert answer["history"] == ["p1", "p2"]
    both = asked(folder, "--history", "p1,p2", "-k", 4, "--per-sid", 0)["items"]
    assert [one["item_id"] for one in both] == [one.item for one in retriever.recommend(["p1", "p2"], k=4)]


def test_unknown_items_are_left_out_and_named_and_ids_may_have_commas(folder):
    answer = asked(folder, "--history", "p1, nobody ,p2", "--history", "a,b")
    assert answer["history"] == ["p1", "p2", "a,b"]
    assert answer["unknown"] == ["nobody"]
    assert answer["items"] == asked(folder, "--history", "p1,p2", "--history", "a,b")["items"]
    printed = sidkit("recommend", folder / "run", "--history", "p1,nobody", "-k", 2, "--device", "cpu")
    assert "after 1 item of the history; 1 unknown item left out: nobody" in printed
    assert "together these 2 SIDs have" in printed
    assert "2 items have this SID" in printed


def test_titles_and_items_in_stock(folder, tmp_path):
    pq.write_table(pa.table({"item_id": IDS, "title": [f"thing {item}" for item in IDS]}), tmp_path / "items.parquet")
    (tmp_path / "stock.txt").write_text("p5\np6\n")
    words = ("--history", "p1", "--within", tmp_path / "stock.txt", "--items", tmp_path / "items.parquet")
    assert {one["text"] for one in asked(folder, *words)["items"]} == {"thing p5", "thing p6"}
    printed = sidkit("recommend", folder / "run", *words, "--device", "cpu")
    assert "only 2 items found" in printed


@pytest.mark.parametrize(
    "file, options, column, names",
    [
        ("lists", ["--user-column", "who"], "who", ["u1", "u2", "u4"]),
        ("lists", [], "user", [0, 1, 3]),
        ("named", [], "user_id", [10, 20, 40]),
        ("events", [], "user", [0, 1, 3]),
    ],
)
def test_every_user_of_a_file_gets_what_he_would_get_alone(folder, retriever, tmp_path, file, options, column, names):
    output = tmp_path / "out.parquet"
    facts = asked(folder, "--users", folder / f"{file}.parquet", "-o", output, "-k", 3, *options)
    assert {name: value for name, value in facts.items() if name not in ("output", "columns")} == {
        "users": 3,
        "recommendations": 9,
        "users_without_known_items": 1,
        "events_unknown": 3,
        "items_unknown": 2,
    }
    rows = pq.read_table(output).to_pylist()
    assert list(rows[0]) == [column, "rank", "item_id", "sid", "probability"]
    by_user = {name: [row for row in rows if row[column] == name] for name in names}
    for name, history in zip(names, (["p1", "p2"], ["p3", "p4", "p5", "p6"], ["p7"]), strict=True):
        alone = retriever.recommend(history, k=3, per_sid=1)
        assert [row["item_id"] for row in by_user[name]] == [one.item for one in alone]
        assert [row["rank"] for row in by_user[name]] == [1, 2, 3]
        assert [row["probability"] for row in by_user[name]] == pytest.approx(
            [one.probability for one in alone], rel=1e-5
        )  # float32


def test_what_was_left_out_is_printed(folder, tmp_path):
    words = ("--users", folder / "named.parquet", "-o", tmp_path / "out.parquet", "--device", "cpu")
    done = run("recommend", folder / "run", *words)
    assert "named.parquet: lists of items in 'items', users in 'user_id'" in done.stderr
    assert "left out 3 events with 2 unknown items\nleft out 1 user without a known item\n" in done.stdout
    assert "recommendations for 3 users" in done.stdout
    done = run("recommend", folder / "run", *words[:1], folder / "lists.parquet", *words[2:])
    assert "users are row numbers" in done.stderr


def test_of_several_seeds_the_first_recommends_and_says_so(folder, tmp_path):
    for seed in (4, 5):
        shutil.copytree(folder / "run", tmp_path / "seeds" / f"seed-{seed}")
    (tmp_path / "seeds" / "seeds.json").write_text(json.dumps({"seeds": [4, 5]}))
    done = run("recommend", tmp_path / "seeds", "--history", "p1", "--json", "--device", "cpu")
    assert "has seeds 4, 5: recommending by" in done.stderr
    assert "seed-4; name the folder of another seed" in done.stderr
    assert json.loads(done.stdout)["items"] == asked(folder, "--history", "p1")["items"]


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "name a history, as in --history A,B,C, or a file of histories with --users"),
        (("--history", "p1", "--users", "x.parquet"), "one of them"),
        (("--users", "lists.parquet"), "--users and -o belong together"),
        (("--history", "p1", "-o", "x.parquet"), "--users and -o belong together"),
        (("--history", "p1", "--per-sid", "-1"), "--per-sid must be at least 0, not -1"),
        (("--history", "p1", "-k", "0"), "--top must be at least 1, not 0"),
        (("--history", "x,y"), r"none of the 2 items of --history is known (x, y); the recommender knows 24"),
        (("--users", "lists.parquet", "-o", "lists.parquet"), "is read from; write to another file"),
        (
            ("--users", "lists.parquet", "-o", "x.npy"),
            "the ending '.npy' is not known; name it with .parquet, .csv",
        ),
        (("--history", "p1", "--within", "none.txt"), "cannot read none.txt"),
        (("--history", "p1", "--beams", "0"), "beams must be at least 1, not 0"),
    ],
)
def test_errors_are_one_clear_line(folder, words, message):
    done = run("recommend", "run", *words, "--device", "cpu", cwd=folder)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_wanted_list_of_nothing_is_refused():
    with pytest.raises(SpecError, match="k must be at least 1, not 0"):
        Wanted(0)
