"""The same tokens whatever happens to workers, machines and the process that started the run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import sidkit
from ray_data import fitted, local, needs_ray, said_by_own_ray, same_bits
from sidkit.cli import app
from sidkit.data.embeddings import open_embeddings
from sidkit.tokenizer.recipes import recipe

pytestmark = needs_ray


class Killer(threading.Thread):
    """Kills workers with SIGKILL at random moments: one at a time, or all of them at once."""

    def __init__(self, pool, seed, strikes):
        super().__init__(daemon=True)
        self.pool, self.rng, self.strikes, self.killed = pool, np.random.default_rng(seed), strikes, set()

    def run(self):
        for strike in self.strikes:
            time.sleep(float(self.rng.uniform(0, 0.8)))
            while not (alive := {slot.process[0] for slot in self.pool.slots.ready} - self.killed):
                time.sleep(0.01)
            for pid in alive if strike == "all" else [int(self.rng.choice(sorted(alive)))]:
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)


def test_kill_9_of_workers_while_fitting_and_encoding_changes_nothing(data, shared, tmp_path):
    spec = recipe("prq-kmeans", sizes=(32, 16), top_k=3, iterations=12)
    expected, before = local(spec, data[1]), shared.pool.slots.retries

    fit_killer = Killer(shared.pool, 1, ["one", "all", "one", "one"])
    fit_killer.start()
    while fit_killer.is_alive():
        same_bits(spec.fit(shared), expected)

    encode_killer = Killer(shared.pool, 2, ["one", "all", "one", "one"])
    encode_killer.start()
    for attempt in count():
        last, out = not encode_killer.is_alive(), tmp_path / str(attempt)
        done = shared.encode(fitted(), out)
        complete = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        assert complete == sorted(path.name for path in done.files)
        assert np.array_equal(sidkit.SidTable.from_parquet(out).codes, fitted().fit_codes)
        if last:
            break

    same_bits(spec.fit(shared), expected)  # every worker has a shard, so that every death is noticed
    kills = len(fit_killer.killed) + len(encode_killer.killed)
    assert kills >= 8
    assert shared.pool.slots.retries - before >= kills


NODE_LOSS = """
import time
import numpy as np
from ray.cluster_utils import Cluster
import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.progress import Silent
from sidkit.rows.local import LocalRows
from sidkit.tokenizer.recipes import recipe

cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1, "include_dashboard": False}})
other = cluster.add_node(num_cpus=1)
spec = recipe("prq-kmeans", sizes=(32, 16), top_k=3, iterations=6)
expected = spec.fit(LocalRows(open_embeddings({folder!r}), chunk=64))

class Unplug(Silent):
    passes = 0
    def note(self, text):
        self.passes += 1
        if self.passes == 3:
            cluster.remove_node(other, allow_graceful=False)

with sidkit.on_ray({folder!r}, address=cluster.address, workers=2, chunk=64) as rows:
    slots = rows.pool.slots
    while len(slots.ready) < len(slots):
        slots.welcome()
        time.sleep(0.1)
    assert len({{slot.process[1] for slot in slots}}) == 2, "all workers on one node"
    slots.patience = 1.0  # from here on; a busy machine may take longer to start the first
    fitted = spec.fit(rows, progress=Unplug())
    assert np.array_equal(fitted.fit_codes, expected.fit_codes)
    for ours, theirs in zip(fitted.stages, expected.stages):
        for key, array in theirs.arrays.items():
            assert np.array_equal(ours.arrays[key], array), key
    done = rows.encode(fitted, {out!r})
    assert np.array_equal(sidkit.SidTable.from_parquet({out!r}).codes, expected.fit_codes)
    assert slots.retries >= 1 and len(slots.ready) == 1
import ray
assert not ray.is_initialized()
cluster.shutdown()
print("survived")
"""


def test_the_loss_of_a_whole_node_changes_nothing(data, tmp_path):
    script = NODE_LOSS.format(folder=str(data[7]), out=str(tmp_path / "out"))
    # A node that refuses connections is given up within a second; one that is only slow has many.
    detection = {"RAY_health_check_initial_delay_ms": "0", "RAY_health_check_period_ms": "300"}
    assert said_by_own_ray(script, **detection) == "survived"


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def worker_pids(raylet):
    """The workers of one node: children of its raylet that hold an actor of ours."""
    pids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended since
            if parent(folder.name) == raylet and (folder / "cmdline").read_bytes().startswith(b"ray::Worker"):
                pids.add(int(folder.name))
    return pids


def test_a_driver_that_dies_comes_back_with_resume(data, ray_pool, tmp_path, rng):
    address = ray_pool.ray.get_runtime_context().gcs_address
    fit = ["fit", str(data[7]), "--sizes", "64-64-64", "--iterations", "40", "--resume"]
    assert CliRunner().invoke(app, [*fit, "-o", str(tmp_path / "here")]).exit_code == 0
    sidkit_command = [sys.executable, "-m", "sidkit"]
    on_ray = [*sidkit_command, *fit, "-o", str(tmp_path / "tok"), "--ray", address, "--workers", "2"]
    killed = 0
    while not (tmp_path / "tok.unfinished" / "stage-2").exists() and killed < 5:
        process = subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (tmp_path / "tok.unfinished" / "stage-1").exists():
            time.sleep(0.02)
        time.sleep(float(rng.uniform(0.1, 0.5)))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    raylet = parent(ray_pool.slots[0].process[0])
    others = worker_pids(raylet)
    process = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (mine := worker_pids(raylet) - others):
        time.sleep(0.02)
    os.kill(mine.pop(), signal.SIGKILL)  # the death of a worker is not printed among the results
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "raylet" not in output
    assert killed >= 1
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "tok" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert not (tmp_path / "tok.unfinished").exists()

    encode = ["encode", str(tmp_path / "tok"), str(data[7]), "-o", str(tmp_path / "out"), "--ray", address]
    ended = subprocess.run([*sidkit_command, *encode, "--workers", "2"], capture_output=True, text=True, check=False)
    assert "wrote 900 semantic IDs to 7 files; next" in ended.stdout, ended.stderr
    assert "ran on Ray: " in ended.stdout
    again = CliRunner().invoke(app, [*encode, "--workers", "1", "--json"])
    figures = json.loads(again.stdout)
    assert (figures["items"], figures["files"], figures["kept_files"], figures["ran"]["device"]) == (900, 7, 7, "ray")
    table = sidkit.SidTable.from_parquet(tmp_path / "out")
    assert np.array_equal(table.codes, sidkit.load(tmp_path / "here").encode(open_embeddings(data[1])))
    assert len(ray_pool.ray.nodes()) == 1  # the cluster was only used
    assert ray_pool.slots[0].process is not None
