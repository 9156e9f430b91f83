"""A fit that starts from an old tokenizer, and stops where too many items would change."""

import numpy as np
import pytest

import sidkit
from sidkit.errors import SpecError
from sidkit.stages.cluster import Balanced, KMeans
from sidkit.stages.level import SUBTRACT, Level
from sidkit.tokenizer.tokenizer import Tokenizer
from sidkit.tokenizer.warm import fit_from, warm_starts

RECIPES = {
    "prq-kmeans": sidkit.prq_kmeans((6, 5, 4), iterations=4),
    "rq-kmeans": sidkit.rq_kmeans((6, 5, 4), iterations=4),
    "rq-gmm": sidkit.rq_gmm((6, 5), iterations=4),
    "pq-kmeans": sidkit.pq_kmeans((6, 5), iterations=4),
    "balanced": Tokenizer((Level(KMeans(6, iterations=3)), Level(Balanced(5, 3, 3), SUBTRACT))),
}


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(15, 8))
    old = centres[rng.integers(0, 15, 400)] + 0.3 * rng.normal(size=(400, 8))
    new = centres[rng.integers(0, 15, 200)] + 0.4 + 0.5 * rng.normal(size=(200, 8))
    return old.astype(np.float32), np.concatenate([old, new]).astype(np.float32)


@pytest.mark.parametrize("name", RECIPES)
def test_fewer_items_change_than_after_a_fresh_fit_and_no_more_than_the_budget(shifted, name):
    first, both = shifted
    old = RECIPES[name].fit(first, seed=0)
    before, fresh = old.encode(both), RECIPES[name].fit(both, seed=1).encode(both)
    warm = fit_from(old, both, seed=1)
    assert warm.facts["t"] == 1.0
    assert np.array_equal(warm.codes, warm.fitted.encode(both))
    assert warm.facts["changed"] == pytest.approx((before != warm.codes).any(axis=1).mean())
    assert warm.facts["changed"] < (before != fresh).any(axis=1).mean()
    budget = warm.facts["changed"] / 3
    limited = fit_from(old, both, budget, seed=1)
    assert 0 < limited.facts["t"] < 1
    assert limited.facts["changed"] <= budget
    assert np.array_equal(limited.codes, limited.fitted.encode(both))
    nothing = fit_from(old, both, 0.0, seed=1)
    assert nothing.facts["changed"] == 0
    assert np.array_equal(nothing.fitted.encode(both), before)


def test_a_settled_tokenizer_stays_where_it_is(shifted):
    first, _ = shifted
    old = sidkit.rq_kmeans((6, 5), iterations=60).fit(first)
    assert fit_from(old, first, seed=7).facts["changed"] == 0.0


def test_what_cannot_be_started_is_refused(shifted):
    first, _ = shifted
    for spec, kind in ((sidkit.opq_kmeans((4, 4), 1, 1), "OPQ"), (sidkit.rq_opq((3, 3, 4, 2, 2), 1), "PerParent")):
        with pytest.raises(SpecError, match=f"this tokenizer has {kind}: fit it afresh, then sidkit publish align"):
            warm_starts(spec.fit(first))
    with pytest.raises(SpecError, match="a share between 0 and 1, not 5"):
        fit_from(sidkit.rq_kmeans((4,), 1).fit(first), first, 5)
    with pytest.raises(SpecError, match=r"level 1 needs 4 centroids of 8 dimensions, not \(3, 8\)"):
        sidkit.rq_kmeans((4,), 1).fit(first, starts={0: first[:3]})
