"""Purity and NMI: by hand, against scikit-learn, and against chance."""

import math

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from sidkit.errors import InputError
from sidkit.measure.categories import purity


def test_five_items_by_hand():
    """Groups {x, x, y} and {y}; the unlabelled item is left out. Purity (2 + 1) / 4.

    H(group) = 3/4 ln(4/3) + 1/4 ln 4, H(label) = ln 2, joint: 1/2, 1/4, 1/4, so 1.5 ln 2.
    """
    figures = purity([[0], [0], [0], [1], [1]], (2,), ["x", "x", "y", "y", ""])
    assert figures["purity"] == [0.75]
    group = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert figures["nmi"] == pytest.approx([2 * (group + math.log(2) - 1.5 * math.log(2)) / (group + math.log(2))])
    assert (figures["items_labelled"], figures["items_unlabelled"], figures["labels"]) == (4, 1, 2)


def test_nmi_equals_scikit_learn_and_adjusted_nmi_is_near_its_exact_one(rng):
    codes = rng.integers(0, 6, size=(2000, 2))
    labels = [str((a + (rng.random() < 0.3)) % 6) for a in codes[:, 0]]
    figures = purity(codes, (6, 6), labels)
    for level, group in enumerate((codes[:, 0], codes[:, 0] * 6 + codes[:, 1])):
        assert figures["nmi"][level] == pytest.approx(normalized_mutual_info_score(labels, group))
        assert figures["nmi_adjusted"][level] == pytest.approx(adjusted_mutual_info_score(labels, group), abs=0.01)


def test_items_alone_are_pure_by_chance_and_equal_groupings_are_the_same(rng):
    alone = purity(np.arange(50)[:, None], (50,), [str(i % 5) for i in range(50)])
    assert (alone["purity"], alone["purity_chance"]) == ([1.0], [1.0])
    assert alone["nmi_adjusted"] == pytest.approx([0.0], abs=1e-12)
    label = rng.integers(0, 5, 500)
    same = purity(label[:, None], (5,), [f"kind {k}" for k in label])
    assert (same["purity"], same["nmi_adjusted"]) == ([1.0], [pytest.approx(1.0)])


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="2 labels do not fit 3"):
        purity(np.zeros((3, 1), int), (1,), ["a", "b"])
    with pytest.raises(InputError, match="no item has a label"):
        purity(np.zeros((2, 1), int), (1,), ["", ""])
