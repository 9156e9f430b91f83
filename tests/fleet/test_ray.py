"""The same tokens on a cluster, whatever becomes of its processes. A real Ray, started once on this machine."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.fleet.shards import Shard, add_shards, plan
from sidkit.progress import Silent
from sidkit.rows.local import LocalRows
from sidkit.rows.seam import add_in_tree
from sidkit.tokenizer.recipes import recipe

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
    for i, (start, stop) in enumerate(pairwise(cuts)):
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
    """Ray with room for twelve workers, ours while the first rows are held; one of them is taken."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    with sidkit.on_ray(data[1], address="local", workers=12, chunk=900) as rows:
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
    with sidkit.on_ray(data[files], workers=3 if files > 3 else 1 + files % 2, chunk=CHUNK) as rows:
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
    with sidkit.on_ray(tmp_path / "in" / "**" / "*.parquet", workers=1) as rows:
        done = rows.encode(SPECS["rq-kmeans"].fit(X), tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in done.files] == ["a/part-0.parquet", "b/part-0.parquet"]


# Faults


class Killer(threading.Thread):
    """Kills so many worker processes, each once, at random moments."""

    def __init__(self, crew, seed, most):
        super().__init__(daemon=True)
        self.crew, self.rng, self.most, self.killed = crew, np.random.default_rng(seed), most, set()

    def run(self):
        while len(self.killed) < self.most:
            time.sleep(float(self.rng.uniform(0, 0.8)))
            alive = {slot.facts[0] for slot in self.crew.slots if slot.facts is not None} - self.killed
            if alive:
                pid = int(self.rng.choice(sorted(alive)))
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)


@pytest.fixture(scope="module")
def four(data, crew):
    with sidkit.on_ray(data[7], workers=4, chunk=CHUNK) as rows:
        yield rows


def test_kill_9_of_workers_while_fitting_changes_nothing(data, four):
    spec = recipe("prq-kmeans", sizes=(32, 16), top_k=3, iterations=12)
    whole, killer = local(spec, data[1]), Killer(four.crew, 1, 20)
    killer.start()
    while killer.is_alive():
        same_bits(spec.fit(four), whole)
    same_bits(spec.fit(four), whole)
    assert len(killer.killed) == 20
    assert four.crew.retries >= 20


def test_kill_9_of_workers_while_encoding_leaves_every_file_whole(X, four, tmp_path):
    fitted, killer, before = SPECS["prq-kmeans"].fit(X), Killer(four.crew, 2, 20), four.crew.retries
    killer.start()
    for attempt in count():
        last, out = not killer.is_alive(), tmp_path / str(attempt)
        done = four.encode(fitted, out)
        whole = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        assert whole == sorted(path.name for path in done.files)
        assert np.array_equal(sidkit.SidTable.from_parquet(out).codes, fitted.fit_codes)
        if last:
            break
    assert len(killer.killed) == 20
    assert four.crew.retries - before >= 15


NODE_LOSS = """
import threading, time
import numpy as np
from ray.cluster_utils import Cluster
import sidkit
from sidkit.embeddings import open_embeddings
from sidkit.progress import Silent
from sidkit.recipes import recipe
from sidkit.rows.local import LocalRows

cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 2, "include_dashboard": False}})
other = cluster.add_node(num_cpus=2)
spec = recipe("prq-kmeans", sizes=(32, 16), top_k=3, iterations=6)
whole = spec.fit(LocalRows(open_embeddings({folder!r}), chunk=64))

class Unplug(Silent):
    passes = 0
    def note(self, text):
        self.passes += 1
        if self.passes == 3:
            cluster.remove_node(other, allow_graceful=False)

with sidkit.on_ray({folder!r}, address=cluster.address, workers=4, chunk=64, patience=1.0) as rows:
    while any(slot.facts is None for slot in rows.crew.slots):
        rows.crew._welcome()
        time.sleep(0.1)
    assert len({{slot.facts[1] for slot in rows.crew.slots}}) == 2, "all workers on one node"
    fitted = spec.fit(rows, progress=Unplug())
    assert np.array_equal(fitted.fit_codes, whole.fit_codes)
    for ours, theirs in zip(fitted.stages, whole.stages):
        for key, array in theirs.arrays.items():
            assert np.array_equal(ours.arrays[key], array), key
    done = rows.encode(fitted, {out!r})
    assert np.array_equal(sidkit.SidTable.from_parquet({out!r}).codes, whole.fit_codes)
    assert rows.crew.retries >= 2 and sum(slot.facts is not None for slot in rows.crew.slots) == 2
import ray
assert not ray.is_initialized()
cluster.shutdown()
print("survived")
"""


