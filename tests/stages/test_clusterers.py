"""GMM, PQ, OPQ, per-parent and balanced levels, FSQ: by hand, against independent implementations, on planted data."""

from itertools import pairwise

import numpy as np
import pytest

import sidkit
from planted import planted
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.stages.cluster import GMM, Balanced, KMeans, PerParent
from sidkit.stages.cluster.gmm import Mixture
from sidkit.stages.level import SUBTRACT, Level
from sidkit.stages.opq import OPQ, procrustes
from sidkit.stages.product import PQ, blocks
from sidkit.stages.scalar import FSQ
from sidkit.stages.stage import FitContext
from sidkit.tokenizer.tokenizer import Tokenizer


def fit(stage, X, seed=0):
    return Tokenizer((stage,) if not isinstance(stage, tuple) else stage).fit(X, seed=seed)


def left_over(fitted, X):
    """Mean squared length of what the last stage passes on."""
    x, seen = X, 0
    for stage in fitted.stages:
        seen += len(stage.sizes)
        x = stage.carry(x, fitted.fit_codes[:, :seen])
    return float((x.astype(np.float64) ** 2).sum(axis=1).mean())


# RQ-KMeans


def test_rq_kmeans_objective_is_within_one_percent_of_faiss(rng):
    faiss = pytest.importorskip("faiss")
    X, _ = planted(rng, clusters=40, each=100, d=24, noise=0.15)
    X = X.astype(np.float32)
    ours = np.mean(
        [left_over(fit(Level(KMeans(64, "euclidean", empty="split"), SUBTRACT), X, seed), X) for seed in range(5)]
    )
    theirs = []
    for seed in range(5):
        kmeans = faiss.Kmeans(24, 64, niter=25, seed=seed + 1, max_points_per_centroid=10**6)
        kmeans.train(X)
        theirs.append(kmeans.index.search(X, 1)[0].mean())
    assert ours <= 1.01 * np.mean(theirs)


# GMM


def test_em_follows_scikit_learn_from_the_same_start(rng):
    mixture = pytest.importorskip("sklearn.mixture")
    X, _ = planted(rng, clusters=4, each=60, d=5, noise=0.4)
    spec = GMM(4, iterations=12, floor=1e-12, tolerance=0.0)
    rows = LocalRows(ArraySource(X))
    state = spec.start(rows, FitContext())
    reference = mixture.GaussianMixture(
        4, covariance_type="diag", reg_covar=0.0, max_iter=12, tol=0.0, weights_init=state.weights,
        means_init=state.means, precisions_init=1 / state.variances,
    )  # fmt: skip
    with pytest.warns(Warning, match="converge"):
        reference.fit(X)
    for _ in range(12):
        state = spec.update(state, rows.reduce(lambda x, codes, state=state: spec.statistics(state, x, codes)))
    likelihood = rows.reduce(lambda x, codes: spec.statistics(state, x, codes))[-1][0] / len(X)
    assert likelihood == pytest.approx(reference.score(X), rel=1e-4)
    np.testing.assert_allclose(state.means, reference.means_, atol=1e-6)
    np.testing.assert_allclose(state.variances, reference.covariances_, rtol=1e-4)
    assert np.array_equal(state.assign(X, None), reference.predict(X))


