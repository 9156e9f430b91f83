"""Every recipe on rows of a GPU: it fits as well as on the CPU, and emits the CPU's tokens.

Kernels run on the device or, at small sizes, in Triton's interpreter (`kernels`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU engine needs torch")

import sidkit  # noqa: E402
from kernels import DEVICE, ON_GPU, QUIET, kernels_run, needs_gpu  # noqa: E402
from sidkit.rows.local import LocalRows  # noqa: E402
from sidkit.rows.sources import ArraySource  # noqa: E402
from sidkit.stages.cluster import GMM, Balanced, PerParent  # noqa: E402
from sidkit.stages.level import SUBTRACT, Level  # noqa: E402
from sidkit.stages.opq import OPQ  # noqa: E402
from sidkit.tokenizer.recipes import RECIPES, recipe  # noqa: E402

pytestmark = QUIET
N, D, CENTRES = (4001, 56, 60) if ON_GPU else (60, 8, 6)
SIZES = (40, 36) if ON_GPU else (6, 4)
FIVE = (40, 6, 8, 8, 8) if ON_GPU else (4, 2, 2, 4, 4)
PASSES = 4 if ON_GPU else 2
ADDITIVE = [name for name in RECIPES if "vae" not in name]
OTHERS = {
    "balanced": Level(Balanced(SIZES[0], PASSES, PASSES), SUBTRACT),
    "mixture of cluster variances": Level(GMM(SIZES[0], 3, spread="clusters", skip_zero=True), SUBTRACT),
}


def quick(name):
    """A tokenizer by name, with few passes."""
    if name in OTHERS:
        return sidkit.Tokenizer((OTHERS[name],))
    hybrid = name in ("rq-opq", "prq-opq", "res-kmeans-fsq")
    options = {"sizes": FIVE if hybrid else SIZES}
    if name == "res-kmeans-fsq":
        options["projection"] = "itq"
    return sidkit.Tokenizer(tuple(fewer(stage) for stage in recipe(name, **options).stages), name)


def fewer(stage):
    if isinstance(stage, OPQ):
        return replace(stage, first=PASSES // 2, alternations=PASSES // 2)
    if hasattr(stage, "iterations"):
        return replace(stage, iterations=PASSES)
    if isinstance(getattr(stage, "cluster", None), GMM):
        return replace(stage, cluster=replace(stage.cluster, iterations=3, warm=3))
    return replace(stage, cluster=replace(stage.cluster, iterations=PASSES)) if hasattr(stage, "cluster") else stage


@pytest.fixture
def X():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(CENTRES, D))[rng.integers(0, CENTRES, N)] + 0.3 * rng.normal(size=(N, D))
    return x.astype(np.float32)


def on_the_device(x):
    """Rows on the device; on a GPU in two shares of float32. Small rows in shares: test_backends.py."""
    from sidkit.rows.cuda import DeviceRows, Resident

    return DeviceRows(Resident(torch.from_numpy(x).to(DEVICE)), spare=x.size * (4 if ON_GPU else 8))


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
@pytest.mark.parametrize("name", [*ADDITIVE, *OTHERS])
def test_a_recipe_on_a_device_fits_as_on_the_cpu_with_the_same_bits_each_time(name, X):
    spec = quick(name)
    there, here = spec.fit(on_the_device(X)), spec.fit(X)
    assert [book.shape for book in there.codebooks][:2] == [book.shape for book in here.codebooks][:2]
    if ON_GPU or name == "prq-kmeans":  # the interpreter runs one program after the other
        again = spec.fit(on_the_device(X))
        for stage, other in zip(there.stages, again.stages, strict=True):
            assert all(np.array_equal(stage.arrays[key], other.arrays[key]) for key in stage.arrays)
        assert np.array_equal(there.fit_codes, again.fit_codes)
    assert (there.encode(X) == there.fit_codes).mean() >= 0.9999
    assert (here.encode(on_the_device(X)) == here.fit_codes).mean() >= 0.9999
    np.testing.assert_allclose(lost(there, X), lost(here, X), rtol=0.03)


@kernels_run
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
    mixture = sidkit.Tokenizer((OTHERS["mixture of cluster variances"],)).fit(X).stages[0]
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
    assert [len(piece) for piece in arrays.pieces(X[:12], 10)] == [5, 5, 2]
    again = quick("rq-gmm").fit(X)
    assert np.array_equal(again.fit_codes, fitted.fit_codes)
    np.testing.assert_allclose(again.codebooks[0], fitted.codebooks[0], rtol=1e-5, atol=1e-6)


@kernels_run
def test_large_parents_are_fitted_on_the_device(X, monkeypatch):
    from sidkit.stages.cluster import device_parents

    monkeypatch.setattr(device_parents, "MOST_TOGETHER", 1)
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


@pytest.mark.gpu
@needs_gpu  # for more rows than the interpreter could do; fewer are encoded above
@pytest.mark.parametrize("name", [*ADDITIVE, *OTHERS])
def test_tokens_of_gpu_and_cpu_agree(name, X):
    X = np.tile(X, (5, 1)) + np.random.default_rng(0).normal(size=(5 * N, D)).astype(np.float32)
    fitted = quick(name).fit(X, device="cuda")
    assert type(fitted.fitted_rows).__name__ == "DeviceRows"
    same = fitted.encode(X, device="cuda") == fitted.encode(X, device="cpu")
    assert same.mean() >= 0.9999


@kernels_run
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("d", [8, 40])  # sums as one product, or sorted
def test_a_pass_over_turned_codewords_adds_up_turned_rows(d, dtype):
    from sidkit.engine.cuda.turned import turned_sums
    from sidkit.stages.product import FittedProduct, blocks

    rng = np.random.default_rng(3)
    x = (40 * rng.normal(size=(90, d))).astype(np.float32)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    mean = x.mean(axis=0, dtype=np.float64)
    cut = blocks(d, 2)
    books = tuple(((x[i * 4 : i * 4 + 4] - mean) @ turn.T)[:, block] for i, block in enumerate(cut))
    product = FittedProduct(books, turn, mean)
    codes = product.tokens(x, np.zeros((90, 0), np.int32))
    for m, (mass, total) in enumerate(turned_sums(torch.from_numpy(x).to(DEVICE, dtype), books, cut, turn, mean)):
        picked = np.eye(4)[codes[:, m]]
        assert np.array_equal(mass.cpu().numpy(), picked.sum(0))
        np.testing.assert_allclose(total.cpu().numpy(), picked.T @ (x - mean), rtol=2e-3, atol=2.0)
