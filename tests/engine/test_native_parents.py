"""The kernels for rows with centroids of their own, and for sums by known codes, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from sidkit.engine import cpu, native, own
from sidkit.engine.native import build
from sidkit.engine.native.parents import busy_rows, families, nearest_own
from sidkit.engine.native.sums import add_by_code
from sidkit.geometry import residual, unit
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.stages.cluster.kmeans import KMeans
from sidkit.stages.stage import FitContext

pytestmark = pytest.mark.skipif(build.library() is None, reason=f"no compiled kernels: {build.reason()}")


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


@pytest.fixture(params=["1", "2"], ids=["1 thread", "2 threads"])
def threads(request, monkeypatch):
    monkeypatch.setenv("SIDKIT_THREADS", request.param)
    monkeypatch.setattr("sidkit.engine.native.parents.WORTH_A_THREAD", 1)
    monkeypatch.setattr("sidkit.engine.native.sums.WORTH_A_THREAD", 1)


@pytest.fixture
def no_kernels(monkeypatch):
    monkeypatch.setattr(native, "ready", lambda *_: False)


APART = np.tile(np.float32([[1], [1 + 1e-7]]), (100, 1))
CASES = {
    "random": lambda x, c: (x, c),
    "whole numbers, many ties": lambda x, c: (np.round(x), np.round(c)),
    "centroids that hardly differ": lambda x, c: (x, 1 + 1e-6 * c),
    "one centroid repeated": lambda x, c: (x, np.repeat(c[:1], len(c), axis=0)),
    "zero rows": lambda x, c: (x * (np.arange(len(x))[:, None] % 2), c),
    "tiny rows": lambda x, c: (x * np.float32(1e-30), c),
    "huge rows and centroids": lambda x, c: (x * np.float32(1e16), c * np.float32(1e16)),
    "rows on their centroids": lambda x, c: (c[np.arange(len(x)) % len(c)], c),
    "neighbours a rounding apart": lambda x, c: (c[np.arange(len(x)) % len(c)], np.repeat(c[::2], 2, axis=0) * APART),
    "some centroids far away": lambda x, c: (x, c * np.where(np.arange(len(c)) % 3, 1, 1e16)[:, None]),
}


def test_rows_that_begin_at_one_centroid_may_have_different_numbers_of_them(no_kernels):
    """As rows of an unknown parent do, which have the first centroid of all alone, beside those of the first parent."""
    x, c = rows(200, 8).astype(np.float32), rows(4, 8, 1).astype(np.float32)
    count = np.where(np.arange(200) % 3, 4, 1)
    score = x.astype(np.float64) @ c.T.astype(np.float64) - 0.5 * (c.astype(np.float64) ** 2).sum(axis=1)
    want = np.where(count == 1, 0, score.argmax(axis=1))
    assert np.array_equal(own.nearest_own(x, c, np.zeros(200, np.int64), count), want)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("d", [3, 16, 130])
@pytest.mark.parametrize("count", [40, 3], ids=["few centroids each", "many, rows taken parent by parent"])
def test_a_row_takes_the_nearest_of_its_own_centroids(case, d, count, threads, no_kernels):
    x, c = (part.astype(np.float32) for part in CASES[case](rows(300, d), rows(200, d, 1)))
    rng = np.random.default_rng(2)
    parents = rng.integers(0, count, 300)
    edges = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 200), count - 1, replace=False)), [200]])
    first, count = edges[parents], np.diff(edges)[parents]
    exact = c.astype(np.float64)
    score = np.stack([(exact * row.astype(np.float64)).sum(axis=1) for row in x]) - 0.5 * (exact**2).sum(axis=1)
    want = [score[i, f : f + k].argmax() for i, (f, k) in enumerate(zip(first, count, strict=True))]
    assert np.array_equal(nearest_own(x, c, first, count), want)
    assert np.array_equal(own.nearest_own(x, c, first, count), want)  # without kernels


@pytest.mark.parametrize(("keep", "normalize"), [(1.0, False), (0.0, True), (0.3, True)])
@pytest.mark.parametrize("many", [5, 20])
def test_what_is_left_of_rows_has_the_bits_of_geometry(keep, normalize, many, threads):
    x, c = rows(200, 33), rows(65, 33, 1)
    first, count, rest = np.arange(200) * 7 % 45, np.full(200, many), np.empty((200, 33), np.float32)
    code = nearest_own(x, c, first, count, rest, keep, normalize)
    want = residual(x, c[first + code], keep)
    assert np.array_equal(rest, unit(want) if normalize else want)


@pytest.mark.parametrize("iterations", [0, 1, 25])
def test_families_are_fitted_as_each_would_be_alone(iterations, threads):
    x = np.concatenate([rows(300, 20), np.round(rows(90, 20, 1)), np.zeros((40, 20), np.float32), rows(500, 20, 2)])
    edges = np.array([[0, 300], [300, 390], [390, 430], [430, 930]])
    spec = KMeans(16, "euclidean", iterations=iterations)
    parts = [LocalRows(ArraySource(x[first:last])) for first, last in edges]
    starts = np.stack([FitContext(seed).start_rows(part, 16, 0) for seed, part in enumerate(parts)])
    want = np.stack([spec.fit(part, FitContext(seed)).centroids for seed, part in enumerate(parts)])
    assert np.array_equal(families(x, edges, starts, iterations), want)


@pytest.mark.parametrize("d", [1, 31, 32, 100])
def test_sums_by_code_have_the_bits_of_the_numpy_engine(d, threads, no_kernels):
    x, mean = rows(10_000, d), rows(1, d, 1)[0]
    codes = np.random.default_rng(0).integers(0, (7, 30), (10_000, 2)).astype(np.int32)
    want = cpu.hard_sums(x, codes, (7, 30), mean)  # without kernels
    got = add_by_code(x, codes + np.array([0, 7], np.int32), 37, cpu.BLOCK, mean)
    assert np.array_equal(got, np.concatenate([total for _, total in want]))
    assert np.array_equal(np.concatenate([mass for mass, _ in want])[:7], np.bincount(codes[:, 0], minlength=7))


def test_rows_that_are_not_zero_are_told_from_others(threads):
    x = np.zeros((5000, 70), np.float32)
    x[::3, 0], x[1::3, 69], x[2, 65] = 1e-45, 1.0, -0.0
    assert np.array_equal(busy_rows(x), x.any(axis=1))
    assert np.array_equal(busy_rows(x[:0]), [])


def test_what_the_kernels_cannot_use_is_refused():
    x = rows(4, 3)
    with pytest.raises(ValueError, match="rows name others"):
        nearest_own(x, x, np.array([0, 1, 2, 3]), np.array([1, 1, 1, 2]))
    with pytest.raises(ValueError, match="do not name 2 sums"):
        add_by_code(x, np.full((4, 1), 2), 2, 10)
    with pytest.raises(ValueError, match="parents name others"):
        families(x, np.array([[0, 9]]), x[None, :2], 1)
