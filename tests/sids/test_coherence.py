"""SC and PD: by hand, against loops over pairs, and what must not change them."""

import math

import numpy as np
import pytest

from sidkit.errors import InputError, SpecError
from sidkit.sids import coherence as module
from sidkit.sids.coherence import coherence


def by_loops(vectors, codes, level, t):
    """The formulas as written: every pair."""

    def cosine(a, b):
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    groups = {}
    for row, sid in enumerate(map(tuple, codes[:, : level + 1])):
        groups.setdefault(sid, []).append(np.asarray(vectors[row], np.float64))
    cohesion = [
        np.mean([cosine(g[i], g[j]) for i in range(len(g)) for j in range(i + 1, len(g))])
        for g in groups.values()
        if len(g) >= 2
    ]
    p = [np.mean(g, axis=0) for g in groups.values()]
    pairs = [math.exp(-t * (1 - cosine(p[a], p[b]))) for a in range(len(p)) for b in range(a + 1, len(p))]
    return np.mean(cohesion), math.log(np.mean(pairs))


def test_four_items_by_hand():
    """Group 0 holds (1, 0) and (0, 2): cosine 0, mean (1/2, 1). Group 1 holds (-2, 0) twice: cosine 1, mean (-2, 0).

    The means have cosine (1/2 * -2) / (sqrt(5/4) * 2) = -1 / sqrt(5). On level 2 all items but the twins are alone.
    """
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [-2.0, 0.0]])
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    figures = coherence(vectors, codes, (2, 2))
    assert figures["sc_per_group"] == [pytest.approx(0.5), pytest.approx(1.0)]
    assert figures["pd_per_group_pair"][0] == pytest.approx(-2 * (1 + 1 / math.sqrt(5)))
    # groups (1,0), (0,2), (-2,0): cosines 0, -1, 0
    assert figures["pd_per_group_pair"][1] == pytest.approx(math.log((2 * math.exp(-2) + math.exp(-4)) / 3))
    assert figures["groups"] == [2, 3]
    assert figures["groups_of_several"] == [2, 1]
    assert figures["groups_compared"] == [2, 3]
    assert figures["sc"] == pytest.approx(0.75)
    assert figures["pd"] == pytest.approx(np.mean(figures["pd_per_group_pair"]))


def test_it_equals_loops_over_all_pairs(rng):
    vectors = rng.normal(size=(120, 5)).astype(np.float32) + 1
    codes = rng.integers(0, 4, size=(120, 3))
    figures = coherence(vectors, codes, (4, 4, 4), t=3.0)
    for level in range(3):
        sc, pd = by_loops(vectors, codes, level, 3.0)
        assert figures["sc_per_group"][level] == pytest.approx(sc, abs=1e-12)
        assert figures["pd_per_group_pair"][level] == pytest.approx(pd, abs=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_chunk_size_and_row_order_change_nothing(rng, monkeypatch, chunk):
    vectors = rng.normal(size=(300, 4))
    codes = np.stack([rng.integers(0, 2, 300), rng.integers(0, 30, 300)], axis=1)
    complete = coherence(vectors, codes, (2, 30))
    monkeypatch.setattr(module, "CHUNK", chunk)
    order = rng.permutation(300)
    parts = coherence(vectors[order], codes[order], (2, 30))
    for key, value in complete.items():
        assert parts[key] == pytest.approx(value, abs=1e-12), key


def test_identical_items_are_fully_coherent_and_opposite_groups_fully_apart():
    vectors = np.array([[3.0, 4.0]] * 5 + [[-3.0, -4.0]] * 5)
    figures = coherence(vectors, np.repeat([[0], [1]], 5, axis=0), (2,))
    assert figures["sc_per_group"] == [pytest.approx(1.0)]
    assert figures["pd_per_group_pair"] == [pytest.approx(-4.0)]


def test_items_alone_have_no_cohesion_and_one_group_no_discrimination():
    vectors = np.eye(3)
    figures = coherence(vectors, np.array([[0, 0], [0, 1], [0, 2]]), (1, 3))
    assert figures["sc_per_group"] == [pytest.approx(0.0), None]
    assert figures["pd_per_group_pair"] == [None, pytest.approx(-2.0)]
    assert figures["sc"] == pytest.approx(0.0)
    assert figures["pd"] == pytest.approx(-2.0)


def test_a_zero_vector_has_cosine_zero():
    figures = coherence(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.zeros((3, 1), int), (1,))
    assert figures["sc_per_group"] == [pytest.approx(1 / 3)]


def test_a_cap_draws_groups_by_the_seed_and_stays_near(rng):
    vectors = rng.normal(size=(3000, 6))
    codes = rng.integers(0, 500, size=(3000, 1))
    complete = coherence(vectors, codes, (500,))
    sampled = coherence(vectors, codes, (500,), groups=200, seed=1)
    assert sampled["groups_compared"] == [200]
    assert sampled["sc_per_group"] == complete["sc_per_group"]
    assert sampled["pd_per_group_pair"][0] == pytest.approx(complete["pd_per_group_pair"][0], abs=0.05)
    assert sampled == coherence(vectors, codes, (500,), groups=200, seed=1)
    assert sampled != coherence(vectors, codes, (500,), groups=200, seed=2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"codes of shape \(3, 2\) do not fit 1 sizes"):
        coherence(np.eye(3), np.zeros((3, 2), int), (4,))
    with pytest.raises(InputError, match=r"vectors of shape \(2, 3\) do not fit codes of shape \(3, 1\)"):
        coherence(np.eye(3)[:2], np.zeros((3, 1), int), (4,))
    with pytest.raises(InputError, match=r"outside their codebook \(sizes \(4,\)\)"):
        coherence(np.eye(3), np.full((3, 1), 4), (4,))
    with pytest.raises(SpecError, match="at least 2"):
        coherence(np.eye(3), np.zeros((3, 1), int), (4,), groups=1)
