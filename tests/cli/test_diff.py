"""sidkit diff: table, JSON and page."""

import json

import numpy as np
import pytest

import sidkit as package
from command import sidkit
from sidkit.sids.table import SidTable


@pytest.fixture
def two(tmp_path):
    codes = np.random.default_rng(0).integers(0, (4, 6), (200, 2))
    SidTable([f"<b>item {i}</b>" for i in range(200)], codes, (4, 6)).to_parquet(tmp_path / "old.parquet")
    codes[:50, 0] = (codes[:50, 0] + 1) % 4
    codes[50:60, 1] = (codes[50:60, 1] + 1) % 6
    SidTable([f"<b>item {i}</b>" for i in range(200)], codes, (4, 6)).to_parquet(tmp_path / "new.parquet")
    return tmp_path


def test_it_prints_a_table_and_writes_a_page(two):
    printed = sidkit("diff", "old.parquet", "new.parquet", "-o", "diff.html", cwd=two)
    assert "200 items are in both, 0 were added, 0 removed" in printed
    assert "60 have another SID (50 kept 0, 10 kept 1 first tokens)" in printed
    assert "split <a_" in printed
    page = (two / "diff.html").read_text()
    assert "&lt;b&gt;item 0&lt;/b&gt;" in page
    assert "<b>item" not in page
    for heading in ("How far items moved", "Prefixes that were split", "Prefixes that were merged", "Items that moved"):
        assert heading in page


def test_json_has_the_same_facts(two):
    facts = json.loads(sidkit("diff", "old.parquet", "new.parquet", "--json", "--limit", "3", cwd=two))
    assert (facts["moved"], facts["tokens_kept"]) == (60, [50, 10, 140])
    assert len(facts["moved_items"]) == len(facts["splits"]) == 3


def test_bad_requests_are_refused(two):
    assert "at least 1, not 0" in sidkit("diff", "old.parquet", "new.parquet", "--limit", "0", cwd=two, check=1)
    assert "old.parquet" in sidkit("diff", "old.parquet", "new.parquet", "-o", "old.parquet", cwd=two, check=1)


def test_with_a_tokenizer_it_measures_how_far_items_moved(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    fitted = package.rq_kmeans((8, 6), 5, normalize=False).fit(X)
    fitted.save(tmp_path / "tok")
    codes = fitted.encode(X)
    SidTable(np.arange(200), codes, (8, 6)).to_parquet(tmp_path / "old.parquet")
    moved = codes.copy()
    moved[:3, 1] = (moved[:3, 1] + 1) % 6
    SidTable(np.arange(200), moved, (8, 6)).to_parquet(tmp_path / "new.parquet")
    words = ("diff", "old.parquet", "new.parquet", "--tokenizer", "tok")
    far = json.loads(sidkit(*words, "--json", cwd=tmp_path))["distance"]
    a, b = (sum(book[code] for book, code in zip(fitted.codebooks, part[:3].T, strict=True)) for part in (codes, moved))
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert far["items"] == 3
    assert far["mean"] == pytest.approx(1 - cosines.mean(), abs=1e-6)
    assert f"1 - cosine: mean {far['mean']:.3f}" in sidkit(*words, "-o", "page.html", cwd=tmp_path)
    assert f"{far['mean']:.3f}" in (tmp_path / "page.html").read_text()
    assert json.loads(sidkit("diff", "old.parquet", "old.parquet", "--tokenizer", "tok", "--json", cwd=tmp_path))[
        "distance"
    ] == {"items": 0}
    package.rq_kmeans((8, 5), 1).fit(X).save(tmp_path / "other")
    refused = sidkit("diff", "old.parquet", "new.parquet", "--tokenizer", "other", cwd=tmp_path, check=1)
    assert "were not made by a tokenizer of sizes (8, 5)" in refused
    refused = sidkit("diff", "old.parquet", "new.parquet", "--new-tokenizer", "tok", cwd=tmp_path, check=1)
    assert "goes with --tokenizer" in refused