def test_log_joint_by_hand():
    state = Mixture(np.array([[0.0], [2.0]]), np.array([[1.0], [4.0]]), np.array([0.25, 0.75]))
    normal = lambda x, m, v: np.exp(-((x - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)  # noqa: E731
    expected = np.log([0.25 * normal(1.0, 0.0, 1.0), 0.75 * normal(1.0, 2.0, 4.0)])
    np.testing.assert_allclose(state.log_joint(np.array([[1.0]]))[0], expected)


def test_likelihood_never_falls_while_the_floor_is_far(rng):
    X, _ = planted(rng, clusters=5, each=40, d=6, noise=0.3)
    spec, rows = GMM(5, tolerance=0.0), LocalRows(ArraySource(X))
    state, seen = spec.start(rows, FitContext()), []
    for _ in range(15):
        state = spec.update(state, rows.reduce(lambda x, codes, state=state: spec.statistics(state, x, codes)))
        seen.append(state.likelihood)
    assert all(b >= a - 1e-9 for a, b in pairwise(seen))


def test_variances_stop_at_the_floor():
    X = np.repeat(np.eye(3), 5, axis=0)
    fitted = sidkit.rq_gmm((3,), floor=1e-6).fit(X, init=[np.array([0, 5, 10])])
    assert fitted.stages[1].arrays["variances"].min() == 1e-6
    assert fitted.fit_codes[:, 0].tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_the_mean_of_the_chosen_component_is_subtracted_whole(rng):
    X = rng.normal(size=(80, 4))
    fitted = sidkit.rq_gmm((4, 2), normalize=False).fit(X)
    passed = fitted.stages[0].carry(X, fitted.fit_codes[:, :1])
    np.testing.assert_allclose(passed, X - fitted.codebooks[0][fitted.fit_codes[:, 0]])


def test_a_component_with_next_to_no_mass_keeps_its_parameters():
    before = Mixture(np.array([[0.0], [5.0], [7.0]]), np.array([[1.0], [2.0], [3.0]]), np.full(3, 1 / 3))
    mass, total, square = np.array([4.0, 0.0, 1e-9]), np.array([[8.0], [0.0], [1.0]]), np.array([[20.0], [0.0], [1.0]])
    after = GMM(3).update(before, (mass, total, square, np.array([-6.0])))
    assert after.means.tolist() == [[2.0], [5.0], [7.0]]
    assert after.variances.tolist() == [[1.0], [2.0], [3.0]]
    np.testing.assert_allclose(after.weights, [1.0, 0.0, 0.0], atol=1e-9)
    assert np.isfinite(after.log_joint(np.array([[5.0]]))).all()
    more = GMM(3).update(before, (np.array([4.0, 0.0, 1e-7]), total, square, np.array([-6.0])))
    assert more.means[2, 0] == pytest.approx(1e7)


@pytest.mark.parametrize("spread", ["rows", "clusters"])
def test_more_components_than_different_rows_leave_empty_ones_as_they_started(spread):
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 10, axis=0)
    mixture = fit(Level(GMM(3, spread=spread), SUBTRACT), X).stages[0].clusters
    assert all(np.isfinite(array).all() for array in mixture.arrays.values())
    assert mixture.variances.min() >= 1e-6
    assert np.unique(mixture.means.round(6), axis=0).tolist() == [[0.0, 1.0], [1.0, 0.0]]


# PQ and OPQ


def test_blocks_are_as_even_as_can_be():
    assert [(b.start, b.stop) for b in blocks(128, 3)] == [(0, 43), (43, 86), (86, 128)]
    assert [(b.start, b.stop) for b in blocks(6, 3)] == [(0, 2), (2, 4), (4, 6)]
    with pytest.raises(sidkit.SidkitError, match="cannot be cut into 3 blocks"):
        blocks(2, 3)


def test_pq_is_kmeans_in_each_block(rng):
    X = rng.normal(size=(300, 7))
    init = [rng.choice(300, 6, replace=False), rng.choice(300, 4, replace=False)]
    both = Tokenizer((PQ((6, 4)),)).fit(X, init=init)
    for m, block in enumerate(blocks(7, 2)):
        alone = Tokenizer((Level(KMeans((6, 4)[m], "euclidean"), SUBTRACT),)).fit(X[:, block], init=[init[m]])
        assert np.array_equal(both.fit_codes[:, m], alone.fit_codes[:, 0])
        np.testing.assert_allclose(both.codebooks[m], alone.codebooks[0], atol=1e-12)


def test_pq_and_opq_distortion_is_no_worse_than_faiss(rng):
    faiss = pytest.importorskip("faiss")
    X = (rng.normal(size=(3000, 16)) @ rng.normal(size=(16, 16))).astype(np.float32)
    quantizer = faiss.ProductQuantizer(16, 2, 5)
    quantizer.cp.niter, quantizer.cp.max_points_per_centroid = 25, 10**6
    quantizer.train(X)
    plain = ((quantizer.decode(quantizer.compute_codes(X)) - X) ** 2).sum(axis=1).mean()
    assert np.mean([left_over(fit(PQ((32, 32)), X, s), X) for s in range(3)]) <= 1.01 * plain
    rotation = faiss.OPQMatrix(16, 2)
    rotation.niter, rotation.pq = 25, faiss.ProductQuantizer(16, 2, 5)
    rotation.train(X)
    Y = rotation.apply(X)
    quantizer.train(Y)
    turned = ((quantizer.decode(quantizer.compute_codes(Y)) - Y) ** 2).sum(axis=1).mean()
    assert np.mean([left_over(fit(OPQ((32, 32)), X, s), X) for s in range(3)]) <= 1.01 * turned


def test_the_rotation_is_orthogonal_and_undoes_much_of_a_hidden_one(rng):
    """Two independent blocks, mixed by a rotation: OPQ can turn back, PQ cannot."""
    parts = [np.eye(4)[rng.integers(0, 4, size=800)] * 3, np.eye(4)[rng.integers(0, 4, size=800)] * 2]
    X = np.concatenate(parts, axis=1) + 0.01 * rng.normal(size=(800, 8))
    mix, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    turned = [fit(OPQ((4, 4), alternations=40), X @ mix.T, seed) for seed in range(5)]
    for opq in turned:
        turn = opq.stages[0].rotation
        np.testing.assert_allclose(turn @ turn.T, np.eye(8), atol=1e-12)
    plain = [left_over(fit(PQ((4, 4)), X @ mix.T, seed), X @ mix.T) for seed in range(5)]
    assert np.mean([left_over(opq, X @ mix.T) for opq in turned]) < 0.9 * np.mean(plain)


def test_the_distortion_never_rises_over_turns(rng):
    X = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 8))
    spec, rows = OPQ((8, 8), alternations=12, first=3), LocalRows(ArraySource(X))
    state, seen = spec.start(rows, FitContext()), []
    for _ in range(spec.iterations):
        state = spec.update(state, rows.reduce(lambda x, codes, state=state: spec.statistics(state, x, codes)))
        seen.append(float((state.carry(X, state.tokens(X, None)) ** 2).sum()))
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(seen))


