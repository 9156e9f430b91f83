"""Items that share a SID are parted by free codes of their last level, at the least cost."""

from itertools import product

import numpy as np
import pytest

import sidkit
from sidkit.errors import InputError, SpecError
from sidkit.rows.sources import ArraySource
from sidkit.sids import spread as spreading
from sidkit.stages.cluster import Balanced, KMeans, PerParent
from sidkit.stages.level import PROJECT, SUBTRACT, Level
from sidkit.stages.scalar import FSQ
from sidkit.tokenizer.spread import last_costs, spread
from sidkit.tokenizer.tokenizer import Tokenizer

TOKENIZERS = {
    "prq-kmeans": sidkit.prq_kmeans((3, 2, 5), iterations=5),
    "rq-kmeans": sidkit.rq_kmeans((3, 2, 5), iterations=5),
    "plain": sidkit.rq_kmeans((3, 2, 5), iterations=5, normalize=False),
    "balanced": Tokenizer((Level(KMeans(6, iterations=5)), Level(Balanced(5, 5, 5), SUBTRACT))),
    "one level": Tokenizer((Level(KMeans(40, iterations=1)),)),
}


def distinct(codes):
    return len(np.unique(codes, axis=0))


def distance_of(fitted, residual, code):
    """What the last level minimises, written out."""
    clusters, c = fitted.stages[-1].clusters, fitted.codebooks[-1][code].astype(np.float64)
    if getattr(clusters, "metric", "") == "cosine":
        lengths = np.linalg.norm(residual) * np.linalg.norm(c)
        return -np.linalg.norm(residual) * (residual @ c / lengths if lengths else 0.0)
    return 0.5 * ((residual - c) ** 2).sum() + getattr(clusters, "prices", np.zeros(99))[code]


def slow(fitted, X, codes):
    """Every way to give out last tokens under a prefix: the most different ones, then the least distance."""
    out, size = codes.copy(), fitted.sizes[-1]
    x, seen = X, 0
    for stage in fitted.stages[:-1]:
        seen += len(stage.sizes)
        x = stage.carry(x, codes[:, :seen])
    for prefix in np.unique(codes[:, :-1], axis=0):
        rows = np.flatnonzero((codes[:, :-1] == prefix).all(axis=1))
        if distinct(codes[rows]) == len(rows):
            continue
        cost = [[distance_of(fitted, x[row].astype(np.float64), code) for code in range(size)] for row in rows]
        choices = product(range(size), repeat=len(rows))
        best = min(choices, key=lambda choice: (-len(set(choice)), sum(cost[i][code] for i, code in enumerate(choice))))
        out[rows, -1] = best
    return out


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name != "one level"])
@pytest.mark.parametrize("seed", range(3))
def test_spreading_is_the_best_of_all_ways(name, seed):
    X = np.random.default_rng(seed).normal(size=(32, 6))
    fitted = TOKENIZERS[name].fit(X, seed=seed)
    codes = fitted.encode(X)
    sizes = np.unique(codes[:, :-1], axis=0, return_counts=True)[1]
    X, codes = (part[np.sort(np.concatenate(few(codes)))] for part in (X, codes))
    assert distinct(codes) < len(codes), "the data have no collision"
    assert sizes.max() > fitted.sizes[-1], "no prefix has more items than codes"
    assert np.array_equal(spread(fitted, X, codes, policy="least-cost"), slow(fitted, X, codes))


def few(codes):
    """At most seven rows of each prefix: 5^7 choices."""
    parents = np.unique(codes[:, :-1], axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(parents == parent)[:7] for parent in range(parents.max() + 1)]


def test_the_item_that_loses_least_gives_way():
    books = [np.eye(3)]
    fitted = sidkit.Given.residual(books)
    X = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.4], [1.0, 0.3, 0.2]])
    assert fitted.encode(X).tolist() == [[0], [0], [0]]
    assert fitted.encode(X, spread=True).tolist() == [[0], [2], [1]]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_prefixes_stay_and_no_sid_is_lost(rng, name):
    X = rng.normal(size=(300, 6)).astype(np.float32)
    fitted, X = TOKENIZERS[name].fit(X), X[:30]
    codes, parted = fitted.encode(X), fitted.encode(X, spread=True)
    room = np.unique(codes[:, :-1], axis=0, return_counts=True)[1]
    assert np.array_equal(parted[:, :-1], codes[:, :-1])
    assert distinct(codes) < distinct(parted) == np.minimum(room, fitted.sizes[-1]).sum()
    assert parted.dtype == np.int32
    assert parted.min() >= 0
    assert (parted < fitted.sizes).all()
    assert np.array_equal(parted, fitted.encode(X, spread=True))


