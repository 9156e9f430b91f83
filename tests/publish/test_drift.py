"""Watching new items: no more false alarms than stated, and real drift is seen."""

import numpy as np
import pytest

import sidkit
from sidkit.errors import InputError, SpecError
from sidkit.publish.drift import _holm, _p_value, watch
from sidkit.publish.readings import Readings, readings_of
from sidkit.publish.reference import held_out_reference, read_reference, write_reference
from sidkit.stages.cluster import KMeans
from sidkit.stages.level import SUBTRACT, Level
from sidkit.stages.scalar import FSQ
from sidkit.tokenizer.tokenizer import Tokenizer

CENTRES = np.random.default_rng(0).normal(size=(40, 12))


def items(n, seed, noise=0.5, centres=CENTRES):
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(0, len(centres), n)] + noise * rng.normal(size=(n, 12))).astype(np.float32)


@pytest.fixture(scope="module")
def fitted():
    return sidkit.prq_kmeans((16, 12, 8), iterations=6).fit(items(3000, 1))


@pytest.fixture(scope="module")
def reference(fitted):
    return readings_of(fitted, items(800, 2))


def part(readings, rows):
    return Readings(
        readings.codes[rows], *(one[rows] for one in (readings.distance, readings.distortion, readings.gaps))
    )


def test_false_alarms_are_no_more_frequent_than_stated(fitted):
    """80 comparisons of items from one source at alpha = 10 %: more than 17 alarms happen once in 1,000 times."""
    many = readings_of(fitted, items(4096, 5))
    alarms, of_each = 0, dict.fromkeys(("utilisation", "gini", "distortion", "distance", "near_ties"), 0)
    for run in range(80):
        rows = np.random.default_rng(run).permutation(4096)
        outcome = watch(part(many, rows[:300]), part(many, rows[300:500]), 0.1, 0.0, 99, run)
        alarms += outcome.drift
        for test in outcome.tests:
            of_each[test.name] += test.p <= 0.1
    assert alarms <= 17
    assert all(count <= 17 for count in of_each.values())
    assert sum(of_each.values()) >= 10, "tests that never reject test nothing"


def test_the_held_out_reference_is_not_fooled_by_the_rows_of_the_fit():
    """Of 12 fits at alpha = 10 % more than 5 false alarms happen once in 1,800 times."""
    alarms, fooled = 0, 0
    for run in range(12):
        X, new = items(700, 100 + run), items(400, 200 + run)
        fitted = sidkit.prq_kmeans((16, 12, 8), iterations=4).fit(X, seed=run)
        latest = readings_of(fitted, new)
        alarms += watch(held_out_reference(fitted, X, run), latest, 0.1, 0.02, 99, run).drift
        fooled += watch(readings_of(fitted, X), latest, 0.1, 0.02, 99, run).drift
    assert alarms <= 5
    assert fooled >= 10


def drifted(outcome):
    return {test.name for test in outcome.tests if test.drift}


def test_every_kind_of_drift_is_seen(fitted, reference):
    strange = items(500, 3, centres=np.random.default_rng(9).normal(size=(40, 12)))
    assert {"distortion", "distance"} <= drifted(watch(reference, readings_of(fitted, strange)))
    assert watch(reference, readings_of(fitted, strange)).advice in ("refit-and-align", "refit-afresh")
    narrow = watch(reference, readings_of(fitted, items(500, 3, centres=CENTRES[:3])))
    assert {"utilisation", "gini"} <= drifted(narrow)
    assert "distortion" not in drifted(narrow)
    assert narrow.advice == "refit-and-align"
    noise = np.random.default_rng(4).normal(size=(500, 12)).astype(np.float32)
    assert "near_ties" in drifted(watch(reference, readings_of(fitted, noise)))


def test_the_advice_follows_the_distortion():
    codes = np.random.default_rng(0).integers(0, 4, (200, 2)).astype(np.int32)
    value = np.random.default_rng(1).uniform(0.9, 1.1, 200)
    same = Readings(codes, value, value, None)
    assert watch(same, same).advice == "append"
    assert watch(same, Readings(codes, value, 1.2 * value, None)).advice == "refit-and-align"
    assert watch(same, Readings(codes, value, 1.6 * value, None)).advice == "refit-afresh"
    assert watch(same, Readings(codes, value, 1.2 * value, None), tolerance=0.3).advice == "append"
    assert watch(same, Readings(codes, value, 0.5 * value, None)).advice == "append", "less distortion is no drift"


def test_p_values_and_their_correction_worked_by_hand():
    drawn = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9])
    assert _p_value(8.5, drawn, 1) == 0.2  # one draw of nine, and the one at hand
    assert _p_value(8.5, drawn, 2) == 0.4
    assert _p_value(0.5, drawn, 2) == 0.2
    assert _holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


RECIPES = {
    "rq-kmeans": sidkit.rq_kmeans((4, 4), 2),
    "pq-kmeans": sidkit.pq_kmeans((4, 4), 2),
    "rq-opq": sidkit.rq_opq((3, 3, 3, 4, 4), 2),
    "rq-gmm": sidkit.rq_gmm((4, 4), 2),
    "bits": Tokenizer((Level(KMeans(4, iterations=2), SUBTRACT), FSQ(4, 2, "itq"))),
    "rq-vae": sidkit.rq_vae((4, 4), hidden=(8,), latent=4, epochs=1, batch=64),
    "r3-vae": sidkit.r3_vae((4, 4), epochs=1, batch=64),
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_tokenizer_has_readings(name):
    X = items(200, 0)
    fitted = RECIPES[name].fit(X)
    found = readings_of(fitted, X)
    assert np.array_equal(found.codes, fitted.encode(X))
    assert (found.gaps >= 0).all()
    assert (found.distortion is None) == (name == "r3-vae")
    assert watch(found, found).advice == "append"
    if name == "rq-vae":
        with pytest.raises(SpecError, match="RQVAE takes long to train a second time"):
            held_out_reference(fitted, X)


def test_a_reference_is_written_and_read(fitted, reference, tmp_path):
    write_reference(tmp_path / "ref.json", reference, fitted.digest)
    again = read_reference(tmp_path / "ref.json", fitted)
    assert np.array_equal(again.codes, reference.codes)
    assert np.allclose(again.distortion, reference.distortion, rtol=1e-4)
    other = sidkit.prq_kmeans((16, 12, 8), iterations=1).fit(items(300, 3))
    with pytest.raises(InputError, match=f"for the tokenizer {fitted.digest}, not for {other.digest}"):
        read_reference(tmp_path / "ref.json", other)
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(InputError, match=r"bad.json is no reference"):
        read_reference(tmp_path / "bad.json", fitted)


def test_bad_requests_are_refused(fitted, reference):
    with pytest.raises(InputError, match="29 items are too few"):
        readings_of(fitted, items(29, 0))
    with pytest.raises(SpecError, match="99 draws cannot show a p-value below"):
        watch(reference, reference, 0.01, draws=99)
    with pytest.raises(SpecError, match="alpha must lie between 0 and 1"):
        watch(reference, reference, 2.0)
    with pytest.raises(InputError, match="at least 300"):
        held_out_reference(fitted, items(200, 0))


@pytest.mark.parametrize("name, value", [("distance", 2**31), ("distortion", [0.5]), ("gaps", [1.0] * 800)])
def test_a_reference_whose_readings_have_another_shape_is_refused(reference, name, value):
    plain = reference.to_plain() | {name: value}
    with pytest.raises(InputError, match=rf"no reference of sidkit publish watch: '{name}' has shape .* for 800 items"):
        Readings.from_plain(plain, 3)
