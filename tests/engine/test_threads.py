"""Threads that wait asleep, and one that multiplies small matrices."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sidkit.embed import co_occurrence
from sidkit.engine.threads import one_blas_thread
from sidkit.stages import opq

POLICY = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
SHOW = """
import json, os, sys
import sidkit.cli

module = sys.modules["sidkit.cli.app"]
seen = lambda standalone_mode: print(json.dumps([{n: os.environ.get(n) for n in sys.argv[1:]}, "numpy" in sys.modules]))
module.application = lambda words: seen
module.main()
"""


def _policy(**given):
    environment = {name: value for name, value in os.environ.items() if name not in POLICY} | given
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *POLICY], env=environment, capture_output=True, text=True, check=True
    )
    policy, computing = json.loads(done.stdout)
    assert not computing
    return policy


def test_commands_set_the_policy_before_anything_that_computes_is_loaded():
    assert _policy() == POLICY


def test_what_a_user_has_set_stays():
    assert _policy(OMP_WAIT_POLICY="ACTIVE")["OMP_WAIT_POLICY"] == "ACTIVE"
    assert _policy(SIDKIT_SPIN="1") == dict.fromkeys(POLICY)


def _threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """Two threads of BLAS, whatever the tests run with."""
    from threadpoolctl import threadpool_limits

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        if _threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_small_products_take_one_thread_and_others_as_many_as_before(two_threads, monkeypatch):
    with one_blas_thread():
        assert _threads() == {1}
    assert _threads() == {2}
    with one_blas_thread(False):
        assert _threads() == {2}
    monkeypatch.setenv("SIDKIT_SPIN", "1")
    with one_blas_thread():
        assert _threads() == {2}


def test_the_rotation_of_opq_is_computed_by_one_thread(two_threads, rng, monkeypatch):
    import sidkit

    seen = []
    inner = opq.procrustes
    monkeypatch.setattr(opq, "procrustes", lambda *given: seen.append(_threads()) or inner(*given))
    sidkit.opq_kmeans(sizes=(4, 4)).fit(rng.normal(size=(60, 8)).astype(np.float32))
    assert seen
    assert set(map(frozenset, seen)) == {frozenset({1})}


def test_co_occurrence_vectors_are_computed_by_one_thread(two_threads, monkeypatch):
    from sidkit.data.sequences import Sequences

    seen = []
    visits = Sequences.of([[i % 30, (i + 1) % 30, (i * 7) % 30] for i in range(200)])

    class Noting:
        def start(self, label, rows): ...

        def advance(self, rows): ...

        def note(self, text):
            seen.append(_threads())

    co_occurrence.co_occurrence(visits, 30, 4, progress=Noting())
    assert seen
    assert set(map(frozenset, seen)) == {frozenset({1})}
