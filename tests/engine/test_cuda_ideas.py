"""The ideas behind the GPU engine's kernels, in numpy: slots, sums on a grid, rows in halves."""

from __future__ import annotations

import numpy as np
import pytest

from sidkit.geometry import unit


def slots_top(score, slots, depth, k):
    """The top k drawn from lists of `depth` per slot, and the rows where an evicted score could have been one."""
    n, K = score.shape
    padded = np.full((n, -(-K // slots) * slots), -np.inf)
    padded[:, :K] = score
    by_slot = np.sort(padded.reshape(n, -1, slots), axis=1)[:, ::-1]
    kept, out = by_slot[:, :depth], by_slot[:, depth:]
    best = np.sort(kept.reshape(n, -1), axis=1)[:, ::-1][:, :k]
    return best, out.reshape(n, -1).max(axis=1, initial=-np.inf) >= best[:, -1]


@pytest.mark.parametrize("slots, depth, k", [(32, 2, 5), (8, 2, 5), (4, 1, 3), (32, 3, 16)])
def test_rows_whose_slots_held_the_top_k_are_never_listed_in_vain_or_missed(slots, depth, k):
    score = np.random.default_rng(0).normal(size=(500, 300))
    best, doubtful = slots_top(score, slots, depth, k)
    right = (best == np.sort(score, axis=1)[:, ::-1][:, :k]).all(axis=1)
    assert np.array_equal(right, ~doubtful)
    assert right.any()


def grid_sum(products, longest):
    """Products rounded to the kernel's grid and added as integers."""
    exponent = np.maximum((np.float32(longest) * np.float32(1.4142135)).view(np.int32) >> 23, 22)
    grid = np.int32((127 + 21 + 127 - exponent) << 23).view(np.float32)
    magic = np.float32(12582912.0)
    steps = (products.astype(np.float32) * grid + magic).view(np.int32) - magic.view(np.int32)
    return steps.astype(np.int64).sum(axis=0) / np.float64(grid)


@pytest.mark.parametrize("scale", [1e-20, 0.3, 1.0, 1.4, 1e6])
def test_sums_on_a_grid_have_the_same_bits_in_any_order(scale):
    rng = np.random.default_rng(0)
    products = (scale * unit(rng.normal(size=(4000, 8)))).astype(np.float32)
    total = grid_sum(products, scale)
    assert np.array_equal(total, grid_sum(products[rng.permutation(4000)], scale))
    assert np.array_equal(total, grid_sum(products[:1234], scale) + grid_sum(products[1234:], scale))
    assert np.abs(total - products.astype(np.float64).sum(0)).max() < 4000 * scale * 2.0**-21
    assert np.abs(grid_sum(np.full((512, 1), scale, np.float32), scale) / (512 * scale) - 1).max() < 1e-6


def test_two_float16_halves_hold_a_float32_row():
    x = np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32) * 10.0 ** np.arange(-10, 10)[:, None].repeat(
        10, 0
    )
    up = 2.0 ** (9 - np.floor(np.log2(np.abs(x).max(axis=1, keepdims=True))))
    high = (x * up).astype(np.float16)
    low = (x * up - high).astype(np.float16)
    error = np.abs((high.astype(np.float64) + low) / up - x).max(axis=1)
    assert (error <= 2.0**-22 * np.abs(x).max(axis=1)).all()
