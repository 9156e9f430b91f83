"""Semantic IDs wherever `sidkit encode` can write them, and printed commands that run as printed."""

import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from sidkit.errors import InputError
from sidkit.files.address import locate, replacing
from sidkit.sids.table import SidTable

SIZES = (16, 8, 4)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """300 items with titles and vectors, what 60 visitors took, and a tokenizer."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    ids = [f"P{i:03}" for i in range(300)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=2400).astype(np.float32)), 8)
    titles = [f"thing {i % 7} number {i}" for i in range(300)]
    table = pa.table({"item_id": ids, "title": titles, "category": [str(i % 3) for i in range(300)], "vector": vectors})
    pq.write_table(table, folder / "items.parquet")
    visits = [[ids[i] for i in rng.integers(0, 300, 6)] for _ in range(60)]
    pq.write_table(pa.table({"user": list(range(60)), "items": visits}), folder / "sequences.parquet")
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "16-8-4", cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=folder)
    return folder


def in_parts(shop, target, names, template="letters"):
    """The SIDs in files with these names, as `encode --ray` writes them."""
    table = SidTable.from_parquet(shop / "sids.parquet")
    cuts = np.linspace(0, 300, len(names) + 1).astype(int)
    for name, start, stop in zip(names, cuts, cuts[1:], strict=False):
        part = SidTable(table.ids[start:stop], table.codes[start:stop], SIZES, template)
        part.to_parquet(target / name, notes={"sidkit.made_from": name})


@pytest.fixture(params=["file", "folder", "nested", "glob", "s3 file", "s3 folder", "s3 glob"])
def sids(request, shop, tmp_path):
    """The same SIDs at a path or address of each kind."""
    if request.param.startswith("s3"):
        bucket = request.getfixturevalue("bucket")
        in_parts(shop, locate(bucket.format("sids")), ["part-0.parquet", "part-1.parquet"])
        if request.param == "s3 file":
            sidkit("encode", "tok", "items.parquet", "-o", bucket.format("one/sids.parquet"), cwd=shop)
        names = {"s3 file": "one/sids.parquet", "s3 folder": "sids", "s3 glob": "sids/part-[01].parquet"}
        return bucket.format(names[request.param])
    if request.param == "file":
        return str(shop / "sids.parquet")
    part = {"nested": "{}/part.parquet"}.get(request.param, "part-{}.parquet")
    in_parts(shop, tmp_path / "sids", [part.format(i) for i in range(3)])
    (tmp_path / "sids" / "part-0.bad-rows.tsv").write_text("row\tid\treason\n")
    (tmp_path / "sids" / "_temporary").mkdir()
    (tmp_path / "sids" / "_temporary" / "part.parquet").write_bytes(b"half a file")
    return str(tmp_path / "sids") + ("/part-*.parquet" if request.param == "glob" else "/")


def test_every_command_reads_sids_wherever_encode_writes_them(shop, sids, tmp_path):
    named, visits = ("--items", shop / "items.parquet"), ("--sequences", shop / "sequences.parquet")
    items, local = shop / "items.parquet", str(shop / "sids.parquet")
    for words in (
        ("report", "{}", "--json", *visits),
        ("report", "{}", "--json", *named, "--category", "category"),
        ("judge", "{}", "--json", *named, *visits, "--embeddings", items),
        ("lookup", "{}", "P007", "--json", *named),
        ("case", "collisions", "{}", local, "--json"),
        ("case", "collisions", local, "{}", "--json"),
        ("explore", "{}", "--check", "--json", *named),
        ("explore", local, "--compare", "{}", "--check", "--json"),
    ):
        here, there = (sidkit(*(str(word).format(path) for word in words), cwd=tmp_path) for path in (local, sids))
        here, there = json.loads(here), json.loads(there)
        if "sides" in here:  # which name their files
            here, there = ([{**side, "name": ""} for side in one["sides"]] for one in (here, there))
        assert here == there, words
    sidkit("report", sids, "-o", tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()
    for name, path in (("here", local), ("there", sids)):
        sidkit("export", path, "--to", "lc-rec", "-o", tmp_path / name, *named)
    for file in tmp_path.glob("here/items*"):
        assert file.read_bytes() == (tmp_path / "there" / file.name).read_bytes()


def test_training_and_evaluation_read_addresses(shop, bucket, tmp_path):
    pytest.importorskip("torch")
    in_parts(shop, locate(bucket.format("sids")), ["part-0.parquet", "part-1.parquet"])
    with replacing(locate(bucket.format("sequences.parquet"))) as temporary:
        temporary.write_bytes((shop / "sequences.parquet").read_bytes())
    sequences = bucket.format("sequences.parquet")
    small = ("--preset", "tiny", "--epochs", "1", "--beams", "4")
    trained = json.loads(sidkit("train", bucket.format("sids"), sequences, "-o", tmp_path / "run", *small, "--json"))
    assert trained["users"] == 60
    assert json.loads(sidkit("evaluate", tmp_path / "run", sequences, "--json"))["users"] == 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (16, 8, 5)}, r"a\.parquet and .*b\.parquet differ in their sizes: \[16, 8, 4\] and \[16, 8, 5\]"),
        ({"template": "plain"}, r"a\.parquet and .*b\.parquet differ in their template"),
        ({"ids": [1, 2]}, "differ in their columns"),
        ({"ids": ["P000", "P001"]}, "must be different in every row; 'P000'"),
    ],
)
def test_files_that_do_not_belong_together_are_an_error(shop, tmp_path, change, message):
    codes = SidTable.from_parquet(shop / "sids.parquet").codes[:2]
    usual = {"ids": ["Q0", "Q1"], "codes": codes, "sizes": SIZES, "template": "letters"}
    SidTable(["P000", "P001"], codes, SIZES).to_parquet(tmp_path / "a.parquet")
    SidTable(**usual).to_parquet(tmp_path / "b.parquet")
    assert len(SidTable.from_parquet(tmp_path)) == 4
    SidTable(**usual | change).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=message):
        SidTable.from_parquet(tmp_path)


def test_a_file_without_rows_does_not_count(shop, tmp_path):
    in_parts(shop, tmp_path, ["a.parquet"])
    SidTable([], np.zeros((0, 3), int), SIZES).to_parquet(tmp_path / "0.parquet")
    assert len(SidTable.from_parquet(tmp_path)) == 300
    (tmp_path / "a.parquet").unlink()
    assert SidTable.from_parquet(tmp_path).sizes == SIZES


# Printed commands


def printed(text):
    """The commands that a command prints to run next."""
    return [line.strip() for line in re.findall(r"(?:next|then): (sidkit .*)", text)]


def follow(text, folder):
    """Run them as a shell would; what the last of them prints."""
    commands = printed(text)
    assert commands, text
    for command in commands:
        text = sidkit(*shlex.split(command)[1:], cwd=folder)
    return text


@pytest.fixture
def work(shop, tmp_path):
    """An empty folder with a blank in its name beside a copy of the shop's files."""
    folder = tmp_path / "my work"
    folder.mkdir()
    for name in ("items", "sequences"):
        (folder / f"{name}.parquet").write_bytes((shop / f"{name}.parquet").read_bytes())
    return folder


