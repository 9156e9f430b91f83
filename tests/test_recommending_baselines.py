"""Experiments on recommending: SASRec against torch's own loss, counting against loops, the search for a plan."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.data.sequences import Sequences

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="a source package has no experiments")
torch = pytest.importorskip("torch")
LISTS = [f"small best{name}" for name in ("", ", the history allowed", ", fused", ", its counts alone")]


@pytest.fixture
def sasrec(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import sasrec

    return sasrec


def test_the_loss_of_sasrec_is_the_full_softmax(sasrec, monkeypatch):
    monkeypatch.setattr(sasrec, "BLOCK", 5)
    generator = torch.Generator().manual_seed(0)
    h, E = (torch.randn(n, 4, generator=generator, requires_grad=True) for n in (13, 30))
    target = torch.randint(30, (13,), generator=generator)
    ours, theirs = (
        (value, *torch.autograd.grad(value, (h, E)))
        for value in (
            sasrec.Softmax.apply(h, E, target) * 2,
            torch.nn.functional.cross_entropy(h @ E.T, target, reduction="sum") * 2,
        )
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_packed_sequence_is_read_as_it_is_alone(sasrec):
    setting = sasrec.Setting(width=8, dropout=0.0, history=20)
    torch.manual_seed(0)
    model = sasrec.SasRec(50, setting).eval()
    rows = torch.randint(50, (200,))
    first, length = np.array([0, 30, 60, 100]), np.array([20, 3, 19, 20])
    index, ago, owner, last = sasrec.packed(first, length)
    assert index.shape == (1, 64)
    assert (owner >= 0).sum() == length.sum()
    together = model(rows[index], ago, owner).flatten(0, 1)[last]
    for piece in range(4):
        index, ago, owner, last = sasrec.packed(first[piece : piece + 1], length[piece : piece + 1])
        torch.testing.assert_close(model(rows[index], ago, owner).flatten(0, 1)[last][0], together[piece])
        changed = rows.clone()
        changed[first[piece] + length[piece]] += 1  # what comes next is not seen
        torch.testing.assert_close(model((changed % 50)[index], ago, owner).flatten(0, 1)[last][0], together[piece])


def test_every_item_but_the_first_is_a_target_once(sasrec):
    pieces = sasrec.windows(np.array([0, 1, 9, 9, 12]), 3)
    targets = [at for first, stop in pieces.tolist() for at in range(first + 1, stop)]
    assert sorted(targets) == [2, 3, 4, 5, 6, 7, 8, 10, 11]
    assert max(stop - first for first, stop in pieces) == 4


def test_a_step_over_batches_of_one_shape_is_the_plain_step(sasrec, monkeypatch):
    """What a GPU records, run here as it is: batches filled up with empty rows, and all their logits at once."""
    monkeypatch.setattr(sasrec, "recorded", lambda step, state, device: step)
    rng = np.random.default_rng(0)
    training = Sequences.of([rng.integers(30, size=rng.integers(3, 40)) for _ in range(60)])
    setting = sasrec.Setting(width=16, dropout=0.0, rate=1e-2, batch=16, layers=1)
    losses, weights = [], []
    for way in ("_plain", "_recorded"):
        torch.manual_seed(0)
        epochs = sasrec.Epochs(sasrec.SasRec(30, setting), training, setting, "cpu")
        monkeypatch.setattr(epochs, "_plain", getattr(epochs, way))
        losses.append([epochs(np.random.default_rng(seed)) for seed in range(3)])
        weights.append([weight.detach().clone() for weight in epochs.model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    torch.testing.assert_close(*weights, rtol=1e-2, atol=2e-3)


def test_sasrec_learns_a_ring(sasrec):
    rng = np.random.default_rng(0)
    sequences = Sequences.of([(rng.integers(30) + np.arange(rng.integers(4, 9))) % 30 for _ in range(150)])
    setting = sasrec.Setting(width=16, dropout=0.0, rate=1e-2, batch=16, epochs=6, heads=1, layers=1)
    found = sasrec.fit(sequences, 30, setting, 0)
    assert (found["test"] == 0).mean() > 0.9
    assert sasrec.fit(sequences, 30, setting, 0, deadline=0.0) is None


def test_counting_leaves_out_the_history_as_a_loop_does(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from counted_ranks import counted_ranks

    rng = np.random.default_rng(0)
    lists = [rng.integers(25, size=rng.integers(1, 9)).tolist() for _ in range(80)]
    popular, after = np.zeros(25), np.zeros((25, 25))
    for one in lists:
        np.add.at(popular, one[:-2], 1)
        for pair in pairwise(one[:-2]):
            after[pair] += 1
    users = [one for one in lists if len(one) > 1]
    order = sorted(range(25), key=lambda item: (-popular[item], item))
    for method in ("popular", "followed"):
        ranks = counted_ranks(Sequences.of(lists), 25, method, "test")
        for user, one in enumerate(users):
            best = sorted(order, key=lambda item: -after[one[-2], item]) if method == "followed" else order
            assert ranks[True][user] == best.index(one[-1])
            left = [item for item in best if item not in one[:-1]]
            assert ranks[False][user] == (left.index(one[-1]) if one[-1] in left else 25)


def test_counts_are_mixed_user_by_user(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from counted_ranks import mixed
    from scipy.sparse import csr_array

    followed, near = csr_array([[3.0, 0, 5], [0, 0, 0]]), csr_array([[0.0, 1, 3], [2, 0, 0]])
    want = [[0.5 * 3 / 10, 0.5 / 4, 0.5 * 5 / 10 + 0.5 * 3 / 4], [0.5, 0, 0]]
    np.testing.assert_allclose(mixed(followed, near, 0.5).toarray(), want)


def test_ranks_are_stored_as_they_count(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from stored_ranks import gains, pack, unpack

    ranks = np.array([0, 3, 19, 20, 12101])
    assert unpack(pack(ranks)).tolist() == [0, 3, 19, 20, 20]
    np.testing.assert_allclose(gains(ranks), [1, 1 / np.log2(5), 0, 0, 0])


@pytest.fixture
def search(tmp_path):
    """Run the search on forty items; what it says, and its lines."""
    rng = np.random.default_rng(0)
    (tmp_path / "lastfm").mkdir()
    np.save(tmp_path / "lastfm" / "prq-unique-0.npy", rng.integers(0, 256, (40, 3)).astype(np.uint8))
    taken = [rng.choice(40, 6, replace=False).tolist() for _ in range(30)]
    pq.write_table(pa.table({"items": taken}), tmp_path / "lastfm" / "sequences.parquet")
    out = tmp_path / "search.jsonl"
    words = [sys.executable, EXPERIMENTS / "tiger_search.py", tmp_path, "-o", out, "--datasets", "lastfm", "--small"]
    words += ["--tokenizer", "prq-unique", "--users", "20", "--rungs", "1,2", "--candidates", "3", "--seeds", "1"]
    words += ["--keep", "1"]

    def run(*more, kept=None):
        if kept is not None:
            out.write_text("".join(json.dumps(line) + "\n" for line in kept))
        done = subprocess.run([*map(str, words), *map(str, more)], capture_output=True, text=True, check=True)
        return done.stdout, [json.loads(line) for line in out.read_text().splitlines()]

    return run


def test_the_search_for_a_plan_goes_on_with_the_best_and_resumes(search, tmp_path):
    said, lines = search()
    assert "all done" in said
    rungs = [[line["candidate"] for line in lines if line["rung"] == rung] for rung in (0, 1)]
    assert rungs[0] == ["centre", "learning_rate 0.002", "dropout 0.1"]
    assert rungs[1][0] == "every change that helped"
    assert lines[-1]["plan"]["epochs"] == 2
    assert not any("test" in line for line in lines)
    shown, left = search("--best", kept=lines[:-1])
    assert "rung 1 (2 epochs): 1 trainings are missing" in shown
    assert len(left) == len(lines) - 1
    _, again = search()
    assert again[-1]["validation"] == lines[-1]["validation"]
    search("--best", tmp_path / "plan.json")
    found = json.loads((tmp_path / "plan.json").read_text())["plan"]
    assert found["learning_rate"] in (1e-3, 2e-3)
    assert found["shape"]["dropout"] in (0.1, 0.2)


def test_the_best_preset_is_the_plan_that_the_search_found():
    """But for the epochs, of which a search has time for few."""
    pytest.importorskip("torch")
    from sidkit.retriever.plan import PLANS
    from sidkit.retriever.store import plan_from

    found = json.loads((EXPERIMENTS / "results" / "plan.json").read_text())["plan"]
    assert plan_from(found) == replace(PLANS["best"], epochs=found["epochs"])


def forty_items(folder, seed):
    """A dataset of forty items, each followed by the next, with codes of one seed; of random numbers."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    np.save(folder / f"prq-unique-{seed}.npy", rng.integers(0, 256, (40, 3)).astype(np.uint8))
    taken = [((rng.integers(40) + np.arange(6)) % 40).tolist() for _ in range(60)]
    pq.write_table(pa.table({"items": taken}), folder / "sequences.parquet")
    pq.write_table(pa.table({"item": np.arange(40)}), folder / "items.parquet")


