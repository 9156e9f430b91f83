"""What to do about items that would share a semantic ID: the policies, for `encode`, `resolve` and the registry.

    keep         nothing: a SID has a list of items
    counter      nothing moves; the slot becomes one more token (TIGER)
    nearest      the first item of a SID keeps it, each other one takes the nearest free code of the last level
    capacity     the same with up to `capacity` items on a SID
    popular      the same, but the item with the largest weight comes first
    least-cost   last codes are assigned under each prefix at the least total cost, exactly
    sinkhorn     the same by entropic transport, as LC-Rec parts items, then rounded to whole items

All tokens but the last always stay, so prefixes keep their meaning. What is published stays where it is (`Occupied`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError, did_you_mean
from ..progress import Progress
from .crowded import slots_of
from .prefixes import prefix_numbers
from .spread import Costs, Integers, assign_last_tokens

__all__ = ["POLICIES", "Occupied", "Policy", "Resolved", "policy_named", "resolve", "with_counter"]

POLICIES = ("keep", "counter", "nearest", "capacity", "popular", "least-cost", "sinkhorn")
MOVE_NOTHING = ("keep", "counter")


@dataclass(frozen=True)
class Policy:
    """A policy by name. capacity: how many items may have one SID, where the policy moves items."""

    name: str = "keep"
    capacity: int = 1

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            known = f"{did_you_mean(self.name, POLICIES)} (known: {', '.join(POLICIES)})"
            raise SpecError(f"no collision policy {self.name!r}{known}")
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
            raise SpecError(f"the capacity of a SID must be a whole number from 1 on, not {self.capacity!r}")
        if self.name in MOVE_NOTHING and self.capacity != 1:
            raise SpecError(f"the policy {self.name!r} moves nothing, so it has no capacity; use 'capacity'")

    @property
    def needs_costs(self) -> bool:
        """Whether items move, which takes a tokenizer and the embeddings."""
        return self.name not in MOVE_NOTHING

    @property
    def needs_weights(self) -> bool:
        return self.name == "popular"


def policy_named(name: str | Policy, capacity: int | None = None) -> Policy:
    """The policy of this name; 'capacity' needs a number of items per SID, which others may have too."""
    if isinstance(name, Policy):
        return name
    if name == "capacity" and capacity is None:
        raise SpecError("the policy 'capacity' needs to know how many items a SID may have: --capacity 4")
    return Policy(name, 1 if capacity is None else capacity)


@dataclass(frozen=True, eq=False)
class Occupied:
    """The SIDs that are taken: codes (m, levels) and slots (m,), the index of each item among the items of its SID.

    It must contain every published item that has all tokens but the last in common with a new one; others are ignored.
    """

    codes: NDArray[Any]
    slots: NDArray[Any]

    @classmethod
    def of(cls, codes: Any, sizes: Sequence[int]) -> Occupied:
        """Items without noted slots, which are counted in their order."""
        array = np.asarray(codes, np.int32).reshape(-1, len(sizes))
        return cls(array, slots_of(prefix_numbers(array, sizes)[-1]))


@dataclass(frozen=True, eq=False)
class Resolved:
    """What a policy made of codes (n, levels).

    codes        the same but for last tokens of items that moved
    slots        (n,) the index among the items of the SID, from 0, after those that are taken
    moved        (n,) whether the last token changed
    shared       items beyond the capacity of their SID: their prefix has no room left, or nothing may move
    cost         the sum of what moving added, in units of what the last level minimises
    greedy_cost  the same for `nearest` on the same rows, beside 'least-cost' and 'sinkhorn'
    """

    codes: NDArray[np.int32]
    slots: Integers
    moved: NDArray[np.bool_]
    shared: int
    cost: float = 0.0
    greedy_cost: float | None = None


def resolve(
    codes: Any,
    sizes: Sequence[int],
    policy: str | Policy = "keep",
    costs: Costs | None = None,
    taken: Occupied | None = None,
    weights: Any = None,
    progress: Progress | None = None,
) -> Resolved:
    """Apply a policy to the codes (n, levels) of new items, with published ones as given.

    costs     row numbers (n,) -> (n, K), what each last code would cost each row; for policies that move items
    taken     what is published; it stays
    weights   (n,) popularity; for 'popular'
    """
    policy, array = policy_named(policy), np.array(codes, np.int32)
    if array.ndim != 2 or array.shape[1] != len(sizes) or not len(sizes):
        raise InputError(f"codes of shape {array.shape} do not fit {len(sizes)} sizes")
    before = _relevant(array, sizes, taken)
    order = _order(len(array), policy, weights)
    if not policy.needs_costs:
        slots = _slots(array, sizes, before, order)
        return Resolved(array, slots, np.zeros(len(array), bool), int((slots >= 1).sum()))
    if costs is None:
        raise SpecError(f"the policy {policy.name!r} moves items to other codes; it needs what each code costs")
    assigned = assign_last_tokens(array, sizes, costs, policy.name, policy.capacity, before.codes, order, progress)
    slots = _slots(assigned.codes, sizes, before, order)
    moved = assigned.codes[:, -1] != array[:, -1]
    return Resolved(
        assigned.codes, slots, moved, int((slots >= policy.capacity).sum()), assigned.cost, assigned.greedy_cost
    )


def with_counter(
    codes: NDArray[Any], slots: NDArray[Any], sizes: Sequence[int], room: int = 256
) -> tuple[NDArray[np.int32], tuple[int, ...]]:
    """The slot as one more token, from `room` values: codes (n, levels + 1) and their sizes."""
    if len(slots) and int(np.max(slots)) >= room:
        raise InputError(
            f"{int(np.max(slots)) + 1} items share one SID, but the counter has {room} values; give it more with --room"
        )
    return np.column_stack([codes, slots]).astype(np.int32), (*(int(size) for size in sizes), room)


def _slots(codes: NDArray[np.int32], sizes: Sequence[int], before: Occupied, order: Integers) -> Integers:
    """The slots of new items: on from the last one taken of their SID."""
    number = prefix_numbers(np.concatenate([before.codes, codes]), sizes)[-1]
    old, new = number[: len(before.codes)], number[len(before.codes) :]
    if not len(old):
        return slots_of(new, order)
    known, where = np.unique(old, return_inverse=True)
    last = np.full(len(known), -1, np.int64)
    np.maximum.at(last, where.ravel(), np.asarray(before.slots, np.int64))
    at = np.minimum(np.searchsorted(known, new), len(known) - 1)
    return slots_of(new, order) + np.where(known[at] == new, last[at] + 1, 0)


def _relevant(codes: NDArray[np.int32], sizes: Sequence[int], taken: Occupied | None) -> Occupied:
    """What is taken under the prefixes of these codes."""
    levels = len(sizes)
    if taken is None or not len(taken.codes):
        return Occupied(np.empty((0, levels), np.int32), np.empty(0, np.int64))
    given = np.asarray(taken.codes)
    if given.ndim != 2 or given.shape[1] != levels or len(given) != len(taken.slots):
        raise InputError(f"published codes of shape {given.shape} do not fit {levels} sizes")
    if levels == 1:
        return Occupied(given.astype(np.int32), np.asarray(taken.slots))
    parents = prefix_numbers(np.concatenate([given[:, :-1], codes[:, :-1]]), sizes[:-1])[-1]
    near = np.isin(parents[: len(given)], parents[len(given) :])
    return Occupied(given[near].astype(np.int32), np.asarray(taken.slots)[near])


def _order(n: int, policy: Policy, weights: Any) -> Integers:
    """The order in which items may choose: that of the rows or, for 'popular', the largest weight first."""
    if not policy.needs_weights:
        return np.arange(n)
    if weights is None:
        raise SpecError("the policy 'popular' needs the popularity of every item: --popularity FILE")
    weight = np.asarray(weights, np.float64)
    if weight.shape != (n,) or not np.isfinite(weight).all():
        raise InputError(f"popularity must be one finite number for each of {n} items; got shape {weight.shape}")
    return np.argsort(-weight, kind="stable")
