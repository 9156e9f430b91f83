"""The same tokens on a cluster as on one machine, bit for bit."""

import os
import signal

import numpy as np
import pytest

import sidkit
from ray_data import CHUNK, CUTS, SPECS, local, needs_ray, same_bits, vectors, write
from sidkit.data.embeddings import open_embeddings
from sidkit.progress import Silent
from sidkit.rows.local import LocalRows
from sidkit.tokenizer.recipes import recipe

pytestmark = needs_ray


@pytest.mark.parametrize(("files", "workers"), [(1, 2), (2, 1), (3, 2)])  # 7 files on 3 workers: every recipe, below
def test_any_number_of_files_gives_the_bits_of_one_machine(files, workers, data, ray_pool):
    with sidkit.on_ray(data[files], workers=workers, chunk=CHUNK) as rows:
        same_bits(SPECS["prq-kmeans"].fit(rows, seed=1), local(SPECS["prq-kmeans"], data[1], seed=1))


@pytest.mark.parametrize("name", SPECS)
def test_every_recipe_gives_the_bits_of_one_machine(name, data, shared):
    same_bits(SPECS[name].fit(shared, seed=2), local(SPECS[name], data[1], seed=2))


def test_codebooks_of_parents_are_fitted_by_workers_in_several_rounds(data, shared, monkeypatch):
    monkeypatch.setattr("sidkit.fleet.rows.GROUPED", 60)  # ten parts and more, for three workers
    same_bits(SPECS["rq-opq"].fit(shared, seed=3), local(SPECS["rq-opq"], data[1], seed=3))


def test_learned_tokenizers_see_the_same_batches(data, shared):
    pytest.importorskip("torch")
    spec = recipe("rq-vae", sizes=(8, 4), epochs=2, hidden=(16,), latent=6, batch=64)
    same_bits(spec.fit(shared, seed=2), local(spec, data[1], seed=2))


def test_samples_batches_and_named_rows_are_those_of_one_machine(data, shared):
    here = LocalRows(open_embeddings(data[1]), chunk=CHUNK)
    assert np.array_equal(shared.sample(70, (3, 1)), here.sample(70, (3, 1)))
    for ours, theirs in zip(shared.batches(128, (5,)), here.batches(128, (5,)), strict=True):
        assert np.array_equal(ours, theirs)
    init = [np.arange(0, 320, 10), None]
    same_bits(SPECS["prq-kmeans"].fit(shared, init=init), local(SPECS["prq-kmeans"], data[1], init=init))


def test_rows_of_a_npy_file_are_read_by_ranges(tmp_path, ray_pool):
    np.save(tmp_path / "x.npy", vectors().astype(np.float64))
    with sidkit.on_ray(tmp_path / "x.npy", workers=2, chunk=CHUNK, memory=0) as rows:  # out of core
        on_cluster = SPECS["prq-kmeans"].fit(rows)
        same_bits(on_cluster, local(SPECS["prq-kmeans"], tmp_path / "x.npy"))
        assert on_cluster.dtype == "float64"


def test_rows_are_encoded_in_the_dtype_of_the_fit(shared):
    in_double = SPECS["prq-kmeans"].fit(vectors().astype(np.float64))
    assert np.array_equal(in_double.encode(shared), in_double.encode(vectors()))


def test_what_is_saved_is_what_one_machine_saves(data, shared, tmp_path):
    SPECS["prq-kmeans"].fit(shared).save(tmp_path / "ray")
    local(SPECS["prq-kmeans"], data[1]).save(tmp_path / "here")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_bad_rows_are_named_or_left_out(ray_pool, tmp_path):
    bad = vectors().copy()
    bad[[5, 700]] = np.nan
    folder = write(tmp_path / "in", bad, CUTS[3])
    with pytest.raises(sidkit.SidkitError, match=r"2 of 900 rows .* row 5 of part-0\.parquet holds NaN"):
        sidkit.on_ray(folder, workers=1, chunk=CHUNK)
    good = write(tmp_path / "good", np.delete(vectors(), [5, 700], axis=0), [0, 898])
    with sidkit.on_ray(folder, workers=2, chunk=CHUNK, bad_rows="drop") as rows:
        assert list(rows.left_out) == [5, 700]
        on_cluster = SPECS["prq-kmeans"].fit(rows)
        same_bits(on_cluster, local(SPECS["prq-kmeans"], good))
        done = rows.encode(on_cluster, tmp_path / "out", bad_rows="drop")
    assert done.rows == 898
    assert (tmp_path / "out" / "part-0.bad-rows.tsv").read_text() == "row\tid\treason\n5\tP00005\tholds NaN\n"


class Recorder(Silent):
    """Keeps what is reported."""

    def __init__(self):
        self.texts, self.rows = [], 0

    def advance(self, rows):
        self.rows += rows

    def workers(self, text):
        self.texts.append(text)


def test_progress_tells_shards_workers_and_retries(data, ray_pool):
    recorder = Recorder()
    with sidkit.on_ray(data[7], workers=2, chunk=CHUNK, progress=recorder) as rows:
        assert recorder.rows == 900
        os.kill(rows.pool.slots[0].process[0], signal.SIGKILL)
        SPECS["rq-kmeans"].fit(rows)
    assert any(text.startswith("1/2 shards, ") for text in recorder.texts)
    assert recorder.texts[-1].endswith(", 1 retries")
    with pytest.raises(sidkit.SidkitError, match="were stopped; call on_ray again"):
        rows.sample(3, (0,))


@pytest.mark.parametrize("option", [{"workers": 0}, {"cpus": 0}, {"device": "tpu"}])
def test_options_that_make_no_sense_are_errors(option, data):
    with pytest.raises(sidkit.SidkitError, match=f"{next(iter(option))} must be"):
        sidkit.on_ray(data[1], **option)
