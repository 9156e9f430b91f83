"""Which columns the commands read: detected, named by options, and printed."""

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from command import run, sidkit
from sidkit import load as sidkit_load
from sidkit.cli import app
from sidkit.progress import Silent
from sidkit.sids.origin import Origin
from sidkit.sids.table import SidTable

EVENTS = ("--sequence-column", "--item-column", "--user-column", "--time-column", "--file-order")
WANTED = {  # command -> the options by which the columns of its files are named
    "embed": ("--id-column",),
    "blend": ("--id-column", "--column", *EVENTS),
    "advise": ("--id-column", "--column"),
    "fit": ("--id-column", "--column"),
    "encode": ("--id-column", "--column"),
    "report": ("--id-column", "--column", *EVENTS),
    "lookup": ("--id-column",),
    "explore": ("--id-column", "--column"),
    "judge": ("--id-column", "--column", *EVENTS),
    "compare": ("--id-column", "--column"),
    "train": EVENTS,
    "evaluate": EVENTS,
    "case collisions": ("--id-column",),
    "case query": ("--id-column", "--column"),
}


def test_every_command_that_reads_a_file_has_options_for_its_columns():
    commands = get_command(app).commands
    for name, wanted in WANTED.items():
        command = commands
        for word in name.split():
            command = command[word] if isinstance(command, dict) else command.commands[word]
        assert set(wanted) <= {option for one in command.params for option in one.opts}, name


@pytest.fixture(scope="module")
def amazon(tmp_path_factory):
    """Items and shuffled events with the columns that Amazon's reviews have, a tokenizer and SIDs of it."""
    folder = tmp_path_factory.mktemp("amazon")
    rng = np.random.default_rng(0)
    ids = [f"B{i:05}" for i in range(200)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=200 * 8).astype(np.float32)), 8)
    titles = [f"thing {i}" for i in range(200)]
    pq.write_table(pa.table({"title": titles, "asin": ids, "vector": vectors}), folder / "items.parquet")
    visits = [[ids[(7 * user + step) % 200] for step in range(6)] for user in range(40)]
    rows = [
        (f"u{user}", item, 1_400_000_000 + step) for user, each in enumerate(visits) for step, item in enumerate(each)
    ]
    rng.shuffle(rows)
    users, items, times = zip(*rows, strict=True)
    times = np.array(times, np.int64)
    events = {"reviewerID": users, "asin": items, "overall": [5.0] * len(rows), "unixReviewTime": times}
    pq.write_table(pa.table(events), folder / "events.parquet")
    pq.write_table(pa.table(events).drop(["unixReviewTime"]), folder / "timeless.parquet")
    pq.write_table(pa.table({"items": visits}), folder / "lists.parquet")
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "8-8", cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=folder)
    return folder


CHOSEN = {"item": "asin", "user": "reviewerID", "time": "unixReviewTime"}
LINE = "events.parquet: items in 'asin', users in 'reviewerID', ordered by 'unixReviewTime'\n"


def test_shuffled_events_are_judged_as_the_lists_in_order_are(amazon):
    words = ("judge", "sids.parquet", "--json", "--sequences")
    ours, lists = (json.loads(sidkit(*words, f"{name}.parquet", cwd=amazon)) for name in ("events", "lists"))
    assert ours.pop("columns") == {"sequences": CHOSEN}
    assert lists.pop("columns") == {"sequences": {"sequence": "items"}}
    assert ours["counting"]["followed"]["recall@5"] == lists["counting"]["followed"]["recall@5"] > 0
    assert ours["behaviour"]["share"] == lists["behaviour"]["share"]
    assert run("judge", "sids.parquet", "--sequences", "events.parquet", cwd=amazon).stderr == LINE