def test_the_loss_of_a_whole_node_changes_nothing(data, tmp_path):
    script = NODE_LOSS.format(folder=str(data[7]), out=str(tmp_path / "out"))
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/"}
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=280, check=False,
        env=alone | quiet | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["survived"], done.stdout[-500:] + done.stderr[-3000:]


def test_a_driver_that_dies_comes_back_with_resume(data, crew, tmp_path, rng):
    address = crew.ray.get_runtime_context().gcs_address
    sizes = ["--sizes", "64-64-64", "--iterations", "40"]
    fit = [sys.executable, "-m", "sidkit", "fit", str(data[7]), *sizes, "--resume"]
    subprocess.run([*fit, "-o", str(tmp_path / "whole")], check=True, capture_output=True)
    on_ray = [*fit, "-o", str(tmp_path / "tok"), "--ray", address, "--workers", "2"]
    killed = 0
    while not (tmp_path / "tok.unfinished" / "stage-2").exists() and killed < 5:
        process = subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (tmp_path / "tok.unfinished" / "stage-1").exists():
            time.sleep(0.02)
        time.sleep(float(rng.uniform(0.1, 0.5)))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    done = subprocess.run(on_ray, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert killed >= 1
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "tok" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "tok.unfinished").exists()

    encode = [sys.executable, "-m", "sidkit", "encode", str(tmp_path / "tok"), str(data[7]), "-o"]
    told = subprocess.run([*encode, str(tmp_path / "out"), "--ray", address], capture_output=True, text=True)
    assert "wrote 900 semantic IDs to 7 files; next" in told.stdout, told.stderr
    assert "ran on Ray: " in told.stdout
    again = [*encode, str(tmp_path / "out"), "--ray", address, "--json"]
    figures = json.loads(subprocess.run(again, capture_output=True, text=True).stdout)
    assert (figures["items"], figures["files"], figures["kept_files"], figures["ran"]["device"]) == (900, 7, 7, "ray")
    table = sidkit.SidTable.from_parquet(tmp_path / "out")
    assert np.array_equal(table.codes, sidkit.load(tmp_path / "whole").encode(open_embeddings(data[1])))
    assert len(crew.ray.nodes()) == 1  # the cluster was only used
    assert crew.slots[0].facts is not None


def test_a_file_that_cannot_be_read_is_named_and_stops_the_run(X, crew, tmp_path):
    folder = write(tmp_path / "in", X, [0, 300, 600, 900])
    broken = folder / "part-1.parquet"
    content = bytearray(broken.read_bytes())
    content[100:2000] = bytes(1900)  # vectors; the footer is whole
    broken.write_bytes(content)
    with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
        sidkit.on_ray(folder, workers=1, chunk=CHUNK)
    with sidkit.on_ray(folder, workers=2, chunk=CHUNK, check=False) as rows:
        with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
            rows.encode(SPECS["rq-kmeans"].fit(X), tmp_path / "out")
    assert not (tmp_path / "out" / "part-1.parquet").exists()
    broken.write_bytes(b"no footer")
    with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
        sidkit.on_ray(folder, workers=2)


def test_bad_rows_are_named_or_left_out(X, crew, tmp_path):
    bad = X.copy()
    bad[[5, 700]] = np.nan
    folder = write(tmp_path / "in", bad, CUTS[3])
    with pytest.raises(sidkit.SidkitError, match=r"2 of 900 rows .* row 5 of part-0\.parquet holds NaN"):
        sidkit.on_ray(folder, workers=1, chunk=CHUNK)
    with sidkit.on_ray(folder, workers=2, chunk=CHUNK, bad_rows="drop") as rows:
        assert list(rows.left_out) == [5, 700]
        kept = LocalRows(
            open_embeddings(write(tmp_path / "good", np.delete(X, [5, 700], axis=0), [0, 898])), chunk=CHUNK
        )
        fitted = SPECS["prq-kmeans"].fit(rows)
        same_bits(fitted, SPECS["prq-kmeans"].fit(kept))
        done = rows.encode(fitted, tmp_path / "out", bad_rows="drop")
    assert done.rows == 898
    assert (tmp_path / "out" / "part-0.bad-rows.tsv").read_text() == "row\tid\treason\n5\tP00005\tholds NaN\n"


# Storage


