"""The same tokens on a cluster, whatever becomes of its processes. A real Ray, started once on this machine."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.embeddings import open_embeddings
from sidkit.fleet.shards import Shard, add_shards, plan
from sidkit.progress import Silent
from sidkit.recipes import recipe
from sidkit.rows import LocalRows, add_in_tree

ray = pytest.importorskip("ray", reason="the ray extra is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:.*:ResourceWarning")  # of Ray's own sockets

CHUNK = 64
D = 12
CUTS = {
    1: [0, 900],
    2: [0, 1, 900],
    3: [0, 500, 500, 900],
    7: [0, 0, 17, 400, 401, 850, 850, 900],
}
QUICK = {"iterations": 4}
SPECS = {
    "prq-kmeans": recipe("prq-kmeans", sizes=(32, 16), top_k=3, **QUICK),
    "rq-kmeans": recipe("rq-kmeans", sizes=(32, 16), **QUICK),
    "rq-gmm": recipe("rq-gmm", sizes=(8, 4)),
    "pq-kmeans": recipe("pq-kmeans", sizes=(16, 8), **QUICK),
    "opq-kmeans": recipe("opq-kmeans", sizes=(8, 8), first=2, alternations=3),
    "rq-opq": recipe("rq-opq", sizes=(8, 4, 4, 4, 4), **QUICK),
    "prq-opq": recipe("prq-opq", sizes=(8, 4, 4, 4, 4), **QUICK),
    "res-kmeans-fsq": recipe("res-kmeans-fsq", sizes=(8, 4, 4, 4, 4), projection="itq", **QUICK),
    "without-projection": recipe("without-projection", sizes=(32, 16), **QUICK),
}


def write(folder, X, cuts, row_group=50):
    """The rows as files of these lengths, ids and all."""
    folder.mkdir(parents=True)
    for i, (start, stop) in enumerate(zip(cuts, cuts[1:], strict=False)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[start:stop].ravel()), X.shape[1])
        ids = pa.array([f"P{row:05}" for row in range(start, stop)], pa.string())
        table = pa.table({"item_id": ids, "embedding": vectors})
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=row_group)
    return folder


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(7)
    return (rng.normal(size=(900, D)) + 0.3 * rng.normal(size=D)).astype(np.float32)


@pytest.fixture(scope="module")
def data(X, tmp_path_factory):
    return {n: write(tmp_path_factory.mktemp("data") / str(n), X, cuts) for n, cuts in CUTS.items()}


@pytest.fixture(scope="module")
def crew(data):
    """Ray with room for six workers, ours while the first rows are held; one worker of it is taken."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    with sidkit.on_ray(data[1], address="local", workers=6, chunk=900) as rows:
        yield rows.crew
    assert not ray.is_initialized()


def local(spec, folder, **options):
    return spec.fit(LocalRows(open_embeddings(folder), chunk=CHUNK), **options)


def same_bits(a, b):
    for ours, theirs in zip(a.stages, b.stages, strict=True):
        for key, array in theirs.arrays.items():
            assert np.array_equal(ours.arrays[key], array), key
    assert np.array_equal(a.fit_codes, b.fit_codes)


# The tree


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 7, 10, 48])
@pytest.mark.parametrize("chunks", [1, 2, 7, 61, 123, 1000])
def test_shards_add_up_to_the_bits_of_one_machine(chunks, workers):
    parts = np.random.default_rng(chunks).normal(size=(chunks, 50)) * 10.0 ** np.arange(50)
    whole = add_in_tree(((part,) for part in parts), chunks)[0]
    by_worker = plan(chunks, workers)
    shards = [shard for shards in by_worker for shard in shards]
    assert [row for shard in shards for row in range(*shard)] == list(range(chunks))
    found = {s: add_in_tree(((part,) for part in parts[s.first : s.last]), s.last - s.first)[0] for s in shards}
    assert np.array_equal(add_shards(Shard(0, chunks), found, np.add), whole)
    if chunks >= 10 * workers:
        most = max(sum(shard.last - shard.first for shard in shards) for shards in by_worker)
        assert most * workers <= 1.25 * chunks
    if workers in (1, 2, 4) and chunks >= workers:
        assert [len(shards) for shards in by_worker] == [1] * workers


# The same tokens


@pytest.mark.parametrize("files", CUTS)
def test_any_number_of_files_gives_the_bits_of_one_machine(files, data, crew):
    with sidkit.on_ray(data[files], workers=3, chunk=CHUNK) as rows:
        same_bits(SPECS["prq-kmeans"].fit(rows, seed=1), local(SPECS["prq-kmeans"], data[1], seed=1))


@pytest.fixture(scope="module")
def pair(data, crew):
    with sidkit.on_ray(data[7], workers=2, chunk=CHUNK) as rows:
        yield rows


@pytest.mark.parametrize("name", SPECS)
def test_every_recipe_gives_the_bits_of_one_machine(name, data, pair):
    same_bits(SPECS[name].fit(pair, seed=2), local(SPECS[name], data[1], seed=2))


def test_learned_tokenizers_see_the_same_batches(data, pair):
    pytest.importorskip("torch")
    spec = recipe("rq-vae", sizes=(8, 4), epochs=2, hidden=(16,), latent=6, batch=64)
    same_bits(spec.fit(pair, seed=2), local(spec, data[1], seed=2))


