import math

import numpy as np
import pytest

import sidkit
from sidkit.sids.quality import gini

# Six items, sizes (2, 3): SIDs (0,0) (0,0) (0,1) (1,2) (1,2) (1,2)
CODES = np.array([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2], [1, 2]])


def test_quality_by_hand():
    q = sidkit.quality(CODES, (2, 3))
    assert q["items"] == 6
    assert q["distinct_sids"] == 3
    assert q["icr_per_sid"] == 1 / 3  # one of three SIDs has one item
    assert q["icr_per_item"] == 1 / 6
    assert q["collision_per_item"] == 5 / 6
    assert q["surplus_per_item"] == 3 / 6
    assert q["items_per_sid"] == 2.0
    assert q["largest_bucket"] == 3
    assert q["utilisation"] == [1.0, 3 / 6]
    assert q["codes_used"] == [1.0, 1.0]
    assert q["entropy_bits"][0] == 1.0
    assert q["entropy_bits"][1] == pytest.approx(
        -(2 / 6 * math.log2(2 / 6) + 1 / 6 * math.log2(1 / 6) + 0.5 * math.log2(0.5))
    )
    assert q["perplexity"][0] == 2.0
    # sorted prefix counts (3, 3) and (1, 2, 3)
    assert q["prefix_gini"] == pytest.approx([0.0, 2 * (1 + 4 + 9) / (3 * 6) - 4 / 3])


def test_prefixes_that_would_share_a_number_in_a_smaller_radix_are_distinguished():
    q = sidkit.quality(np.array([[0, 2], [1, 0], [0, 1], [1, 1]]), (2, 3))
    assert q["distinct_sids"] == 4
    assert q["icr_per_sid"] == 1.0


def test_vectors_add_the_coherence_of_prefixes():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    q = sidkit.quality(CODES, (2, 3), vectors)
    assert q["sc_per_group"][1] == pytest.approx((0.0 + 1.0) / 2)  # prefixes (0, 0) and (1, 2)
    assert q["pd_per_group_pair"][0] == pytest.approx(-2 * (1 - 1 / np.sqrt(5)))  # means (2, 1)/3 and (0, 1)
    assert "sc_per_group" not in sidkit.quality(CODES, (2, 3))


def test_gini_is_zero_for_equal_shares_and_grows_with_inequality():
    assert gini(np.array([5, 5, 5, 5])) == pytest.approx(0.0)
    assert gini(np.array([1, 3])) == pytest.approx(2 * (1 + 6) / (2 * 4) - 1.5)
    assert gini(np.array([1, 1, 1, 97])) == pytest.approx(0.72)


def test_unused_prefixes_do_not_enter_the_gini():
    assert sidkit.quality(CODES, (2, 300))["prefix_gini"] == sidkit.quality(CODES, (2, 3))["prefix_gini"]


def test_perplexity_counts_the_codes_in_effective_use():
    codes = np.repeat([[0, 3], [1, 3], [2, 3], [3, 3]], 7, axis=0)
    assert sidkit.quality(codes, (6, 4))["perplexity"] == pytest.approx([4.0, 1.0])


def test_spaces_too_large_for_63_bits_are_counted_right(rng):
    sizes = (65_536,) * 6
    codes = rng.integers(0, 65_536, size=(500, 6))
    codes[250:] = codes[:250]
    q = sidkit.quality(codes, sizes)
    assert q["distinct_sids"] == 250
    assert q["icr_per_sid"] == 0.0
    assert q["utilisation"][5] == pytest.approx(250 / 65_536.0**6)


@pytest.mark.parametrize(
    ("codes", "sizes", "message"),
    [
        (np.zeros((0, 2), int), (2, 2), "no codes to measure"),
        (np.array([[0, 5]]), (2, 2), "outside their codebook"),
        (np.array([[0, -1]]), (2, 2), "outside their codebook"),
        (np.array([[0, 1]]), (2, 2, 2), "do not fit 3 sizes"),
    ],
)
def test_codes_that_cannot_be_measured_are_refused(codes, sizes, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        sidkit.quality(codes, sizes)
