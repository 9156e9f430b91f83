"""The schedule of a training: early stopping, stacks that shrink, deadlines, progress."""

import time
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from sidkit.cli.terminal import Terminal
from sidkit.errors import SpecError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from sidkit.retriever import Plan, Shape
from sidkit.retriever.evaluation import Evaluator
from sidkit.retriever.runs import Outcome, TrainingRun, progress_note
from sidkit.retriever.stack import Stack
from sidkit.retriever.trainer import train
from sidkit.retriever.training import train_stack
from toys import ring, shop


def test_the_weights_are_those_of_the_epoch_that_was_best_in_validation():
    table, sequences = ring(users=60)
    plan = Plan(Shape(1, 16, 16, 2, 8), epochs=8, batch=16, learning_rate=0.1, patience=3, beams=8)
    (outcome,) = train_stack([TrainingRun("a", table, 0)], sequences, plan, "cpu")
    valid, test = (
        Evaluator(table, sequences, split, plan.history, "cpu")(outcome.weights, plan.shape, plan.beams).means()
        for split in ("valid", "test")
    )
    assert outcome.best_epoch < outcome.epoch
    assert outcome.best == pytest.approx(valid["item_ndcg@20"])
    assert outcome.test.means() == pytest.approx(test)
    assert valid["item_ndcg@20"] != pytest.approx(test["item_ndcg@20"], rel=1e-3)


def test_a_plateau_runs_out_of_patience():
    outcome, plan = Outcome(TrainingRun("a", shop(), 0)), Plan(patience=2)
    for epoch, value in enumerate((0.4, 0.5, 0.5, 0.5), start=1):
        assert not outcome.is_over(plan)
        outcome.epoch = epoch
        outcome.consider(value, lambda epoch=epoch: {"of": epoch})
    assert outcome.is_over(plan)
    assert (outcome.best_epoch, outcome.weights) == (2, {"of": 2})


def test_a_loss_that_is_no_number_ends_the_training(tmp_path):
    table, sequences = ring(users=30)
    plan = Plan(Shape(1, 8, 8, 1, 8), epochs=2, batch=32, learning_rate=1e30, beams=4)
    with pytest.raises(SpecError, match="the loss became nan in epoch 1; lower learning_rate"):
        train(table, sequences, tmp_path / "run", plan, "cpu")
    assert not (tmp_path / "run").exists()


def test_progress_has_room_for_the_time_left_on_eighty_columns(monkeypatch):
    table, sequences = ring(users=30)
    plan, screen = Plan(Shape(1, 8, 8, 1, 8), epochs=2, batch=32, beams=4), StringIO()
    shown = Console(file=screen, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("sidkit.progress.bars.Console", lambda **_: shown)
    with Terminal() as progress:
        list(train_stack([TrainingRun("a", table, 0)], sequences, plan, "cpu", progress=progress))
    last = screen.getvalue()[-400:]
    for words in ("100%", "rows/s", "0:00:00", "epoch 2, loss ", "NDCG@20 0.", "best 0."):
        assert words in last


def test_early_stopping_keeps_the_best_epoch_and_admits_the_next_run():
    table, sequences = ring(users=30)
    plan = Plan(Shape(1, 8, 8, 1, 8), epochs=4, batch=64, learning_rate=1e-9, patience=2, beams=4)
    runs = [TrainingRun("a", table, seed) for seed in range(3)]
    outcomes = list(train_stack(runs, sequences, plan, "cpu", at_once=2))
    assert sorted(outcome.run.seed for outcome in outcomes) == [0, 1, 2]
    for outcome in outcomes:
        assert outcome.finished
        assert outcome.epoch == min(outcome.best_epoch + 2, 4)
        assert outcome.best == max(entry["item_ndcg@20"] for entry in outcome.log)


def test_runs_that_outlast_the_others_continue_in_a_smaller_stack_as_they_would_alone(monkeypatch):
    table, sequences = ring(users=30)
    shape = Shape(1, 16, 16, 2, 8, dropout=0.1)
    plan, sizes = Plan(shape, epochs=6, batch=64, learning_rate=1e-3, beams=4), []
    last = {0: 2, 1: 5, 2: 3, 3: 2}  # epochs by seed
    monkeypatch.setattr(Outcome, "is_over", lambda self, plan: self.epoch >= last[self.run.seed])
    resized = Stack.resized
    monkeypatch.setattr(Stack, "resized", lambda self, runs: sizes.append((self.runs, runs)) or resized(self, runs))
    outcomes = train_stack([TrainingRun("a", table, seed) for seed in last], sequences, plan, "cpu", at_once=4)
    together = {outcome.run.seed: outcome for outcome in outcomes}
    assert sizes == [(4, 2), (2, 1)]
    for seed in (1, 2):
        (alone,) = train_stack([TrainingRun("a", table, seed)], sequences, plan, "cpu")
        losses = [[entry["loss"] for entry in one.log] for one in (together[seed], alone)]
        np.testing.assert_allclose(*losses, rtol=1e-5)


def test_near_a_deadline_no_run_is_started_that_would_meet_it():
    table, sequences = ring(users=30)
    plan = Plan(Shape(1, 8, 8, 1, 8), epochs=3, batch=64, beams=4)
    runs = [TrainingRun("a", table, seed) for seed in range(500)]
    outcomes = list(train_stack(runs, sequences, plan, "cpu", deadline=time.monotonic() + 1.0))
    assert 1 <= len(outcomes) < 500
    assert sum(not outcome.finished for outcome in outcomes) <= 1


def test_a_deadline_ends_a_run_that_is_not_finished():
    table, sequences = ring(users=20)
    plan = Plan(Shape(1, 8, 8, 1, 8), epochs=50, batch=64, beams=4)
    (outcome,) = train_stack([TrainingRun("a", table, 0)], sequences, plan, "cpu", deadline=0.0)
    assert (outcome.epoch, outcome.finished) == (1, False)


def test_the_note_of_several_runs_has_their_means_and_how_many_are_done():
    table = shop()
    runs = [Outcome(TrainingRun("a", table, seed)) for seed in range(2)]
    for outcome, loss, value in zip(runs, (2.0, 1.0), (0.25, 0.75), strict=True):
        outcome.record(loss, 100.0, {"item_ndcg@20": value}, dict)
    assert progress_note(runs[:1]) == "epoch 1, loss 2.0000,\nNDCG@20 0.2500, best 0.2500 at 1"
    assert progress_note(runs, 3) == "2 runs, 3 done,\nepoch 1, loss 1.5000,\nNDCG@20 0.5000, best 0.5000"
