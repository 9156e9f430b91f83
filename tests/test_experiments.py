"""The scripts of experiments: they run on any of the datasets, and their results say which code made them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
EXPERIMENTS = ROOT / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="a source package has no experiments")
MADE_AT = re.compile(r"[0-9a-f]{12}(-dirty)?")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two of the datasets, small."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("data")
    for name in ("toys", "lastfm"):
        (folder / name).mkdir()
        np.save(folder / name / "embedding.npy", rng.integers(-90, 90, (300, 16)).astype(np.int8))
        pq.write_table(pa.table({"text": [f"a; b{i % 7}" for i in range(300)]}), folder / name / "items.parquet")
        taken = [rng.choice(300, 6, replace=False).tolist() for _ in range(40)]
        pq.write_table(pa.table({"items": taken}), folder / name / "sequences.parquet")
    return folder


def run(script, *arguments, check=True):
    words = [sys.executable, EXPERIMENTS / script, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=check)


def test_a_script_runs_on_some_datasets_and_keeps_the_results_of_the_others(data, tmp_path):
    out = tmp_path / "counting.json"
    out.write_text(
        json.dumps({"datasets": {"sports": {"users": 1}, "toys": {"users": 2}}, "recorded": {"sports": "x"}})
    )
    run("counting.py", data, "-o", out, "--datasets", "toys,lastfm")
    results = json.loads(out.read_text())
    assert results["datasets"]["sports"] == {"users": 1}
    assert results["recorded"] == {"sports": "x"}
    assert {name: results["datasets"][name]["users"] for name in ("toys", "lastfm")} == {"toys": 40, "lastfm": 40}
    assert results["commits"].keys() == {"toys", "lastfm"}
    for value in (*results["commits"].values(), results["commit"]):
        assert value is None or MADE_AT.fullmatch(value)
    refused = run("counting.py", data, "-o", out, "--datasets", "toyz", check=False).stderr
    assert "no dataset 'toyz' (known: sports, toys, clothing, lastfm)" in refused


def test_lines_have_the_commit_of_their_code(data, tmp_path):
    out = tmp_path / "lines.jsonl"
    options = ("--seeds", 1, "--recipes", "rq-kmeans", "--tables", "three")
    run("codebook_quality.py", data, "-o", out, "--datasets", "lastfm", *options)
    run("codebook_quality.py", data, "-o", out, "--datasets", "toys,lastfm", *options)  # the first is not run again
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["dataset"] for line in lines] == ["lastfm", "toys"]
    assert {"command", "machine", "commit", "sidkit", "numpy", "python"} <= lines[0].keys()


@pytest.mark.parametrize("name", sorted(path.name for path in (EXPERIMENTS / "results").glob("*.json*")))
def test_every_result_says_which_commit_it_is_from(name):
    text = (EXPERIMENTS / "results" / name).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else [json.loads(text)]
    rows = runs if isinstance(runs := rows[0].get("runs"), list) else rows
    for row in rows:
        if row.get("kind") == "test":  # computed from two runs, which have theirs
            continue
        noted = [row.get("commit"), row.get("recorded")]
        if "datasets" in row:
            by_dataset = row.get("commits", {}) | row.get("recorded", {})
            assert by_dataset.keys() == row["datasets"].keys()
            noted = list(by_dataset.values())
        assert "commit" in row or "recorded" in row, row  # null where it is not known
        assert all(one is None or MADE_AT.fullmatch(one) for one in noted), noted


def test_equal_vectors_are_counted_by_vector_and_numbered(tmp_path):
    """Four groups of 15 rows far apart, in two of which a row is there twice: 58 different rows."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(16)[:4] * 90, 15, axis=0) + rng.integers(-20, 20, (60, 16))
    X[1], X[16] = X[0], X[15]
    (tmp_path / "shop").mkdir()
    np.save(tmp_path / "shop" / "x.npy", X.astype(np.int8))
    out = tmp_path / "own.json"
    run("own_codes.py", tmp_path / "shop" / "x.npy", "-o", out, "--sizes", "4-2-32-4-4", "--iterations", 5)
    figures = json.loads(out.read_text())["shop/x.npy"]
    assert (figures["rows"], figures["equal_rows"]) == (60, 2)
    assert figures["by vector"] == pytest.approx({"icr_per_sid": 56 / 58, "icr_per_item": 56 / 60})
    assert figures["numbered"] == {"icr_per_sid": 1.0, "icr_per_item": 1.0}
