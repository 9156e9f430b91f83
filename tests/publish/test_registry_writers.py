"""Several writers at one registry, and writers that are killed: nothing is lost, doubled or half-written."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sidkit
from sidkit.publish.registry import create_registry

WRITERS = Path(__file__).with_name("writers.py")


@pytest.fixture
def address(registry_address, tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    tokenizer = sidkit.rq_kmeans((16, 8)).fit(x).save(tmp_path / "tok")
    create_registry(registry_address, tokenizer).__exit__(None, None, None)
    return registry_address


def counted(*words):
    command = [sys.executable, WRITERS, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_eight_writers_give_every_item_one_id(address):
    found = counted("together", address, "--writers", 8, "--appends", 6)
    assert found["acknowledged"] == 48
    assert 1500 < found["items"] <= 3000  # most of the pool, drawn by several
    assert found["generations"] <= 48


def test_killed_writers_leave_whole_generations(address):
    found = counted("killed", address, "--kills", 10)
    assert found["kills"] == 10
    assert found["acknowledged"] >= 10
    assert found["items"] > 500
