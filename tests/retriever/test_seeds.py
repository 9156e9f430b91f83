"""Several seeds in one training: each as if alone, their means and standard deviations, and resuming."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from typer.testing import CliRunner

from sidkit.cli import app
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.files.folder import config_digest
from sidkit.retriever import PRESETS, Plan, Retriever, Shape, train, train_seeds
from sidkit.retriever import trainer as trainer_module
from sidkit.retriever.memory import bytes_of_run, runs_at_once
from sidkit.retriever.seeds import means_and_stds, seeds_in
from toys import StopAt, ring, write_files

PLAN = Plan(Shape(1, 16, 16, 2, 8, dropout=0.2), epochs=4, batch=64, learning_rate=2e-2, beams=6)
SEEDS = (5, 0, 2)


@pytest.fixture(scope="module")
def data():
    return ring(users=40)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Three seeds trained by default, which on a CPU is one after the other."""
    folder = tmp_path_factory.mktemp("seeds") / "run"
    return train_seeds(*data, folder, SEEDS, PLAN, "cpu"), folder


@pytest.fixture(scope="module")
def stacked(data, tmp_path_factory):
    """The same, two of them at once."""
    folder = tmp_path_factory.mktemp("stacked") / "run"
    return train_seeds(*data, folder, SEEDS, PLAN, "cpu", at_once=2), folder


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_files(folder, *data)
    return folder / "sids.parquet", folder / "sequences.parquet"


def weights_in(folder):
    return {seed: Retriever.load(folder / f"seed-{seed}", "cpu").weights for seed in SEEDS}


def losses_in(folder):
    return [
        [json.loads(line)["loss"] for line in (folder / f"seed-{seed}" / "log.jsonl").read_text().splitlines()]
        for seed in SEEDS
    ]


def same_bits(one, other):
    return all(torch.equal(one[seed][name], other[seed][name]) for seed in SEEDS for name in one[seed])