def test_samples_batches_and_named_rows_are_those_of_one_machine(data, pair):
    here = LocalRows(open_embeddings(data[1]), chunk=CHUNK)
    assert np.array_equal(pair.sample(70, (3, 1)), here.sample(70, (3, 1)))
    for ours, theirs in zip(pair.batches(128, (5,)), here.batches(128, (5,)), strict=True):
        assert np.array_equal(ours, theirs)
    init = [np.arange(0, 320, 10), None]
    same_bits(SPECS["prq-kmeans"].fit(pair, init=init), local(SPECS["prq-kmeans"], data[1], init=init))


def test_rows_of_a_npy_file_are_read_by_ranges(X, tmp_path, crew):
    np.save(tmp_path / "x.npy", X.astype(np.float64))
    with sidkit.on_ray(tmp_path / "x.npy", workers=2, chunk=CHUNK, memory=0) as rows:  # out of core
        fitted = SPECS["prq-kmeans"].fit(rows)
        same_bits(fitted, local(SPECS["prq-kmeans"], tmp_path / "x.npy"))
        assert fitted.dtype == "float64"


def test_rows_are_encoded_in_the_dtype_of_the_fit(X, data, pair):
    fitted = SPECS["prq-kmeans"].fit(X.astype(np.float64))
    assert np.array_equal(fitted.encode(pair), fitted.encode(X))


def test_what_is_saved_is_what_one_machine_saves(data, pair, tmp_path):
    SPECS["prq-kmeans"].fit(pair).save(tmp_path / "ray")
    local(SPECS["prq-kmeans"], data[1]).save(tmp_path / "here")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


# Encoding


def test_each_file_gets_a_file_and_finished_ones_are_kept(X, data, pair, tmp_path):
    fitted = SPECS["prq-kmeans"].fit(X)
    done = pair.encode(fitted, tmp_path / "sids")
    assert [path.name for path in done.files] == [f"part-{i}.parquet" for i in range(7)]
    assert (done.rows, done.kept) == (900, 0)
    assert [pq.read_metadata(path).num_rows for path in done.files] == np.diff(CUTS[7]).tolist()
    table = sidkit.SidTable.from_parquet(tmp_path / "sids")
    assert table.ids.to_pylist() == [f"P{row:05}" for row in range(900)]
    assert np.array_equal(table.codes, fitted.fit_codes)

    written = {path: path.stat().st_mtime_ns for path in done.files}
    done.files[2].unlink()
    assert pair.encode(fitted, tmp_path / "sids").kept == 6
    assert sum(path.stat().st_mtime_ns == when for path, when in written.items()) == 6
    assert pair.encode(SPECS["prq-kmeans"].fit(X, seed=5), tmp_path / "sids").kept == 0  # another tokenizer


def test_files_of_several_folders_keep_their_folders(X, tmp_path, crew):
    write(tmp_path / "in" / "a", X, [0, 300])
    write(tmp_path / "in" / "b", X, [0, 200])
    with sidkit.on_ray(tmp_path / "in" / "**" / "*.parquet", workers=2) as rows:
        done = rows.encode(SPECS["rq-kmeans"].fit(X), tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in done.files] == ["a/part-0.parquet", "b/part-0.parquet"]


# Faults


class Killer(threading.Thread):
    """Kills worker processes at random moments until told to stop."""

    def __init__(self, crew, seed, most):
        super().__init__(daemon=True)
        self.crew, self.rng, self.most, self.killed, self.go_on = crew, np.random.default_rng(seed), most, 0, True

    def run(self):
        while self.go_on and self.killed < self.most:
            time.sleep(float(self.rng.uniform(0, 0.25)))
            alive = [slot for slot in self.crew.slots if slot.facts is not None]
            if alive:
                slot = alive[int(self.rng.integers(len(alive)))]
                try:
                    os.kill(slot.facts[0], signal.SIGKILL)
                except (ProcessLookupError, TypeError):
                    continue
                self.killed += 1
                slot.facts = None if slot.task is None else slot.facts  # do not kill a dead one twice


def test_kill_9_of_workers_while_fitting_changes_nothing(data, crew):
    spec = recipe("prq-kmeans", sizes=(32, 16), top_k=3, iterations=12)
    whole = local(spec, data[1])
    with sidkit.on_ray(data[7], workers=4, chunk=CHUNK) as rows:
        killer = Killer(rows.crew, 1, 20)
        killer.start()
        while killer.is_alive():
            same_bits(spec.fit(rows), whole)
        killer.join()
        same_bits(spec.fit(rows), whole)
        assert killer.killed == 20
        assert rows.crew.retries >= 10


def test_kill_9_of_workers_while_encoding_leaves_every_file_whole(X, data, crew, tmp_path):
    fitted = SPECS["prq-kmeans"].fit(X)
    with sidkit.on_ray(data[7], workers=4, chunk=CHUNK) as rows:
        killer = Killer(rows.crew, 2, 20)
        killer.start()
        for attempt in range(1000):
            out = tmp_path / str(attempt)
            done = rows.encode(fitted, out)
            assert sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) == sorted(
                path.name for path in done.files
            )
            assert np.array_equal(sidkit.SidTable.from_parquet(out).codes, fitted.fit_codes)
            if not killer.is_alive():
                break
        assert killer.killed == 20
