"""sidkit fit says in words that a level has collapsed, and what may help."""

import json

import numpy as np
import pytest

import sidkit
from command import run

SIZES = (16, 8)
SMALL = {"epochs": 60, "hidden": (32, 16), "latent": 8, "batch": 128}


@pytest.fixture(scope="module")
def alike():
    """Vectors that are nearly the same: a common component of length one, and a tenth of it that differs."""
    noise = np.random.default_rng(0).normal(size=(500, 32)) / np.sqrt(32)
    return (np.ones(32) / np.sqrt(32) + 0.1 * noise).astype(np.float32)


def codes_in_use(X, **options):
    codes = sidkit.rq_vae(SIZES, **SMALL, **options).fit(X, seed=1, device="cpu").fit_codes
    return [len(np.unique(codes[:, level])) for level in range(len(SIZES))]


def test_a_common_component_collapses_rq_vae_and_two_options_prevent_it(alike):
    pytest.importorskip("torch")
    assert codes_in_use(alike)[0] <= 3
    assert codes_in_use(alike, remove_mean=True) == [16, 8]
    assert codes_in_use(alike, reset_dead=True) == [16, 8]


def test_fit_warns_of_a_collapsed_level_and_names_the_options(alike, tmp_path):
    pytest.importorskip("torch")
    np.save(tmp_path / "x.npy", alike)
    options = [word for name, value in SMALL.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    words = ("fit", "x.npy", "-r", "rq-vae", "--sizes", "16-8", "--seed", "1", "--device", "cpu", *options)
    done = run(*words, "-o", "tok", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: Level 1 has collapsed: " in done.stderr
    assert "--set remove_mean=true or --set reset_dead=true may help" in done.stderr
    assert json.loads(done.stdout)["recipe"] == "rq-vae"
    healed = run(*words, "--set", "remove_mean=true", "-o", "healed", cwd=tmp_path)
    assert healed.returncode == 0
    assert "collapsed" not in healed.stderr


def test_fit_warns_of_any_recipe_without_advice_that_was_not_measured(tmp_path, rng):
    X = np.repeat(rng.normal(size=(4, 6)), [97, 1, 1, 1], axis=0).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    done = run("fit", "x.npy", "--sizes", "16-8", "-o", "tok", cwd=tmp_path)
    assert "warning: Level 1 has collapsed: 4 of 16 codes are in use" in done.stderr
    assert "may help" not in done.stderr