class TestTraining:
    def test_each_seed_ends_with_the_bits_of_a_training_with_it_alone(self, data, trained, tmp_path):
        summary, folder = trained
        assert summary.at_once == 1
        alone = train(*data, tmp_path / "run", replace(PLAN, seed=2), "cpu")
        among = Retriever.load(folder / "seed-2", "cpu")
        assert among.plan == alone.plan
        assert all(torch.equal(alone.weights[name], value) for name, value in among.weights.items())
        for name in ("test", "validation", "best_epoch", "epochs"):
            assert among.facts[name] == alone.facts[name] == summary.runs[2].get(name)

    def test_runs_that_share_a_stack_drop_what_each_drops_alone(self, trained, stacked):
        np.testing.assert_allclose(losses_in(stacked[1]), losses_in(trained[1]), rtol=1e-5)
        assert stacked[0].at_once == 2

    def test_the_summary_has_the_mean_and_standard_deviation_of_every_figure(self, trained):
        summary, folder = trained
        saved = json.loads((folder / "seeds.json").read_text())
        assert saved.pop("sha256") == config_digest(saved)
        files = {str(seed): (folder / f"seed-{seed}" / "sidkit.json").read_bytes() for seed in SEEDS}
        assert saved.pop("manifests") == {seed: hashlib.sha256(file).hexdigest() for seed, file in files.items()}
        assert saved == summary.plain()
        assert saved["seeds"] == list(SEEDS) == seeds_in(folder)
        assert saved["plan"] == {name: value for name, value in asdict(PLAN).items() if name != "seed"}
        figures = [Retriever.load(folder / f"seed-{seed}", "cpu").facts["test"] for seed in SEEDS]
        assert [saved["figures"][str(seed)]["test"] for seed in SEEDS] == figures
        for name in figures[0]:
            values = [one[name] for one in figures]
            assert saved["means"][name] == pytest.approx(np.mean(values))
            assert saved["stds"][name] == pytest.approx(np.std(values, ddof=1))
        assert saved["stds"]["item_ndcg@20"] > 0

    def test_one_seed_has_no_standard_deviation(self):
        assert means_and_stds([{"a": 0.1}]) == ({"a": 0.1}, {})

    @pytest.mark.parametrize("at_once, words", [(1, ("1 done", "epoch 3,")), (2, ("epoch 3,",))])
    def test_a_stopped_training_resumes_every_run_to_the_same_bits(
        self, data, trained, stacked, tmp_path, monkeypatch, at_once, words
    ):
        monkeypatch.setattr(Checkpoint, "due", lambda self: True)
        with pytest.raises(KeyboardInterrupt):
            train_seeds(*data, tmp_path / "run", SEEDS, PLAN, "cpu", StopAt(*words), at_once=at_once)
        assert not (tmp_path / "run" / "seeds.json").exists()
        left = {path.name for path in (tmp_path / "run.unfinished").iterdir()}
        assert left == {f"seed-{seed}" for seed in SEEDS[:2]}
        summary = train_seeds(*data, tmp_path / "run", SEEDS, PLAN, "cpu", resume=True, at_once=at_once)
        never_stopped, folder = trained if at_once == 1 else stacked
        assert same_bits(weights_in(tmp_path / "run"), weights_in(folder))
        assert summary.plain()["means"] == never_stopped.plain()["means"]
        assert losses_in(tmp_path / "run") == losses_in(folder)
        assert not (tmp_path / "run.unfinished").exists()

    def test_all_runs_of_a_stack_are_saved_when_a_save_is_due(self, data, tmp_path, monkeypatch):
        calls, keys = [], []
        monkeypatch.setattr(Checkpoint, "due", lambda self: not calls.append(len(calls)) and len(calls) == 2)
        monkeypatch.setattr(Checkpoint, "save", lambda self, key, arrays, facts: keys.append((key, facts["batch"])))
        train_seeds(*data, tmp_path / "run", (0, 1), replace(PLAN, epochs=3), "cpu", at_once=2)
        assert keys == [("seed-0", 2), ("seed-1", 2), ("seed-0", 0), ("seed-1", 0)]  # after two steps, and at the end

    def test_a_resumed_training_may_have_more_seeds(self, data, tmp_path, monkeypatch):
        monkeypatch.setattr(Checkpoint, "due", lambda self: True)
        with pytest.raises(KeyboardInterrupt):
            train_seeds(*data, tmp_path / "run", (0,), PLAN, "cpu", StopAt("epoch 4"))
        summary = train_seeds(*data, tmp_path / "run", (0, 1), PLAN, "cpu", resume=True)
        assert list(summary.runs) == [0, 1]

    def test_a_new_training_keeps_the_summary_of_the_old_one_which_is_refused_once_a_retriever_is_replaced(
        self, data, tmp_path
    ):
        given = (*data, tmp_path / "run"), ((0, 1), replace(PLAN, epochs=1), "cpu")
        train_seeds(*given[0], (0,), replace(PLAN, epochs=1, learning_rate=2e-3), "cpu")  # else seed 0 may be the same
        with pytest.raises(KeyboardInterrupt):
            train_seeds(*given[0], *given[1], StopAt("epoch 1"))
        assert seeds_in(tmp_path / "run") == [0]
        with pytest.raises(KeyboardInterrupt):
            train_seeds(*given[0], *given[1], StopAt("1 done"))
        with pytest.raises(
            StoreError, match=r"seeds\.json is of other retrievers than those beside it: a training was"
        ):
            seeds_in(tmp_path / "run")
        train_seeds(*given[0], *given[1])
        assert seeds_in(tmp_path / "run") == [0, 1]
        shutil.rmtree(tmp_path / "run" / "seed-1")
        with pytest.raises(StoreError, match=r"seeds\.json is of other retrievers"):
            seeds_in(tmp_path / "run")