def test_directions_the_data_leave_open_stay_where_they_were(rng):
    before, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    left, _ = np.linalg.qr(rng.normal(size=(6, 2)))
    product = left @ rng.normal(size=(2, 2)) @ np.eye(2, 6)  # rank two
    one, two = procrustes(product, before, 1e-6), procrustes(product, before, 1e-6)
    assert np.array_equal(one, two)
    np.testing.assert_allclose(one @ one.T, np.eye(6), atol=1e-12)
    zero = procrustes(np.zeros((6, 6)) + 1e-30 * before.T, before, 1e-6)
    np.testing.assert_allclose(zero, before, atol=1e-9)


def test_free_directions_of_a_rotation_are_taken_from_the_one_before():
    """Two directions are decided by the data; the other two were turned by a right angle, and stay so."""
    turned = np.eye(4)
    turned[2:, 2:] = [[0.0, -1.0], [1.0, 0.0]]
    rotation = procrustes(np.diag([3.0, 2.0, 0.0, 0.0]), turned, 1e-6)
    np.testing.assert_allclose(rotation, turned, atol=1e-12)


def test_the_pull_of_opq_towards_the_rotation_before_is_as_strong_as_asked(rng):
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    moved = [
        np.abs(fit(OPQ((4, 4), 5, 5, rotation="identity", tie=tie), X).stages[0].rotation - np.eye(6)).max()
        for tie in (1e-6, 1.0, 1e6)
    ]
    assert moved[0] > 2 * moved[1] > 0.01
    assert moved[2] < 1e-5


def test_opq_turns_after_every_so_many_steps(rng):
    X = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    spec, rows = OPQ((4, 4), alternations=2, first=2, steps=3), LocalRows(ArraySource(X))
    state, turned = spec.start(rows, FitContext()), []
    for _ in range(spec.iterations):
        before = state.rotation
        state = spec.update(state, rows.reduce(lambda x, codes, state=state: spec.statistics(state, x, codes)))
        turned.append(not np.array_equal(before, state.rotation))
    assert turned == [False, False] + 2 * [False, False, True]
    assert sidkit.opq_kmeans((4, 4), alternations=2, first=2, steps=3).stages[-1] == spec


def test_opq_without_turns_from_the_identity_is_pq_on_centred_rows(rng):
    X = rng.normal(size=(300, 6))
    X -= X.mean(axis=0)
    a = fit(OPQ((5, 5), alternations=0, first=25, rotation="identity"), X)
    b = fit(PQ((5, 5), iterations=25), X)
    assert np.array_equal(a.fit_codes, b.fit_codes)