def test_without_collisions_nothing_changes(rng):
    X = rng.normal(size=(40, 8))
    fitted = sidkit.prq_kmeans((4, 4, 16)).fit(X)
    codes = fitted.encode(X)
    alone = np.sort(np.unique(codes, axis=0, return_index=True)[1])
    assert np.array_equal(spread(fitted, X[alone], codes[alone]), codes[alone])
    assert spread(fitted, X[:0], codes[:0]).shape == (0, 3)


def test_equal_items_part(rng):
    X = np.repeat(rng.normal(size=(20, 8)), 4, axis=0)
    fitted = sidkit.prq_kmeans((4, 4, 16)).fit(X)
    assert distinct(fitted.encode(X)) <= 20
    parted = fitted.encode(X, spread=True)
    assert distinct(parted) == np.minimum(np.unique(parted[:, :2], axis=0, return_counts=True)[1], 16).sum() > 60


def test_items_of_which_nothing_is_left_part_too():
    X = np.repeat(np.eye(4), 3, axis=0)
    fitted = Tokenizer((Level(KMeans(4)), Level(KMeans(3), PROJECT))).fit(X, init=[np.arange(0, 12, 3), None])
    assert (fitted.encode(X)[:, 1] == 0).all()
    assert distinct(fitted.encode(X, spread=True)) == 12


def test_items_beyond_the_codes_keep_what_they_had(rng):
    X = rng.normal(size=(500, 4))
    fitted = Tokenizer((Level(KMeans(2)), Level(KMeans(8)))).fit(X)
    codes, parted = fitted.encode(X), fitted.encode(X, spread=True)
    assert distinct(parted) == 16
    assert (parted != codes).any(axis=1).sum() == 0, "500 items use all codes without help"
    few = np.concatenate([np.flatnonzero((codes == sid).all(axis=1))[:9] for sid in np.unique(codes, axis=0)[:3]])
    parted = spread(fitted, X[few], codes[few])
    assert distinct(parted) == 8
    assert (parted != codes[few]).any(axis=1).sum() == 5, "three codes were in use, five were free"


def test_how_much_is_held_at_once_does_not_matter(rng, monkeypatch):
    X = rng.normal(size=(300, 6)).astype(np.float32)
    fitted = sidkit.prq_kmeans((6, 6, 32)).fit(X)
    complete = fitted.encode(X, spread=True)
    monkeypatch.setattr(spreading, "AT_ONCE", 32 * 32)
    assert np.unique(complete[:, :2], axis=0, return_counts=True)[1].max() <= 32
    assert np.array_equal(fitted.encode(X, spread=True), complete)


def test_a_prefix_too_large_to_be_held_still_uses_all_codes(rng, monkeypatch):
    monkeypatch.setattr(spreading, "AT_ONCE", 1)
    X = np.repeat(rng.normal(size=(3, 6)), 100, axis=0)
    fitted = Tokenizer((Level(KMeans(3, iterations=0)), Level(KMeans(8)))).fit(X, init=[np.array([0, 100, 200]), None])
    assert distinct(fitted.encode(X)) == 3
    assert distinct(fitted.encode(X, spread=True)) == 24


def test_an_interrupted_encoding_resumes_and_is_spread(rng, tmp_path):
    X = rng.normal(size=(200, 6)).astype(np.float32)
    fitted = sidkit.prq_kmeans((4, 4, 8)).fit(X)
    parted = fitted.encode(X, spread=True)
    for _ in range(2):
        assert np.array_equal(fitted.encode(X, spread=True, checkpoint=tmp_path / "kept"), parted)