class TestRefused:
    def test_seeds_given_twice_or_not_at_all(self, data, tmp_path):
        for seeds in ((), (1, 1)):
            with pytest.raises(SpecError, match="seeds must be different"):
                train_seeds(*data, tmp_path / "run", seeds, PLAN, "cpu")
        with pytest.raises(SpecError, match="at_once must be at least 1, not 0"):
            train_seeds(*data, tmp_path / "run", (1,), PLAN, "cpu", at_once=0)

    def test_folders_of_something_else(self, data, trained, tmp_path):
        with pytest.raises(StoreError, match="holds seed-2, seed-5 of another training"):
            train_seeds(*data, trained[1], (0, 1), PLAN, "cpu")
        with pytest.raises(StoreError, match="holds other files; name an empty folder for the retrievers"):
            train_seeds(*data, trained[1] / "seed-0", SEEDS, PLAN, "cpu")
        with pytest.raises(StoreError, match="holds other files and no retriever"):
            train(*data, trained[1], PLAN, "cpu")
        (tmp_path / "note").write_text("")
        with pytest.raises(StoreError, match="is a file"):
            train_seeds(*data, tmp_path / "note", SEEDS, PLAN, "cpu")

    def test_a_folder_of_several_is_no_retriever_and_names_one(self, trained):
        with pytest.raises(StoreError, match=r"it holds one for each seed, such as .*seed-0"):
            Retriever.load(trained[1], "cpu")

    def test_a_damaged_summary(self, tmp_path):
        (tmp_path / "seeds.json").write_text("{}")
        with pytest.raises(StoreError, match=r"cannot read .*seeds\.json"):
            seeds_in(tmp_path)

    def test_a_gpu_that_is_too_small(self, data, tmp_path, monkeypatch):
        def full(*_):
            yield from ()
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(trainer_module, "train_stack", full)
        with pytest.raises(InputError, match="does not hold 3 runs at once; resume with fewer"):
            train_seeds(*data, tmp_path / "run", SEEDS, PLAN, "cpu", at_once=3)


class TestMemory:
    def test_a_gpu_takes_the_runs_that_half_of_its_free_memory_holds(self, data, monkeypatch):
        table, sequences = data
        need = bytes_of_run(Plan(), table.sizes, sequences, 2)
        for runs, free, expected in ((8, 1 << 40, 8), (40, 1 << 40, 15), (8, 6 * need + 1, 3), (8, need, 1)):
            monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, free))
            assert runs_at_once(runs, Plan(), table.sizes, sequences, "cuda") == expected
        assert runs_at_once(8, Plan(), table.sizes, sequences, "cpu") == 1

    def test_the_estimate_grows_with_the_model_and_the_batch(self, data):
        table, sequences = data
        plans = [Plan(shape) for shape in (PRESETS["tiny"], PRESETS["paper"], PRESETS["base"], PRESETS["large"])]
        needs = [bytes_of_run(plan, table.sizes, sequences, 2) for plan in plans]
        assert needs == sorted(needs)
        assert 20e6 < needs[1] < 2e9
        assert bytes_of_run(Plan(batch=512), table.sizes, sequences, 2) > needs[1]


class TestCommands:
    def run(self, name, *words, code=0):
        words = [name, *words, "--device", "cpu"]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result

    def test_train_and_evaluate_print_mean_and_standard_deviation(self, files, tmp_path):
        options = ("--preset", "tiny", "--epochs", 1, "--seeds", "0,3", "-o", tmp_path / "run")
        facts = json.loads(self.run("train", *files, *options, "--json").stdout)
        assert facts["seeds"] == [0, 3]
        assert facts["stds"]["item_ndcg@20"] > 0
        assert set(facts["counting"]) == {"popular", "followed"}
        shown = self.run("train", *files, *options).stdout
        assert f"{facts['means']['item_ndcg@20']:.4f}" in shown
        assert f"{facts['stds']['item_ndcg@20']:.4f}" in shown
        assert "± over seeds" in shown
        assert "mean and standard deviation over seeds 0, 3" in shown
        assert "2 seeds, 1 at once" in shown
        again = json.loads(self.run("evaluate", tmp_path / "run", files[1], "--json").stdout)
        assert again["means"] == pytest.approx(facts["means"])
        assert again["stds"] == pytest.approx(facts["stds"])
        assert set(again["figures"]) == {"0", "3"}
        assert "over seeds 0, 3" in self.run("evaluate", tmp_path / "run", files[1]).stdout
        alone = json.loads(self.run("evaluate", tmp_path / "run" / "seed-3", files[1], "--json").stdout)
        assert alone["means"] == again["figures"]["3"]

    @pytest.mark.parametrize(
        "words, message",
        [
            (("--seed", 1, "--seeds", "x3"), "--seed 1 and --seeds x3 exclude each other"),
            (("--at-once", 2), "--at-once 2 is for several seeds"),
            (("--seeds", "x2", "--at-once", 0), "--at-once must be at least 1, not 0"),
            (("--seeds", "1,1"), "name one twice"),
        ],
    )
    def test_options_that_exclude_each_other(self, files, tmp_path, words, message):
        result = self.run("train", *files, "-o", tmp_path / "run", *words, code=1)
        assert message in result.exception.typed
