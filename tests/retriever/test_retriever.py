"""A retriever as its users see it: training, the folder, recommendations, commands and errors."""

import json
import os
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sidkit import SidTable, prq_kmeans
from sidkit.cli import app, printing
from sidkit.cli.printing import print_figures
from sidkit.data.sequences import Sequences, read_sequences
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.measure.counting import counted

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from sidkit.retriever import PRESETS, Plan, Retriever, Shape, SidLogitsProcessor
from sidkit.retriever.beams import beam_search
from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.evaluation import Evaluator
from sidkit.retriever.resume import identity
from sidkit.retriever.trainer import train
from toys import StopAt, generated, padded, ring, write_files

LASTFM = Path(os.environ.get("SIDKIT_DATA", "")) / "lastfm"
LEARNS = Plan(Shape(1, 32, 64, 2, 16, dropout=0.05), epochs=12, batch=32, learning_rate=6e-3, patience=6, beams=10)
SHORT = Plan(Shape(1, 16, 16, 2, 8, dropout=0.1), epochs=4, batch=64, learning_rate=6e-3, beams=6)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    table, sequences = ring()
    folder = tmp_path_factory.mktemp("train") / "run"
    return train(table, sequences, folder, LEARNS, device="cpu"), table, sequences, folder


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A training of a few epochs that was never stopped."""
    table, sequences = ring(users=40)
    return train(table, sequences, tmp_path_factory.mktemp("short") / "run", SHORT, device="cpu"), table, sequences


def invoke(*words):
    """Run a command on the CPU."""
    return CliRunner().invoke(app, [*map(str, words), "--device", "cpu"])


class TestTraining:
    def test_it_learns_what_comes_next_and_beats_popularity(self, trained):
        retriever, _, sequences, _ = trained
        test = examples(sequences, "test")
        popular = np.argsort(-np.bincount(sequences.rows, minlength=32))[:5]
        by_popularity = np.isin(sequences.rows[test.position], popular).mean()
        recall = retriever.facts["test"]["item_recall@5"]
        assert recall > 2 * max(by_popularity, 5 / 32)
        assert recall > 0.6

    def test_the_folder_loads_as_a_retriever_and_with_transformers(self, trained):
        from transformers import T5ForConditionalGeneration

        retriever, table, sequences, folder = trained
        again = Retriever.load(folder, "cpu")
        assert again.evaluate(sequences).means() == pytest.approx(retriever.facts["test"])
        model = T5ForConditionalGeneration.from_pretrained(folder)
        vocabulary = Vocabulary(table.sizes)
        inputs, _ = padded(sequences, examples(sequences, "test"), vocabulary.tokens(table.codes), np.arange(4), 2)
        ours = beam_search(again.weights, LEARNS.shape, again._device_trie, inputs, 5)
        _, scores = generated(model, inputs, 5, SidLogitsProcessor(again.trie), levels=2)
        assert torch.allclose(ours.score / 2, scores, atol=1e-4)

    def test_recommendations_are_items_with_scores_best_first(self, trained):
        retriever = trained[0]
        ranked = retriever.recommend(["p3", "p4", "p5"], k=5)
        assert ranked[0].item == "p6"
        assert ranked[0].sid == (0, 6)
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
        assert {one.item for one in retriever.recommend(["p3", "p4", "p5"], k=5, within=["p9", "p20"])} == {"p9", "p20"}

    def test_items_that_share_a_sid_are_all_recommended(self, trained):
        retriever = trained[0]
        table = SidTable(["x", "y", *retriever.table.ids.to_pylist()[2:]], retriever.table.codes.copy(), (4, 8))
        table.codes[0] = table.codes[1] = (0, 6)
        twins = Retriever(table, retriever.plan, retriever.weights, {})
        assert {one.item for one in twins.recommend(["p3", "p4", "p5"], k=3)} == {"x", "y", "p6"}

    def test_the_log_is_json_lines_and_tensorboard(self, trained):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        retriever, _, _, folder = trained
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == list(range(1, retriever.facts["epochs"] + 1))
        assert lines[-1]["loss"] < lines[0]["loss"]
        events = EventAccumulator(str(folder / "tensorboard")).Reload()
        assert [event.value for event in events.Scalars("train/loss")] == pytest.approx([one["loss"] for one in lines])
        assert pq.read_table(folder / "sids.parquet").num_rows == 32
        assert len({part.stat().st_mode for part in folder.iterdir() if part.is_file()}) == 1  # who reads one reads all

    def test_a_stopped_training_resumes_to_the_same_bits(self, short, tmp_path, monkeypatch):
        retriever, table, sequences = short
        monkeypatch.setattr(Checkpoint, "due", lambda self: True)
        with pytest.raises(KeyboardInterrupt):
            train(table, sequences, tmp_path / "run", SHORT, device="cpu", progress=StopAt("epoch 3,"))
        resumed = train(table, sequences, tmp_path / "run", SHORT, device="cpu", resume=True)
        assert all(torch.equal(resumed.weights[name], value) for name, value in retriever.weights.items())
        assert resumed.facts["test"] == retriever.facts["test"]
        assert not (tmp_path / "run.unfinished").exists()

    def test_a_training_stopped_after_its_last_epoch_trains_no_further(self, short, tmp_path, monkeypatch):
        retriever, table, sequences = short

        def no_disk(*_):
            raise OSError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr("sidkit.retriever.trainer.save", no_disk)
            with pytest.raises(OSError, match="full"):
                train(table, sequences, tmp_path / "run", SHORT, device="cpu")
        resumed = train(table, sequences, tmp_path / "run", SHORT, device="cpu", resume=True)
        assert resumed.facts["epochs"] == retriever.facts["epochs"]
        assert all(torch.equal(resumed.weights[name], value) for name, value in retriever.weights.items())

    @pytest.mark.skipif(not (LASTFM / "embedding.npy").exists(), reason="SIDKIT_DATA names no folder with lastfm/")
    def test_the_tiny_model_beats_popularity_on_lastfm_on_a_cpu(self, tmp_path):
        X = np.load(LASTFM / "embedding.npy").astype(np.float32)
        fitted = prq_kmeans(sizes=(64, 64, 64)).fit(X, seed=0)
        table = SidTable(np.arange(len(X)), fitted.encode(X), fitted.sizes)
        sequences = read_sequences(LASTFM / "sequences.parquet", table.ids).tail(20)
        plan = Plan(PRESETS["tiny"], epochs=4, learning_rate=3e-3, history=8, beams=20)
        figures = train(table, sequences, tmp_path / "run", plan, "cpu").facts["test"]
        popular = counted(sequences, len(table))["popular"]
        assert figures["expected_recall@20"] > 1.2 * popular["recall@20"]
        assert figures["expected_ndcg@20"] > 1.1 * popular["ndcg@20"]


class TestCommands:
    def test_training_the_papers_model_on_a_cpu_is_warned_of(self, tmp_path):
        table, sequences = ring(users=8)
        write_files(tmp_path, table, sequences)
        words = ("train", tmp_path / "sids.parquet", tmp_path / "sequences.parquet", "--epochs", 1)
        warned = {}
        for preset in ("paper", "tiny"):
            result = invoke(*words, "--preset", preset, "-o", tmp_path / preset, "--json")
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout)["epochs"] == 1
            warned[preset] = "hours on a CPU" in result.stderr
            assert set(json.loads(result.stdout)["counting"]) == {"popular", "followed"}
        assert warned == {"paper": True, "tiny": False}
        words = ("evaluate", tmp_path / "tiny", tmp_path / "sequences.parquet")
        assert "no model: what followed the last item" in invoke(*words).stdout
        (tmp_path / "stock.txt").write_text(str(table.ids[3].as_py()))
        result = invoke(*words, "--within", tmp_path / "stock.txt")
        assert result.exit_code == 0, result.output
        assert "no model" not in result.stdout  # counting knows of no stock

    def test_a_list_of_items_has_an_id_a_line_and_decoding_is_as_trained(self, tmp_path):
        table, sequences = ring(users=20)
        table = SidTable([f"p {i}" for i in range(32)], table.codes, table.sizes)
        write_files(tmp_path, table, sequences)
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=1, batch=64, beams=6, constrained=False)
        facts = train(table, sequences, tmp_path / "run", plan, "cpu").facts
        assert facts["test"]["valid_share"] < 1

        words = ("evaluate", tmp_path / "run", tmp_path / "sequences.parquet")

        def evaluated(*options):
            result = invoke(*words, "--json", *options)
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)["means"]

        printed = invoke(*words).stdout
        assert "with 6 SIDs generated per user" in printed
        assert f"{facts['test']['valid_share']:.1%} of what was generated" in printed
        assert evaluated() == pytest.approx(facts["test"])
        assert evaluated("--constrained")["valid_share"] == 1
        assert evaluated("--invalid-consumes-rank")["item_mrr@20"] < facts["test"]["item_mrr@20"]
        (tmp_path / "stock.txt").write_text("p 3\n\n  p 4 \n")
        assert evaluated("--within", tmp_path / "stock.txt", "--constrained")["valid_share"] == 1  # two SIDs, six beams

    def test_a_narrow_terminal_shows_every_digit(self, monkeypatch, trained):
        screen, make = StringIO(), printing.Console
        monkeypatch.setattr(
            "sidkit.cli.printing.Console",
            lambda **_: make(file=screen, width=80, force_terminal=True, color_system=None),
        )
        facts = trained[0].facts
        print_figures(facts["test"], facts["users"], {})
        for name in ("recall@5", "ndcg@20", "mrr@10"):
            assert f"{facts['test'][f'corrected_{name}']:.4f}" in screen.getvalue()
        assert "…" not in screen.getvalue()


class TestErrors:
    def test_items_without_a_sid_are_counted(self, tmp_path):
        table, _ = ring()
        with pytest.raises(InputError, match="1 of 6 items"):
            train(table, Sequences(np.array([0, 1, 2, -1, 4, 5]), np.array([0, 6]), 1), tmp_path / "run", LEARNS, "cpu")

    def test_sequences_too_short_for_training_are_named(self, tmp_path):
        table, _ = ring()
        with pytest.raises(InputError, match="no sequence has the 4 items"):
            train(table, Sequences.of([[1, 2, 3]]), tmp_path / "run", LEARNS, device="cpu")

    def test_a_folder_of_something_else_is_left_alone(self, tmp_path):
        table, sequences = ring()
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(StoreError, match="other files"):
            train(table, sequences, tmp_path, LEARNS, device="cpu")
        with pytest.raises(StoreError, match=r"not a trained retriever: it has no retriever\.json$"):
            Retriever.load(tmp_path)
        (tmp_path / "run.unfinished").mkdir()
        with pytest.raises(StoreError, match=r"run\.unfinished can be trained on with resume=True"):
            Retriever.load(tmp_path / "run")

    def test_histories_of_unknown_or_no_items_are_refused(self, trained):
        for history, words in ((["nobody"], "no item 'nobody'"), ([], "at least one item")):
            with pytest.raises(InputError, match=words):
                trained[0].recommend(history)

    def test_plans_that_make_no_sense_are_refused(self):
        for options in (
            {"epochs": 0},
            {"learning_rate": 0.0},
            {"precision": "int3"},
            {"seed": -1},
            {"seed": 1 << 63},
            {"inference_batch": -1},
        ):
            with pytest.raises(SpecError):
                Plan(**options)
        with pytest.raises(SpecError, match="dropout"):
            Shape(dropout=1.0)

    def test_figures_do_not_depend_on_the_inference_batch(self, trained, monkeypatch):
        from sidkit.retriever import evaluation

        retriever, _, sequences, folder = trained
        users, search = [], evaluation.stacked_search
        monkeypatch.setattr(
            evaluation,
            "stacked_search",
            lambda *given: (users.append(given[3].shape[1]), search(*given))[1],
        )
        whole = retriever.evaluate(sequences)
        assert len(users) == 1
        parts = retriever.evaluate(sequences, inference_batch=7)
        assert users[1:-1] == [7] * (len(users) - 2)
        assert sum(users[1:]) == whole.count == parts.count
        assert parts.means() == pytest.approx(whole.means())
        assert Retriever.load(folder, "cpu").plan.inference_batch == 0

    def test_numbers_that_make_no_sense_are_refused(self, trained):
        retriever, _, sequences, _ = trained
        with pytest.raises(SpecError, match="beams must be at least 1, not 0"):
            retriever.evaluate(sequences, beams=0)
        with pytest.raises(SpecError, match="beams must be at least 1, not -1"):
            retriever.recommend(["p1"], beams=-1)
        with pytest.raises(SpecError, match="k must be at least 1"):
            retriever.recommend(["p1"], k=0)

    def test_a_device_that_does_not_exist_is_named(self, tmp_path):
        with pytest.raises(SpecError, match="device must be auto, cpu, cuda or cuda:N, not 'gpu'"):
            Retriever.load(tmp_path, "gpu")

    def test_a_training_of_other_sizes_is_not_resumed(self):
        table, sequences = ring()
        other = SidTable(table.ids, table.codes, (8, 8))
        assert identity(table, sequences, LEARNS) != identity(other, sequences, LEARNS)

    def test_a_gpu_that_is_not_there_is_named(self, tmp_path):
        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(SpecError, match="there is no CUDA device here; use device='cpu'"):
            Retriever.load(tmp_path, "cuda")


def test_evaluation_does_not_depend_on_how_users_are_batched(trained, monkeypatch):
    retriever, table, sequences, _ = trained
    complete = Evaluator(table, sequences, "test", 20, "cpu")(retriever.weights, LEARNS.shape, 10)
    monkeypatch.setattr("sidkit.retriever.evaluation.PLAIN_LOGITS", 7 * 10 * 25)
    parts = Evaluator(table, sequences, "test", 20, "cpu")(retriever.weights, LEARNS.shape, 10)
    assert parts.count == complete.count == 120
    assert parts.sums == pytest.approx(complete.sums)


def test_many_users_get_what_each_gets_alone(trained, monkeypatch):
    retriever = trained[0]
    histories = [[f"p{(start + i) % 32}" for i in range(1 + start % 5)] for start in range(9)]
    complete = retriever.recommend_many(histories, k=4)
    monkeypatch.setattr("sidkit.retriever.evaluation.PLAIN_LOGITS", 2 * 10 * 13)  # two users at a time
    parts = retriever.recommend_many(histories, k=4)
    alone = [retriever.recommend(history, k=4) for history in histories]
    for other in (parts, alone):
        assert [[one[:2] for one in user] for user in other] == [[one[:2] for one in user] for user in complete]
        np.testing.assert_allclose(
            *([one.score for user in each for one in user] for each in (other, complete)), atol=1e-5
        )
