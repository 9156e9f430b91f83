"""Learned tokenizers whose batches are divided among the workers of a cluster."""

import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sidkit
from ray_data import local, needs_ray, said_by_own_ray
from sidkit.cli import app
from sidkit.fleet.rows import RayRows
from sidkit.stages.vae import feed as feeds
from sidkit.tokenizer.recipes import recipe

torch = pytest.importorskip("torch")
pytestmark = needs_ray

SPEC = recipe("rq-vae", sizes=(8, 4), epochs=3, hidden=(16,), latent=6, batch=64, evaluate_every=2)


def assert_alike(ours, theirs, atol=2e-4):
    for name, array in theirs.stages[-1].arrays.items():
        np.testing.assert_allclose(ours.stages[-1].arrays[name], array, atol=atol, rtol=0, err_msg=name)
    assert (ours.fit_codes == theirs.fit_codes).mean() > 0.99


def test_workers_learn_what_one_machine_learns_also_when_some_are_killed(data, shared):
    together = replace(shared, divides_batches=True)
    expected = SPEC.fit(together, seed=2)
    assert_alike(expected, local(SPEC, data[1], seed=2, device="cpu"))
    assert_alike(SPEC.fit(together, seed=2), expected, atol=0)

    before, victim = shared.pool.slots.retries, shared.pool.slots.ready[-1].process[0]
    strike = threading.Timer(0.05, lambda: os.kill(victim, signal.SIGKILL))
    strike.start()
    assert_alike(replace(SPEC).fit(together, seed=2), expected)
    strike.join()
    assert_alike(SPEC.fit(together, seed=2), expected)  # every worker has rows, so that every death is noticed
    assert shared.pool.slots.retries > before


def test_rows_that_are_streamed_to_the_driver_give_the_bits_of_one_machine(data, shared, monkeypatch):
    expected = local(SPEC, data[1], seed=2, device="cpu")
    monkeypatch.setattr(feeds, "HOST_ROOM", 100)
    assert_alike(SPEC.fit(shared, seed=2), expected, atol=0)


def test_what_workers_exchange_does_not_leave_the_machine_where_ray_does_not(shared):
    def listening(member):  # pickled as it is: workers do not have this module
        """Local addresses that this process listens at, as /proc has them; and how many members there are."""
        links = set()
        for fd in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the listing itself
                links.add(os.readlink(f"/proc/self/fd/{fd}"))
        tables = [Path(f"/proc/self/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6")]
        lines = [line.split() for table in tables for line in table]
        own = {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links}
        count = np.ones(1)
        member.exchange.add(count)
        return own, int(count[0])

    addresses, members = shared.together(listening)
    assert {address[-8:] for address in addresses} == {"0100007F"}  # 127.0.0.1, also as an address of IPv6
    assert members == 3


def test_the_command_divides_batches(data, ray_pool, tmp_path, monkeypatch):
    """There is one chunk of rows, so one worker has every batch whole, and the bits are those of one machine."""
    epochs, together = [], RayRows.together
    monkeypatch.setattr(RayRows, "together", lambda rows, f: epochs.append(f.epoch) or together(rows, f))
    words = ["fit", str(data[7]), "-r", "rq-vae", "--sizes", "8-4", "--set", "epochs=2", "--set", "batch=64"]
    assert CliRunner().invoke(app, [*words, "-o", str(tmp_path / "here"), "--device", "cpu"]).exit_code == 0
    there = [*words, "-o", str(tmp_path / "there"), "--ray", "--workers", "2", "--divide-batches"]
    done = CliRunner().invoke(app, there)
    assert done.exit_code == 0, done.output
    ours, theirs = (sidkit.load(tmp_path / name).stages[-1].arrays for name in ("there", "here"))
    assert epochs == [0, 1]
    assert all(np.array_equal(ours[name], array) for name, array in theirs.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-r", "rq-vae", "--divide-batches"], "--divide-batches is for the workers of --ray"),
        (["--ray", "--divide-batches"], "--divide-batches is for rq-vae and r3-vae"),
    ],
)
def test_batches_are_divided_where_there_are_workers_and_batches(words, message, data, tmp_path):
    done = CliRunner().invoke(app, ["fit", str(data[1]), "-o", str(tmp_path / "tok"), *words])
    assert message in done.exception.args[0]


GPUS = """
import numpy as np
import ray
from sidkit.fleet.open import workers_on_ray
from sidkit.fleet.task import Seat, Task
from sidkit.progress import Silent

def which(member):
    import ray
    own = np.full(2, 0.0)
    own[member.number] = 1 + int(ray.get_gpu_ids()[0])
    member.exchange.add(own)
    return member.device, own.tolist()

ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="ERROR")
pool = workers_on_ray(2, device="cuda", patience=120)
assert len(pool.slots.gathered()) == 2
(meeting,) = pool.values([Task("meet", home=0, payload=True)], None, Silent())
seats = [Task("together", home=n, payload=Seat(n, 2, meeting, [], (), None)) for n in range(2)]
first, second = pool.values(seats, which, Silent())
assert first[0] == "cuda" and sorted(first[1]) == [1.0, 2.0] and second is None, (first, second)
pool.close()
ray.shutdown()
print("each had a GPU to itself")
"""


def test_workers_with_gpus_exchange_what_they_have():
    """There are none: Ray is told so, and hands them out. What a network does on one is tested elsewhere."""
    assert said_by_own_ray(GPUS) == "each had a GPU to itself"
