"""Five-level tokenizers: the tokens of the kernels, of numpy and of plain loops are the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import sidkit
from planted import planted
from sidkit.engine import native
from sidkit.engine.native import build
from sidkit.errors import SpecError
from sidkit.stages.level import FittedLevel
from sidkit.tokenizer.recipes import recipe

needs_kernels = pytest.mark.skipif(build.library() is None, reason=f"no compiled kernels: {build.reason()}")
SIZES = (8, 4, 8, 16, 16)


@pytest.fixture
def X(rng):
    """Parents with few rows and with many, rows that come twice, and rows near the middle of two others."""
    x, _ = planted(rng, clusters=12, each=120, d=24, noise=0.2)
    x = np.concatenate([x, x[:50], (x[:40] + x[60:100]) / 2])
    return x[rng.permutation(len(x))].astype(np.float32)


def plain_tokens(fitted, X):
    """Float64 loops over the arrays of a fitted tokenizer, one row at a time."""
    out = []
    for row in X:
        x, tokens = row[None], []
        for stage in fitted.stages:
            arrays = stage.arrays
            if "parents" in arrays:
                parent = np.flatnonzero((arrays["parents"] == tokens).all(axis=1))
                book = arrays["common"]
                if len(parent):
                    book = arrays["centroids"][arrays["starts"][parent[0]] : arrays["starts"][parent[0] + 1]]
                tokens.append(int(((x.astype(np.float64) - book) ** 2).sum(axis=1).argmin()))
                x = stage.spec.rule(x, book[tokens[-1]][None])
            elif "rotation" in arrays:
                y = ((x.astype(np.float64) - arrays["mean"]) @ arrays["rotation"].T)[0]
                for m, part in enumerate(np.split(y, 2)):
                    tokens.append(int(((part - arrays[f"centroids{m}"]) ** 2).sum(axis=1).argmin()))
            else:
                if stage.sizes:
                    book = arrays["centroids"].astype(np.float64)
                    score = x.astype(np.float64) @ book.T
                    cosine = stage.spec.cluster.metric == "cosine"
                    score = score / np.linalg.norm(book, axis=1) if cosine else score - 0.5 * (book**2).sum(axis=1)
                    tokens.append(int(score.argmax()))
                x = stage.carry(x, np.array([tokens], np.int32))
        out.append(tokens)
    return np.array(out)


@pytest.mark.parametrize("name", ["rq-opq", "prq-opq"])
def test_tokens_are_those_of_plain_loops(name, X):
    fitted = recipe(name, sizes=SIZES).fit(X[:900], seed=3)
    counts = np.unique(fitted.fit_codes[:, :2], axis=0, return_counts=True)[1]
    assert (counts > SIZES[2]).any()
    assert (counts <= SIZES[2]).any()
    assert (fitted.encode(X) == plain_tokens(fitted, X)).mean() > 0.999  # rotated rows are rounded to float32


@needs_kernels
@pytest.mark.parametrize("name", ["rq-opq", "prq-opq", "opq-kmeans"])
def test_a_fit_and_its_tokens_are_the_same_without_kernels(name, X, monkeypatch):
    spec = recipe(name, sizes=SIZES if name != "opq-kmeans" else (16, 16, 16))
    fitted = spec.fit(X[:900], seed=1)
    codes = fitted.encode(X)
    monkeypatch.setattr(native, "ready", lambda *_: False)
    without = spec.fit(X[:900], seed=1)
    assert np.array_equal(without.fit_codes, fitted.fit_codes)
    assert np.array_equal(without.encode(X), codes)
    assert np.array_equal(fitted.encode(X), codes)


@needs_kernels
def test_a_batch_of_any_size_and_one_row_get_the_same_tokens(X):
    fitted = sidkit.rq_opq(SIZES).fit(X[:900])
    codes = fitted.encode(X)
    assert np.array_equal(np.concatenate([fitted.encode(X[i : i + 1]) for i in range(60)]), codes[:60])
    assert np.array_equal(np.concatenate([fitted.encode(X[i : i + 7]) for i in range(0, 70, 7)]), codes[:70])


def test_deciding_and_passing_on_at_once_is_one_after_the_other(X, rng, monkeypatch):
    fitted = sidkit.prq_opq(SIZES).fit(X[:900])
    codes = rng.integers(0, (10, 5), (len(X), 2)).astype(np.int32)  # also parents that the fit did not have
    level = next(s for s in fitted.stages if isinstance(s, FittedLevel) and "parents" in s.arrays)
    for ready in (native.ready, lambda *_: False):
        monkeypatch.setattr(native, "ready", ready)
        tokens, rest = level.settle(X, codes)
        assert np.array_equal(tokens, level.tokens(X, codes))
        assert np.array_equal(rest, level.carry(X, np.hstack([codes, tokens])))
        centroid = level.clusters.chosen(X, np.hstack([codes, tokens]))
        assert np.array_equal(rest, level.spec.rule(X, centroid))


def test_the_objective_of_opq_is_what_its_codewords_lose(X):
    from sidkit.rows.local import LocalRows
    from sidkit.rows.sources import ArraySource
    from sidkit.stages.opq import OPQ
    from sidkit.stages.stage import FitContext

    spec, rows = OPQ((8, 8), alternations=6, first=4), LocalRows(ArraySource(X), chunk=500)
    state, lost = spec.start(rows, FitContext()), []
    for _ in range(spec.iterations):
        sums = rows.reduce(lambda x, codes, state=state: spec.statistics(state, x, codes))
        left = X - state._chosen(state.tokens(X, None), X.astype(np.float64))
        assert float(sums[-1][0]) == pytest.approx((left**2).sum(), rel=1e-4)
        lost.append(float(sums[-1][0]))
        state = spec.update(state, sums)
    assert all(after <= before * (1 + 1e-5) for before, after in pairwise(lost))


def test_first_centroids_are_distinct_where_most_rows_are_copies(rng, monkeypatch):
    from sidkit.rows.local import LocalRows
    from sidkit.rows.sources import ArraySource
    from sidkit.stages import stage
    from sidkit.stages.stage import FitContext

    x = np.zeros((3000, 4), np.float32)
    x[rng.choice(3000, 30, replace=False)] = rng.normal(size=(30, 4)).astype(np.float32)
    x[5], x[9] = -0.0, x[x.any(axis=1)][0]
    for at_once in (stage.AT_ONCE, 400):
        monkeypatch.setattr(stage, "AT_ONCE", at_once)
        start = FitContext(seed=7).start_rows(LocalRows(ArraySource(x)), 20, 0)
        assert len(np.unique(start, axis=0)) == 20
        assert start.any(axis=1).all()
    many = FitContext(seed=7).start_rows(LocalRows(ArraySource(x)), 40, 0)
    assert len(np.unique(many[many.any(axis=1)], axis=0)) == 30


@pytest.mark.parametrize("name", ["rq-opq", "prq-opq"])
def test_numbering_gives_equal_rows_of_small_parents_a_code_each(name, X):
    """As the release does it: the rows of a parent with at most K rows are numbered, those of a larger one are not."""
    fitted = recipe(name, sizes=(8, 4, 64, 16, 16), iterations=5).fit(X, seed=1, device="cpu")
    plain, numbered = fitted.encode(X), fitted.encode(X, numbered=True)
    np.testing.assert_array_equal(np.delete(numbered, 2, axis=1), np.delete(plain, 2, axis=1))
    of = np.unique(plain[:, :2], axis=0, return_inverse=True)[1].ravel()
    sizes, moved = np.bincount(of), 0
    for parent in np.flatnonzero(sizes <= 64):
        mine = np.flatnonzero(of == parent)
        moved += len(mine) - len(np.unique(plain[mine, 2]))
        np.testing.assert_array_equal(numbered[mine, 2], np.arange(len(mine)))  # in row order
    assert moved > 10
    large = (sizes > 64)[of]
    assert large.any()
    np.testing.assert_array_equal(numbered[large], plain[large])


def test_further_equal_rows_than_the_fit_had_keep_the_first_code(X):
    fitted = recipe("rq-opq", sizes=(8, 4, 64, 16, 16), iterations=5).fit(X, seed=1, device="cpu")
    twice = np.concatenate([X, X])
    plain, numbered = fitted.encode(twice), fitted.encode(twice, numbered=True)
    np.testing.assert_array_equal(numbered[: len(X)], fitted.encode(X, numbered=True))
    assert (numbered[len(X) :] == plain[len(X) :]).all()


def test_numbering_needs_a_codebook_per_parent(X):
    fitted = sidkit.rq_kmeans((8, 4)).fit(X, seed=0, device="cpu")
    with pytest.raises(SpecError, match="only a tokenizer with a codebook per parent numbers equal rows"):
        fitted.encode(X, numbered=True)
