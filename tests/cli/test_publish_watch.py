"""sidkit publish watch: what it prints, its exit codes, and what it refuses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit

CENTRES = np.random.default_rng(0).normal(size=(40, 12))


def write(path, X):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float32).ravel()), X.shape[1])
    pq.write_table(pa.table({"item_id": [f"{path.stem}-{row}" for row in range(len(X))], "embedding": vectors}), path)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("watched"), np.random.default_rng(1)
    for name, n in (("items", 2000), ("new", 400), ("held", 500)):
        write(folder / f"{name}.parquet", CENTRES[rng.integers(0, 40, n)] + 0.4 * rng.normal(size=(n, 12)))
    write(folder / "strange.parquet", 3 * rng.normal(size=(300, 12)) * np.eye(12)[0] + 0.3 * rng.normal(size=(300, 12)))
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "16-12-8", cwd=folder)
    sidkit("publish", "init", "registry.db", "--tokenizer", "tok", cwd=folder)
    sidkit("publish", "append", "registry.db", "items.parquet", cwd=folder)
    return folder


def test_items_like_those_of_the_fit_are_to_be_appended(published):
    printed = sidkit("publish", "watch", "registry.db", "new.parquet", cwd=published)
    assert "400 new items, compared with 200 (a tenth of items.parquet, held out)" in printed
    assert "append: new items are like those of the fit (false alarms: at most 1.0%)" in printed


def test_other_items_call_for_a_refit(published):
    words = ("publish", "watch", "registry.db", "strange.parquet", "--reference", "held.parquet", "--json")
    done = run(*words, cwd=published)
    assert done.returncode == 4
    facts = json.loads(done.stdout)
    assert facts["drift"] is True
    assert facts["advice"] == "refit-afresh"
    assert facts["reference"] == "held.parquet"
    assert {test["name"] for test in facts["tests"]} == {"utilisation", "gini", "distortion", "distance", "near_ties"}
    assert all(test["p"] <= test["adjusted_p"] for test in facts["tests"])
    narrow = CENTRES[:2][np.arange(300) % 2] + 0.4 * np.random.default_rng(2).normal(size=(300, 12))
    write(published / "narrow.parquet", narrow)
    done = run("publish", "watch", "registry.db", "narrow.parquet", cwd=published)
    assert done.returncode == 3
    assert "refit and align" in done.stdout


def test_a_saved_reference_gives_the_same_answer(published):
    words = ("publish", "watch", "registry.db", "new.parquet", "--json", "--reference")
    first = json.loads(sidkit(*words, "held.parquet", "--save", "ref.json", cwd=published))
    again = json.loads(sidkit(*words, "ref.json", cwd=published))
    assert [test["p"] for test in again["tests"]] == pytest.approx([test["p"] for test in first["tests"]], abs=0.01)


def test_bad_requests_are_refused(published):
    watch = ("publish", "watch", "registry.db", "new.parquet")
    assert "needs at least 500 draws" in sidkit(*watch, "--draws", "99", cwd=published, check=1)
    assert "ref.txt" in sidkit(*watch, "--save", "ref.txt", cwd=published, check=1)
    moved = published / "elsewhere.parquet"
    (published / "items.parquet").rename(moved)
    refused = sidkit(*watch, cwd=published, check=1)
    moved.rename(published / "items.parquet")
    assert "items.parquet, which the tokenizer was fitted on, is not there" in refused
    assert "with --reference" in refused


def test_items_that_are_published_already_are_left_out(published):
    facts = json.loads(sidkit("publish", "watch", "registry.db", "items.parquet", "--json", cwd=published))
    assert (facts["items"], facts["advice"], facts["tests"]) == (0, "append", [])
    assert "published already" in sidkit("publish", "watch", "registry.db", "items.parquet", cwd=published)
    both = pa.concat_tables([pq.read_table(published / f"{name}.parquet") for name in ("items", "new")])
    pq.write_table(both, published / "all.parquet")
    words = ("publish", "watch", "registry.db", "all.parquet", "--reference", "held.parquet", "--json")
    assert json.loads(sidkit(*words, cwd=published))["items"] == 400