# Per parent


def test_small_parents_give_every_row_its_own_code_and_leave_nothing(rng):
    X = rng.normal(size=(40, 6))
    fitted = fit((Level(KMeans(8, "euclidean"), SUBTRACT), Level(PerParent(16), SUBTRACT)), X)
    codes = fitted.fit_codes
    for parent in np.unique(codes[:, 0]):
        tokens = codes[codes[:, 0] == parent, 1]
        assert len(tokens) <= 16
        assert tokens.tolist() == list(range(len(tokens)))  # in row order
    x = fitted.stages[0].carry(X, codes[:, :1])
    assert not fitted.stages[1].carry(x, codes).any()


def test_large_parents_are_clustered_on_their_own(rng):
    X, _ = planted(rng, clusters=2, each=60, d=5, noise=0.3)
    fitted = fit((Level(KMeans(2, "euclidean"), SUBTRACT), Level(PerParent(4), SUBTRACT)), X)
    r = fitted.stages[0].carry(X, fitted.fit_codes[:, :1])
    books = fitted.stages[1].clusters
    for parent in range(2):
        rows = fitted.fit_codes[:, 0] == parent
        alone = books.centroids[books.starts[parent] : books.starts[parent + 1]]
        nearest = ((r[rows][:, None] - alone[None]) ** 2).sum(axis=2).argmin(axis=1)
        assert np.array_equal(fitted.fit_codes[rows, 1], nearest)
        for j in range(4):
            np.testing.assert_allclose(alone[j], r[rows][nearest == j].mean(axis=0), atol=1e-9)


def test_both_kinds_of_parent_are_distinguished(rng):
    X = rng.normal(size=(200, 5))
    two = (Level(KMeans(4, "euclidean"), SUBTRACT), Level(KMeans(4, "euclidean"), SUBTRACT))
    prefix = fit((*two, Level(PerParent(8), SUBTRACT)), X).stages[2].clusters
    last = fit((*two, Level(PerParent(8, parents="last"), SUBTRACT)), X).stages[2].clusters
    assert prefix.keys.shape[1] == 2
    assert last.keys.shape == (4, 1)
    assert len(prefix.keys) > 4


def test_a_parent_never_seen_uses_the_common_codebook(rng):
    X = np.concatenate([rng.normal(size=(50, 3)) + np.eye(3)[0], rng.normal(size=(50, 3)) - np.eye(3)[0]])
    fitted = fit((Level(KMeans(3, "euclidean", iterations=0), SUBTRACT), Level(PerParent(4), SUBTRACT)), X)
    books = fitted.stages[1].clusters
    stranger = np.array([[99]])
    x = rng.normal(size=(1, 3))
    expected = ((books.common - x) ** 2).sum(axis=1).argmin()
    assert books.assign(x, stranger).tolist() == [expected]
    np.testing.assert_allclose(books.chosen(x, np.array([[99, expected]]))[0], books.common[expected])


def test_a_per_parent_level_cannot_come_first(rng):
    with pytest.raises(sidkit.SidkitError, match="cannot be the first"):
        fit(Level(PerParent(4), SUBTRACT), rng.normal(size=(20, 3)))


def test_parents_start_from_draws_of_their_own(rng):
    """Two parents with the same rows, left as they start: they differ by parent, by seed and by level."""
    X, parent = np.tile(rng.normal(size=(40, 3)), (2, 1)), np.repeat([0, 1], 40)

    def starts(seed, width):
        books = PerParent(4, iterations=0).fit(LocalRows(ArraySource(X), columns=(parent,) * width), FitContext(seed))
        return [book.tobytes() for book in books.centroids.reshape(2, 4, 3)]

    assert starts(0, 1) == starts(0, 1)
    assert len({*starts(0, 1), *starts(1, 1), *starts(0, 2)}) == 6


# Balanced


