"""The core on data where things go wrong, and what must not change its answers."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidkit
from planted import planted
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.stages.cluster import KMeans
from sidkit.stages.level import PROJECT, Level, Residual
from sidkit.stages.prepare import Normalize, RemoveMean
from sidkit.tokenizer.tokenizer import Tokenizer

RECIPES = [
    sidkit.prq_kmeans,
    sidkit.rq_kmeans,
    sidkit.without_global,
    sidkit.without_soft,
    sidkit.without_projection,
    sidkit.retain,
]


def rows_in_chunks(X, chunk):
    return LocalRows(ArraySource(X), chunk=chunk)


@pytest.mark.parametrize("make", RECIPES)
def test_planted_clusters_are_recovered(rng, make):
    X, label = planted(rng, clusters=6, each=50, noise=0.02)
    first = [np.flatnonzero(label == j)[0] for j in range(6)]
    codes = make(sizes=(6, 2)).fit(X, init=[np.array(first), None]).fit_codes
    assert all(len(np.unique(codes[label == j, 0])) == 1 for j in range(6))
    assert len(np.unique(codes[:, 0])) == 6


@pytest.mark.parametrize("make", RECIPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encoding_gives_the_tokens_of_the_fit(rng, make, dtype):
    X = rng.normal(size=(700, 12)).astype(dtype)
    fitted = make(sizes=(16, 8, 4)).fit(X, seed=3)
    assert np.array_equal(fitted.encode(X), fitted.fit_codes)


@pytest.mark.parametrize("make", RECIPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunk_size_changes_no_token(rng, make, dtype):
    X = rng.normal(size=(900, 12)).astype(dtype)
    complete = make(sizes=(32, 16, 4), iterations=6).fit(X, seed=1)
    for chunk in (97, 512, 899):
        parts = make(sizes=(32, 16, 4), iterations=6).fit(rows_in_chunks(X, chunk), seed=1)
        assert np.array_equal(parts.fit_codes, complete.fit_codes)
        for a, b in zip(parts.codebooks, complete.codebooks, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_thread_count_changes_no_token(tmp_path):
    import os
    import subprocess
    import sys

    script = (
        "import numpy as np, sidkit;"
        "X = np.random.default_rng(0).normal(size=(3000, 24));"
        "fits = [sidkit.prq_kmeans((64, 32), top_k=3).fit(X.astype(dtype)) for dtype in ('f4', 'f8')];"
        "print([fitted.fit_codes.tobytes().hex() for fitted in fits])"
    )
    outputs = set()
    for threads in ("1", "2"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "SIDKIT_THREADS")
        env = os.environ | dict.fromkeys(names, threads)
        outputs.add(subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=True).stdout)
    assert len(outputs) == 1


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    d=st.integers(1, 9),
    size=st.integers(1, 8),
    top_k=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    copies=st.booleans(),
)
def test_any_small_data_fits_and_encodes_as_fitted(n, d, size, top_k, seed, copies):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[: n // 2] = X[0] if copies else X[: n // 2]
    X[(X * X).sum(axis=1) < 1e-20] = 1.0
    size = min(size, n)
    for make in (sidkit.prq_kmeans, sidkit.rq_kmeans):
        options = {"top_k": top_k} if make is sidkit.prq_kmeans else {}
        fitted = make((size, size), iterations=4, **options).fit(X, seed=seed % 97)
        codes = fitted.encode(X)
        assert np.array_equal(codes, fitted.fit_codes)
        assert codes.min() >= 0
        assert codes.max() < size
        assert all(np.isfinite(book).all() for book in fitted.codebooks)
        equal = np.flatnonzero((X == X[0]).all(axis=1))
        assert (codes[equal] == codes[0]).all()  # equal rows, equal SIDs


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.floats(1e-3, 1e3))
def test_prq_ignores_the_length_of_rows(seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 6))
    spec = sidkit.prq_kmeans((8, 4), iterations=6)
    longer = X * rng.uniform(0.5, 2.0, size=(80, 1)) * scale
    assert np.array_equal(spec.fit(X).fit_codes, spec.fit(longer).fit_codes)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_row_order_only_moves_the_rows(seed):
    rng = np.random.default_rng(seed)
    X, order = rng.normal(size=(90, 5)), rng.permutation(90)
    start = rng.choice(90, 6, replace=False)
    where = np.argsort(order)
    one = sidkit.prq_kmeans((6,), iterations=8).fit(X, init=[start])
    two = sidkit.prq_kmeans((6,), iterations=8).fit(X[order], init=[where[start]])
    assert np.array_equal(one.fit_codes[order], two.fit_codes)


def test_a_seed_decides_everything_and_another_seed_differs(rng):
    X = rng.normal(size=(400, 8))
    a, b, c = (sidkit.prq_kmeans((16, 8)).fit(X, seed=s) for s in (5, 5, 6))
    assert np.array_equal(a.fit_codes, b.fit_codes)
    assert all(np.array_equal(x, y) for x, y in zip(a.codebooks, b.codebooks, strict=True))
    assert not np.array_equal(a.fit_codes, c.fit_codes)


def test_ablations_draw_the_same_initial_rows(rng):
    X = rng.normal(size=(100, 8))
    full = sidkit.prq_kmeans((10,), iterations=0).fit(X, seed=4)
    without = sidkit.without_global((10,), iterations=0).fit(X, seed=4)
    back = full.stages[1].carry(full.stages[0].carry(without.codebooks[0], None), None)
    np.testing.assert_allclose(back, full.codebooks[0], atol=1e-12)


def test_levels_draw_different_rows(rng):
    """A row that became a level-1 centroid leaves nothing; were it drawn again, level 2 would start at zeros."""
    X = rng.normal(size=(1000, 8))
    fitted = sidkit.rq_kmeans((10, 10), iterations=0, normalize=False).fit(X)
    assert (np.abs(fitted.codebooks[1]).sum(axis=1) > 0).all()


def test_exact_ties_go_to_the_lowest_index():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    codes = sidkit.rq_kmeans((3,), normalize=False, iterations=0).fit(X, init=[np.array([1, 0, 2])]).fit_codes
    assert codes[:, 0].tolist() == [0, 0, 2]


def test_an_empty_centroid_stays_where_it_is():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    fitted = sidkit.rq_kmeans((3,), normalize=False).fit(X, init=[np.array([0, 1, 2])])
    assert fitted.fit_codes[:, 0].tolist() == [0, 0, 2, 2]
    assert fitted.codebooks[0].tolist() == [[1.0, 0.0], [1.0, 0.0], [0.05, 1.0]]


def test_an_empty_centroid_can_split_the_heaviest_one_instead(rng):
    X = np.concatenate([rng.normal(size=(90, 2)) * 0.1 + 1, rng.normal(size=(10, 2)) * 0.01 - 1])
    X[1] = X[0]
    spec = Tokenizer((Level(KMeans(3, "euclidean", empty="split"), Residual(1.0, False)),))
    codes = spec.fit(X, init=[np.array([0, 1, 95])]).fit_codes[:, 0]
    assert sorted(np.unique(codes)) == [0, 1, 2]
    assert len(np.unique(codes[90:])) == 1


def test_a_residual_that_vanishes_becomes_zero_and_takes_code_zero():
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]])
    fitted = sidkit.without_global((3, 2), top_k=1).fit(X, init=[np.array([0, 1, 2]), np.array([0, 3])])
    r = fitted.stages[1].carry(fitted.stages[0].carry(X, None), fitted.fit_codes[:, :1])
    assert not r[1].any()
    assert not r[2].any()
    assert fitted.fit_codes[1:3, 1].tolist() == [0, 0]


@pytest.mark.parametrize("make", [sidkit.rq_kmeans, sidkit.retain, partial(sidkit.without_projection, top_k=1)])
def test_rows_with_nothing_left_do_not_swallow_a_euclidean_level(rng, make):
    """Half the rows are centroids of level 1, so their residual is zero; level 2 must still tell the others apart."""
    d = 64
    X = np.concatenate([np.eye(d)[:20], np.eye(d)[:20] + 0.2 * rng.normal(size=(20, d))])
    X = np.concatenate([X, X[20:] + 0.05 * rng.normal(size=(20, d))])
    spec = make(sizes=(20, 16), iterations=10)
    assert all(stage.cluster.skip_zero for stage in spec.stages if isinstance(stage, Level))
    codes = spec.fit(X, init=[np.arange(20), None]).fit_codes
    assert len(np.unique(codes[20:, 1])) >= 8


@pytest.mark.parametrize("make", RECIPES)
def test_all_rows_equal(make):
    X = np.tile([[0.3, -0.2, 0.9]], (20, 1))
    fitted = make(sizes=(4, 2)).fit(X)
    assert (fitted.fit_codes == fitted.fit_codes[0]).all()
    assert np.array_equal(fitted.encode(X), fitted.fit_codes)


def test_half_the_rows_equal(rng):
    X = rng.normal(size=(200, 8))
    X[:100] = X[0]
    fitted = sidkit.prq_kmeans((16, 8)).fit(X)
    assert (fitted.fit_codes[:100] == fitted.fit_codes[0]).all()
    assert len(np.unique(fitted.fit_codes[100:], axis=0)) > 20


@pytest.mark.parametrize("make", RECIPES)
def test_one_row_one_centroid_one_dimension(make):
    assert make(sizes=(1, 1)).fit(np.array([[2.5]])).fit_codes.tolist() == [[0, 0]]
    assert make(sizes=(1,)).fit(np.array([[2.5, 1.0], [1.0, 3.0]])).fit_codes.tolist() == [[0], [0]]


def test_one_dimension_separates_signs():
    X = np.array([[1.0], [-2.0], [3.0], [-4.0]])
    codes = sidkit.without_global((2,)).fit(X, init=[np.array([0, 1])]).fit_codes
    assert codes[:, 0].tolist() == [0, 1, 0, 1]


def test_top_k_larger_than_the_codebook_means_all_of_it(rng):
    X = rng.normal(size=(50, 4))
    a, b = (sidkit.prq_kmeans((3,), top_k=k).fit(X) for k in (3, 9))
    assert np.array_equal(a.codebooks[0], b.codebooks[0])


def test_fewer_rows_than_centroids_is_an_error():
    with pytest.raises(
        sidkit.SidkitError, match="cannot draw 8 initial centroids from 5 rows; use codebooks of at most 5"
    ):
        sidkit.prq_kmeans((8,)).fit(np.eye(5))


def test_as_many_rows_as_centroids_is_fine():
    assert sorted(sidkit.rq_kmeans((5,)).fit(np.eye(5)).fit_codes[:, 0]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_bad_rows_are_counted_and_named(rng, value):
    X = rng.normal(size=(50, 4))
    X[[7, 31]] = 0.0
    X[[7, 31], 2] = value
    fitted = sidkit.prq_kmeans((4,)).fit(np.delete(X, [7, 31], axis=0))
    for work in (sidkit.prq_kmeans((4,)).fit, fitted.encode):
        with pytest.raises(sidkit.SidkitError, match=r"2 of 50 rows cannot be used: row 7 .*, row 31") as caught:
            work(X)
        assert caught.value.rows == [7, 31]


def test_rows_too_short_for_float32_are_named():
    X = np.ones((4, 3), np.float32)
    X[2] = 1e-30
    with pytest.raises(sidkit.SidkitError, match="row 2 is too short or too long for float32"):
        sidkit.prq_kmeans((2,)).fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(5), r"a matrix of rows \(n, d\); got shape \(5,\); give one vector as"),
        (np.ones((2, 2, 2)), "a matrix of rows"),
        (np.ones((3, 0)), "a matrix of rows"),
        (np.ones((0, 3)), "no rows to fit"),
        (np.array([["a", "b"]]), "must be numbers"),
        (np.array([[1 + 2j]]), "must be numbers"),
        (np.array([[object()]]), "must be numbers"),
    ],
)
def test_arrays_that_are_no_embeddings_are_refused(X, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        sidkit.prq_kmeans((1,)).fit(X)


def test_encoding_another_dimension_is_refused(rng):
    fitted = sidkit.prq_kmeans((4,)).fit(rng.normal(size=(20, 5)))
    with pytest.raises(sidkit.SidkitError, match="fitted on 5-dimensional rows; these have 6"):
        fitted.encode(np.ones((2, 6)))


def test_rows_are_encoded_in_the_dtype_of_the_fit(rng):
    X = rng.normal(size=(500, 6)).astype(np.float32)
    fitted = sidkit.prq_kmeans((32, 16)).fit(X)
    assert np.array_equal(fitted.encode(X.astype(np.float64)), fitted.fit_codes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, ">f4", ">f8"])
def test_other_number_types_are_cast(rng, dtype):
    X = (rng.normal(size=(60, 5)) * 40).astype(dtype)
    X[X.any(axis=1) == 0] = 1
    codes = sidkit.prq_kmeans((6,)).fit(X).fit_codes
    assert np.array_equal(
        codes, sidkit.prq_kmeans((6,)).fit(X.astype(np.float64 if dtype == ">f8" else np.float32)).fit_codes
    )


def test_strided_and_read_only_arrays_are_taken_as_they_are(rng):
    X = rng.normal(size=(60, 10))
    X.flags.writeable = False
    plain = np.ascontiguousarray(X[::2, ::2])
    assert np.array_equal(
        sidkit.prq_kmeans((6,)).fit(X[::2, ::2]).fit_codes, sidkit.prq_kmeans((6,)).fit(plain).fit_codes
    )


def test_torch_tensors_are_taken_bfloat16_too(rng):
    torch = pytest.importorskip("torch")
    X = torch.tensor(rng.normal(size=(60, 5)))
    assert np.array_equal(sidkit.prq_kmeans((6,)).fit(X).fit_codes, sidkit.prq_kmeans((6,)).fit(X.numpy()).fit_codes)
    half = X.to(torch.bfloat16)
    assert np.array_equal(
        sidkit.prq_kmeans((6,)).fit(half).fit_codes, sidkit.prq_kmeans((6,)).fit(half.float().numpy()).fit_codes
    )


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ([np.array([0, 1])], "needs 3 row numbers"),
        ([np.array([0, 1, 99])], r"names rows outside 0..19"),
        ([np.array([0.0, 1.0, 2.0])], "needs 3 row numbers"),
    ],
)
def test_initial_rows_that_make_no_sense_are_refused(rng, init, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        sidkit.prq_kmeans((3,)).fit(rng.normal(size=(20, 4)), init=init)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KMeans(0), "from 1 on"),
        (lambda: KMeans(2.5), "from 1 on"),
        (lambda: KMeans(4, "manhattan"), "'cosine' or 'euclidean'"),
        (lambda: KMeans(4, top_k=0), "top_k"),
        (lambda: KMeans(4, precision="int4"), "precision"),
        (lambda: KMeans(4, beta=0.0), "beta"),
        (lambda: KMeans(4, iterations=-1), "iterations"),
        (lambda: Residual(1.5), "keep must lie between"),
        (lambda: Tokenizer(()), "at least one stage"),
        (lambda: Tokenizer((3,)), "not a stage"),
        (lambda: sidkit.prq_kmeans((4,)).fit(np.eye(4), seed=-1), "seed"),
    ],
)
def test_specs_that_make_no_sense_are_refused(make, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        make()


def test_a_tokenizer_is_a_value():
    assert sidkit.prq_kmeans((4, 4)) == sidkit.prq_kmeans((4, 4))
    assert sidkit.without_global((4,)) == Tokenizer((Normalize(), Level(KMeans(4, top_k=2), PROJECT)))
    assert sidkit.without_soft((4,)) == Tokenizer((Normalize(), RemoveMean(), Level(KMeans(4), PROJECT)))
    assert hash(sidkit.prq_kmeans((4,))) == hash(sidkit.prq_kmeans((4,)))


def test_a_vector_keeps_its_sid_in_any_company(rng):
    X = rng.normal(size=(20_000, 37)).astype(np.float32)
    fitted = sidkit.prq_kmeans((300, 100, 50), iterations=2).fit(X)
    complete = fitted.encode(X)
    for n in (1, 7, 256, 4096):
        parts = [fitted.encode(X[i : i + n]) for i in range(0, min(len(X), 300 * n), n)]
        parts = np.concatenate(parts)
        assert np.array_equal(parts, complete[: len(parts)])


def test_no_centroid_starts_empty_while_the_draw_holds_different_rows(rng):
    X = np.repeat(rng.normal(size=(10, 5)), 2, axis=0)
    for seed in range(5):
        start = sidkit.rq_kmeans((10,), iterations=0, normalize=False).fit(X, seed=seed).codebooks[0]
        assert len(np.unique(start, axis=0)) == 10


def test_rows_that_do_not_fit_what_is_computed_in_are_refused(rng):
    fitted = sidkit.prq_kmeans((8, 8)).fit(rng.normal(size=(200, 6)).astype(np.float32))
    X = rng.normal(size=(5, 6))
    np.testing.assert_array_equal(fitted.encode(X), fitted.encode(X.astype(np.float32)))
    for scale in (1e60, 1e25, 1e-30):
        with pytest.raises(sidkit.SidkitError, match="5 of 5 rows cannot be used"):
            fitted.encode(X * scale)


def test_numbers_of_numpy_are_numbers(rng, tmp_path):
    X = rng.normal(size=(60, 4)).astype(np.float32)
    spec = sidkit.prq_kmeans(np.array([4, 3]), top_k=np.int64(2), beta=np.float32(15), iterations=np.int64(3))
    spec.fit(X).save(tmp_path / "tok")
    plain = sidkit.prq_kmeans((4, 3), iterations=3).fit(X)
    np.testing.assert_array_equal(sidkit.load(tmp_path / "tok").encode(X), plain.encode(X))


def test_most_rows_being_copies_leaves_no_codes_unused(rng):
    X = np.concatenate([rng.normal(size=(600, 8)), np.tile(rng.normal(size=(1, 8)), (5400, 1))]).astype(np.float32)
    for make in (sidkit.rq_kmeans, sidkit.prq_kmeans):
        codes = make((64,)).fit(X, seed=0).fit_codes
        assert len(np.unique(codes)) > 60


def test_unfinished_work_on_other_rows_does_not_resume(rng, tmp_path):
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    Y = X.copy()
    Y[[776, 777, 778, 779]] *= -1  # some that no fingerprint of a sample sees
    spec = sidkit.prq_kmeans((8, 8), iterations=4)
    fitted = spec.fit(X, checkpoint=tmp_path / "fit")
    fitted.encode(X, checkpoint=tmp_path / "encode")
    with pytest.raises(sidkit.SidkitError, match="is of another fit"):
        spec.fit(Y, checkpoint=tmp_path / "fit")
    with pytest.raises(sidkit.SidkitError, match="is of another fit"):
        fitted.encode(Y, checkpoint=tmp_path / "encode")
