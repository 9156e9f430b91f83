"""decode: from codes to the vectors that they stand for."""

import numpy as np
import pytest

import reference
import sidkit
from sidkit.errors import InputError, SpecError
from sidkit.stages.level import Level, Residual
from sidkit.stages.stage import Fitted


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(12, 16))
    return centres[rng.integers(12, size=600)] + 0.4 * rng.normal(size=(600, 16)) + 0.5


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def lost(fitted, X, tokens):
    """The share of the variance of rows of length one that the first tokens leave."""
    codes = fitted.encode(X)[:, :tokens]
    return ((unit(X) - fitted.decode(codes)) ** 2).sum() / ((unit(X) - unit(X).mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize(
    "recipe, keep", [("prq_kmeans", 0.0), ("without_global", 0.0), ("rq_kmeans", 1.0), ("without_projection", 1.0)]
)
def test_it_equals_the_reference_in_float64(X, recipe, keep):
    fitted = getattr(sidkit, recipe)(sizes=(8, 6, 4)).fit(X)
    codes = fitted.encode(X)
    mean = None if fitted.mean is None else fitted.mean.tolist()
    for tokens in (1, 3):
        part = codes[:50, :tokens]
        wanted = reference.decode(part.tolist(), [book.tolist() for book in fitted.codebooks], keep, mean)
        np.testing.assert_allclose(fitted.decode(part), wanted, rtol=0, atol=1e-12)


def test_retention_lies_between_the_two(X):
    fitted = sidkit.retain(keep=0.5, sizes=(8, 6)).fit(X)
    codes = fitted.encode(X)[:20]
    first, second = (book.tolist() for book in fitted.codebooks)
    inner = reference.decode([[z] for z in codes[:, 1].tolist()], [second], 1.0)
    for row, z, rest in zip(fitted.decode(codes), codes[:, 0], inner, strict=True):
        c, rest = np.array(first[z]), np.array(rest)
        np.testing.assert_allclose(row, c + np.sqrt(1 - c @ c) * (rest - 0.5 * (rest @ c) / (c @ c) * c), atol=1e-12)


def test_a_hard_code_stands_for_the_mean_of_its_rows(X):
    fitted = sidkit.rq_kmeans(sizes=(8,), iterations=200).fit(X)
    codes = fitted.encode(X)
    for code in range(8):
        mine = unit(X)[codes[:, 0] == code]
        np.testing.assert_allclose(fitted.decode([[code]])[0], mine.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    "recipe", ["prq_kmeans", "rq_kmeans", "rq_gmm", "without_soft", "without_projection", "retain"]
)
def test_every_token_tells_more_than_those_before_it(X, recipe):
    fitted = getattr(sidkit, recipe)(sizes=(8, 8, 8)).fit(X)
    first, second, third = (lost(fitted, X, tokens) for tokens in (1, 2, 3))
    assert third < second < first < 0.7
    added = sum(book[z] for book, z in zip(fitted.codebooks, fitted.encode(X).T, strict=True))
    added = added if fitted.mean is None else added + fitted.mean
    variance = ((unit(X) - unit(X).mean(axis=0)) ** 2).sum()
    assert third < 0.8 * ((unit(X) - added) ** 2).sum() / variance  # than centroids added up without their lengths


def test_codes_of_plain_levels_and_blocks_stand_for_what_is_taken_away(X):
    for spec in (
        sidkit.rq_kmeans(sizes=(8, 6, 4), normalize=False),
        sidkit.rq_gmm(sizes=(8, 6), normalize=False),
        sidkit.pq_kmeans(sizes=(8, 6, 4), normalize=False),
        sidkit.opq_kmeans(sizes=(8, 6, 4), normalize=False, alternations=3, first=3),
    ):
        fitted = spec.fit(X)
        codes = fitted.encode(X)
        left = X
        for i, stage in enumerate(fitted.stages):
            left = stage.carry(left, codes[:, : i + 1] if len(stage.sizes) == 1 else codes)
        np.testing.assert_allclose(X - fitted.decode(codes), left, atol=1e-10)


@pytest.mark.parametrize("beam", [1, 5])
def test_it_gives_the_vectors_of_faiss(X, beam):
    faiss = pytest.importorskip("faiss")
    rows = X.astype(np.float32)
    residual = faiss.ResidualQuantizer(16, 3, 4)
    residual.train(rows)
    product = faiss.ProductQuantizer(16, 2, 4)
    product.train(rows)
    fitted = sidkit.Given.faiss(residual, beam=beam)
    codes = fitted.encode(rows)
    packed = np.zeros((len(codes), residual.code_size), np.uint8)
    for level in range(3):
        packed[:, level // 2] |= (codes[:, level] << (4 * (level % 2))).astype(np.uint8)
    np.testing.assert_allclose(fitted.decode(codes), residual.decode(packed), atol=1e-5)
    fitted = sidkit.Given.faiss(product)
    codes = fitted.encode(rows)
    packed = (codes[:, 0] | codes[:, 1] << 4).astype(np.uint8)[:, None]
    np.testing.assert_allclose(fitted.decode(codes), product.decode(packed), atol=1e-5)


def test_an_rq_vae_decodes_by_its_decoder():
    books = [np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])]
    encoder, decoder = [(np.eye(2, 3), None)], [(np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([0.0, 0, 0.5]))]
    fitted = sidkit.Given.rq_vae(encoder, books, decoder)
    np.testing.assert_allclose(fitted.decode([[0, 1], [1, 0]]), [[2, 1, 3.5], [0, 2, 2.5]])
    with pytest.raises(SpecError, match="came without a decoder, so its codes cannot be decoded"):
        sidkit.Given.rq_vae(encoder, books).decode([[0, 1]])


@pytest.mark.parametrize("recipe", ["rq_opq", "prq_opq"])
def test_hybrids_are_decoded_stage_by_stage(X, recipe):
    fitted = getattr(sidkit, recipe)(sizes=(6, 4, 4, 8, 8), iterations=5).fit(X)
    assert lost(fitted, X, 5) < lost(fitted, X, 3) < lost(fitted, X, 2) < lost(fitted, X, 1) < 0.7
    with pytest.raises(SpecError, match="tokens 4 to 5 stand for one vector together; decode all of them, or"):
        fitted.decode([[0, 0, 0, 0]])


def test_codes_that_stand_for_no_vector_are_refused_with_the_reason(X):
    fitted = sidkit.res_kmeans_fsq(sizes=(6, 4, 4, 8, 8), projection="itq").fit(X)
    codes = fitted.encode(X)
    with pytest.raises(SpecError, match=r"bits of FSQ stand for sides of a plane .* codes\[:, :3\]"):
        fitted.decode(codes)
    assert lost(fitted, X, 3) < 0.5
    unscaled = sidkit.Tokenizer((Level(sidkit.prq_kmeans((4,)).stages[2].cluster, Residual(0.0, True)),)).fit(X)
    with pytest.raises(SpecError, match=r"codes do not tell how long residuals were: .* normalised first"):
        unscaled.decode(unscaled.encode(X))
    given = sidkit.Given.residual([3 * np.eye(4), np.eye(4)], "cosine", Residual(0.0, True), normalize=True)
    with pytest.raises(SpecError, match="not the means of rows of length one, as they are longer"):
        given.decode([[0, 1]])


def test_an_r3_vae_is_refused(X):
    pytest.importorskip("torch")
    fitted = sidkit.r3_vae(sizes=(4, 4), epochs=1, batch=64).fit(X)
    with pytest.raises(SpecError, match="codes of an R3-VAE stand for no vector: the part along its reference"):
        fitted.decode([[0, 1]])


def test_a_stage_of_others_without_decode_is_named(X):
    class Third:
        sizes, arrays = (2,), {}

        def tokens(self, x, codes):
            return np.zeros((len(x), 1), int)

        def carry(self, x, codes):
            return x

    assert isinstance(Third(), Fitted)
    fitted = sidkit.FittedTokenizer(sidkit.prq_kmeans((2,)), (Third(),), 3, "float32", 0)
    with pytest.raises(SpecError, match="Third does not tell what its codes stand for: it has no decode"):
        fitted.decode([[0]])


@pytest.mark.parametrize(
    "codes, message",
    [
        ([0, 1], r"whole numbers of shape \(n, tokens\); got int64 \(2,\); give one SID as codes\[None, :\]"),
        ([[0.5, 1.0]], "whole numbers of shape .* float64"),
        ([[0, 0, 0]], "these SIDs have 2 tokens; got codes with 3"),
        (np.zeros((1, 0), int), "these SIDs have 2 tokens; got codes with 0"),
        ([[0, 4]], r"level 2 holds codes outside 0\.\.3"),
        ([[-1, 0]], r"level 1 holds codes outside 0\.\.7"),
    ],
)
def test_wrong_codes_are_refused(X, codes, message):
    fitted = sidkit.prq_kmeans(sizes=(8, 4), iterations=1).fit(X)
    with pytest.raises(InputError, match=message):
        fitted.decode(codes)


def test_many_rows_and_none(X, monkeypatch):
    fitted = sidkit.prq_kmeans(sizes=(8, 4)).fit(X.astype(np.float32))
    codes = fitted.encode(X)
    whole = fitted.decode(codes)
    assert whole.dtype == np.float32
    monkeypatch.setattr("sidkit.tokenizer.decode.AT_ONCE", 7)
    assert (fitted.decode(codes) == whole).all()
    assert fitted.decode(codes[:0]).shape == (0, 16)
