"""A fit that is killed and called again ends as if it had never stopped."""

import time

import numpy as np
import pytest

import sidkit
import sidkit.tokenizer.windows
from sidkit.files.checkpoint import Checkpoint
from sidkit.progress import Silent
from sidkit.stages.cluster import GMM, Balanced
from sidkit.stages.level import SUBTRACT, Level
from sidkit.tokenizer.recipes import recipe
from sidkit.tokenizer.tokenizer import Tokenizer
from warm import COMMAND, Warm

SPECS = {
    "prq-kmeans": recipe("prq-kmeans", sizes=(8, 4), iterations=6),
    "opq-kmeans": recipe("opq-kmeans", sizes=(4, 4), first=3, alternations=4),
    "rq-gmm": Tokenizer((Level(GMM(4, iterations=6, tolerance=0.0), SUBTRACT),)),
    "balanced": Tokenizer((Level(Balanced(4, iterations=4, settle=4), SUBTRACT),)),
    "rq-opq": recipe("rq-opq", sizes=(8, 4, 4, 4, 4), iterations=5),
}


class Stop(Exception):
    """Raised in the middle of a fit."""


class StopAfter(Silent):
    """Lets a fit report so many passes, then stops it."""

    def __init__(self, passes):
        self.left = passes

    def note(self, text):
        self.left -= 1
        if self.left < 0:
            raise Stop


@pytest.fixture
def always_due(monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)


@pytest.mark.parametrize("name", SPECS)
def test_a_fit_stopped_at_any_pass_resumes_to_the_same_bits(name, rng, tmp_path, always_due):
    X = rng.normal(size=(200, 8)).astype(np.float32)
    complete = SPECS[name].fit(X, seed=2)
    for passes in (1, 3, 5, 8):
        folder = tmp_path / str(passes)
        try:
            SPECS[name].fit(X, seed=2, checkpoint=folder, progress=StopAfter(passes))
        except Stop:
            assert any(folder.iterdir())
        again = SPECS[name].fit(X, seed=2, checkpoint=folder)
        for ours, theirs in zip(again.stages, complete.stages, strict=True):
            for key, array in theirs.arrays.items():
                assert np.array_equal(ours.arrays[key], array), key
        assert np.array_equal(again.fit_codes, complete.fit_codes)


def test_finished_levels_are_not_fitted_again(rng, tmp_path, always_due):
    X = rng.normal(size=(200, 8))
    SPECS["prq-kmeans"].fit(X, checkpoint=tmp_path / "c")
    SPECS["prq-kmeans"].fit(X, checkpoint=tmp_path / "c", progress=StopAfter(0))  # not one pass is made


@pytest.mark.parametrize("change", ["seed", "data", "spec", "init"])
def test_the_checkpoint_of_another_fit_is_refused(change, rng, tmp_path):
    X = rng.normal(size=(100, 6))
    recipe("prq-kmeans", sizes=(4,)).fit(X, checkpoint=tmp_path / "c")
    other = {"seed": {"seed": 1}, "init": {"init": [np.arange(4)]}}.get(change, {})
    spec = recipe("prq-kmeans", sizes=(5 if change == "spec" else 4,))
    with pytest.raises(sidkit.SidkitError, match="is of another fit"):
        spec.fit(X + (change == "data"), checkpoint=tmp_path / "c", **other)


PRELUDE = """
import pyarrow.parquet, sidkit.cli, sidkit.data.embeddings, sidkit.sids.table, sidkit.tokenizer.recipes
import sidkit.tokenizer.windows
from sidkit.files.checkpoint import Checkpoint
sidkit.tokenizer.windows.WINDOW = 500  # so that many are written
Checkpoint.due = lambda self: True     # a state after every pass
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    with Warm(PRELUDE, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


def killed_runs(warm, rng, runs, *command):
    """How many runs of a command that resumes were killed, at moments spread over the time that one takes."""
    start = time.perf_counter()
    warm.run(COMMAND, *command, "--resume")
    usual = time.perf_counter() - start
    killed = 0
    for moment in rng.permutation(runs):
        child = warm.start(COMMAND, *command, "--resume")
        time.sleep(float(moment + rng.uniform()) / runs * usual)
        killed += child.kill()
    return killed


def test_kill_9_at_random_moments_changes_nothing(rng, tmp_path, warm):
    """Real processes, killed while they fit, write checkpoints or save; then resumed to the end."""
    np.save(tmp_path / "x.npy", rng.normal(size=(3000, 16)).astype(np.float32))
    fit = ["fit", tmp_path / "x.npy", "--sizes", "64-64-64", "--iterations", "8"]
    warm.run(COMMAND, *fit, "-o", tmp_path / "whole")
    assert killed_runs(warm, rng, 12, *fit, "-o", tmp_path / "tok") >= 5
    warm.run(COMMAND, *fit, "-o", tmp_path / "tok", "--resume")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "tok" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "tok.unfinished").exists()


def test_kill_9_at_random_moments_of_an_encoding_changes_nothing(rng, tmp_path, warm):
    """The same for encoding, with small windows so that many of them are written."""
    np.save(tmp_path / "x.npy", rng.normal(size=(20_000, 16)).astype(np.float32))
    sample = rng.normal(size=(3000, 16)).astype(np.float32)
    sidkit.prq_kmeans(sizes=(32, 32, 32), iterations=2).fit(sample).save(tmp_path / "tok")
    encode = ["encode", tmp_path / "tok", tmp_path / "x.npy"]
    warm.run(COMMAND, *encode, "-o", tmp_path / "whole.parquet")
    assert killed_runs(warm, rng, 12, *encode, "-o", tmp_path / "out.parquet") >= 5
    child = warm.start(COMMAND, *encode, "-o", tmp_path / "out.parquet", "--resume")
    child.until((tmp_path / "out.parquet.unfinished" / "rows-500").exists)
    assert child.kill()
    assert (tmp_path / "out.parquet.unfinished").exists()
    warm.run(COMMAND, *encode, "-o", tmp_path / "out.parquet", "--resume")
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not (tmp_path / "out.parquet.unfinished").exists()


def test_windows_that_were_encoded_are_not_encoded_again(rng, tmp_path, monkeypatch):
    X = rng.normal(size=(1000, 8)).astype(np.float32)
    fitted = sidkit.prq_kmeans(sizes=(8, 4), iterations=2).fit(X)
    monkeypatch.setattr(sidkit.tokenizer.windows, "WINDOW", 300)
    complete = fitted.encode(X, checkpoint=tmp_path / "c")
    assert np.array_equal(complete, fitted.encode(X))
    (tmp_path / "c" / "rows-300").rename(tmp_path / "gone")
    seen = []
    monkeypatch.setattr(type(fitted.chain), "tokens", lambda self, x, codes: seen.append(len(x)) or complete[300:600])
    ran = {}
    assert np.array_equal(fitted.encode(X, checkpoint=tmp_path / "c", ran=ran), complete)
    assert (seen, ran["device"]) == ([300], "cpu")
    fitted.encode(X, checkpoint=tmp_path / "c", ran=(nothing := {}))
    assert nothing == {}
    with pytest.raises(sidkit.SidkitError, match="another"):
        fitted.encode(X + 1, checkpoint=tmp_path / "c")
