"""What -o writes: the format of its ending, and nothing that is not sidkit's to replace."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """400 items with ids that look like numbers, their tokenizer, and visits, in a folder."""
    folder = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(3)
    ids = [f"{number:05d}" for number in range(400)]
    vectors = rng.normal(size=(400, 8)).astype(np.float32)
    titles = [f'a "quoted", title\nof {number}' for number in range(400)]
    pq.write_table(pa.table({"sku": ids, "title": titles, "embedding": list(vectors)}), folder / "items.parquet")
    lists = [[ids[i] for i in rng.integers(0, 400, 6)] for _ in range(60)]
    pq.write_table(pa.table({"user": range(60), "items": lists}), folder / "sequences.parquet")
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "8-4", cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", "--keep", "title", cwd=folder)
    return folder


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_sids_in_text_read_back_as_they_were(shop, tmp_path, ending):
    out = tmp_path / f"sids.{ending}"
    sidkit("encode", "tok", "items.parquet", "-o", out, "--keep", "title", cwd=shop)
    if ending == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="," if ending == "csv" else "\t"))
    expected = pq.read_table(shop / "sids.parquet").to_pylist()
    for row, like in zip(rows, expected, strict=True):
        codes = row["codes"] if ending == "jsonl" else json.loads(row["codes"])
        assert (row["item_id"], codes, row["sid"], row["title"]) == tuple(
            like[name] for name in ("item_id", "codes", "sid", "title")
        )
    found = json.loads(sidkit("lookup", out, "00007", "--json"))
    assert found == json.loads(sidkit("lookup", shop / "sids.parquet", "00007", "--json"))
    of_text, of_parquet = (json.loads(sidkit("report", path, "--json")) for path in (out, shop / "sids.parquet"))
    assert of_text["sizes"] == of_parquet["sizes"] == [8, 4]
    assert of_text["collision_per_item"] == of_parquet["collision_per_item"]


def test_sids_in_text_know_their_tokenizer_until_they_are_changed(shop, tmp_path):
    out = tmp_path / "sids.csv"
    sidkit("encode", "tok", "items.parquet", "-o", out, cwd=shop)
    sidkit("fit", shop / "items.parquet", "-o", tmp_path / "other", "--sizes", "8-4", "--seed", "5")
    assert "was made by the tokenizer" in sidkit("report", out, tmp_path / "other", check=1)
    out.write_text(out.read_text() + '99999,"[0, 0]",<a_0><b_0>\n')
    assert json.loads(sidkit("lookup", out, "99999", "--json"))["prefix"] == [0, 0]
    sidkit("report", out, tmp_path / "other")  # the notes are of another file; nothing is claimed


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_blended_embeddings_are_the_same_in_every_format(shop, tmp_path, ending):
    out, base = tmp_path / f"blended.{ending}", tmp_path / "like.parquet"
    options = ("--sequences", "sequences.parquet", "--dimensions", "4")
    for path in (out, base):
        sidkit("blend", "items.parquet", "-o", path, *options, cwd=shop)
    figures = [
        sidkit("fit", path, "-o", tmp_path / f"t{i}", "--sizes", "8-4", "--json") for i, path in enumerate((out, base))
    ]
    first, second = map(json.loads, figures)
    assert first["quality"] == second["quality"]
    assert first["data_fingerprint"] == second["data_fingerprint"]


@pytest.mark.parametrize("words", [
    ("encode", "tok", "items.parquet", "-o", "x.xlsx"),
    ("blend", "items.parquet", "--sequences", "sequences.parquet", "-o", "x.npy"),
    ("embed", "items.parquet", "--model", "tfidf", "-o", "x"),
])  # fmt: skip
def test_an_unknown_ending_is_refused_with_the_list(shop, words):
    assert "name it with .parquet, .csv, .tsv or .jsonl" in sidkit(*words, check=1, cwd=shop)


def test_an_unknown_ending_of_a_page_is_refused(shop):
    assert "the ending '.docx' is not known; name it with .html" in sidkit(
        "report", "sids.parquet", "-o", "x.docx", check=1, cwd=shop
    )
    assert "any browser prints such a page as a PDF, and --figures FOLDER --formats pdf" in sidkit(
        "report", "sids.parquet", "-o", "r.pdf", check=1, cwd=shop
    )
    assert ".html, .svg or .json" in sidkit("advise", "items.parquet", "-o", "x.png", check=1, cwd=shop)


@pytest.mark.parametrize("name", ["mine.parquet", "mine.csv", "mine.html"])
def test_a_file_of_somebody_else_is_replaced_only_by_force(shop, tmp_path, name):
    out = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.table({"a": [1]}), out)
    else:
        out.write_text("a,b\n1,2\n")
    before = out.read_bytes()
    words = ("report", "sids.parquet") if name.endswith("html") else ("encode", "tok", "items.parquet")
    assert "was not written by sidkit" in sidkit(*words, "-o", out, check=1, cwd=shop)
    assert out.read_bytes() == before
    done = run(*words, "-o", out, "--force", cwd=shop)
    assert (done.returncode, "which sidkit did not write (--force)" in done.stderr) == (0, True)
    again = run(*words, "-o", out, cwd=shop)
    assert (again.returncode, f"replaced {out}, which sidkit wrote" in again.stderr) == (0, True)


def test_a_folder_of_somebody_else_is_written_to_only_by_force(shop, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("chapter one")
    words = ("fit", shop / "items.parquet", "-o", folder, "--sizes", "8-4")
    assert "--force to write into this one" in sidkit(*words, check=1)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    done = run(*words, "--force")
    assert (done.returncode, "which has other files" in done.stderr) == (0, True)
    assert (folder / "thesis.txt").read_text() == "chapter one"
    assert "which sidkit wrote" in run(*words).stderr
    assert "holds other files and no demo" in sidkit("demo", "-o", shop, check=1)


def test_a_catalogue_does_not_replace_a_folder_of_somebody_else(shop, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "--force to write into this one" in sidkit("trie", "sids.parquet", "-o", tmp_path, check=1, cwd=shop)
    sidkit("trie", "sids.parquet", "-o", tmp_path / "new", cwd=shop)
    assert "which sidkit wrote" in run("trie", "sids.parquet", "-o", tmp_path / "new", cwd=shop).stderr


def test_a_pipe_that_closes_early_ends_quietly(shop):
    command = [sys.executable, "-m", "sidkit", "encode", "tok", "items.parquet", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=shop, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as `head -0` does
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "error" not in said
