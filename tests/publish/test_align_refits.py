"""A refit with its codes renumbered: the same tokenizer, whose items keep as many published tokens as possible."""

from itertools import permutations

import numpy as np
import pytest

import sidkit
from sidkit.errors import InputError
from sidkit.publish.align import align_tokenizer
from sidkit.publish.renumber import BitMap
from sidkit.stages.cluster import Balanced, KMeans
from sidkit.stages.level import PROJECT, SUBTRACT, Level
from sidkit.stages.opq import OPQ
from sidkit.stages.scalar import FSQ
from sidkit.tokenizer.tokenizer import Tokenizer

HYBRID = (4, 3, 5, 4, 4)
RECIPES = {
    "prq-kmeans": sidkit.prq_kmeans((6, 5, 4), iterations=3),
    "rq-kmeans": sidkit.rq_kmeans((6, 5, 4), iterations=3),
    "plain rq-kmeans": sidkit.rq_kmeans((6, 5, 4), iterations=3, normalize=False),
    "rq-gmm": sidkit.rq_gmm((6, 5), iterations=3),
    "pq-kmeans": sidkit.pq_kmeans((6, 5), iterations=3),
    "opq-kmeans": sidkit.opq_kmeans((6, 5), alternations=2, first=2),
    "rq-vae": sidkit.rq_vae((6, 5), hidden=(8,), latent=4, epochs=2, batch=64),
    "r3-vae": sidkit.r3_vae((6, 5), epochs=2, batch=64),
    "rq-opq": sidkit.rq_opq(HYBRID, iterations=3),
    "rq-opq by last token": sidkit.rq_opq(HYBRID, iterations=3, parents="last"),
    "prq-opq": sidkit.prq_opq(HYBRID, iterations=3),
    "res-kmeans-fsq": sidkit.res_kmeans_fsq((4, 3, 5, 8, 8), iterations=3, projection="itq"),
    "without-global": sidkit.without_global((6, 5), iterations=3),
    "without-soft": sidkit.without_soft((6, 5), iterations=3),
    "without-projection": sidkit.without_projection((6, 5), iterations=3),
    "retain": sidkit.retain(0.5, (6, 5), iterations=3),
    "balanced": Tokenizer((Level(KMeans(6, iterations=3)), Level(Balanced(5, 3, 3), SUBTRACT))),
    "many bits": Tokenizer((Level(KMeans(4, iterations=3), SUBTRACT), FSQ(8, 1, "itq"))),
    "product suffix": Tokenizer((Level(KMeans(4, iterations=3), PROJECT), OPQ((5, 3), 2, 2))),
}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 8))
    return (centres[rng.integers(0, 12, 300)] + 0.2 * rng.normal(size=(300, 8))).astype(np.float32)


@pytest.mark.parametrize("name", RECIPES)
def test_tokens_of_every_row_are_the_permuted_ones_and_nothing_else_changes(X, name, tmp_path):
    old, new = (RECIPES[name].fit(X[:250], seed=seed) for seed in (0, 1))
    other = np.random.default_rng(9).normal(size=(500, 8)).astype(np.float32)  # rows that the alignment never saw
    made = align_tokenizer(old.encode(X), new, X)
    for rows in (X, other):
        assert np.array_equal(made.fitted.encode(rows), made.renumbering.apply(new.encode(rows)))
    assert made.facts["ties"] == 0
    assert made.fitted.spec == new.spec
    for token, size in enumerate(new.sizes):
        before, after = new.encode(other)[:, token], made.fitted.encode(other)[:, token]
        assert after.max() < size
        if "opq" not in name or token != 2:  # one permutation for all parents
            assert (
                len(np.unique(np.stack([before, after], 1), axis=0)) == len(np.unique(before)) == len(np.unique(after))
            )
    facts = made.facts
    for least, after, before in zip(facts["tokens_least"], facts["tokens_after"], facts["tokens_before"], strict=True):
        assert least - 1e-9 <= after <= before + 1e-9
    assert all(a <= b + 1e-9 for a, b in zip(facts["prefixes_least"], facts["prefixes_after"], strict=True))
    again = sidkit.load(made.fitted.save(tmp_path / "aligned"))
    assert np.array_equal(again.encode(X), made.renumbering.apply(new.encode(X)))


