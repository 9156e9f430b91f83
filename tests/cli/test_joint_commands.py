"""Commands on items and queries that are fitted together: every figure counts items alone."""

import json
import shlex

import numpy as np
import pytest

import sidkit
from command import sidkit as command
from planted import planted, written
from sidkit.data.embeddings import open_embeddings
from sidkit.embed import load as load_encoder
from sidkit.search.align.alignment import Alignment, AlignPlan, Projection


@pytest.fixture
def files(rng, tmp_path):
    rows = planted(rng, clusters=8, each=40)[0].astype(np.float32)
    written(tmp_path / "items.parquet", rows[:200])
    records = [i % 4 for i in range(120)]
    written(tmp_path / "queries.parquet", rows[200:], "query_id", train_records=records)
    written(tmp_path / "there.parquet", np.concatenate([rows[:200], np.repeat(rows[200:], records, axis=0)]))
    return tmp_path


def test_the_command_fits_items_and_queries_with_repeats(files):
    options = ("--sizes", "8-4", "--json", "--device", "cpu")
    result = json.loads(command("fit", "items.parquet", "--queries", "queries.parquet", "--repeats", "train_records",
                              "-o", "tok", *options, cwd=files))  # fmt: skip
    assert result["roles"] == {"items": 200, "queries": 180}
    assert result["quality"]["items"] == 200
    command("fit", "there.parquet", "-o", "expected", *options, cwd=files)
    one, other = (sidkit.load(files / name) for name in ("tok", "expected"))
    assert all(np.array_equal(a, b) for a, b in zip(one.codebooks, other.codebooks, strict=True))


def test_several_files_are_items_and_queries_unless_roles_are_given(files):
    result = command("fit", "items.parquet", "queries.parquet", "-o", "tok", "--sizes", "8-4", cwd=files)
    assert "fitted on 200 items and 120 queries; these figures count items alone" in result
    assert "next: sidkit encode tok items.parquet" in result
    options = ("--roles", "queries,items", "--sizes", "8-4", "--json")
    result = json.loads(command("fit", "queries.parquet", "items.parquet", "-o", "tok", *options, cwd=files))
    assert result["roles"] == {"queries": 120, "items": 200}
    assert result["quality"]["items"] == 200


FIGURES = ("icr_per_sid", "icr_per_item", "utilisation", "codes_used", "prefix_gini", "largest_bucket")


