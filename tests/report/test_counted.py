"""Tokenizers ranked by counting: the figure, spread variants, what is said, and the commands that use it."""

import json
from itertools import pairwise
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from sidkit.data.sequences import Sequences
from sidkit.errors import InputError
from sidkit.measure.counting import counted_by_token
from sidkit.report.compare import compare
from sidkit.report.comparison import COUNTED
from sidkit.report.counted import judged
from sidkit.sids.quality import quality
from sidkit.tokenizer.recipes import rq_kmeans
from sidkit.tokenizer.tokenizer import load

TOKENIZERS = {"coarse": rq_kmeans((2, 16)), "fine": rq_kmeans((16, 32))}
GROUPS, EACH = 16, 12


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Items in groups of twelve, some of them alike; visitors stay in a group, so that its first token predicts."""
    folder, rng = tmp_path_factory.mktemp("counted"), np.random.default_rng(0)
    centres = 4 * rng.normal(size=(GROUPS, 8))
    X = np.repeat(centres, EACH, 0) + 0.3 * rng.normal(size=(GROUPS * EACH, 8))
    X[1::2] = X[::2]  # two and two are the same, and share a SID
    X = X.astype(np.float32)
    lists = [(rng.integers(GROUPS) * EACH + rng.permutation(EACH)[:6]).tolist() for _ in range(150)]
    ids = [f"p{i}" for i in range(len(X))]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"item_id": ids, "embedding": vectors}), folder / "items.parquet")
    taken = [[ids[i] for i in one] for one in lists]
    pq.write_table(pa.table({"items": taken}), folder / "sequences.parquet")
    return folder, X, Sequences.of(lists)


@pytest.fixture(scope="module")
def ranked(shop, tmp_path_factory):
    _, X, sequences = shop
    comparison = compare(X, TOKENIZERS, [0, 1], tmp_path_factory.mktemp("runs"))
    return judged(comparison, X, sequences, spread_too=True)


def test_every_run_has_its_own_counted_figure_plain_and_spread(shop, ranked):
    _, X, sequences = shop
    for label, runs in ranked.figures.items():
        for found, folder in zip(runs, ranked.folders[label], strict=True):
            fitted = load(folder)
            codes = fitted.encode(X, spread=label in ranked.spread)
            assert found[COUNTED.name] == counted_by_token(codes, fitted.sizes, sequences)["ndcg@20"]
            assert found["icr_per_item"] == quality(codes, fitted.sizes)["icr_per_item"]


def test_the_best_comes_first_and_items_that_are_spread_do_better(ranked):
    means = {label: mean(run[COUNTED.name] for run in runs) for label, runs in ranked.figures.items()}
    assert list(means.values()) == sorted(means.values(), reverse=True)
    assert next(iter(means)) == "fine, spread"
    assert means["fine, spread"] > 1.2 * means["fine"] > 1.2 * means["coarse"]
    assert ranked.spread == {"fine, spread", "coarse, spread"}
    assert ranked.columns()[0].metric is COUNTED


def test_a_tokenizer_that_cannot_be_spread_is_measured_as_it_is(shop, tmp_path, monkeypatch):
    _, X, sequences = shop
    comparison = compare(X, {"fine": TOKENIZERS["fine"]}, [0], tmp_path)
    monkeypatch.setattr("sidkit.report.counted.can_spread", lambda fitted: False)
    assert list(judged(comparison, X, sequences, spread_too=True).figures) == ["fine"]


def test_without_sequences_nothing_is_ranked(shop, tmp_path):
    X = shop[1]
    comparison = compare(X, {"fine": TOKENIZERS["fine"]}, [0], tmp_path)
    spread = judged(comparison, X, None, spread_too=True)
    assert list(spread.figures) == ["fine", "fine, spread"]
    assert not spread.is_counted
    assert spread.figures["fine, spread"][0]["icr_per_item"] > 0.9 > spread.figures["fine"][0]["icr_per_item"]


def test_sequences_without_a_third_item_are_refused_before_the_work(shop, tmp_path):
    X = shop[1]
    comparison = compare(X, {"fine": TOKENIZERS["fine"]}, [0], tmp_path)
    with pytest.raises(InputError, match="no sequence has three known items"):
        judged(comparison, X, Sequences.of([[0, 1], [-1, 2]]))


def test_compare_ranks_by_counting_says_so_and_ends_with_a_command_that_runs(shop, tmp_path):
    folder = shop[0]
    words = ("-r", "prq-kmeans", "--sizes", "16-16", "--seeds", "x2", "-o", tmp_path / "page.html")
    arguments = ("compare", folder / "items.parquet", "--sequences", folder / "sequences.parquet", *words)
    printed = sidkit(*arguments, "--map", "pca")
    assert "Ranked by counted NDCG@20" in printed
    assert "predicted best, on public datasets, how well a trained recommender does" in printed
    assert "2 runs over seeds 0, 1" in printed  # spreading is no fit
    assert "prq-kmeans, spread is expected to recommend best." in printed
    _, *command = printed.rpartition("next: ")[2].split()
    assert command[0] == "encode"
    assert command[-1] == "--spread"
    assert run(*command, cwd=tmp_path).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "Ranked by counted NDCG@20" in page
    assert "Recommended by counting" in page
    facts = json.loads(sidkit(*arguments[:-1], tmp_path / "page-runs", "--json"))
    assert facts["ranked_by"] == COUNTED.name
    assert facts["ranking"][0] == "prq-kmeans, spread"
    assert facts["columns"]["sequences"] == {"sequence": "items"}
    plain = json.loads(sidkit(*arguments[:-1], tmp_path / "page-runs", "--json", "--no-spread"))
    assert set(plain["ranking"]) == {"prq-kmeans"}


def test_advise_ranks_sizes_by_counting_with_and_without_spread(shop, tmp_path):
    folder, X, sequences = shop
    sizes = ("--sizes", "2-32", "--sizes", "16-32", "--sizes", "16-64")
    arguments = ("advise", folder / "items.parquet", "--sequences", folder / "sequences.parquet", *sizes)
    advice = json.loads(sidkit(*arguments, "--recipe", "rq-kmeans", "--json"))
    assert advice["users"] == 150
    by_sizes = {tuple(one["sizes"]): one["counted"] for one in advice["candidates"]}
    fitted = rq_kmeans((16, 32)).fit(X, seed=0)
    for name, spread in (("plain", False), ("spread", True)):
        codes = fitted.encode(X, spread=spread)
        assert by_sizes[16, 32][name] == pytest.approx(counted_by_token(codes, (16, 32), sequences)["ndcg@20"])
    assert advice["chosen"]["sizes"] == [16, 32]  # as good as 16-64 within 2 %, with fewer codewords
    assert by_sizes[16, 64]["spread"] < 1.02 * by_sizes[16, 32]["spread"]
    assert advice["encode_command"].endswith("--spread")
    printed = sidkit(*arguments, "--recipe", "rq-kmeans", "-o", tmp_path / "advice.html")
    assert "Take 16-32 and encode with --spread: counted NDCG@20" in printed
    assert "Ranked by counted NDCG@20: how well the next item of 150 users" in printed
    page = (tmp_path / "advice.html").read_text()
    assert "counted NDCG@20 with --spread" in page
    assert "sidkit encode tok/" in page
    for command in printed.splitlines()[-3:-1]:
        assert run(*command.split()[1:], cwd=tmp_path).returncode == 0


def test_a_target_holds_for_sizes_that_meet_it_once_spread(shop):
    folder = shop[0]
    arguments = ("advise", folder / "items.parquet", "--sequences", folder / "sequences.parquet", "--icr", "0.9")
    advice = json.loads(sidkit(*arguments, "--recipe", "rq-kmeans", "--sizes", "2-32", "--sizes", "16-32", "--json"))
    assert [one["meets"] for one in advice["candidates"]] == ["no", "no"]  # two and two share
    assert advice["chosen"]["sizes"] == [16, 32]
    assert advice["chosen"]["counted"]["filled"][0] >= 0.9


def test_a_sweep_by_counting_stops_when_larger_sizes_gain_little(shop):
    folder = shop[0]
    arguments = ("advise", folder / "items.parquet", "--sequences", folder / "sequences.parquet", "--levels", "2")
    advice = json.loads(sidkit(*arguments, "--json"))
    full = [one for one in advice["candidates"] if not one["shortened"]]
    gains = [b["counted"]["spread"] / a["counted"]["spread"] for a, b in pairwise(full)]
    assert all(gain >= 1.02 for gain in gains[:-1])
    assert len(advice["chosen"]["sizes"]) == 2
