"""Collision policies: who keeps a SID, who moves, and what is published stays."""

from itertools import product

import numpy as np
import pytest

from sidkit.errors import InputError, SpecError
from sidkit.sids.policies import POLICIES, Occupied, Policy, policy_named, resolve, with_counter
from sidkit.sids.transport import transport_plan

MOVING = [name for name in POLICIES if Policy(name).needs_costs]
FOUR = [[0, 2], [0, 2], [1, 2], [0, 2]]  # items 0, 1 and 3 share a SID
PRICES = np.array([[2, 9, 0], [5, 9, 0], [0, 0, 0], [9, 1, 0]], float)


def by_table(table):
    return lambda rows: np.asarray(table, np.float64)[rows]


def sids(codes, slots=None):
    return {(*map(int, code), *(() if slots is None else [int(slots[i])])) for i, code in enumerate(codes)}


def test_keep_and_counter_move_nothing_and_count_places():
    for name in ("keep", "counter"):
        made = resolve(FOUR, (2, 3), name)
        assert made.codes.tolist() == FOUR
        assert made.slots.tolist() == [0, 1, 0, 2]
        assert made.shared == 2
        assert not made.moved.any()
    codes, sizes = with_counter(made.codes, made.slots, (2, 3), 4)
    assert codes.tolist() == [[0, 2, 0], [0, 2, 1], [1, 2, 0], [0, 2, 2]]
    assert sizes == (2, 3, 4)
    with pytest.raises(InputError, match="3 items share one SID, but the counter has 2 values"):
        with_counter(made.codes, made.slots, (2, 3), 2)


def test_nearest_worked_by_hand():
    """Item 0 stays; 1 takes code 0 (adds 5); 3 is left with code 1 (adds 1). Least cost moves 0 and 3: 2 + 1."""
    made = resolve(FOUR, (2, 3), "nearest", by_table(PRICES))
    assert made.codes.tolist() == [[0, 2], [0, 0], [1, 2], [0, 1]]
    assert made.moved.tolist() == [False, True, False, True]
    assert (made.cost, made.greedy_cost, made.shared) == (6.0, None, 0)
    least = resolve(FOUR, (2, 3), "least-cost", by_table(PRICES))
    assert least.codes.tolist() == [[0, 0], [0, 2], [1, 2], [0, 1]]
    assert (least.cost, least.greedy_cost) == (3.0, 6.0)


def test_popular_items_keep_their_code():
    made = resolve(FOUR, (2, 3), "popular", by_table(PRICES), weights=[1, 5, 0, 9])
    assert made.codes.tolist() == [[0, 1], [0, 0], [1, 2], [0, 2]]  # 3 stays, then 1 chooses, then 0
    with pytest.raises(SpecError, match="needs the popularity of every item"):
        resolve(FOUR, (2, 3), "popular", by_table(PRICES))
    with pytest.raises(InputError, match="one finite number for each of 4 items"):
        resolve(FOUR, (2, 3), "popular", by_table(PRICES), weights=[1, np.nan, 0, 9])


def test_capacity_lets_some_share():
    made = resolve(FOUR, (2, 3), Policy("capacity", 2), by_table(PRICES))
    assert made.codes.tolist() == [[0, 2], [0, 2], [1, 2], [0, 1]]
    assert made.slots.tolist() == [0, 1, 0, 0]
    assert made.shared == 0
    exact = resolve(FOUR, (2, 3), Policy("least-cost", 2), by_table(PRICES))
    assert (exact.codes.tolist(), exact.cost) == (made.codes.tolist(), 1.0)


@pytest.mark.parametrize("name", MOVING)
def test_what_is_taken_stays_taken(name):
    """(0, 2) and (0, 0) are published, (0, 0) twice: of three new items one gets (0, 1), two have to share."""
    taken = Occupied(np.array([[0, 2], [0, 0], [0, 0], [1, 1]]), np.array([0, 0, 4, 0]))
    made = resolve(FOUR, (2, 3), Policy(name), by_table(PRICES), taken, weights=np.ones(4))
    assert [1, 2] in made.codes.tolist()
    assert sorted(code[1] for code in made.codes.tolist() if code[0] == 0) == [1, 2, 2]
    assert not sids(made.codes, made.slots) & sids(taken.codes, taken.slots)
    assert len(sids(made.codes, made.slots)) == 4
    assert made.shared == 2
    free = resolve([[0, 0]], (2, 3), "keep", taken=taken)
    assert free.slots.tolist() == [5], "after the largest slot, also where places before it are free"


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("capacity", [1, 3])
def test_every_policy_keeps_prefixes_and_fills_the_room(rng, name, capacity):
    sizes, n = (4, 3, 8), 150
    codes = np.column_stack([rng.integers(0, size, n) for size in sizes]) // [1, 1, 3]
    taken = np.column_stack([rng.integers(0, size, 20) for size in sizes])
    table = rng.normal(size=(n, 8))
    table -= 5 * (np.arange(8) == codes[:, -1:])  # the code of a row is its nearest
    made = resolve(codes, sizes, Policy(name, capacity), by_table(table), Occupied.of(taken, sizes), rng.random(n))
    assert np.array_equal(made.codes[:, :-1], codes[:, :-1])
    assert np.array_equal(made.moved, made.codes[:, -1] != codes[:, -1])
    assert len(sids(made.codes, made.slots)) == n
    old = np.unique(taken, axis=0, return_counts=True)
    given = {tuple(map(int, sid)): int(count) for sid, count in zip(*old, strict=True)}
    for prefix in np.unique(codes[:, :-1], axis=0):
        rows = (codes[:, :-1] == prefix).all(axis=1)
        room = sum(max(capacity - given.get((*map(int, prefix), code), 0), 0) for code in range(8))
        within = sum(
            min(int((made.codes[rows, -1] == code).sum()), max(capacity - given.get((*map(int, prefix), code), 0), 0))
            for code in range(8)
        )
        assert within == min(room, rows.sum())
    at = np.arange(n)
    assert np.isclose(made.cost, (table[at, made.codes[:, -1]] - table[at, codes[:, -1]]).sum())
    if made.greedy_cost is not None:
        greedy = resolve(codes, sizes, Policy("nearest", capacity), by_table(table), Occupied.of(taken, sizes))
        assert np.isclose(made.greedy_cost, greedy.cost)
        assert name == "sinkhorn" or made.cost <= greedy.cost + 1e-9