def test_balanced_clusters_hold_about_the_same_number_of_rows(rng):
    X = np.concatenate([rng.normal(size=(500, 4)), 0.3 * rng.normal(size=(500, 4)) + 0.5])
    even, plain = (fit(Level(kind, SUBTRACT), X) for kind in (Balanced(10), KMeans(10, "euclidean")))
    balanced, ordinary = (np.bincount(f.fit_codes[:, 0], minlength=10) for f in (even, plain))
    assert balanced.max() <= 130
    assert balanced.min() >= 70
    assert ordinary.std() > 2 * balanced.std()
    assert np.array_equal(even.encode(X), even.fit_codes)


# FSQ


@pytest.mark.parametrize("projection", ["learned", "itq", "random"])
def test_bits_are_split_into_tokens_least_significant_first(rng, projection):
    if projection == "learned":
        pytest.importorskip("torch")
    X = rng.normal(size=(500, 8)).astype(np.float32)
    fitted = fit(FSQ(6, 2, projection, epochs=3), X)
    stage = fitted.stages[0]
    bits = X.astype(np.float64) @ stage.directions.astype(np.float64) + stage.bias > 0
    expected = np.stack([bits[:, :3] @ [1, 2, 4], bits[:, 3:] @ [1, 2, 4]], axis=1)
    assert fitted.sizes == (8, 8)
    assert np.array_equal(fitted.fit_codes, expected)


def test_learned_bits_reconstruct_better_than_random_ones(rng):
    pytest.importorskip("torch")
    X = (rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(2000, 12))).astype(np.float32)

    def error(projection):
        codes = fit(FSQ(6, 2, projection, epochs=20, batch=256), X).fit_codes
        group = codes[:, 0] * 8 + codes[:, 1]
        means = np.stack([X[group == g].mean(axis=0) if (group == g).any() else np.zeros(12) for g in range(64)])
        return ((X - means[group]) ** 2).mean()

    assert error("learned") < error("random")
    assert error("itq") < error("random")


def test_what_the_last_epoch_learned_is_kept_where_it_is_better(rng):
    pytest.importorskip("torch")
    X = (rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(2000, 12))).astype(np.float32)
    start, one = (fit(FSQ(6, 2, epochs=epochs, batch=256), X).stages[0].directions for epochs in (0, 1))
    assert np.abs(one - start).max() > 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FSQ(7, 2), "7 bits cannot be split into 2 equal tokens"),
        (lambda: FSQ(4, 2, "pca"), "projection must be"),
        (lambda: FSQ(4, 2, learning_rate=-1), "learning_rate must be positive and finite, not -1"),
        (lambda: FSQ(4, 2, learning_rate=float("nan")), "learning_rate must be positive and finite, not nan"),
        (lambda: FSQ(4, 2, weight_decay=-1e9), "weight_decay cannot be negative"),
        (lambda: GMM(4, floor=0.0), "floor must be positive"),
        (lambda: PQ(()), "at least one size"),
        (lambda: OPQ((4,), steps=0), "at least one k-means step"),
        (lambda: PerParent(4, parents="both"), "parents must be"),
        (lambda: sidkit.rq_opq((8, 4, 2)), "a hybrid needs three sizes"),
        (lambda: sidkit.res_kmeans_fsq((8, 4, 2, 6, 6)), "powers of two"),
    ],
)
def test_specs_that_make_no_sense_are_refused(make, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        make()


@pytest.mark.parametrize("kinds", [1, 2])
def test_a_mixture_of_rows_without_residuals_can_be_saved_and_loaded(kinds, tmp_path):
    X = np.repeat(np.eye(3)[:kinds], 20, axis=0).astype(np.float32)
    fitted = sidkit.rq_gmm((2, 2)).fit(X)
    fitted.save(tmp_path / "tok")
    np.testing.assert_array_equal(sidkit.load(tmp_path / "tok").encode(X), fitted.encode(X))


def test_bits_of_normalised_rows_do_not_see_their_lengths(rng, tmp_path):
    X = rng.normal(size=(300, 8)).astype(np.float32)
    fitted = Tokenizer((FSQ(6, 2, "itq", normalize=True),)).fit(X)
    codes = fitted.encode(X)
    assert len(np.unique(codes, axis=0)) > 20
    np.testing.assert_array_equal(fitted.encode(X * rng.uniform(0.1, 9.0, (300, 1)).astype(np.float32)), codes)
    fitted.save(tmp_path / "tok")
    np.testing.assert_array_equal(sidkit.load(tmp_path / "tok").encode(3 * X), codes)
