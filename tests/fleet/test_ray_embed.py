"""Texts embedded on a cluster: the same files, whatever happens to workers; and workers that have GPUs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_ray_faults import Killer
from typer.testing import CliRunner

from ray_data import needs_ray, said_by_own_ray
from sidkit.cli import app
from sidkit.data.items import read_texts
from sidkit.embed import job, on_ray
from sidkit.embed.job import Choice, embed_file
from sidkit.embed.on_ray import RayEmbeds
from sidkit.fleet.open import workers_on_ray
from sidkit.progress import Silent

pytestmark = needs_ray


@pytest.fixture
def items(tmp_path, monkeypatch):
    """300 titles in two files, embedded 16 at a time."""
    monkeypatch.setattr(job, "PART", 16)
    monkeypatch.setattr(on_ray, "AHEAD", 2)
    words = ["red", "blue", "green", "mug", "shoe", "lamp", "chair"]
    titles = [" ".join(words[(i * k) % 7] for k in (1, 2, 3)) for i in range(300)]
    for part, rows in enumerate((range(120), range(120, 300))):
        table = {"item_id": [f"P{i}" for i in rows], "title": [titles[i] for i in rows]}
        (tmp_path / "items").mkdir(exist_ok=True)
        pq.write_table(pa.table(table), tmp_path / "items" / f"{part}.parquet")
    return tmp_path


def test_workers_embed_the_bytes_of_one_process_also_while_they_are_killed(items, ray_pool):
    read = read_texts(items / "items", ["title"])
    embed_file(*read, items / "here.parquet", Choice("tfidf", 5), items / "a", Silent())
    with_workers = workers_on_ray(19, workers=2)
    killer = Killer(with_workers, 3, ["one", "all"])
    try:
        killer.start()
        for attempt in range(40):
            embeds = RayEmbeds(with_workers)
            embed_file(*read, items / "ray.parquet", Choice("tfidf", 5), items / f"b{attempt}", Silent(), embeds=embeds)
            assert (items / "ray.parquet").read_bytes() == (items / "here.parquet").read_bytes()
            if not killer.is_alive():
                break
        assert with_workers.slots.retries >= len(killer.killed) >= 2
    finally:
        with_workers.close()
    for file in (items / "here.encoder").iterdir():
        assert file.read_bytes() == (items / "ray.encoder" / file.name).read_bytes()


def test_the_command_embeds_on_a_cluster(items, ray_pool):
    words = ["embed", str(items / "items"), "--model", "tfidf", "--dimensions", "4"]
    for name, more in (("here", []), ("ray", ["--ray", "--workers", "1"])):
        done = CliRunner().invoke(app, [*words, "-o", str(items / f"{name}.parquet"), *more])
        assert done.exit_code == 0, done.output
    assert (items / "ray.parquet").read_bytes() == (items / "here.parquet").read_bytes()


GPUS = """
import ray
from sidkit.fleet.open import workers_on_ray
from sidkit.fleet.task import Task
from sidkit.progress import Silent

def which(_):
    import time, ray
    time.sleep(1)  # so that both workers get a task
    return ray.get_gpu_ids()

ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="ERROR")
pool = workers_on_ray(8, device="cuda")
assert len(pool.slots) == 2, len(pool.slots)
while len(pool.slots.ready) < 2:
    pool.slots.welcome(wait=0.2)
seen = pool.values([Task("call", payload=i) for i in range(4)], which, Silent())
assert sorted({tuple(map(str, one)) for one in seen}) == [("0",), ("1",)], seen
pool.close()
ray.shutdown()
print("each worker had a GPU to itself")
"""


def test_every_worker_has_a_gpu_to_itself_where_ray_says_that_there_are_some():
    """The processor has none: Ray is told so, and hands them out. What runs on them is tested elsewhere."""
    assert said_by_own_ray(GPUS) == "each worker had a GPU to itself"


def test_restored_encoders_are_kept_between_parts():
    encoder = Choice("tfidf", 3).make(pa.array(["red mug", "red shoe", "blue mug", "blue shoe"]))
    work = on_ray.EmbedTexts.of(encoder, query=False)
    assert np.array_equal(work(["red mug"]), encoder.embed(["red mug"]))
    first = on_ray._restored[work.digest]
    work(["blue shoe"])
    assert on_ray._restored[work.digest] is first