@pytest.mark.parametrize("files_and_roles", [
    ("items.parquet", "queries.parquet"),
    ("items.parquet", "--queries", "queries.parquet", "--repeats", "train_records"),
    ("queries.parquet", "items.parquet", "--roles", "queries,items"),
])  # fmt: skip
def test_fit_compare_report_and_advise_count_the_same_items(files, files_and_roles):
    """With rows enough for a full fit, the four commands measure one and the same tokenizer."""
    options = (*files_and_roles, "--json", "--device", "cpu")
    fitted = json.loads(command("fit", *options, "-o", "tok", "--sizes", "8-4", cwd=files))["quality"]
    assert fitted["items"] == 200
    compared = json.loads(command("compare", *options, "-o", "runs", "-r", "prq-kmeans,tok", "--sizes", "8-4",
                                  "--seeds", "0", cwd=files))  # fmt: skip
    for label in ("prq-kmeans", "tok"):
        assert compared["figures"][label] == [fitted]
    assert all(pair["pairs_merged"] == fitted_pairs(files) for pair in compared["pairs"])
    command("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=files)
    words = ("report", "sids.parquet", "tok", "--embeddings", "items.parquet", "--json")
    reported = json.loads(command(*words, cwd=files))
    assert {name: reported[name] for name in FIGURES} == {name: fitted[name] for name in FIGURES}
    advised = json.loads(command("advise", *options, "--sizes", "8-4", cwd=files))
    (candidate,) = advised["candidates"]
    assert candidate["measured"]
    assert (advised["items"], advised["counted"]) == (200, 200)
    assert list(advised["others"].values()) == [180 if "--repeats" in options else 120]
    for name in ("icr_per_sid", "largest_bucket"):
        assert candidate[name] == fitted[name]
    assert candidate["sids_per_item"] == fitted["distinct_sids"] / 200


def fitted_pairs(files):
    """Pairs of items on one SID by the tokenizer tok."""
    codes = sidkit.load(files / "tok").encode(files / "items.parquet")
    counts = np.unique(codes, axis=0, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def test_runs_on_the_same_rows_in_other_roles_are_fitted_again(files):
    one = ("compare", "-r", "prq-kmeans", "--sizes", "8-4", "--seeds", "0", "-o", "runs", "--device", "cpu")
    command(*one, "items.parquet", "queries.parquet", cwd=files)
    output = command(*one, "items.parquet", "queries.parquet", cwd=files)
    assert "1 were on disk already" in output
    assert "fitted on 200 items and 120 queries; these figures count items alone" in output
    output = command(*one, "items.parquet", "queries.parquet", "--roles", "queries,items", cwd=files)
    assert "0 were on disk already" in output
    assert "fitted on 200 queries and 120 items" in output


def test_pages_of_joint_fits_name_the_queries(files):
    both, quick = ("items.parquet", "queries.parquet"), ("--sizes", "8-4", "--device", "cpu")
    command("compare", *both, "-o", "c.html", "-r", "prq-kmeans", "--seeds", "0", *quick, cwd=files)
    assert "200 items · fitted with 120 queries · 1 tokenizers" in (files / "c.html").read_text()
    output = command("advise", *both, "-o", "a.html", *quick, cwd=files)
    assert "200 items, fitted with 120 queries." in output
    assert "200 items, fitted with 120 queries; SIDs counted for all of them" in (files / "a.html").read_text()


def test_the_advice_on_a_joint_fit_fits_both_files(files):
    words = ("items.parquet", "--queries", "queries.parquet", "--repeats", "train_records")
    output = command("advise", *words, "--largest-bucket", "200", "--sizes", "8-4", "--device", "cpu", cwd=files)
    line = output.strip().splitlines()[-1].strip()
    assert line.startswith("sidkit fit items.parquet -o tok/ --sizes 8-4 --queries queries.parquet --repeats train_rec")
    command(*shlex.split(line)[1:], cwd=files)
    assert sidkit.load(files / "tok").facts["roles"] == {"items": 200, "queries": 180}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("items.parquet", "--repeats", "train_records"), "--repeats counts rows of queries"),
        (("items.parquet", "queries.parquet", "--queries", "queries.parquet"), "--queries is the short form"),
        (
            ("items.parquet", "queries.parquet", "there.parquet"),
            "there are 3 files of embeddings; name a role for each",
        ),
        (("items.parquet", "queries.parquet", "--roles", "items"), "there are 2 files of embeddings; --roles has 1"),
        (("items.parquet", "queries.parquet", "--roles", "a,b"), "one of the roles must be items"),
        (("items.parquet", "queries.parquet", "--roles", "items,items"), "a different role"),
        (("items.parquet", "queries.parquet", "--ray"), "--ray fits one file"),
    ],
)
def test_roles_that_make_no_sense_are_refused(files, arguments, message):
    assert message in command("fit", *arguments, "-o", "tok", check=1, cwd=files)
    if "--ray" not in arguments:
        assert message in command("compare", *arguments, "-o", "runs", check=1, cwd=files)
        assert message in command("advise", *arguments, check=1, cwd=files)


def test_a_case_follows_a_query_into_aligned_vectors(tmp_path, rng):
    titles = [f"{one} {other}" for one in ("mug", "lamp", "tent", "rope") for other in "abcdefghij"]
    written(tmp_path / "items.parquet", np.zeros((40, 2), np.float32), title=titles)
    command(
        "embed",
        "items.parquet",
        "--text",
        "title",
        "--model",
        "tfidf",
        "--dimensions",
        "6",
        "-o",
        "e.parquet",
        cwd=tmp_path,
    )
    x = np.concatenate(list(open_embeddings(str(tmp_path / "e.parquet")).chunks(64)))
    projection = Projection({"linear": rng.normal(size=(6, 4)).astype(np.float32)})
    alignment = Alignment(projection, projection, AlignPlan(dimensions=4))
    alignment.save(tmp_path / "aligned")
    written(tmp_path / "y.parquet", alignment.items(x))
    command("fit", "y.parquet", "-o", "tok", "--sizes", "4-2", cwd=tmp_path)
    words = ("case", "query", "mug", "y.parquet", "tok", "--encoder", "e.encoder")
    case = json.loads(command(*words, "--alignment", "aligned", "--json", cwd=tmp_path))["tok"]
    vector = alignment.queries(load_encoder(tmp_path / "e.encoder").embed(["mug"], query=True))
    tokens = sidkit.load(tmp_path / "tok").encode(vector)[0]
    assert case["prefix"] == f"<a_{tokens[0]}><b_{tokens[1]}>"
    assert "the encoder makes 6 dimensions, but y.parquet has 4" in command(*words, check=1, cwd=tmp_path)
    error = command(*words, "--alignment", "none", check=1, cwd=tmp_path)
    assert "no such alignment folder: none" in error