def test_files_on_s3_are_read_and_written_like_others(X, data, crew, bucket, tmp_path):
    from sidkit.files.address import locate, replacing

    for path in data[3].iterdir():
        with replacing(locate(bucket.format(f"items/{path.name}"))) as temporary:
            temporary.write_bytes(path.read_bytes())
    np.save(tmp_path / "x.npy", X)
    with replacing(locate(bucket.format("x.npy"))) as temporary:
        temporary.write_bytes((tmp_path / "x.npy").read_bytes())

    fitted = SPECS["prq-kmeans"].fit(X)
    for address in ("items", "items/*.parquet", "**/part-?.parquet".replace("?", "[0-9]")):
        source = open_embeddings(bucket.format(address))
        assert np.array_equal(np.concatenate(list(source.chunks(100))), X)
        assert source.ids.to_pylist()[-1] == "P00899"
    assert np.array_equal(fitted.encode(open_embeddings(bucket.format("x.npy"))), fitted.fit_codes)
    with sidkit.on_ray(bucket.format("items"), workers=2, chunk=CHUNK) as rows:
        same_bits(SPECS["prq-kmeans"].fit(rows), local(SPECS["prq-kmeans"], data[1]))
        done = rows.encode(fitted, bucket.format("sids"))
        assert [str(path) for path in done.files] == [f"s3://shop/sids/part-{i}.parquet" for i in range(3)]
        assert rows.encode(fitted, bucket.format("sids")).kept == 3
    for i, path in enumerate(done.files):
        with path.open() as file:
            assert np.array_equal(np.array(pq.read_table(file)["codes"].to_pylist()).reshape(-1, 2),
                                  fitted.fit_codes[CUTS[3][i] : CUTS[3][i + 1]])  # fmt: skip
    with pytest.raises(sidkit.SidkitError, match="no such file or folder: s3://shop/nothing"):
        open_embeddings(bucket.format("nothing"))


def test_an_address_that_cannot_be_reached_is_an_error():
    with pytest.raises(sidkit.SidkitError, match="cannot reach nowhere://x"):
        open_embeddings("nowhere://x/y")
    with pytest.raises(sidkit.SidkitError, match="s3:// names no file"):
        open_embeddings("s3://")


# Manners


class Heard(Silent):
    def __init__(self):
        self.said, self.rows = [], 0

    def advance(self, rows):
        self.rows += rows

    def place(self, text):
        self.said.append(text)


def test_progress_tells_shards_workers_and_retries(data, crew):
    heard = Heard()
    with sidkit.on_ray(data[7], workers=2, chunk=CHUNK, progress=heard) as rows:
        assert heard.rows == 900
        os.kill(rows.crew.slots[0].facts[0], signal.SIGKILL)
        SPECS["rq-kmeans"].fit(rows)
    assert any(text.startswith("1/2 shards, ") for text in heard.said)
    assert heard.said[-1].endswith(", 1 retries")


def test_ray_is_quiet_and_on_loopback(crew):
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["RAY_USAGE_STATS_REPORT_URL"] == "http://127.0.0.1:9/"
    assert [node["NodeManagerAddress"] for node in crew.ray.nodes()] == ["127.0.0.1"]


def test_rows_whose_workers_were_let_go_say_so(data, crew):
    with sidkit.on_ray(data[1], workers=1) as rows:
        pass
    with pytest.raises(sidkit.SidkitError, match="were let go; call on_ray again"):
        rows.sample(3, (0,))


def test_without_ray_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sidkit.SidkitError, match=r"working on Ray needs the 'ray' extra: pip install 'sidkit\[ray\]'"):
        sidkit.on_ray(data[1])


@pytest.mark.parametrize("option", [{"workers": 0}, {"cpus": 0}, {"device": "tpu"}])
def test_options_that_make_no_sense_are_errors(option, data):
    with pytest.raises(sidkit.SidkitError, match=f"{next(iter(option))} must be"):
        sidkit.on_ray(data[1], **option)


def test_a_cluster_that_is_not_there_is_an_error_at_once(data):
    script = f"import sidkit; sidkit.on_ray({str(data[1])!r}, address='127.0.0.1:1')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "no Ray cluster answers at 127.0.0.1:1" in done.stderr


def test_ray_stands_with_or_without_an_address():
    from typer.testing import CliRunner

    from sidkit.cli import app

    for words in (["--ray"], ["--ray", "--seed", "1"], ["--ray", "auto"]):
        told = CliRunner().invoke(app, ["fit", "-", "-o", "tok", *words])
        assert "JSON lines come to this process alone" in str(told.exception), told.output


def test_files_that_share_no_folder_but_the_root_keep_their_names():
    from pathlib import Path

    from sidkit.fleet.encode import _under

    paths = [Path("/data1/a.parquet"), Path("/data2/b.parquet")]
    assert _under(paths, Path("/out")) == [Path("/out/data1/a.parquet"), Path("/out/data2/b.parquet")]
