"""sidkit publish align: what it prints and writes, and what it refuses."""

import json

import numpy as np
import pytest

import sidkit
from command import sidkit as command
from sidkit.sids.table import SidTable


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 8))
    X = (centres[rng.integers(0, 20, 400)] + 0.2 * rng.normal(size=(400, 8))).astype(np.float32)
    np.save(folder / "items.npy", X)
    np.save(folder / "wide.npy", np.hstack([X, X[:, :2]]))
    for name, seed in (("old", 0), ("new", 1)):
        command("fit", "items.npy", "-o", name, "--sizes", "8-6-4", "--seed", str(seed), cwd=folder)
    return folder


def test_the_refit_is_aligned_with_the_items_it_was_fitted_on(fits):
    facts = json.loads(command("publish", "align", "old", "new", "-o", "aligned", "--json", cwd=fits))
    assert facts["items"] == 400
    assert facts["tokens_after"] == pytest.approx(facts["tokens_least"])
    assert sum(facts["tokens_after"]) < sum(facts["tokens_before"])
    old, new, aligned = (sidkit.load(fits / name).encode(fits / "items.npy") for name in ("old", "new", "aligned"))
    assert [(old[:, level] != aligned[:, level]).mean() for level in range(3)] == pytest.approx(facts["tokens_after"])
    assert len(np.unique(np.stack([new[:, 0], aligned[:, 0]], 1), axis=0)) == 8
    assert json.loads((fits / "aligned" / "config.json").read_text())["facts"]["aligned"]["to"] == "old"
    assert (
        json.loads((fits / "aligned" / "config.json").read_text())["stages"]
        == json.loads((fits / "new" / "config.json").read_text())["stages"]
    )


def test_published_sids_take_the_place_of_the_old_tokenizer(fits):
    ids = np.arange(0, 400, 2)
    codes = sidkit.load(fits / "old").encode(fits / "items.npy")[ids]
    SidTable(ids, codes, (8, 6, 4)).to_parquet(fits / "half.parquet")
    printed = command("publish", "align", "old", "new", "items.npy", "-o", "half", "--sids", "half.parquet", cwd=fits)
    assert "200 items, aligned with old" in printed
    assert "wrote half" in printed


def test_what_cannot_be_aligned_is_refused(fits):
    sidkit.prq_kmeans((8, 6), iterations=1).fit(fits / "items.npy").save(fits / "short")
    refused = command("publish", "align", "old", "short", "items.npy", "-o", "x", cwd=fits, check=1)
    assert "old and short give 3 tokens and 2" in refused
    sidkit.prq_kmeans((8, 6, 4), iterations=1).fit(fits / "items.npy").save(fits / "bare")
    refused = command("publish", "align", "old", "bare", "-o", "x", cwd=fits, check=1)
    assert "bare does not note what it was fitted on" in refused
    SidTable(["a"], [[0, 0, 0]], (8, 6, 4)).to_parquet(fits / "strange.parquet")
    words = ("publish", "align", "old", "new", "items.npy", "-o", "x", "--sids", "strange.parquet")
    assert "no item of strange.parquet has an embedding" in command(*words, cwd=fits, check=1)
    assert "8-dimensional" in command("publish", "align", "old", "new", "wide.npy", "-o", "x", cwd=fits, check=1)


def test_a_fit_from_the_old_tokenizer_keeps_to_its_budget(fits):
    X = np.load(fits / "items.npy")
    np.save(fits / "more.npy", np.concatenate([X, X[:100] + 0.5]))
    words = ("fit", "more.npy", "-o", "warm", "--from", "old", "--churn", "0.02")
    facts = json.loads(command(*words, "--json", cwd=fits))["from"]
    assert facts["changed"] <= 0.02
    before, after = (sidkit.load(fits / name).encode(fits / "more.npy") for name in ("old", "warm"))
    assert (before != after).any(axis=1).mean() == pytest.approx(facts["changed"])
    printed = command(*words, cwd=fits)
    assert "from old: " in printed
    assert "of the rows have another SID" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "old", "--sizes", "4-4-4"), "leave out recipe, sizes and other options"),
        (("--churn", "0.1"), "name that with --from"),
        (("--from", "old", "--ray", "local"), "cannot be combined with --ray"),
        (("--from", "old", "--churn", "2"), "a share between 0 and 1"),
        (("--from", "gone"), "no such model folder: gone"),
    ],
)
def test_bad_starts_are_refused(fits, words, message):
    assert message in command("fit", "items.npy", "-o", "x", *words, cwd=fits, check=1)