def test_events_without_a_time_are_refused_by_every_command_unless_they_are_in_order(amazon):
    for words in (
        ("judge", "sids.parquet", "--sequences", "timeless.parquet"),
        ("report", "sids.parquet", "--sequences", "timeless.parquet"),
        ("blend", "items.parquet", "--sequences", "timeless.parquet", "-o", "b.parquet", "--dimensions", "4"),
        ("train", "sids.parquet", "timeless.parquet", "-o", "run", "--preset", "tiny", "--epochs", "1"),
    ):
        error = sidkit(*words, check=1, cwd=amazon)
        assert error.startswith("error: timeless.parquet has events and no time column")
        assert error.endswith("or take the order of the file with --file-order\n")
        if words[0] != "train":
            facts = json.loads(sidkit(*words, "--file-order", "--json", cwd=amazon))
            assert facts["columns"]["sequences"] == CHOSEN | {"time": None}
    done = run("judge", "sids.parquet", "--sequences", "timeless.parquet", "--file-order", cwd=amazon)
    assert done.stderr == "timeless.parquet: items in 'asin', users in 'reviewerID', in the order of the file\n"


def test_training_says_the_order_and_prints_a_command_that_runs(amazon):
    small = ("--preset", "tiny", "--epochs", "1", "--beams", "4")
    named = ("--item-column", "asin", "--user-column", "reviewerID")
    words = ("train", "sids.parquet", "timeless.parquet", "-o", "run", *small, *named, "--file-order")
    done = run(*words, cwd=amazon)
    assert "in the order of the file\n" in done.stderr
    following = done.stdout.split("next: sidkit ")[1].split()
    assert following == ["evaluate", "run", "timeless.parquet", "--file-order", *named]
    facts = json.loads(sidkit(*following, "--json", cwd=amazon))
    assert facts["columns"]["sequences"] == CHOSEN | {"time": None}
    assert LINE in run("evaluate", "run", "events.parquet", cwd=amazon).stderr


def test_what_was_chosen_is_in_one_line_and_in_json(amazon):
    both = {"embeddings": {"id": "asin", "vectors": "vector"}}
    fitted = {"items": both["embeddings"]}
    embeddings = "items.parquet: ids in 'asin', vectors in 'vector'\n"
    texts = "items.parquet: ids in 'asin'\n"
    sids, of_items = {"items": {"id": "asin"}}, ("--items", "items.parquet")
    for words, columns, line in (
        (("fit", "items.parquet", "-o", "new", "--sizes", "8"), fitted, embeddings),
        (("encode", "tok", "items.parquet", "-o", "new.parquet"), both, embeddings),
        (("advise", "items.parquet", "--sizes", "8-8"), fitted, embeddings),
        (("embed", "items.parquet", "--model", "tfidf", "--dimensions", "4", "-o", "e.parquet"), sids, texts),
        (("lookup", "sids.parquet", "B00007", *of_items), sids, texts),
        (("compare", "items.parquet", "-o", "runs", "--sizes", "8-8", "--seeds", "x1"), fitted, embeddings),
        (("explore", "sids.parquet", *of_items, "--check"), sids, texts),
        (("case", "collisions", "sids.parquet", "new.parquet", *of_items), sids, texts),
        (("report", "sids.parquet", *of_items), sids | both, texts + embeddings),
        (("judge", "sids.parquet", *of_items, "--category", "title"), sids, texts),
    ):
        assert json.loads(sidkit(*words, "--json", cwd=amazon))["columns"] == columns, words
        said = run(*words, cwd=amazon).stderr
        assert "".join(one for one in said.splitlines(True) if not one.startswith("replaced ")) == line, words
    assert run("encode", "tok", "items.parquet", "-o", "-", cwd=amazon).stderr == embeddings


def test_a_named_id_column_is_that_of_the_file_which_has_it(amazon):
    table = pq.read_table(amazon / "items.parquet")
    pq.write_table(table.rename_columns(["title", "code", "vector"]), amazon / "coded.parquet")
    words = ("judge", "sids.parquet", "--embeddings", "items.parquet", "--items", "coded.parquet")
    words += ("--category", "title", "--json")
    found = json.loads(sidkit(*words, cwd=amazon))["columns"]
    named = json.loads(sidkit(*words, "--id-column", "code", cwd=amazon))["columns"]
    assert found == named == {"embeddings": {"id": "asin", "vectors": "vector"}, "items": {"id": "code"}}
    assert "did you mean --id-column asin" in sidkit(*words, "--id-column", "cod", check=1, cwd=amazon)


