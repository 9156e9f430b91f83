"""Sequences that a list orders are told from those that time orders, whatever the items are called."""

import pytest

from sidkit.data.sequences import Sequences
from sidkit.measure.order import order_of


def histories(rng, users=400, items=60, listed=True):
    """Histories of eight items, listed by number or as drawn, and three more as drawn."""
    lists = []
    for _ in range(users):
        drawn = rng.choice(items, 11, replace=False).tolist()
        lists.append((sorted(drawn[:8]) if listed else drawn[:8]) + drawn[8:])
    return lists


def test_a_pair_in_both_orders_worked_by_hand():
    """0 1 is in three sequences before their last two items, twice upward: one of three meetings agrees."""
    figures = order_of(Sequences.of([[0, 1, 2, 3], [0, 1, 4, 5], [1, 0, 0, 1], [6, 0, 1]]))
    assert figures["agreement"] == pytest.approx(1 / 3)
    assert figures["agreement_last"] == pytest.approx((2 / 3 + 2 / 3) / 2)  # the third's and the fourth's last steps
    assert not figures["arranged"]


def test_a_list_is_noticed_and_not_by_the_numbers_of_the_items(rng):
    lists, name = histories(rng), rng.permutation(60)
    plain = order_of(Sequences.of(lists))
    assert plain["agreement"] > 0.8
    assert plain["agreement_last"] < 0.75
    assert plain["arranged"]
    renamed = order_of(Sequences.of([name[one].tolist() for one in lists]))
    assert renamed == pytest.approx(plain)


def test_order_by_chance_agrees_half_of_the_time(rng):
    figures = order_of(Sequences.of(histories(rng, listed=False)))
    assert figures["agreement"] == pytest.approx(0.5, abs=0.02)
    assert not figures["arranged"]


def test_a_list_that_orders_the_last_steps_too_is_not_blamed(rng):
    """Where everything has that order, learning it helps with the last steps as well."""
    figures = order_of(Sequences.of([sorted(one) for one in histories(rng)]))
    assert figures["agreement"] == figures["agreement_last"] == 1.0
    assert not figures["arranged"]


@pytest.mark.parametrize("lists", [[], [[0, 1]], [[0, 1, 2, 3], [4, 5, 6, 7]], [[3, 3, 3, 3]]])
def test_where_no_pair_is_shared_there_is_no_figure(lists):
    assert order_of(Sequences.of(lists)) == {"agreement": None, "agreement_last": None, "arranged": False}