def test_what_fit_embed_blend_and_encode_print_next_runs_as_printed(work):
    small = ("--sizes", "16-8-4")
    output = sidkit("fit", "items.parquet", "-o", "a tokenizer", "--column", "vector", *small, cwd=work)
    assert "SIDs with one item" in follow(follow(output, work), work)  # encode, then report
    output = sidkit("embed", "items.parquet", "-o", "e.parquet", "--model", "tfidf", "--dimensions", "6", cwd=work)
    assert "wrote tok" in follow(output, work)
    output = sidkit("blend", "items.parquet", "--sequences", "sequences.parquet", "-o", "b.parquet", cwd=work)
    assert "wrote 300 semantic IDs" in follow(output, work)  # fit, then encode --spread
    output = sidkit("blend", "items.parquet", "--like", "b.parquet", "-o", "more.parquet", cwd=work)
    assert "wrote 300 semantic IDs to more-sids.parquet" in follow(output, work)


def test_what_is_printed_next_leaves_out_bad_rows_where_the_command_did(work, shop):
    table = pq.read_table(shop / "items.parquet")
    rows = np.stack(table["vector"].to_numpy())
    rows[5] = np.nan
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    pq.write_table(table.drop(["vector"]).append_column("vector", vectors), work / "bad.parquet")
    output = sidkit("fit", "bad.parquet", "-o", "tok", "--sizes", "16-8", "--bad-rows", "drop", cwd=work)
    assert "wrote 299 semantic IDs" in follow(output, work)
    titles = [f"thing {i % 7}" for i in range(300)]
    titles[3] = None
    pq.write_table(pa.table({"item_id": list(range(300)), "title": titles}), work / "texts.parquet")
    output = sidkit("embed", "texts.parquet", "-o", "e.parquet", "--model", "tfidf", cwd=work)
    assert "--bad-rows drop" in printed(output)[0]


def test_what_is_printed_next_runs_for_an_address(work, bucket):
    with replacing(locate(bucket.format("items/a.parquet"))) as temporary:
        temporary.write_bytes((work / "items.parquet").read_bytes())
    items = bucket.format("items")
    output = sidkit("fit", items, "-o", "tok", "--sizes", "16-8", cwd=work)
    assert "wrote 300 semantic IDs" in follow(output, work)
    output = sidkit("encode", "tok", items, "-o", bucket.format("sids.parquet"), cwd=work)
    assert "wrote 300 semantic IDs to s3://shop/sids.parquet; next:" in output
    assert "SIDs with one item" in follow(output, work)


@pytest.mark.parametrize("far", [False, True])
def test_what_encode_on_ray_prints_next_runs_as_printed(work, shop, far, request, capsys):
    from sidkit.cli.ray import print_encoded
    from sidkit.fleet.rows import Encoded

    output = locate(request.getfixturevalue("bucket").format("sids")) if far else work / "sids"
    in_parts(shop, output, ["part-0.parquet", "more/part-1.parquet"])
    ran = {"device": "ray", "workers": 2, "cpus": 1, "retries": 0}
    print_encoded(Encoded((), 300, 0), output, ran, as_json=False)
    assert "SIDs with one item" in follow(capsys.readouterr().out, work)


def test_a_password_is_not_printed():
    from sidkit.cli.printing import command_line

    line = command_line("report", "s3://key:secret@shop/my sids?region=eu-west-1")
    assert line == "sidkit report 's3://shop/my sids?region=eu-west-1'"
    assert command_line("fit", "a b", options={"--column": None, "--seed": "1"}, settings=["beta=2"]) == (
        "sidkit fit 'a b' --seed 1 --set beta=2"
    )


def test_every_command_that_the_demo_prints_runs(demo):
    output, folder = demo
    commands = re.findall(r"^  (sidkit .*)$", output.split("Next\n")[1], re.M)
    assert len(commands) == 11
    shorter = {
        "explore": "--check",
        "train": "--epochs 1 --beams 4",
        "compare": "--seeds x1 --map pca --sizes 32-16",
        "demo": "--items 600",
        "report": "--map pca",
    }
    for command in commands:
        _, name, *words = shlex.split(command)
        done = run(name, *words, *shorter.get(name, "").split(), cwd=folder)
        assert done.returncode == 0, (command, done.stderr)