def test_lines_of_json_have_ids_and_vectors_of_any_known_name(amazon):
    row = [0.5] * 8

    def encoded(lines, *options, check=0):
        stdin = "".join(json.dumps(line) + "\n" for line in lines)
        return sidkit("encode", "tok", "-", "-o", "-", *options, stdin=stdin, check=check, cwd=amazon)

    assert encoded([{"asin": "q", "emb": row}]).startswith("q\t")
    assert encoded([{"what": "q", "id": 7, "emb": row}], "--id-column", "what").startswith("q\t")
    assert "no key 'wha' in the first line" in encoded([{"what": "q", "emb": row}], "--id-column", "wha", check=1)
    assert "line 2: an asin is a string" in encoded([{"asin": "q", "emb": row}, {"emb": row}], check=1)


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """Items whose id is in `code`, beside an `item_id` that is only a row number; a tokenizer fitted by code."""
    folder = tmp_path_factory.mktemp("coded")
    codes = [f"x/{i}" for i in range(100)]
    X = np.random.default_rng(1).normal(size=(100, 8)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 8)
    titles = [f"mug {i}" for i in range(100)]
    columns = {"item_id": range(100), "code": codes, "title": titles, "brand": ["a", "b"] * 50}
    pq.write_table(pa.table(columns | {"first": vectors, "second": vectors}), folder / "items.parquet")
    named = ("--id-column", "code", "--column", "second")
    output = sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "8-4", *named, cwd=folder)
    sidkit(*shlex.split(output.split("next: sidkit ")[1]), cwd=folder)
    return folder


def test_the_tokenizer_and_its_sids_remember_the_columns(coded):
    facts = json.loads((coded / "tok" / "config.json").read_text())["facts"]
    assert facts["columns"] == {"items": {"id": "code", "vectors": "second"}}
    assert "| columns of items | id `code`, vectors `second` |" in (coded / "tok" / "README.md").read_text()
    assert sidkit_load(coded / "tok").columns == facts["columns"]
    by_option = SidTable.from_parquet(coded / "sids.parquet")
    facts = json.loads(sidkit("encode", "tok", "items.parquet", "-o", "again.parquet", "--json", cwd=coded))
    assert facts["columns"] == {"embeddings": {"id": "code", "vectors": "second"}}
    again = SidTable.from_parquet(coded / "again.parquet")
    assert again.origin == by_option.origin
    assert (again.origin.id_column, again.origin.tokenizer, again.origin.embeddings) == ("code", "tok", "items.parquet")
    assert again.ids.to_pylist() == by_option.ids.to_pylist() == [f"x/{i}" for i in range(100)]
    chosen = json.loads(sidkit("lookup", "sids.parquet", "x/7", "--items", "items.parquet", "--json", cwd=coded))
    assert chosen["columns"] == {"items": {"id": "code"}}
    assert {one["item_id"]: one["text"] for one in chosen["items"]}["x/7"] == "mug 7"


def test_a_file_without_the_columns_of_the_fit_is_read_by_its_own(coded):
    table = pq.read_table(coded / "items.parquet")
    pq.write_table(table.select(["title", "first"]).append_column("sku", table["code"]), coded / "other.parquet")
    facts = json.loads(sidkit("encode", "tok", "other.parquet", "-o", "other-sids.parquet", "--json", cwd=coded))
    assert facts["columns"] == {"embeddings": {"id": "sku", "vectors": "first"}}


def test_the_name_of_the_ids_survives_embed_and_blend(coded):
    named = ("--id-column", "code", "--model", "tfidf", "--dimensions", "4")
    sidkit("embed", "items.parquet", "-o", "e.parquet", *named, cwd=coded)
    visits = [[f"x/{(user + step) % 100}" for step in range(5)] for user in range(60)]
    steps = [(user, time, item) for user, visit in enumerate(visits) for time, item in enumerate(visit)]
    events = [{"item_id": 9, "code": item, "user": user, "time": time} for user, time, item in steps]
    pq.write_table(pa.Table.from_pylist(events), coded / "events.parquet")
    words = ("blend", "e.parquet", "--sequences", "events.parquet", "-o", "b.parquet", "--dimensions", "4", "--json")
    assert json.loads(sidkit(*words, cwd=coded))["columns"]["sequences"]["item"] == "code"
    sidkit("fit", "b.parquet", "-o", "tok-b", "--sizes", "8-4", cwd=coded)
    sidkit("encode", "tok-b", "b.parquet", "-o", "b-sids.parquet", cwd=coded)
    assert SidTable.from_parquet(coded / "b-sids.parquet").origin.id_column == "code"
    words = ("judge", "b-sids.parquet", "--sequences", "events.parquet", "--items", "items.parquet")
    facts = json.loads(sidkit(*words, "--category", "brand", "--json", cwd=coded))
    assert facts["columns"]["items"] == {"id": "code"}
    assert facts["columns"]["sequences"] == {"item": "code", "user": "user", "time": "time"}
    assert facts["categories"]["items_unlabelled"] == facts["behaviour"]["items_unknown"] == 0


