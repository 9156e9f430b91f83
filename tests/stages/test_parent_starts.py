"""The rows that start the codebooks of many parents."""

from __future__ import annotations

import numpy as np
import pytest

from sidkit.stages.cluster.parent_starts import start_numbers

COUNT = np.array([30, 20, 50])
PARENTS = np.array([7, 8, 12])


@pytest.fixture
def x(rng):
    """Of the first parent's rows ten are zero, of the second's half are copies of one."""
    x = rng.normal(size=(COUNT.sum(), 6)).astype(np.float32)
    x[5:15] = 0.0
    x[6, 2] = -0.0
    x[35:45] = x[34]
    return x


def test_distinct_rows_of_the_own_parent_are_drawn_first(x):
    drawn = start_numbers(x, PARENTS, COUNT, 20, seed=3)
    assert drawn.shape == (3, 20)
    assert all(len(set(numbers)) == 20 for numbers in drawn.tolist())
    assert np.array_equal(np.repeat(np.arange(3), COUNT)[drawn], np.arange(3)[:, None].repeat(20, axis=1))
    assert x[drawn[0]].any(axis=1).all()  # twenty rows are not zero
    assert len(np.unique(x[drawn[1]][:10], axis=0)) == 10  # copies come last


def test_a_draw_depends_on_seed_and_parent_and_on_nothing_else(x):
    drawn = start_numbers(x, PARENTS, COUNT, 8, seed=3)
    alone = start_numbers(x[50:], PARENTS[2:], COUNT[2:], 8, seed=3)
    assert np.array_equal(alone + 50, drawn[2:])
    assert not np.array_equal(start_numbers(x, PARENTS, COUNT, 8, seed=4)[2], drawn[2])
    assert not np.array_equal(start_numbers(x, PARENTS + 1, COUNT, 8, seed=3)[2], drawn[2])


def test_every_row_is_drawn_as_often_as_any_other():
    x = np.random.default_rng(0).normal(size=(2000 * 40, 2)).astype(np.float32)
    drawn = start_numbers(x, np.arange(2000), np.full(2000, 40), 10, seed=1) % 40
    often = np.bincount(drawn.ravel(), minlength=40)
    assert abs(often - 500).max() < 6 * np.sqrt(500 * 0.75)


def test_tensors_and_arrays_get_the_same_draw(x):
    torch = pytest.importorskip("torch", reason="compares with tensors")
    for dtype in (np.float32, np.float64):
        here = start_numbers(x.astype(dtype), PARENTS, COUNT, 20, seed=3)
        there = start_numbers(torch.from_numpy(x.astype(dtype)), PARENTS, COUNT, 20, seed=3)
        assert np.array_equal(there.numpy(), here)
