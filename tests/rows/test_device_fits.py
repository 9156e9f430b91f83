"""Fits and encodings from end to end on a GPU: tensors, streams, checkpoints.

They need the device itself, because its name, its free memory and its streams decide what runs; what kernels compute is
tested in the interpreter too (test_device_recipes.py). All share one width and two sizes, to share compiled kernels.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU engine needs torch")

import sidkit  # noqa: E402
from kernels import needs_gpu  # noqa: E402
from sidkit.engine import device  # noqa: E402
from sidkit.tokenizer.recipes import recipe  # noqa: E402

pytestmark = [pytest.mark.gpu, needs_gpu]
SIZES = (300, 260)


def many(n, d=56, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(300, d))[rng.integers(0, 300, n)] + rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("name", ["rq-vae", "r3-vae"])
def test_learned_tokenizers_train_and_encode_on_rows_of_a_gpu(name):
    X = many(3001)
    more = {"hidden": (32,), "latent": 8} if name == "rq-vae" else {}
    fitted = recipe(name, sizes=(16, 8), epochs=3, batch=256, **more).fit(X, device="cuda")
    assert (fitted.encode(X, device="cuda") == fitted.encode(X, device="cpu")).mean() >= 0.999


@pytest.mark.parametrize(
    "make, dtype",
    [(sidkit.prq_kmeans, "float32"), (sidkit.prq_kmeans, "bfloat16"), (sidkit.rq_kmeans, "float16")],
)
def test_tensors_of_any_width_get_the_tokens_of_their_values(make, dtype):
    x = torch.from_numpy(many(20_003)).to("cuda", getattr(torch, dtype))
    fitted = make(SIZES, iterations=3).fit(x)
    assert np.array_equal(fitted.encode(x), fitted.fit_codes)
    assert (fitted.encode(x.float().cpu().numpy(), device="cpu") == fitted.fit_codes).mean() >= 0.9999


@pytest.mark.parametrize("kind", ["memory", "npy", "parquet"])
def test_a_fit_that_streams_has_the_bits_of_one_on_the_card(kind, tmp_path, monkeypatch):
    from sidkit.rows import cuda as rows_cuda

    X = many(60_001)
    given = X
    if kind == "npy":
        given = tmp_path / "x.npy"
        np.save(given, X)
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        given = tmp_path / "x.parquet"
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        pq.write_table(pa.table({"item_id": np.arange(len(X)), "embedding": vectors}), given, row_group_size=7000)
    spec = sidkit.prq_kmeans(SIZES, iterations=3)
    resident = spec.fit(X, device="cuda")
    assert resident.fitted_rows.ran_on()["rows"] == "on the card"
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (0, 0))
    monkeypatch.setattr(rows_cuda.on_device, "__defaults__", ("cuda", 1 << 21, None))
    streamed = spec.fit(given, device="cuda")
    assert streamed.fitted_rows.ran_on()["rows"] == "streamed from the host"
    assert all(np.array_equal(a, b) for a, b in zip(resident.codebooks, streamed.codebooks, strict=True))
    assert np.array_equal(resident.fit_codes, streamed.fit_codes)
    assert np.array_equal(streamed.encode(given, device="cuda"), streamed.fit_codes)


def test_auto_runs_a_large_fit_on_the_gpu(monkeypatch):
    monkeypatch.setattr(device, "WORTH_A_GPU", 1e8)
    X, spec = many(5003), sidkit.prq_kmeans(SIZES, iterations=3)
    assert type(spec.fit(X).fitted_rows).__name__ == "DeviceRows"
    assert type(spec.fit(X.astype(np.float64)).fitted_rows).__name__ == "LocalRows"


def test_a_fit_on_a_gpu_resumes_where_it_stopped(tmp_path):
    class Stop(Exception):
        pass

    class Listener:
        count = 0

        def start(self, label, rows): ...
        def advance(self, rows): ...
        def note(self, text):
            self.count += 1
            if self.count == 30:
                raise Stop

    X, spec = many(5003), sidkit.prq_kmeans(SIZES, iterations=20)
    with pytest.raises(Stop):
        spec.fit(X, device="cuda", progress=Listener(), checkpoint=tmp_path / "saved")
    resumed, once = spec.fit(X, device="cuda", checkpoint=tmp_path / "saved"), spec.fit(X, device="cuda")
    assert all(np.array_equal(a, b) for a, b in zip(resumed.codebooks, once.codebooks, strict=True))


def test_gpu_and_cpu_encode_alike():
    from sidkit.rows.cuda import DeviceRows, Resident

    X = many(50_001)
    tokenizer = sidkit.prq_kmeans(SIZES, iterations=3).fit(X, seed=0, device="cpu")
    same = tokenizer.encode(DeviceRows(Resident(torch.from_numpy(X).cuda()), spare=1 << 22)) == tokenizer.encode(X)
    assert same.mean() >= 0.9999
