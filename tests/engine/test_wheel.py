"""The wheel: it carries compiled kernels for every level, they load without a compiler, and every level agrees."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sidkit.engine.native import compiler, shipped

ROOT = Path(__file__).parents[2]
HERE = "sidkit/engine/native/libraries"

pytest.importorskip("build", reason="building a wheel needs 'build' and 'hatchling'")
pytest.importorskip("hatchling", reason="building a wheel needs 'build' and 'hatchling'")
needs_gcc = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or compiler.find_compiler() is None,
    reason="no C compiler for Linux on x86-64",
)


def built(folder, **environment):
    """The path of a wheel built from this checkout, and what the build said."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("dist"))[0]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that the wheel was unpacked to."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


SCRIPT = """
import hashlib, sys
import numpy as np
import sidkit
from sidkit.engine import cpu, native
native.prepare(float("inf"))
x = np.random.default_rng(0).standard_normal((3000, 96)).astype(np.float32)
spec = sidkit.prq_kmeans(sizes=(48, 32, 16), top_k=5, iterations=6)
codes = spec.fit(x, seed=0).encode(x)
book = cpu.book(x[:300], "euclidean", x)
codes = np.concatenate([codes.ravel(), cpu.nearest(x, book)])
level = "numpy" if native.reason() else native.build.kernels()._name.rsplit("/", 1)[-1]
print(level, native.reason(), hashlib.sha256(codes.astype("<i4").tobytes()).hexdigest())
"""


def run_without_a_compiler(installed, cache, script=SCRIPT, **environment):
    """The output of a process that has the wheel's package, and no programs on its path."""
    settings = {name: value for name, value in os.environ.items() if name not in ("CC", "SIDKIT_NATIVE")}
    settings |= {"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(cache), "PATH": str(cache)} | environment
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=settings, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_gcc
def test_the_wheel_carries_every_level_and_its_tag_names_no_python(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    levels = [level.file for level in compiler.LEVELS if level.machine == "x86_64"]
    assert sorted(name for name in names if name.startswith(HERE)) == sorted(
        f"{HERE}/{name}" for name in [*levels, "digests.json"]
    )
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")


@needs_gcc
def test_without_a_compiler_the_best_level_of_the_wheel_is_used_once_it_is_tried(installed, tmp_path):
    look = "from sidkit.engine import native; print(native.prepare(0), native.reason())"
    assert run_without_a_compiler(installed, tmp_path, look) == "False not tried yet"
    best = shipped.levels_here(installed / HERE)[0]
    assert run_without_a_compiler(installed, tmp_path).startswith(f"{best.file} None ")
    assert run_without_a_compiler(installed, tmp_path, look) == "True None"
    assert [path.suffix for path in (tmp_path / "sidkit").iterdir()] == [".ok"]


@needs_gcc
def test_tokens_are_equal_at_every_level_of_the_wheel_compiled_here_and_by_numpy(installed, tmp_path):
    levels = {level.name: f"{level.file} None" for level in shipped.levels_here(installed / HERE)}
    assert "avx2" in levels
    levels["0"] = "numpy switched off by SIDKIT_NATIVE=0"
    tokens = set()
    for name, right in levels.items():
        said = run_without_a_compiler(installed, tmp_path, SIDKIT_NATIVE=name)
        assert said.startswith(right), (name, said)
        tokens.add(said.split()[-1])
    said = run_without_a_compiler(installed, tmp_path, SIDKIT_NATIVE="compile", PATH=os.environ["PATH"])
    assert said.split()[1] == "None", said
    assert tokens == {said.split()[-1]}


@needs_gcc
def test_a_level_that_dies_or_was_changed_is_passed_over_for_the_next(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = installed / HERE
    first, second = shipped.levels_here(here)[:2]
    monkeypatch.setattr(shipped, "try_out", lambda path: "died" if path.name == first.file else None)
    assert shipped.best_library("", True, here) == here / second.file
    assert shipped.best_library(first.name, True, here) is None  # remembered
    changed = tmp_path / "libraries"
    changed.mkdir()
    for name in (second.file, "digests.json"):
        (changed / name).write_bytes((here / name).read_bytes())
    assert shipped.best_library("", True, changed) == changed / second.file
    data = (changed / second.file).read_bytes()
    (changed / second.file).write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    assert shipped.best_library("", True, changed) is None


@needs_gcc
def test_where_nothing_can_be_stored_the_trial_holds_for_the_process(installed, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    assert " None " in run_without_a_compiler(installed, blocked)


def test_a_level_that_is_not_there_is_named(installed, tmp_path):
    script = "from sidkit.engine import native; native.prepare(float('inf')); print(native.reason())"
    said = run_without_a_compiler(installed, tmp_path, script, SIDKIT_NATIVE="sse9")
    assert said.startswith("SIDKIT_NATIVE=sse9; this installation can use 0, 1, compile and ")


def test_without_a_compiler_the_wheel_is_pure_and_the_build_says_so(tmp_path):
    wheel, said = built(tmp_path, CC="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "no C compiler (no-such-compiler)" in said
    assert "the wheel has no compiled kernels; they are compiled on first use" in said
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]


@needs_gcc
def test_checksums_of_the_wheel_are_those_of_its_libraries(installed):
    digests = json.loads((installed / HERE / "digests.json").read_text())
    assert all(shipped.checksum(installed / HERE / name) == total for name, total in digests.items())
    assert len(digests) == 4
