"""What all rows have in common: tests of `rows.seam.Rows`, which tests/rows and tests/fleet run on their kinds of rows.

A module imports all names from here and defines `rows`, a fixture of its scope: the matrix X, in chunks of CHUNK rows.
"""

from __future__ import annotations

import numpy as np
import pytest

import sidkit
from sidkit.engine.arrays import widened
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource

N, D, CHUNK = 50, 12, 20


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, D))[rng.integers(0, 7, N)] + 0.5 * rng.normal(size=(N, D))
    return x.astype(np.float32)


@pytest.fixture(scope="module")
def stages(X):
    """Fitted stages that kernels carry rows through, and one behind them that they do not."""
    levels = sidkit.prq_kmeans((6, 4), iterations=2).fit(X).stages
    return (*levels, sidkit.pq_kmeans((3, 2), iterations=1).fit(X).stages[-1])


@pytest.fixture(scope="module")
def reference(X):
    return LocalRows(ArraySource(X), chunk=CHUNK)


@pytest.fixture(scope="module")
def mapped(rows, reference, stages):
    """Both, before the first stage and after every one."""
    pairs = [(rows, reference)]
    for stage in stages:
        pairs.append(tuple(each.map(stage) for each in pairs[-1]))
    return pairs


def has_kernels(rows):
    """Whether rows are on a device, whose arithmetic is not that of numpy."""
    return type(rows).__name__ == "DeviceRows"


def same(rows, ours, reference):
    """Equal values: to the bit where rows have the reference's arithmetic; close on a device."""
    ours, reference = (x if isinstance(x, np.ndarray) else x.cpu().numpy() for x in (ours, reference))
    assert (ours.shape, ours.dtype) == (reference.shape, reference.dtype)
    if has_kernels(rows):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-5)
    else:
        assert np.array_equal(ours, reference)


def test_shape_dtype_and_width(mapped):
    for ours, theirs in mapped:
        assert (ours.shape, ours.dtype, ours.width) == ((N, D), np.float32, theirs.width)


def test_a_sample_is_the_same_rows_wherever_they_live(mapped):
    rows, reference = mapped[0]
    assert np.array_equal(rows.sample(7, (0, 1)), reference.sample(7, (0, 1)))
    for ours, theirs in mapped:
        for n, seed in ((7, (0, 1)), (N, (3,))):
            same(rows, ours.sample(n, seed), theirs.sample(n, seed))


def test_rows_are_taken_by_index_in_the_order_asked_for(mapped):
    for ours, theirs in mapped:
        for indices in ([5, 0, 5, N - 1, 33], [], np.arange(N)):
            same(ours, ours.take(np.array(indices, np.int64)), theirs.take(np.array(indices, np.int64)))


def test_sums_over_chunks(mapped):
    def sums(x, codes):
        ones = widened(x[:, :1]) * 0 + 1
        return ones.sum(axis=0), widened(x).sum(axis=0), widened(x).T @ widened(x), widened(codes).sum(axis=0)

    for ours, theirs in mapped:
        count, total, products, codes = ours.reduce(sums)
        want = theirs.reduce(sums)
        assert count.tolist() == [N]
        same(ours, total, want[1])
        same(ours, products, want[2])
        assert np.array_equal(codes, want[3])


def test_codes_are_kept_with_the_rows(mapped):
    for ours, theirs in mapped:
        assert ours.codes().dtype == np.int32
        assert np.array_equal(ours.codes(), theirs.codes())
    assert theirs.codes().shape == (N, 4)


def test_mapping_leaves_the_rows_before_as_they_were(mapped, stages, X):
    (rows, _), (first, _) = mapped[:2]
    before = first.take(np.arange(N))
    for stage in stages[1:3]:
        first = first.map(stage)
    assert np.array_equal(mapped[1][0].take(np.arange(N)), before)
    assert np.array_equal(rows.take(np.arange(N)), X)
    assert (rows.width, mapped[1][0].width, first.width) == (0, 0, 1)


def test_batches_are_the_same_shuffle_of_all_rows(mapped):
    for ours, theirs in mapped[:4]:
        batches = list(ours.batches(20, (0, 4)))
        assert [len(batch) for batch in batches] == [20, 20, 10]
        for a, b in zip(batches, theirs.batches(20, (0, 4)), strict=True):
            same(ours, a, b)


def test_a_fit_comes_to_the_same_tokenizer(rows, reference):
    spec = sidkit.prq_kmeans((4, 3), iterations=2)
    ours, theirs = spec.fit(rows), spec.fit(reference)
    assert np.array_equal(ours.fit_codes, theirs.fit_codes)
    for a, b in zip(ours.codebooks, theirs.codebooks, strict=True):
        if has_kernels(rows):  # scored in float16 while fitting
            np.testing.assert_allclose(a, b, atol=5e-3)
        else:
            assert np.array_equal(a, b)
