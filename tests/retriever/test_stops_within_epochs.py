"""A training that stops in the middle of an epoch goes on there, to the bits of one that never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from command import sidkit
from sidkit.errors import StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.retriever import Plan, Retriever, Shape
from sidkit.retriever.resume import start_run
from sidkit.retriever.runs import TrainingRun
from sidkit.retriever.trainer import identity, train, train_seeds
from toys import ring, write_files

PLAN = Plan(Shape(1, 16, 16, 2, 8, dropout=0.2), epochs=3, batch=16, learning_rate=2e-2, beams=6)


class Interrupt:
    """Progress that interrupts a training after so many batches."""

    def __init__(self, after):
        self.left = after

    def start(self, label, rows): ...

    def note(self, text): ...

    def advance(self, rows):
        self.left -= rows > 0
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def data():
    return ring(users=40)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    return train(*data, tmp_path_factory.mktemp("whole") / "run", PLAN, "cpu")


def _same(one, other):
    return all(torch.equal(value, other.weights[name]) for name, value in one.weights.items())


@pytest.mark.parametrize("after", [2, 5, 9, 14])
def test_a_training_resumes_within_an_epoch_to_the_same_bits(data, whole, tmp_path, monkeypatch, after):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        train(*data, tmp_path / "run", PLAN, "cpu", Interrupt(after))
    saved = Checkpoint(tmp_path / "run.unfinished", identity(*data, PLAN)).facts("train")
    assert saved is not None
    resumed = train(*data, tmp_path / "run", PLAN, "cpu", resume=True)
    assert _same(resumed, whole)
    assert resumed.facts["test"] == whole.facts["test"]
    assert resumed.facts["epochs"] == whole.facts["epochs"]


def test_a_save_within_an_epoch_says_at_which_batch(data, tmp_path, monkeypatch):
    batches = []
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(Checkpoint, "save", lambda self, key, arrays, facts: batches.append(facts["batch"]))
    train(*data, tmp_path / "run", replace(PLAN, epochs=1), "cpu")
    assert batches == [*range(1, max(batches) + 1), 0]
    assert max(batches) > 3


def test_several_seeds_resume_within_an_epoch_with_another_number_at_once(data, tmp_path, monkeypatch):
    never = train_seeds(*data, tmp_path / "never", (0, 1, 2), PLAN, "cpu", at_once=2)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        train_seeds(*data, tmp_path / "run", (0, 1, 2), PLAN, "cpu", Interrupt(7), at_once=2)
    resumed = train_seeds(*data, tmp_path / "run", (0, 1, 2), PLAN, "cpu", resume=True, at_once=3)
    for seed in (0, 1):
        pair = (Retriever.load(tmp_path / name / f"seed-{seed}", "cpu") for name in ("run", "never"))
        assert _same(*pair)
        assert resumed.runs[seed]["test"] == never.runs[seed]["test"]
    assert list(resumed.runs) == [0, 1, 2]


def test_a_gpu_refuses_a_state_from_within_an_epoch_of_a_cpu(data, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        train(*data, tmp_path / "run", PLAN, "cpu", Interrupt(3))

    class OnGpu:
        stops_anywhere = False

        def put(self, *_): ...

    checkpoint = Checkpoint(tmp_path / "run.unfinished", identity(*data, PLAN))
    with pytest.raises(StoreError, match="was saved within an epoch on a CPU; resume it on a CPU"):
        start_run(OnGpu(), 0, TrainingRun("run", data[0], PLAN.seed), checkpoint)


WITHIN = {
    "within/total": [None, np.array(1.0), np.zeros(2), np.array([np.nan])],
    "within/draws": [None, np.full(5056, -5, np.int64), np.zeros(5056, np.uint8), np.zeros(3, np.uint8)],
}
FACTS = {"log": ["x", [1]], "best_epoch": [[], -1], "epoch": [True, 10**30, 2], "best": ["x"], "step": [1e308, -1]}


def test_states_from_within_an_epoch_that_do_not_fit_are_refused(data, tmp_path, monkeypatch):
    with monkeypatch.context() as often, pytest.raises(KeyboardInterrupt):
        often.setattr(Checkpoint, "due", lambda self: True)
        train(*data, tmp_path / "run", PLAN, "cpu", Interrupt(3))
    checkpoint = Checkpoint(tmp_path / "run.unfinished", identity(*data, PLAN))
    arrays, facts = checkpoint.load("train")
    states = [(arrays | {name: value}, facts) for name, values in WITHIN.items() for value in values]
    states += [(arrays, facts | {name: value}) for name, values in FACTS.items() for value in values]
    for wrong, noted in states:
        checkpoint.save("train", {name: value for name, value in wrong.items() if value is not None}, noted)
        with pytest.raises(StoreError, match=r"train does not fit this run .*; remove it to start again"):
            train(*data, tmp_path / "run", PLAN, "cpu", resume=True)
    for batch in (-1, 0.5, 1000, 1 << 63):  # there are fewer in an epoch
        checkpoint.save("train", arrays, facts | {"batch": batch})
        with pytest.raises(StoreError, match=f"the checkpoint of train goes on at batch '{batch}'; start again"):
            train(*data, tmp_path / "run", PLAN, "cpu", resume=True)


def test_a_process_that_is_killed_goes_on_where_it_was(data, tmp_path):
    """The command itself, killed in its first epoch by the system."""
    write_files(tmp_path, *data)
    options = ("--preset", "tiny", "--epochs", "2", "--batch", "8", "--learning-rate", "1e-3", "--device", "cpu")
    words = ("train", tmp_path / "sids.parquet", tmp_path / "sequences.parquet", *options, "-o")
    sidkit(*words, tmp_path / "whole")
    often = "import sys; from sidkit.files import checkpoint as c; c.Checkpoint.due = lambda self: True; "
    often += "from sidkit.cli import main; sys.argv[0] = 'sidkit'; main()"
    command = [sys.executable, "-c", often, *map(str, words), str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = tmp_path / "run.unfinished" / "train" / "state.json"
    deadline = time.monotonic() + 120
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state.exists()
    sidkit(*words, tmp_path / "run", "--resume")
    assert _same(*(Retriever.load(tmp_path / name, "cpu") for name in ("whole", "run")))