def test_models_are_written_alone_and_fused_and_not_trained_again(tmp_path):
    forty_items(tmp_path / "toys", 1)
    out = tmp_path / "models.jsonl"
    words = [sys.executable, EXPERIMENTS / "fused_models.py", tmp_path, "-o", out, "--datasets", "toys", "--small"]
    words += ["--tokenizers", "prq-unique", "--seeds", "1", "--epochs", "1", "--minutes", "9", "--rate", "1e9"]
    for _ in range(2):
        subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        lines = {line["method"]: line for line in map(json.loads, out.read_text().splitlines())}
        assert list(lines) == LISTS
        assert len(out.read_text().splitlines()) == len(LISTS)
    assert lines["small best, fused"]["test"]["ndcg@10"] > 0.5 > lines["small best"]["test"]["ndcg@10"]
    assert lines["small best, the history allowed"]["repeats"]
    assert lines["small best"]["setting"]["plan"]["epochs"] == 1
    assert lines["small best"]["finished"]


def test_what_a_deadline_stopped_is_trained_again(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from argparse import Namespace

    from baseline_tables import latest
    from fused_models import Models, keys_of

    from sidkit.retriever.plan import PLANS

    options = Namespace(users=0, minutes=0.0, workers=0, rate=0.0)
    keys = keys_of(options, "toys", PLANS["best"], "prq-unique", 1)
    models = Models(options, "cpu")
    assert models.is_same(keys | {"finished": True}, keys)
    assert models.is_same(keys, keys)
    assert not models.is_same(keys | {"finished": False}, keys)
    assert not models.is_same(keys | {"seed": 2}, keys)
    longer = keys_of(options, "toys", replace(PLANS["best"], epochs=7), "prq-unique", 1)
    assert not models.is_same(longer, keys)
    options.rate = 1.0
    assert models.is_same(longer, keys)
    monkeypatch.setattr("baseline_tables.read_lines", lambda file: [
        keys | {"method": "best", "finished": False}, keys | {"method": "fused"}, keys | {"method": "best", "n": 2}
    ])  # fmt: skip
    assert [line.get("n") for line in latest(Path())] == [2, None]


@pytest.fixture
def schedule(tmp_path):
    """Search, models, SASRec and tables in one call, on forty items; the folder of its results and what it says."""
    forty_items(tmp_path / "lastfm", 0)
    words = [sys.executable, EXPERIMENTS / "best_in_minutes.py", tmp_path, tmp_path, "-o", tmp_path / "out"]
    words += ["--minutes", "20", "--small", "--datasets", "lastfm", "--tokenizer", "prq-unique", "--candidates", "3"]
    words += ["--rungs", "1,2", "--keep", "1", "--seeds", "1", "--processes", "1", "--settings", "1", "--workers", "0"]
    words += ["--rate", "0.1"]  # examples a second: as many epochs as are trained in any case
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    return tmp_path / "out", done.stdout


def test_the_minutes_of_a_gpu_go_from_the_search_to_the_tables(schedule):
    out, said = schedule
    searched, models, baselines = (
        [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
        for name in ("tiger_search", "fused_models", "baselines")
    )
    assert {line["rung"] for line in searched} == {0, 1}
    plan, used = json.loads((out / "plan.json").read_text())["plan"], models[0]["setting"]["plan"]
    limits = {"patience": 2, "fusion": False}
    assert plan | limits in [line["plan"] for line in searched if line["rung"] == 1]
    assert used == plan | {"epochs": 8, "patience": 8, "fusion": True, "seed": 0}
    assert [line["method"] for line in models] == LISTS
    assert [(line["method"], line["epochs"] > 1) for line in baselines] == [("sasrec", True)]
    tables = (out / "best.md").read_text()
    assert "| lastfm | TIGER, small best, fused | SASRec |" in tables
    assert "### The search for the plan" in tables
    assert "### Learning curves" not in tables  # which are those of models of full size
    assert "ended with" not in said
    assert "not done in time" not in said


def test_datasets_are_shared_by_their_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from best_in_minutes import groups

    names = ["lastfm", "beauty", "toys", "sports", "clothing"]
    assert groups(names, 2) == [["sports", "toys"], ["clothing", "beauty", "lastfm"]]
    assert groups(["toys"], 3) == [["toys"]]


def test_what_helped_is_joined_field_by_field(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from tiger_search import CHANGES, all_that_helped, candidate_plans, standing

    plans = candidate_plans(1 + len(CHANGES), small=False)
    figures = dict.fromkeys(plans, 0.5) | {"centre": 1.0, "learning_rate 0.002": 1.1, "learning_rate 0.003": 1.2}
    joined = all_that_helped(plans, figures | {"dropout 0.1": 1.05, "smoothing 0.0": 0.99, "swap 0.2": 2.0})
    assert (joined.learning_rate, joined.shape.dropout, joined.smoothing, joined.swap) == (3e-3, 0.1, 0.1, 0.0)
    assert all_that_helped(plans, figures | dict.fromkeys(plans, 1.0)) == plans["centre"]
    trained = [("a", "toys", 2.0), ("a", "sports", 1.0), ("b", "toys", 1.0), ("b", "sports", 4.0), ("c", "toys", 9.0)]
    lines = [
        {"plan": {"epochs": 9}, "candidate": name, "dataset": on, "validation": [figure]}
        for name, on, figure in trained
    ]
    assert list(standing(lines, 9, ["toys", "sports"]).items()) == [("b", 0.75), ("a", 0.625)]
