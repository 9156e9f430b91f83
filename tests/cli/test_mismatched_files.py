"""SIDs, tokenizers and embeddings that do not belong together are noticed, and the error names both."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit as library
from command import run, sidkit
from sidkit.sids.table import SidTable


def embeddings(path, seed, n=120, d=6):
    X = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), d)
    titles = [f"mug number {i % 9}" for i in range(n)]
    pq.write_table(pa.table({"item_id": [f"p{i}" for i in range(n)], "title": titles, "embedding": vectors}), path)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """SIDs by the tokenizer `tok`, another tokenizer of the same sizes, and other embeddings of the same shape."""
    folder = tmp_path_factory.mktemp("pairs")
    for seed, name in enumerate(("items", "others")):
        embeddings(folder / f"{name}.parquet", seed)
    sidkit("fit", "items.parquet", "-o", "tok", "--sizes", "8-4", cwd=folder)
    sidkit("fit", "items.parquet", "-o", "tok-b", "--sizes", "8-4", "--seed", "1", cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=folder)
    lists = [[f"p{(user + step) % 120}" for step in range(5)] for user in range(30)]
    pq.write_table(pa.table({"items": lists}), folder / "sequences.parquet")
    return folder


def test_sids_note_what_they_were_made_from(shop):
    origin = SidTable.from_parquet(shop / "sids.parquet").origin
    assert origin.tokenizer_digest == library.load(shop / "tok").digest != library.load(shop / "tok-b").digest
    assert re.fullmatch(r"120x6:[0-9a-f]{16}", origin.embeddings_digest)
    assert (origin.tokenizer, origin.embeddings) == ("tok", "items.parquet")
    sidkit("encode", "tok", "others.parquet", "-o", "o.parquet", cwd=shop)
    assert SidTable.from_parquet(shop / "o.parquet").origin.embeddings_digest != origin.embeddings_digest


def test_a_digest_survives_saving_and_does_not_depend_on_what_was_fitted_on(shop, tmp_path):
    fitted = library.prq_kmeans((4, 4)).fit(np.random.default_rng(0).normal(size=(50, 3)))
    fitted.save(tmp_path / "tok")
    assert library.load(tmp_path / "tok").digest == fitted.digest
    assert library.without_projection((4, 4)).fit(np.eye(50, 3) + 1).digest != fitted.digest


def test_a_tokenizer_that_did_not_make_the_sids_is_refused(shop):
    theirs, ours = (library.load(shop / name).digest for name in ("tok", "tok-b"))
    message = f"error: sids.parquet was made by the tokenizer tok ({theirs}), not by tok-b ({ours}); give that one, or "
    small = ("--preset", "tiny", "--epochs", "1", "--beams", "4")
    for words, insist in (
        (("report", "sids.parquet", "tok-b"), True),
        (("lookup", "sids.parquet", "p7", "--tokenizer", "tok-b"), True),
        (("explore", "sids.parquet", "--check", "--tokenizer", "tok-b"), True),
        (("train", "sids.parquet", "sequences.parquet", "-o", "run", *small, "--tokenizer", "tok-b"), False),
    ):
        assert sidkit(*words, check=1, cwd=shop) == f"{message}use --force\n"
        if insist:
            sidkit(*words, "--force", cwd=shop)
        sidkit(*(word.replace("tok-b", "tok") for word in words), cwd=shop)


def test_sids_of_older_versions_go_with_every_tokenizer_of_their_sizes(shop):
    table = SidTable.from_parquet(shop / "sids.parquet")
    SidTable(table.ids, table.codes, table.sizes).to_parquet(shop / "old.parquet")
    sidkit("report", "old.parquet", "tok-b", cwd=shop)


def test_files_by_different_tokenizers_are_not_read_as_one_table(shop, tmp_path):
    table = SidTable.from_parquet(shop / "sids.parquet")
    table.to_parquet(tmp_path / "a.parquet")
    sidkit("encode", "tok-b", "others.parquet", "-o", tmp_path / "b.parquet", cwd=shop)
    error = sidkit("report", tmp_path, check=1)
    assert "were made by different tokenizers: tok and tok-b" in error


def test_other_embeddings_of_the_same_shape_are_noticed(shop):
    for words in (("judge", "sids.parquet"), ("report", "sids.parquet"), ("explore", "sids.parquet", "--check")):
        done = run(*words, "--embeddings", "others.parquet", cwd=shop)
        assert done.returncode == 0
        assert re.search(r"made from items\.parquet \(120x6:\w+\); others\.parquet has as many vectors", done.stderr)
        assert "as many vectors" not in run(*words, "--embeddings", "items.parquet", cwd=shop).stderr


def test_a_case_follows_queries_by_tokenizers_of_these_embeddings_only(shop):
    sidkit("embed", "items.parquet", "-o", "e.parquet", "--model", "tfidf", "--dimensions", "6", cwd=shop)
    sidkit("fit", "e.parquet", "-o", "tok-e", "--sizes", "4-2", "--bad-rows", "drop", cwd=shop)
    words = ("case", "query", "mug", "e.parquet")
    error = sidkit(*words, "tok-e", "tok", check=1, cwd=shop)
    assert re.match(r"error: tok was fitted on other embeddings \(\w{16}\) than e\.parquet \(\w{16}\); give", error)
    sidkit(*words, "tok-e", cwd=shop)
    sidkit(*words, "tok-e", "tok", "--force", cwd=shop)


def test_an_encoding_is_not_resumed_with_another_tokenizer(shop, monkeypatch):
    monkeypatch.setattr("sidkit.tokenizer.windows.WINDOW", 50)

    def killed(self, *rest, **more):
        raise KeyboardInterrupt

    def start():
        with monkeypatch.context() as patch:
            patch.setattr("sidkit.sids.table.SidTable.to_parquet", killed)
            assert run("encode", "tok", "items.parquet", "-o", "r.parquet", cwd=shop).returncode == 130
        assert (shop / "r.parquet.unfinished" / "rows-0").is_dir()

    start()
    words = ("items.parquet", "-o", "r.parquet", "--resume")
    error = sidkit("encode", "tok-b", *words, check=1, cwd=shop)
    assert re.match(r"error: r\.parquet\.unfinished was started with the tokenizer tok \(\w+\), not with tok-b", error)
    assert (shop / "r.parquet.unfinished" / "rows-0").is_dir()
    facts = json.loads(sidkit("encode", "tok", *words, "--json", cwd=shop))
    assert facts["ran"] == {}  # nothing was left to compute
    start()
    assert json.loads(sidkit("encode", "tok-b", *words, "--force", "--json", cwd=shop))["ran"]
    assert SidTable.from_parquet(shop / "r.parquet").origin.tokenizer == "tok-b"
    assert not (shop / "r.parquet.unfinished").exists()
