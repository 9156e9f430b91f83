"""Do semantic IDs follow what people do: how often the next item shares the prefix, and what chance would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import InputError
from ..sids.prefixes import prefix_numbers, require_codes

__all__ = ["category_paths", "prefix_agreement"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def prefix_agreement(
    codes: Any,
    sizes: Sequence[int],
    sequences: Sequences | Sequence[Sequence[int]],
    categories: Sequence[str] | None = None,
    separator: str = " > ",
) -> dict[str, Any]:
    """How often an item and the one after it in a sequence share their first tokens.

    codes: (n, levels); sequences: row numbers of items in time order; categories: a category per item, or a path such
    as "Games > Card Games", '' where there is none. Every figure is a sum over all transitions, never a mean of means.
    A transition counts when both items have a SID and differ: a repeat shares every prefix whatever the SIDs are.

    sequences, events                    how many there are
    events_unknown, items_unknown        events, and different items, without a SID
    transitions                          T, those that count
    transitions_unknown, transitions_repeated    those left out: an item has no SID; the item is the same
    share                per level, transitions whose two items share the prefix / T
    share_error          its standard error, sequences being drawn independently (one sequence: None)
    chance_uniform       the same share if the next item were any other item, all alike
    chance_popular       if it were another item drawn as often as items come next in these sequences
    lift, lift_error     share / chance_popular; 1 says that the SIDs know nothing of behaviour but popularity.
                         Its error takes the chance, which is over all pairs, as known

    With categories, over the transitions whose two items have one:

    transitions_categorised     how many
    category_share, category_chance_popular, category_lift, category_lift_error
                         the same figures for category paths as if they were SIDs: the control. Per depth of the path,
                         as many as the SIDs have levels at most
    chance_category      per level of the SIDs, if the next item were another of its category (the whole path)
    lift_category, lift_category_error
                         share / chance_category; 1 says that the prefix knows no more than the category
    """
    array = require_codes(codes, sizes)
    if not isinstance(sequences, Sequences):
        sequences = Sequences.of(sequences)
    steps = _Steps.of(sequences, len(array))
    found: dict[str, Any] = {
        "sequences": len(sequences),
        "events": len(sequences.rows),
        "events_unknown": int((sequences.rows < 0).sum()),
        "items_unknown": sequences.unknown_items,
        "transitions": len(steps.source),
        "transitions_unknown": steps.unknown,
        "transitions_repeated": steps.repeated,
    }
    groups = [_dense(number) for number in prefix_numbers(array, sizes)]
    shares = [steps.shares(group) for group in groups]
    chances = [steps.popular(group) for group in groups]
    found |= {
        "share": [_ratio(share) for share in shares],
        "share_error": [steps.error(share, np.ones(len(share))) for share in shares],
        "chance_uniform": [_ratio(steps.uniform(group)) for group in groups],
        "chance_popular": [_ratio(chance) for chance in chances],
    }
    found |= _lifts(steps, shares, chances, "lift")
    if categories is not None:
        if len(categories) != len(array):
            raise InputError(f"{len(categories)} categories do not fit {len(array)} items")
        found |= _beside_categories(steps, groups, categories, separator)
    return found


def _beside_categories(
    steps: _Steps, groups: list[Integers], categories: Sequence[str], separator: str
) -> dict[str, Any]:
    there = np.array([bool(category) for category in categories])
    steps = steps.only(there[steps.source] & there[steps.target])
    if not len(steps.source):
        raise InputError("no transition has a category on both sides; is the category column empty?")
    paths = category_paths(categories, separator)[: len(groups)]
    shares, chances = [steps.shares(path) for path in paths], [steps.popular(path) for path in paths]
    whole = _dense(np.array(categories))
    found = {
        "transitions_categorised": len(steps.source),
        "category_share": [_ratio(share) for share in shares],
        "category_chance_popular": [_ratio(chance) for chance in chances],
    }
    found |= _lifts(steps, shares, chances, "category_lift")
    shares, chances = [steps.shares(group) for group in groups], [steps.within(group, whole) for group in groups]
    found["chance_category"] = [_ratio(chance) for chance in chances]
    return found | _lifts(steps, shares, chances, "lift_category")


def category_paths(categories: Sequence[str], separator: str = " > ") -> list[Integers]:
    """Category paths as SIDs: per depth, a number per item that is equal for items with equal first parts."""
    parts = [[part.strip() for part in category.split(separator)] if category else [] for category in categories]
    depth = max(1, *(len(path) for path in parts)) if parts else 1
    return [_dense(np.array([separator.join(path[:level]) for path in parts])) for level in range(1, depth + 1)]


class _Steps:
    """Transitions between different items, and the chances of their targets."""

    def __init__(self, source: Integers, target: Integers, sequence: Integers, items: int) -> None:
        self.source, self.target, self.sequence, self.items = source, target, sequence, items
        self.popularity = np.bincount(target, minlength=items)
        self.unknown = self.repeated = 0

    @classmethod
    def of(cls, sequences: Sequences, items: int) -> _Steps:
        if sequences.rows.max(initial=-1) >= items:
            raise InputError(f"sequences name row {sequences.rows.max()}, but there are {items} items")
        source, target, sequence = sequences.transitions()
        known = (source >= 0) & (target >= 0)
        used = known & (source != target)
        if not used.any():
            raise InputError(
                f"there is no transition between two different items with semantic IDs in {len(sequences):,} sequences"
            )
        steps = cls(source[used], target[used], sequence[used], items)
        steps.unknown, steps.repeated = int((~known).sum()), int((known & ~used).sum())
        return steps

    def only(self, used: NDArray[np.bool_]) -> _Steps:
        return _Steps(self.source[used], self.target[used], self.sequence[used], self.items)

    def shares(self, group: Integers) -> Floats:
        """Per transition, 1 if its two items are in one group, else 0."""
        same: Floats = (group[self.source] == group[self.target]).astype(np.float64)
        return same

    def uniform(self, group: Integers) -> Floats:
        """Per transition, the chance that another item, all alike, is in the source's group."""
        chance: Floats = (np.bincount(group)[group[self.source]] - 1) / (self.items - 1)
        return chance

    def popular(self, group: Integers) -> Floats:
        """Per transition, the chance that another item, drawn as often as items are targets, is in its group."""
        own = self.popularity[self.source]
        inside = np.bincount(group[self.target], minlength=group.max() + 1)[group[self.source]]
        chance: Floats = (inside - own) / (len(self.source) - own)
        return chance

    def within(self, group: Integers, category: Integers) -> Floats:
        """Likewise if the other item were drawn from the target's category."""
        kind = category[self.target]
        own = self.popularity[self.source] * (category[self.source] == kind)
        both, counts = np.unique(group[self.target] * (category.max() + 1) + kind, return_counts=True)
        asked = group[self.source] * (category.max() + 1) + kind
        at = np.minimum(np.searchsorted(both, asked), len(both) - 1)
        inside = np.where(both[at] == asked, counts[at], 0)
        chance: Floats = (inside - own) / (np.bincount(kind)[kind] - own)
        return chance

    def error(self, upper: Floats, lower: Floats) -> float | None:
        """The standard error of sum(upper) / sum(lower), whole sequences being drawn: the ratio estimator's.

        sqrt( U / (U - 1) sum_u (upper_u - ratio lower_u)^2 ) / sum(lower), over the U sequences with a transition
        """
        which, total = _dense(self.sequence), lower.sum()
        if which.max() == 0 or total == 0:
            return None
        a, b = np.bincount(which, upper), np.bincount(which, lower)
        rest = a - upper.sum() / total * b
        return float(np.sqrt(len(a) / (len(a) - 1) * (rest @ rest)) / total)


def _lifts(steps: _Steps, shares: list[Floats], chances: list[Floats], name: str) -> dict[str, Any]:
    """Share over chance; None where chance is nothing, as when every item is alone on its SID."""
    pairs = list(zip(shares, chances, strict=True))
    return {
        name: [float(share.sum() / chance.sum()) if chance.sum() else None for share, chance in pairs],
        f"{name}_error": [steps.error(share, chance) for share, chance in pairs],
    }


def _ratio(values: Floats) -> float:
    return float(values.mean())


def _dense(labels: NDArray[Any]) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
