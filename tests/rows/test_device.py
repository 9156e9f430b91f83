"""Every recipe on rows of a GPU: it fits as well as on the CPU, and emits the CPU's tokens.

As in test_cuda.py, kernels run on the device or, at toy sizes, in Triton's interpreter.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU engine needs torch")

import sidkit  # noqa: E402
from kernels import DEVICE, ON_GPU, kernels_run, needs_gpu  # noqa: E402
from sidkit.engine import device  # noqa: E402
from sidkit.errors import SpecError  # noqa: E402
from sidkit.rows.local import LocalRows  # noqa: E402
from sidkit.rows.run_report import describe_run  # noqa: E402
from sidkit.rows.sources import ArraySource  # noqa: E402
from sidkit.rows.work import Work, work_of, work_of_fit  # noqa: E402
from sidkit.stages.cluster import GMM, Balanced, PerParent, per_parent  # noqa: E402
from sidkit.stages.level import SUBTRACT, Level  # noqa: E402
from sidkit.stages.opq import OPQ  # noqa: E402
from sidkit.tokenizer.recipes import RECIPES, recipe  # noqa: E402

if not ON_GPU:
    pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Runtime", "Deprecation")]

BIG = ON_GPU
SIZES = (40, 20) if BIG else (6, 4)
FIVE = (8, 6, 8, 8, 8) if BIG else (4, 2, 4, 4, 4)
ADDITIVE = [name for name in RECIPES if "vae" not in name]
OWN = {
    "balanced": Level(Balanced(SIZES[0], 4, 4), SUBTRACT),
    "mixture of cluster variances": Level(GMM(SIZES[0], 3, spread="clusters", skip_zero=True), SUBTRACT),
}


def quick(name):
    """A tokenizer by name, with few passes."""
    if name in OWN:
        return sidkit.Tokenizer((OWN[name],))
    hybrid = name in ("rq-opq", "prq-opq", "res-kmeans-fsq")
    options = {"sizes": FIVE if hybrid else SIZES}
    if name == "res-kmeans-fsq":
        options["projection"] = "itq"
    return sidkit.Tokenizer(tuple(fewer(stage) for stage in recipe(name, **options).stages), name)


def fewer(stage):
    if isinstance(stage, OPQ):
        return replace(stage, first=2, alternations=2)
    if hasattr(stage, "iterations"):
        return replace(stage, iterations=4)
    if isinstance(getattr(stage, "cluster", None), GMM):
        return replace(stage, cluster=replace(stage.cluster, iterations=3, warm=3))
    return replace(stage, cluster=replace(stage.cluster, iterations=4)) if hasattr(stage, "cluster") else stage


@pytest.fixture
def X():
    rng = np.random.default_rng(5)
    n, d, centres = (4000, 24, 60) if BIG else (120, 12, 9)
    return (rng.normal(size=(centres, d))[rng.integers(0, centres, n)] + 0.3 * rng.normal(size=(n, d))).astype(
        np.float32
    )


def on_the_device(x, spare=1 << 14):
    from sidkit.rows.cuda import DeviceRows, Resident

    return DeviceRows(Resident(torch.from_numpy(x).to(DEVICE)), spare=spare * (64 if BIG else 1))


def lost(fitted, X):
    """Mean squared distance between a row and what its token stands for, for every stage that emits tokens."""
    rows, distances = LocalRows(ArraySource(X)), []
    for stage in fitted.stages:
        after = rows.map(stage)
        if stage.sizes:
            x, codes = rows.take(np.arange(len(X))), after.codes()
            left = x - stage.clusters.chosen(x, codes) if hasattr(stage, "clusters") else stage.carry(x, codes)
            distances.append(float((left**2).sum(1).mean()))
        rows = after
    return np.array(distances)


@kernels_run
@pytest.mark.parametrize("name", [*ADDITIVE, *OWN])
def test_a_recipe_on_a_device_fits_as_on_the_cpu_with_the_same_bits_each_time(name, X):
    spec = quick(name)
    there, again, here = spec.fit(on_the_device(X)), spec.fit(on_the_device(X)), spec.fit(X)
    assert [book.shape for book in there.codebooks][:2] == [book.shape for book in here.codebooks][:2]
    for stage, other in zip(there.stages, again.stages, strict=True):
        assert all(np.array_equal(stage.arrays[key], other.arrays[key]) for key in stage.arrays)
    assert np.array_equal(there.fit_codes, again.fit_codes)
    assert (there.encode(X) == there.fit_codes).mean() >= 0.9999
    assert (here.encode(on_the_device(X)) == here.fit_codes).mean() >= 0.9999
    np.testing.assert_allclose(lost(there, X), lost(here, X), rtol=0.03)


def test_parents_never_seen_take_the_common_codebook_on_a_device_too(X):
    spec = sidkit.Tokenizer(
        (*(fewer(s) for s in sidkit.rq_kmeans((5,)).stages), Level(PerParent(4, iterations=2), SUBTRACT))
    )
    books = spec.fit(X).stages[-1].clusters
    codes = np.random.default_rng(0).integers(0, 8, (len(X), 1)).astype(np.int32)  # 5, 6 and 7 are new
    want = books.assign(X, codes)
    got = books.assign(torch.from_numpy(X).to(DEVICE), torch.from_numpy(codes).to(DEVICE))
    assert np.array_equal(got.cpu().numpy(), want)


def test_what_needs_no_kernel_is_the_same_on_tensors(X):
    codes, T = np.zeros((len(X), 0), np.int32), torch.from_numpy(X)
    mixture = sidkit.Tokenizer((OWN["mixture of cluster variances"],)).fit(X).stages[0]
    assert np.array_equal(mixture.tokens(T, codes).numpy(), mixture.tokens(X, codes))
    sums = tuple(mixture.spec.cluster.statistics(mixture.clusters, x, None) for x in (T, X))
    for there, here in zip(*sums, strict=True):
        np.testing.assert_allclose(there.numpy(), here, rtol=1e-9, atol=1e-9)
    product = quick("opq-kmeans").fit(X).stages[-1]
    np.testing.assert_allclose(product.rotated(T).numpy(), product.rotated(X), atol=1e-6)
    own = np.random.default_rng(0).integers(0, 4, (len(X), 2)).astype(np.int32)
    np.testing.assert_allclose(product.carry(T, torch.from_numpy(own)).numpy(), product.carry(X, own), atol=1e-5)
    bits = sidkit.res_kmeans_fsq((2, 2, 2, 4, 4), projection="itq", iterations=1).fit(X).stages[-1]
    assert np.array_equal(bits.tokens(T, codes).numpy(), bits.tokens(X, codes))


def test_temporary_arrays_stay_small(X, monkeypatch):
    from sidkit.engine import arrays

    fitted = quick("rq-gmm").fit(X)
    monkeypatch.setattr(arrays, "AT_ONCE", 50)
    assert [len(some) for some in arrays.pieces(X[:12], 10)] == [5, 5, 2]
    again = quick("rq-gmm").fit(X)
    assert np.array_equal(again.fit_codes, fitted.fit_codes)
    np.testing.assert_allclose(again.codebooks[0], fitted.codebooks[0], rtol=1e-5, atol=1e-6)


@kernels_run
def test_large_parents_are_fitted_on_the_device(X, monkeypatch):
    monkeypatch.setattr(per_parent, "WORTH_MOVING", 1)
    spec = sidkit.Tokenizer(
        (*(fewer(s) for s in sidkit.rq_kmeans((2,)).stages), Level(PerParent(4, iterations=2), SUBTRACT))
    )
    from sidkit.rows.cuda import DeviceRows

    seen = []
    monkeypatch.setattr(
        DeviceRows, "rows_of", lambda rows, x, inner=DeviceRows.rows_of: seen.append(len(x)) or inner(rows, x)
    )
    fitted = spec.fit(on_the_device(X))
    assert sum(seen) == len(X)
    np.testing.assert_allclose(lost(fitted, X), lost(spec.fit(X), X), rtol=0.03)


# ------------------------------------------------------------------ which device


def test_auto_takes_a_gpu_where_it_pays(monkeypatch):
    rows = ArraySource(np.ones((1000, 100), np.float32))
    work = work_of_fit(sidkit.prq_kmeans((256, 256, 256)).stages)
    assert work == 3 * 256 * 25
    monkeypatch.setattr(device, "has_gpu", lambda triton: True)
    assert device.choose_device("auto", rows, work) == "cpu"
    assert device.choose_device("auto", rows, device.WORTH_A_GPU / 1e5) == "cuda"
    assert device.choose_device("cpu", rows, 1e12) == "cpu"
    assert device.choose_device("auto", ArraySource(rows.array.astype(np.float64)), 1e12) == "cpu"
    assert device.choose_device("auto", ArraySource(np.ones((1, 4097), np.float32)), 1e12) == "cpu"
    assert work_of_fit(sidkit.prq_kmeans(top_k=17).stages) == 0
    assert work_of_fit(sidkit.pq_kmeans((256, 64), iterations=10).stages) == 1600
    monkeypatch.setattr(device, "has_gpu", lambda triton: False)
    assert device.choose_device("auto", rows, 1e12) == "cpu"


class Unreported:
    """A third party's clusterer, or stage, that does not report its work."""

    def __init__(self, **codebooks):
        vars(self).update(codebooks)

    def fit(self, rows, run): ...
    def restore(self, arrays, d): ...


