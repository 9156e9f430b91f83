"""Mistakes that are recognised: swapped arguments, missing plug-ins; and counts of one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from sidkit.errors import SpecError
from sidkit.tokenizer import spec


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 8)).astype(np.float32)
    ids = [f"P{i}" for i in range(60)]
    pq.write_table(pa.table({"item_id": ids, "embedding": list(vectors)}), folder / "items.parquet")
    np.save(folder / "items.npy", vectors)
    lists = [rng.choice(ids, 5).tolist() for _ in range(30)]
    pq.write_table(pa.table({"user": range(30), "items": lists}), folder / "sequences.parquet")
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "4-4", cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=folder)
    (folder / "run").mkdir()
    (folder / "run" / "retriever.json").write_text("{}")
    (folder / "bert").mkdir()
    (folder / "bert" / "config.json").write_text('{"model_type": "bert"}')
    return folder


@pytest.mark.parametrize(
    "words,what,correct",
    [
        (("encode", "items.parquet", "tok", "-o", "x.parquet"), "items.parquet is embeddings and tok is a tokenizer",
         "sidkit encode tok items.parquet"),
        (("encode", "items.npy", "tok", "-o", "x.parquet"), "items.npy is embeddings and tok is a tokenizer",
         "sidkit encode tok items.npy"),
        (("report", "tok", "sids.parquet"), "tok is a tokenizer and sids.parquet is semantic IDs",
         "sidkit report sids.parquet tok"),
        (("train", "sequences.parquet", "sids.parquet", "-o", "x"),
         "sequences.parquet is a table and sids.parquet is semantic IDs",
         "sidkit train sids.parquet sequences.parquet"),
        (("lookup", "P7", "sids.parquet"), "sids.parquet is semantic IDs", "sidkit lookup sids.parquet P7"),
        (("evaluate", "sequences.parquet", "run"), "sequences.parquet is a table and run is a recommender",
         "sidkit evaluate run sequences.parquet"),
    ],
)  # fmt: skip
def test_swapped_arguments_are_recognised(files, words, what, correct):
    said = sidkit(*words, check=1, cwd=files)
    assert said == f"error: {what}: did you swap them? {correct}\n"


@pytest.mark.parametrize(
    "words,message",
    [
        (("encode", "nowhere", "items.parquet", "-o", "x.parquet"), "no such model folder: nowhere"),
        (("encode", "bert", "items.parquet", "-o", "x.parquet"), "does not describe a sidkit tokenizer"),
        (("report", "sids.parquet", "bert"), "does not describe a sidkit tokenizer"),
        (("train", "items.parquet", "sequences.parquet", "-o", "x"), "is not a table of semantic IDs"),
    ],
)
def test_other_mistakes_keep_their_own_errors(files, words, message):
    said = sidkit(*words, check=1, cwd=files)
    assert message in said
    assert "swap" not in said


def test_one_item_is_one_item(tmp_path):
    one = pa.table({"item_id": ["A"], "title": ["red shoes"], "embedding": [[1.0, 0.0]]})
    pq.write_table(one, tmp_path / "one.parquet")
    two = pa.concat_tables([one, pa.table({"item_id": ["B"], "title": ["mug"], "embedding": [[0.0, 1.0]]})])
    pq.write_table(two, tmp_path / "two.parquet")
    sidkit("fit", "two.parquet", "-o", "tok", "--sizes", "2-2", cwd=tmp_path)
    assert "wrote 1 semantic ID to one-sids.parquet" in sidkit(
        "encode", "tok", "one.parquet", "-o", "one-sids.parquet", cwd=tmp_path
    )
    assert "<a_" in sidkit("lookup", "one-sids.parquet", "A", cwd=tmp_path)
    assert ": 1 item\n" in sidkit("lookup", "one-sids.parquet", "A", cwd=tmp_path)
    assert "1 item, 1 distinct SID," in sidkit("explore", "one-sids.parquet", "--check", cwd=tmp_path)
    done = run("report", "one-sids.parquet", "-o", "one.html", cwd=tmp_path)
    assert done.returncode == 0
    assert "1 items" not in (tmp_path / "one.html").read_text() + done.stdout
    bad = pa.concat_tables([two, pa.table({"item_id": ["C"], "title": ["zero"], "embedding": [[0.0, 0.0]]})])
    pq.write_table(bad, tmp_path / "bad.parquet")
    said = run("encode", "tok", "bad.parquet", "-o", "x.parquet", "--bad-rows", "drop", cwd=tmp_path).stderr
    assert "left out 1 bad row, listed in" in said


def test_a_missing_plug_in_is_named():
    with pytest.raises(SpecError, match=r"unknown kind 'Spherical'; if it comes from a plug-in, install the package"):
        spec.from_plain({"kind": "Spherical"})
    with pytest.raises(SpecError, match=r"unknown kind 'KMean'; did you mean 'KMeans'"):
        spec.from_plain({"kind": "KMean"})


def test_a_plug_in_that_cannot_load_is_named(monkeypatch):
    class Point:
        name, value, dist = "Spherical", "spherical_sids:Spherical", None

        def load(self):
            raise ModuleNotFoundError("No module named 'geomstats'")

    monkeypatch.setattr(spec, "_plugins", lambda: (Point(),))
    with pytest.raises(SpecError, match=r"plug-in 'spherical_sids:Spherical'.*No module named 'geomstats'"):
        spec.from_plain({"kind": "Spherical"})