def test_least_cost_is_the_least_of_all_ways(rng):
    for _ in range(20):
        table = rng.normal(size=(4, 5))
        codes = np.column_stack([np.zeros(4, int), table.argmin(axis=1)])
        taken = Occupied.of([[0, int(rng.integers(5))]], (1, 5))
        free = [code for code in range(5) if code != taken.codes[0, 1]]
        made = resolve(codes, (1, 5), "least-cost", by_table(table), taken)
        if len(sids(codes) | sids(taken.codes)) == 5:
            assert not made.moved.any()
            continue
        ways = (way for way in product(free, repeat=4) if len(set(way)) == 4)
        best = min(sum(table[row, code] for row, code in enumerate(way)) for way in ways)
        assert np.isclose(table[np.arange(4), made.codes[:, 1]].sum(), best)


def test_sinkhorn_is_close_to_the_least_cost_and_its_plan_keeps_the_sums(rng):
    table = rng.normal(size=(30, 40))
    codes = np.zeros((30, 1), int)
    costs = by_table(table)
    least, sinkhorn, greedy = (
        resolve(codes, (40,), name, costs).cost for name in ("least-cost", "sinkhorn", "nearest")
    )
    assert least <= sinkhorn < greedy
    for room in (np.full(40, 1), np.full(40, 2), np.r_[np.full(10, 1), np.zeros(0)].astype(int)):
        plan = transport_plan(table[:, : len(room)], room)
        assert (plan.sum(axis=0) <= room + 1e-6).all()
        assert np.isclose(plan.sum(), min(30, room.sum()), atol=0.1)


def test_a_code_that_does_not_exist_under_a_prefix_is_never_given():
    table = np.array([[0.0, 1, np.inf], [0, 2, np.inf], [0, 3, np.inf]])
    for name in MOVING:
        made = resolve([[0], [0], [0]], (3,), Policy(name), by_table(table), weights=[3, 2, 1])
        assert sorted(made.codes[:, 0].tolist()) == [0, 0, 1]
        assert made.shared == 1


def test_bad_input_is_refused():
    with pytest.raises(SpecError, match="no collision policy 'nerest'; did you mean 'nearest'"):
        policy_named("nerest")
    with pytest.raises(SpecError, match="needs to know how many items a SID may have"):
        policy_named("capacity")
    with pytest.raises(SpecError, match="whole number from 1 on, not 0"):
        policy_named("nearest", 0)
    with pytest.raises(SpecError, match="'keep' moves nothing"):
        policy_named("keep", 2)
    with pytest.raises(SpecError, match="needs what each code costs"):
        resolve(FOUR, (2, 3), "nearest")
    with pytest.raises(InputError, match="do not fit 3 sizes"):
        resolve(FOUR, (2, 3, 4), "keep")
    with pytest.raises(InputError, match=r"published codes of shape \(1, 3\) do not fit 2 sizes"):
        resolve(FOUR, (2, 3), "keep", taken=Occupied(np.zeros((1, 3), int), np.zeros(1, int)))


@pytest.mark.parametrize("at_once", [1, 24])
def test_greedy_needs_only_a_part_of_the_costs_at_a_time(rng, monkeypatch, at_once):
    codes, table = rng.integers(0, (3, 1), (60, 2)), rng.normal(size=(60, 8))
    complete = resolve(codes, (3, 8), "nearest", by_table(table))
    monkeypatch.setattr("sidkit.sids.spread.AT_ONCE", at_once)
    seen = []

    def costs(rows):
        seen.append(len(rows))
        return table[rows]

    assert np.array_equal(resolve(codes, (3, 8), "nearest", costs).codes, complete.codes)
    assert max(seen) <= 8
    assert sum(seen) == 3 * 7, "neither the first item of a SID is asked, nor those for which no code is left"


def test_no_items_at_all():
    made = resolve(np.empty((0, 2), int), (2, 3), "nearest", by_table(PRICES))
    assert made.codes.shape == (0, 2)
    assert (made.cost, made.shared) == (0.0, 0)