def test_further_columns_are_kept_for_the_rows_that_are_encoded(coded):
    table = pq.read_table(coded / "items.parquet")
    X = np.stack(table["second"].to_numpy())
    X[3] = np.nan
    bad = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 8)
    pq.write_table(table.drop(["second"]).append_column("second", bad), coded / "bad.parquet")
    words = ("encode", "tok", "bad.parquet", "-o", "kept.parquet", "--bad-rows", "drop", "--keep", "title, brand")
    sidkit(*words, cwd=coded)
    kept = pq.read_table(coded / "kept.parquet")
    assert kept.column_names == ["item_id", "codes", "sid", "title", "brand"]
    left = [i for i in range(100) if i != 3]
    assert kept["item_id"].to_pylist() == [f"x/{i}" for i in left]
    assert kept["title"].to_pylist() == [f"mug {i}" for i in left]
    assert len(SidTable.from_parquet(coded / "kept.parquet")) == 99
    np.save(coded / "x.npy", X[:3])
    for words, message in (
        (("items.parquet", "--keep", "titel"), "no column 'titel' in items.parquet"),
        (("items.parquet", "--keep", "item_id"), "the output has a column of that name already"),
        (("x.npy", "--keep", "title"), "--keep copies columns of a Parquet file"),
    ):
        assert message in sidkit("encode", "tok", *words, "-o", "x.parquet", check=1, cwd=coded)
    words = ("encode", "tok", "items.parquet", "-o", "-", "--keep", "title")
    assert "--keep copies columns to a file" in sidkit(*words, check=1, cwd=coded)


def test_a_worker_keeps_further_columns_too(coded):
    from sidkit.fleet.encode_task import encode_file, encode_tasks

    empty = coded / "parts" / "empty.parquet"
    empty.parent.mkdir()
    table = pq.read_table(coded / "items.parquet")
    pq.write_table(table.slice(0, 0), empty)
    pq.write_table(table, empty.with_name("full.parquet"))
    fitted = sidkit_load(coded / "tok")
    origin, paths = Origin("code", "tok"), sorted(empty.parent.iterdir())
    tasks = encode_tasks(fitted, paths, coded / "out", "letters", ("code", "second"), False, ("title",), origin)
    assert [encode_file(task, fitted, "cpu", Silent()) for task in tasks] == [(0, False), (100, False)]
    assert pq.read_table(coded / "out" / "full.parquet")["title"].to_pylist()[7] == "mug 7"
    assert SidTable.from_parquet(coded / "out").origin == origin


def test_every_command_that_reads_such_a_file_has_the_options_of_its_columns():
    from typer.main import get_command

    from sidkit.cli import app

    def commands(group, path=""):
        for name, command in group.commands.items():
            yield from commands(command, f"{path}{name} ") if hasattr(command, "commands") else [(path + name, command)]

    events = {"--sequence-column", "--item-column", "--user-column", "--time-column", "--file-order"}
    checked = set()
    for name, command in commands(get_command(app)):
        options = {word for one in command.params for word in one.opts} | {one.name for one in command.params}
        if options & {"--sequences", "sequences"}:
            assert events <= options, name
            checked.add(name)
        if options & {"--embeddings", "embeddings"}:
            assert {"--id-column", "--column"} <= options, name
            checked.add(name)
        if "--output" in options and name != "publish export":  # which keeps what it wrote, and adds to it
            assert "--force" in options, name
    assert {"fit", "encode", "blend", "judge", "report", "train", "evaluate", "advise", "compare"} <= checked
