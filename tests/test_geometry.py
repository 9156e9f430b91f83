import numpy as np
import pytest

from sidkit.geometry import expected_abs_cosine, residual, unit

R = np.array([[3.0, 4.0], [1.0, 0.0]])
C = np.array([[2.0, 0.0], [0.0, 5.0]])


def test_projection_by_hand():
    assert residual(R, C, keep=0.0).tolist() == [[0.0, 4.0], [1.0, 0.0]]


def test_subtraction_by_hand():
    assert residual(R, C, keep=1.0).tolist() == [[1.0, 4.0], [1.0, -5.0]]


def test_halfway_keeps_half_of_the_carryover_by_hand():
    # r - [c/2 + (r.c/|c|^2) c/2] for r = (3, 4), c = (2, 0): 3 - (1 + 1.5) = 0.5
    assert residual(R, C, keep=0.5).tolist() == [[0.5, 4.0], [1.0, -2.5]]


def test_a_zero_centroid_removes_nothing():
    zero = np.zeros_like(R)
    for keep in (0.0, 0.3, 1.0):
        assert residual(R, zero, keep).tolist() == R.tolist()


def test_projection_forgets_the_centroid_length(rng):
    r, c = rng.normal(size=(50, 7)), rng.normal(size=(50, 7))
    np.testing.assert_allclose(residual(r, c, 0.0), residual(r, 123.0 * c, 0.0), rtol=0, atol=1e-13)


def test_what_is_left_of_a_parallel_row_is_exactly_zero(rng):
    c = rng.normal(size=(20, 9))
    for dtype in (np.float32, np.float64):
        assert not residual((0.37 * c).astype(dtype), c.astype(dtype), 0.0).any()


def test_a_small_but_real_remainder_survives():
    assert residual(np.array([[1.0, 1e-4]]), np.array([[1.0, 0.0]]), 0.0).tolist() == [[0.0, 1e-4]]


def test_unit_rows_have_length_one_and_zero_stays_zero():
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]


@pytest.mark.parametrize(("d", "value"), [(1, 1.0), (2, 2 / np.pi), (3, 0.5), (128, 0.0707)])
def test_expected_absolute_cosine_of_random_directions(d, value):
    assert expected_abs_cosine(d) == pytest.approx(value, abs=5e-5)


def test_a_row_is_treated_alike_in_any_company(rng):
    r = rng.normal(size=(5000, 37)).astype(np.float32)
    c = rng.normal(size=(5000, 37)).astype(np.float32)
    complete = unit(residual(r, c, 0.25))
    for n in (1, 2, 7, 256):
        parts = [unit(residual(r[i : i + n], c[i : i + n], 0.25)) for i in range(0, 256, n)]
        assert np.array_equal(np.concatenate(parts)[:256], complete[:256])