def test_what_reports_no_work_counts_as_25_passes_over_its_codebooks():
    assert work_of_fit([Level(Unreported(size=300))]) == 25 * 300
    assert work_of_fit([Unreported(sizes=(64, 32)), *sidkit.prq_kmeans((8,)).stages]) == 25 * 96 + 25 * 8
    assert work_of_fit([Unreported()]) == 0
    iterations = [Level(Unreported(size=300, iterations=2))]  # a guess at a field of somebody else's
    assert work_of_fit(iterations) == 25 * 300


def test_the_work_of_every_recipe_is_what_its_stages_report():
    nothing = Work(0.0)  # of stages without codebooks
    work = {name: [part for stage in recipe(name).stages if (part := work_of(stage)) != nothing] for name in RECIPES}
    assert work["prq-kmeans"] == [Work(25.0 * 256, 2)] * 3
    assert work["rq-kmeans"] == [Work(25.0 * 256)] * 3
    assert work["rq-gmm"] == [Work(30.0 * 256)] * 3
    assert work["opq-kmeans"] == [Work(50.0 * 256)]
    assert work["rq-opq"] == [Work(25.0 * 1024), Work(25.0 * 512), Work(25.0 * 128), Work(50.0 * 64)]
    assert work["res-kmeans-fsq"] == work["rq-opq"][:3]
    assert work["rq-vae"] == work["r3-vae"] == []  # their training takes a GPU wherever the rows are
    assert work_of(Balanced(40, 4, 4)) == Work(160.0)