class Counting:
    """A source that counts how often its rows are read in order, and which are read by number."""

    def __init__(self, X, slow):
        self.inner, self.slow, self.passes, self.taken = ArraySource(X), slow, 0, 0
        self.shape, self.dtype, self.name = self.inner.shape, self.inner.dtype, self.inner.name

    def chunks(self, size, start=0):
        self.passes += 1
        return self.inner.chunks(size, start)

    def take(self, numbers):
        self.taken += len(numbers)
        return self.inner.take(numbers)


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("slow", [False, True])
def test_rows_are_read_in_order_once_and_by_number_where_they_collide(rng, tmp_path, slow, windows):
    X = rng.normal(size=(200, 6)).astype(np.float32)
    fitted = sidkit.prq_kmeans((4, 4, 8)).fit(X)
    codes = fitted.encode(X)
    parents = [codes[(codes[:, :-1] == prefix).all(axis=1)] for prefix in np.unique(codes[:, :-1], axis=0)]
    colliding = sum(min(len(under), 8) - distinct(under) for under in parents)  # those that can move
    source = Counting(X, slow)
    parted = fitted.encode(source, spread=True, checkpoint=tmp_path / "c" if windows else None)
    assert np.array_equal(parted, spread(fitted, X, codes))
    assert source.passes == 1 + windows  # a checkpoint needs a digest of rows that are in no file
    assert source.taken == (0 if slow else colliding + 16 * windows)  # 16 rows are the checkpoint's fingerprint


def test_what_cannot_be_spread_is_refused(rng):
    X = rng.normal(size=(200, 8))
    with pytest.raises(SpecError, match="this tokenizer ends in ResidualBeam, which cannot say what another last code"):
        sidkit.Given.residual([X[:4], X[4:8]], beam=2).encode(X, spread=True)
    fitted = sidkit.prq_kmeans((4, 4)).fit(X)
    with pytest.raises(InputError, match=r"codes of shape \(199, 2\) do not fit 200 rows of 2 tokens"):
        spread(fitted, X, fitted.encode(X)[:-1])
    with pytest.raises(InputError, match="NaN"):
        fitted.encode(np.where(np.arange(8) == 3, np.nan, X), spread=True)


LAST_STAGES = {
    "per parent": Tokenizer((Level(KMeans(3, iterations=3), SUBTRACT), Level(PerParent(6, 3), SUBTRACT))),
    "mixture": sidkit.rq_gmm((3, 6), iterations=3),
    "pq": sidkit.pq_kmeans((3, 6), iterations=3),
    "opq": sidkit.opq_kmeans((3, 6), alternations=2, first=2),
    "bits": Tokenizer((Level(KMeans(3, iterations=3), SUBTRACT), FSQ(4, 2, "itq"))),
    "rq-vae": sidkit.rq_vae((3, 6), hidden=(8,), latent=4, epochs=2, batch=32),
    "r3-vae": sidkit.r3_vae((3, 6), epochs=2, batch=32),
}


@pytest.mark.parametrize("name", LAST_STAGES)
def test_the_cheapest_code_of_every_last_stage_is_the_one_it_gives(rng, name):
    X = rng.normal(size=(90, 6)).astype(np.float32)
    fitted, X = LAST_STAGES[name].fit(X, seed=1), np.repeat(X[:6], 2, axis=0)
    codes = fitted.encode(X)
    costs = last_costs(fitted, X, codes)(np.arange(12))
    assert costs.shape == (12, fitted.sizes[-1])
    assert np.array_equal(costs.argmin(axis=1), codes[:, -1])
    parted = spread(fitted, X, codes)
    assert distinct(codes) < distinct(parted)
    assert np.array_equal(parted[:, :-1], codes[:, :-1])


def test_a_parent_with_a_short_codebook_gives_no_code_it_does_not_have(rng):
    X = np.repeat(rng.normal(size=(12, 6)), 3, axis=0)
    fitted = Tokenizer((Level(KMeans(4, iterations=3), SUBTRACT), Level(PerParent(16, 3), SUBTRACT))).fit(X)
    books = fitted.stages[1].clusters
    parted = spread(fitted, X, fitted.encode(X))
    for parent, start, stop in zip(books.keys[:, 0], books.starts[:-1], books.starts[1:], strict=True):
        assert parted[parted[:, 0] == parent, 1].max() < stop - start
