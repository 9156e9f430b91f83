"""SemanticIds among the estimators of scikit-learn."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import sidkit
from sidkit.sklearn import SemanticIds

EXPECTED = {
    "check_estimators_dtypes": "its integers contain a row of zeros, which has no direction; sidkit refuses such rows",
}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(5).normal(size=(120, 6))


def test_it_passes_the_checks_of_scikit_learn_but_those_listed():
    results = check_estimator(SemanticIds(), expected_failed_checks=EXPECTED, on_skip=None, on_fail=None)
    status = {one["check_name"]: one["status"] for one in results}
    assert [name for name, value in status.items() if value == "failed"] == []
    assert [name for name, value in status.items() if value == "xfail"] == list(EXPECTED)
    assert sum(value == "passed" for value in status.values()) >= 40


def test_it_is_the_tokenizer_of_its_recipe(X):
    ours = SemanticIds("rq-kmeans", "8-4", options={"iterations": 7}, random_state=3).fit(X)
    theirs = sidkit.rq_kmeans(sizes=(8, 4), iterations=7).fit(X, seed=3)
    assert (ours.transform(X) == theirs.encode(X)).all()
    assert ours.transform(X).dtype == np.int32
    assert ours.fitted_.digest == theirs.digest
    assert ours.sizes_ == (8, 4)
    np.testing.assert_array_equal(ours.inverse_transform(ours.transform(X)), theirs.decode(theirs.encode(X)))


@pytest.mark.parametrize("n, size", [(2, 1), (3, 1), (4, 2), (100, 32), (120, 32), (128, 64), (600, 256), (5000, 256)])
def test_sizes_follow_the_number_of_samples_unless_given(n, size):
    X = np.random.default_rng(0).normal(size=(n, 3))
    assert SemanticIds(options={"iterations": 1}).fit(X).sizes_ == (size,) * 3


def test_it_works_in_pipelines_searches_and_with_frames(X):
    codes = make_pipeline(StandardScaler(), SemanticIds(sizes=(8, 4)), OneHotEncoder()).fit_transform(X)
    assert codes.sum() == 2 * len(X)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(6)])
    out = SemanticIds(sizes=(8, 4)).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["semanticids0", "semanticids1"]

    def unique(estimator, rows, y=None):
        return sidkit.quality(estimator.transform(rows), estimator.sizes_)["icr_per_item"]

    found = GridSearchCV(SemanticIds(), {"sizes": [(2, 2), (8, 8)]}, scoring=unique, cv=2).fit(X)
    assert found.best_params_ == {"sizes": (8, 8)}
    assert clone(SemanticIds(sizes=(3, 2), spread=True)).get_params()["sizes"] == (3, 2)


def test_items_can_be_spread_and_seeds_drawn(X):
    codes = SemanticIds(sizes=(8, 32), spread=True).fit_transform(X)
    assert len(np.unique(codes, axis=0)) == len(X)
    state = np.random.RandomState(0)
    first, second = (SemanticIds(sizes=(8,), random_state=state).fit(X).fitted_.seed for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    "estimator, message",
    [
        (SemanticIds(sizes=(500,)), "cannot draw 500 initial centroids from 120 rows"),
        (SemanticIds("prq"), "no recipe 'prq'; did you mean 'prq-opq'"),
        (SemanticIds(sizes="x"), "cannot read sizes 'x'"),
        (SemanticIds(options={"beeta": 1}), "prq-kmeans has no option 'beeta'"),
    ],
)
def test_what_sidkit_refuses_is_a_value_error(X, estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)


def test_the_extra_is_named_where_it_is_missing():
    script = "import sys; sys.modules['sklearn'] = None\nimport sidkit.sklearn"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "sidkit.sklearn needs the 'sklearn' extra: pip install 'sidkit[sklearn]'" in done.stderr