def test_every_way_to_name_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("cpu", "cuda", "cuda:0", "cuda:1"):
        assert device.find_device(name) == name
    assert (device.find_device("auto"), device.find_device("auto", pays=False)) == ("cuda", "cpu")
    for name in ("", "gpu", "cpu:0", "auto:1", "cuda:", "cuda:one", "cuda:-1", "CUDA"):
        with pytest.raises(SpecError, match=f"device must be auto, cpu, cuda or cuda:N, not '{name}'"):
            device.find_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (device.find_device("auto"), device.find_device("cpu")) == ("cpu", "cpu")
    with pytest.raises(SpecError, match="there is no CUDA device here; use --device cpu"):
        device.find_device("cuda:1")


def test_a_device_that_is_not_there_is_named(X, monkeypatch):
    with pytest.raises(sidkit.SidkitError, match="device must be auto, cpu, cuda or cuda:N, not 'tpu'"):
        sidkit.prq_kmeans((4,)).fit(X, device="tpu")
    monkeypatch.setitem(__import__("sys").modules, "triton", __import__("types").ModuleType("triton"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(sidkit.SidkitError, match="there is no CUDA device here; use --device cpu"):
        sidkit.prq_kmeans((4,)).fit(X, device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(sidkit.SidkitError, match="no device 'cuda:2'; this machine has cuda:0 to cuda:1"):
        sidkit.prq_kmeans((4,)).fit(X, device="cuda:2")


def test_fit_and_encode_say_what_ran_where(X, tmp_path):
    from typer.testing import CliRunner

    from sidkit.cli import app

    np.save(tmp_path / "x.npy", X)
    items, made, tok = (str(tmp_path / name) for name in ("x.npy", "sids.parquet", "tok"))
    device = ["--device", "cuda" if ON_GPU else "cpu"]
    for command, scored in (
        (["fit", items, "-o", tok, "--sizes", "6-4"], "scored in fp16 while fitting, "),
        (["encode", tok, items, "-o", made], ""),
    ):
        text = CliRunner().invoke(app, command + device).output
        told = json.loads(CliRunner().invoke(app, [*command, *device, "--json"]).output)["ran"]
        if ON_GPU:
            name = torch.cuda.get_device_name()
            assert f"ran on {name}: rows on the card, {scored}peak 0." in text
            assert told["device"] == name
            assert told["peak_bytes"] > 0
            assert ("scored_in" in told) == bool(scored)
        else:
            assert f"ran on the CPU, {told['threads']} thread" in text
            assert told == {"device": "cpu", "threads": told["threads"]}


def test_a_place_is_said_in_a_line():
    card = {"device": "NVIDIA H200", "rows": "on the card", "peak_bytes": 1_260_000_000}
    assert describe_run(card) == "ran on NVIDIA H200: rows on the card, peak 1.26 GB of device memory"
    scored = describe_run(card | {"scored_in": ["fp16", "tf32"]})
    assert "rows on the card, scored in fp16 and tf32 while fitting, peak 1.26 GB" in scored
    assert describe_run({"device": "cpu", "threads": 1}) == "ran on the CPU, 1 thread at most"


# ------------------------------------------------------------------ sizes for a device


def many(n=50_000, d=64, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(300, d))[rng.integers(0, 300, n)] + rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", [*ADDITIVE, *OWN])
def test_tokens_of_gpu_and_cpu_agree(name):
    X = many(20_000)
    fitted = quick(name).fit(X, device="cuda")
    assert type(fitted.fitted_rows).__name__ == "DeviceRows"
    same = fitted.encode(X, device="cuda") == fitted.encode(X, device="cpu")
    assert same.mean() >= 0.9999


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", ["rq-vae", "r3-vae"])
def test_learned_tokenizers_train_and_encode_on_rows_of_a_gpu(name):
    X = many(3000, 16)
    more = {"hidden": (32,), "latent": 8} if name == "rq-vae" else {}
    fitted = recipe(name, sizes=(16, 8), epochs=3, batch=256, **more).fit(X, device="cuda")
    assert (fitted.encode(X, device="cuda") == fitted.encode(X, device="cpu")).mean() >= 0.999


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("make", [sidkit.prq_kmeans, sidkit.rq_kmeans])
def test_tensors_of_any_width_get_the_tokens_of_their_values(dtype, make):
    x = torch.from_numpy(many(20_003, 50)).to("cuda", getattr(torch, dtype))
    fitted = make((300, 70), iterations=3).fit(x)
    assert np.array_equal(fitted.encode(x), fitted.fit_codes)
    assert (fitted.encode(x.float().cpu().numpy(), device="cpu") == fitted.fit_codes).mean() >= 0.9999


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["memory", "npy", "parquet"])
def test_a_fit_that_streams_has_the_bits_of_one_on_the_card(kind, tmp_path, monkeypatch):
    from sidkit.rows import cuda as rows_cuda

    X = many(60_001, 32)
    given = X
    if kind == "npy":
        given = tmp_path / "x.npy"
        np.save(given, X)
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        given = tmp_path / "x.parquet"
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        pq.write_table(pa.table({"item_id": np.arange(len(X)), "embedding": vectors}), given, row_group_size=7000)
    spec = sidkit.prq_kmeans((300, 200), top_k=5, iterations=3)
    resident = spec.fit(X, device="cuda")
    assert resident.fitted_rows.ran_on()["rows"] == "on the card"
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (0, 0))
    monkeypatch.setattr(rows_cuda.on_device, "__defaults__", ("cuda", 1 << 21, None))
    streamed = spec.fit(given, device="cuda")
    assert streamed.fitted_rows.ran_on()["rows"] == "streamed from the host"
    assert all(np.array_equal(a, b) for a, b in zip(resident.codebooks, streamed.codebooks, strict=True))
    assert np.array_equal(resident.fit_codes, streamed.fit_codes)
    assert np.array_equal(streamed.encode(given, device="cuda"), streamed.fit_codes)


@pytest.mark.gpu
@needs_gpu
def test_rows_in_memory_may_stream_to_several_places_at_once():
    from sidkit.rows.cuda import DeviceRows, Streamed

    X = many(30_001, 16)

    def total(array):
        rows = DeviceRows(Streamed(ArraySource(array), torch.device("cuda")), spare=1 << 19)
        return rows, rows.reduce(lambda x, codes: (x.double().sum(0),))[0]

    first, want = total(X)
    second, same = total(X)  # the same pages
    third, part = total(X[5000:])  # some of them: the driver refuses
    assert np.allclose(want, X.sum(0, dtype=np.float64), atol=1e-6)
    assert np.array_equal(want, same)
    assert np.allclose(part, X[5000:].sum(0, dtype=np.float64), atol=1e-6)
    assert third.source._pages() is None
    del first, second
    assert third.source._pages() is None  # rows stay with what they began with
    assert total(X)[0].source._pages() is not None


@pytest.mark.gpu
@needs_gpu
def test_auto_runs_a_large_fit_on_the_gpu(monkeypatch):
    monkeypatch.setattr(device, "WORTH_A_GPU", 1e8)
    X = many(5000, 16)
    fitted = sidkit.prq_kmeans((64, 16), iterations=25).fit(X)
    assert type(fitted.fitted_rows).__name__ == "DeviceRows"
    assert type(sidkit.prq_kmeans((64, 16)).fit(X.astype(np.float64)).fitted_rows).__name__ == "LocalRows"


@pytest.mark.gpu
@needs_gpu
def test_a_fit_on_a_gpu_goes_on_where_it_stopped(tmp_path):
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

    X, spec = many(5000, 16), sidkit.prq_kmeans((64, 16), iterations=20)
    with pytest.raises(Stop):
        spec.fit(X, device="cuda", progress=Listener(), checkpoint=tmp_path / "kept")
    resumed, whole = spec.fit(X, device="cuda", checkpoint=tmp_path / "kept"), spec.fit(X, device="cuda")
    assert all(np.array_equal(a, b) for a, b in zip(resumed.codebooks, whole.codebooks, strict=True))