def test_no_permutation_keeps_more_tokens(X):
    old, new = (sidkit.rq_kmeans((4, 4), iterations=2).fit(X, seed=seed) for seed in (0, 1))
    before, after = old.encode(X), new.encode(X)
    made = align_tokenizer(before, new, X)
    for token in range(2):
        best = max((np.array(way)[after[:, token]] == before[:, token]).mean() for way in permutations(range(4)))
        assert 1 - made.facts["tokens_after"][token] == pytest.approx(best)
        assert made.facts["tokens_least"][token] == pytest.approx(1 - best)


def test_a_shuffled_tokenizer_is_put_back(X):
    """The refit is the old tokenizer under other numbers: after the alignment no item has another token."""
    old = sidkit.prq_kmeans((6, 5, 4), iterations=3).fit(X, seed=0)
    made = align_tokenizer(np.random.default_rng(0).integers(0, (6, 5, 4), (300, 3)), old, X)  # any renumbering
    back = align_tokenizer(old.encode(X), made.fitted, X)
    assert back.facts["tokens_after"] == [0.0, 0.0, 0.0]
    assert back.facts["prefixes_after"] == [0.0, 0.0, 0.0]
    assert max(back.facts["tokens_before"]) > 0.5
    assert np.array_equal(back.fitted.encode(X), old.encode(X))
    for ours, theirs in zip(back.fitted.codebooks, old.codebooks, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_shuffled_hybrid_is_put_back_under_every_parent(X):
    old = sidkit.rq_opq(HYBRID, iterations=3).fit(X, seed=0)
    made = align_tokenizer(np.random.default_rng(0).integers(0, HYBRID, (300, 5)), old, X)
    assert not np.array_equal(made.fitted.encode(X), old.encode(X))
    back = align_tokenizer(old.encode(X), made.fitted, X)
    assert np.array_equal(back.fitted.encode(X), old.encode(X))


def test_bits_are_turned_back(X):
    old = Tokenizer((FSQ(6, 2, "itq"),)).fit(X)
    stage = old.stages[0]
    turned = type(stage)(-stage.directions[:, [2, 0, 1, 3, 5, 4]], -stage.bias[[2, 0, 1, 3, 5, 4]], 2)
    shuffled = type(old)(old.spec, (turned,), old.d, old.dtype, 0)
    made = align_tokenizer(old.encode(X), shuffled, X)
    assert np.array_equal(made.fitted.encode(X), old.encode(X))
    assert BitMap.of([1, 0], [True, False]).new.tolist() == [2, 0, 3, 1]  # bit 0 inverted to place 1, bit 1 to place 0


def test_rows_of_which_nothing_is_left_and_equal_centroids_do_not_break_it():
    """Zero residuals take code 0, and of equal centroids the lowest number takes all rows."""
    X = np.repeat(np.eye(6, dtype=np.float32), 5, axis=0) + np.float32(1e-3)
    spec = Tokenizer((Level(KMeans(6, iterations=2)), Level(KMeans(4, iterations=2), PROJECT)))
    old, new = (spec.fit(X, seed=seed) for seed in (0, 3))
    X = np.concatenate([X, np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)])
    made = align_tokenizer(old.encode(X), new, X)
    assert made.facts["ties"] == 0
    assert np.array_equal(made.fitted.encode(X), made.renumbering.apply(new.encode(X)))


def test_a_refit_with_other_sizes_is_aligned_as_far_as_codes_go(X):
    old = sidkit.rq_kmeans((6, 5), iterations=3).fit(X, seed=0)
    new = sidkit.rq_kmeans((8, 3), iterations=3).fit(X, seed=1)
    made = align_tokenizer(old.encode(X), new, X)
    assert made.facts["tokens_after"][0] < made.facts["tokens_before"][0]
    assert np.array_equal(made.fitted.encode(X), made.renumbering.apply(new.encode(X)))


def test_what_cannot_be_aligned_is_refused(X):
    new = sidkit.rq_kmeans((6, 5), iterations=1).fit(X)
    with pytest.raises(InputError, match=r"old codes of shape \(300, 3\) cannot be aligned with new ones of shape"):
        align_tokenizer(np.zeros((300, 3), int), new, X)
    with pytest.raises(InputError, match="no items are shared"):
        align_tokenizer(np.zeros((0, 2), int), new, X[:0])
