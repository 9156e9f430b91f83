"""The paper's propositions and identities, one test each."""

import numpy as np
import pytest

import reference
import sidkit
from planted import planted
from sidkit.geometry import expected_abs_cosine, residual, unit


def rows_and_starts(seed, n=240, d=10, sizes=(12, 8, 5)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.4 * rng.normal(size=d)
    return X, [rng.choice(n, size, replace=False) for size in sizes], sizes


@pytest.mark.parametrize(
    ("seed", "top_k", "beta"), [(0, 1, 15.0), (1, 2, 15.0), (2, 5, 15.0), (3, 3, 4.0), (4, 12, 30.0)]
)
def test_prq_kmeans_is_algorithm_1_code_for_code_in_float64(seed, top_k, beta):
    X, init, sizes = rows_and_starts(seed)
    mean, codebooks, codes = reference.prq_kmeans(X, sizes, init, top_k, beta)
    fitted = sidkit.prq_kmeans(sizes, top_k=top_k, beta=beta).fit(X, init=init)
    assert fitted.encode(X).tolist() == codes
    assert fitted.fit_codes.tolist() == codes
    np.testing.assert_allclose(fitted.mean, mean, atol=1e-14)
    for ours, theirs in zip(fitted.codebooks, codebooks, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_prq_kmeans_in_float32_agrees_on_999_tokens_of_1000():
    X, init, sizes = rows_and_starts(7, n=400, d=12, sizes=(16, 10, 6))
    _, _, codes = reference.prq_kmeans(X, sizes, init, 2)
    ours = sidkit.prq_kmeans(sizes, top_k=2).fit(X.astype(np.float32), init=init).fit_codes
    assert (ours == np.array(codes)).mean() >= 0.999


def test_without_projection_is_its_euclidean_counterpart_code_for_code():
    X, init, sizes = rows_and_starts(5)
    fitted = sidkit.without_projection(sizes, top_k=3, beta=6.0).fit(X, init=init)
    assert fitted.fit_codes.tolist() == reference.without_projection(X, sizes, init, 3, 6.0)


@pytest.mark.parametrize("normalize", [True, False])
def test_rq_kmeans_is_equations_1_and_2_code_for_code(normalize):
    X, init, sizes = rows_and_starts(11)
    codebooks, codes = reference.rq_kmeans(X, sizes, init, normalize=normalize)
    fitted = sidkit.rq_kmeans(sizes, normalize=normalize).fit(X, init=init)
    assert fitted.fit_codes.tolist() == codes
    for ours, theirs in zip(fitted.codebooks, codebooks, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_projection_residuals_are_orthogonal_to_the_selected_centroid(rng):
    r, c = rng.normal(size=(200, 32)), rng.normal(size=(200, 32))
    assert np.abs((residual(r, c, 0.0) * c).sum(axis=1)).max() < 1e-13
    assert np.abs((unit(residual(r, c, 0.0)) * c).sum(axis=1)).max() < 1e-13


def test_projection_is_the_minimum_change_that_is_orthogonal(rng):
    r, c = rng.normal(size=(1, 8)), rng.normal(size=(1, 8))
    v = residual(r, c, 0.0)
    for _ in range(200):
        w = residual(v + rng.normal(size=(1, 8)), c, 0.0)  # another vector orthogonal to c
        gap = ((w - r) ** 2).sum() - ((v - r) ** 2).sum()
        assert gap == pytest.approx(((w - v) ** 2).sum())  # Pythagoras, Eq. 18
        assert gap > 0


def test_mean_squared_carryover_is_the_variance_of_the_coefficient(rng):
    """Eq. 15, for a mean centroid and for one that is not."""
    r = rng.normal(size=(60, 6)) + 1.0
    for c in (r.mean(axis=0), r.mean(axis=0) * 1.3, rng.normal(size=6)):
        rho = np.linalg.norm(c)
        alpha = r @ c / rho
        left = residual(r, np.tile(c, (60, 1)), 1.0)
        carried = left @ c / rho
        assert (carried**2).mean() == pytest.approx(alpha.var() + (alpha.mean() - rho) ** 2)


def test_a_mean_centroid_matches_the_mean_coefficient(rng):
    r = rng.normal(size=(60, 6)) + 1.0
    c = r.mean(axis=0)
    assert (r @ c / np.linalg.norm(c)).mean() == pytest.approx(np.linalg.norm(c))


def test_two_random_directions_in_128_dimensions_have_an_expected_cosine_of_7_07_percent(rng):
    assert round(expected_abs_cosine(128), 4) == 0.0707
    u, v = unit(rng.normal(size=(50_000, 128))), unit(rng.normal(size=(50_000, 128)))
    assert np.abs((u * v).sum(axis=1)).mean() == pytest.approx(expected_abs_cosine(128), rel=0.01)


def test_retention_endpoints_are_subtraction_and_projection(rng):
    X, _ = planted(rng)
    init = [rng.choice(len(X), 8, replace=False) for _ in range(2)]
    full, none, complete = (sidkit.retain(keep, (8, 8)).fit(X, init=init) for keep in (1.0, 0.0, 1.0))
    rq = sidkit.rq_kmeans((8, 8)).fit(X, init=init)
    assert np.array_equal(full.fit_codes, rq.fit_codes)
    assert np.array_equal(full.codebooks[0], none.codebooks[0])
    assert not np.array_equal(full.codebooks[1], none.codebooks[1])
    assert np.array_equal(complete.codebooks[1], rq.codebooks[1])


def test_retention_scales_only_the_carryover(rng):
    """The second equality of Eq. 23."""
    r, c = rng.normal(size=(40, 6)), rng.normal(size=(40, 6))
    rho = np.linalg.norm(c, axis=1, keepdims=True)
    hat = c / rho
    alpha = (r * hat).sum(axis=1, keepdims=True)
    for eta in (0.0, 0.2, 0.7, 1.0):
        np.testing.assert_allclose(residual(r, c, eta), eta * (alpha - rho) * hat + r - alpha * hat, atol=1e-13)


def test_plain_rq_centroids_and_the_last_residual_add_up_to_the_input(rng):
    X, _ = planted(rng)
    fitted = sidkit.rq_kmeans((8, 4, 4), normalize=False).fit(X)
    total, r = np.zeros_like(X), X
    for level, (stage, book) in enumerate(zip(fitted.stages, fitted.codebooks, strict=True)):
        codes = fitted.fit_codes[:, : level + 1]
        total, r = total + book[codes[:, -1]], stage.carry(r, codes)
    np.testing.assert_allclose(total + r, X, atol=1e-12)


def test_carryover_is_measured_and_projection_passes_none_of_it_on(rng):
    X, _ = planted(rng, noise=0.3)
    rq, prq = sidkit.rq_kmeans((8, 8)).fit(X), sidkit.prq_kmeans((8, 8)).fit(X)
    a, b = sidkit.carryover(rq, X), sidkit.carryover(prq, X)
    assert a["passed_on"] == pytest.approx(a["per_level"])
    assert max(b["passed_on"]) < 1e-12 < min(b["per_level"])
    assert a["isotropic"] == expected_abs_cosine(16)


def test_carryover_by_hand():
    """Two rows on one centroid: c = (2, 0), r = (3, 4) and (1, -4), so |alpha - rho| / |r - c| = 1 / sqrt(17)."""
    X = np.array([[3.0, 4.0], [1.0, -4.0]])
    fitted = sidkit.rq_kmeans((1,), normalize=False).fit(X)
    assert fitted.codebooks[0].tolist() == [[2.0, 0.0]]
    assert sidkit.carryover(fitted, X)["per_level"] == pytest.approx([1 / np.sqrt(17)])
