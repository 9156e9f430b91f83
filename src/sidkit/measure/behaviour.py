"""How often the next item of a sequence shares the prefix, compared with chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.joined import as_labels
from ..data.sequences import Sequences
from ..errors import InputError
from ..sids.prefixes import prefix_mates, prefix_numbers, require_codes
from .transitions import Transitions, numbered

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

    codes: (n, levels); sequences: rows of items in time order; categories: a category per item, or a path such as
    "Games > Card Games", '' where there is none. Every figure is a sum over all transitions, never a mean of means.
    A transition counts when both items have a SID and differ: a repeat shares every prefix whatever the SIDs are.

    sequences, events                    how many there are
    events_unknown, items_unknown        events, and different items, without a SID
    transitions                          T, those that count
    transitions_unknown, transitions_repeated    those left out: an item has no SID; the item is the same
    share                per level, transitions whose two items share the prefix / T
    share_error          its standard error, sequences being drawn independently (one sequence: None)
    chance_uniform       the same share if the next item were any other item, all equally likely
    chance_popular       if it were another item drawn as often as items come next in these sequences
    lift, lift_error     share / chance_popular; 1 means that the SIDs reflect popularity alone.
                         Its error takes the chance, which is over all pairs, as known

    With categories, the figures of `_agreement_beside_categories` as well.
    """
    array = require_codes(codes, sizes)
    if not isinstance(sequences, Sequences):
        sequences = Sequences.of(sequences)
    transitions, rows = Transitions.of(sequences, len(array)).compact()
    groups = [numbered(number) for number in prefix_numbers(array[rows], sizes)]
    mates = prefix_mates(array, sizes, rows)
    figures = _counts(sequences, transitions) | _agreement(transitions, groups, mates, len(array))
    if categories is not None:
        if len(categories) != len(array):
            raise InputError(f"{len(categories)} categories do not fit {len(array)} items")
        figures |= _agreement_beside_categories(transitions, groups, categories, rows, separator)
    return figures


def _counts(sequences: Sequences, transitions: Transitions) -> dict[str, Any]:
    return {
        "sequences": len(sequences),
        "events": len(sequences.rows),
        "events_unknown": int((sequences.rows < 0).sum()),
        "items_unknown": sequences.unknown_items,
        "transitions": len(transitions),
        "transitions_unknown": transitions.unknown,
        "transitions_repeated": transitions.repeated,
    }


def _agreement(transitions: Transitions, groups: list[Integers], mates: Integers, items: int) -> dict[str, Any]:
    shares = [transitions.shares(group) for group in groups]
    chances = [transitions.popular(group) for group in groups]
    return {
        "share": [_ratio(share) for share in shares],
        "share_error": [transitions.error(share, np.ones(len(share))) for share in shares],
        "chance_uniform": [_ratio(transitions.uniform(level, items)) for level in mates],
        "chance_popular": [_ratio(chance) for chance in chances],
    } | _lifts(transitions, shares, chances, "lift")


def _agreement_beside_categories(
    transitions: Transitions, groups: list[Integers], categories: Sequence[str], rows: Integers, separator: str
) -> dict[str, Any]:
    """Figures over the transitions whose two items have a category. rows: of the items that occur in them.

    transitions_categorised     how many there are
    category_share, category_chance_popular, category_lift, category_lift_error
                         the figures of `prefix_agreement` for category paths as if they were SIDs: the control. Per
                         depth of the path, at most as many as the SIDs have levels
    chance_category      per level of the SIDs, if the next item were another of its category (the whole path)
    lift_category, lift_category_error
                         share / chance_category; 1 means that the prefix carries no more than the category
    """
    label, names = as_labels(categories)
    label = label[rows]
    labelled = np.array([bool(name) for name in names])[label]
    transitions = transitions.only(labelled[transitions.source] & labelled[transitions.target])
    if not len(transitions):
        raise InputError("no transition has a category on both sides; is the category column empty?")
    paths = [path[label] for path in category_paths(names, separator)[: len(groups)]]
    shares = [transitions.shares(path) for path in paths]
    chances = [transitions.popular(path) for path in paths]
    figures = {
        "transitions_categorised": len(transitions),
        "category_share": [_ratio(share) for share in shares],
        "category_chance_popular": [_ratio(chance) for chance in chances],
    }
    figures |= _lifts(transitions, shares, chances, "category_lift")
    category = label.astype(np.int64)
    shares = [transitions.shares(group) for group in groups]
    chances = [transitions.within(group, category) for group in groups]
    figures["chance_category"] = [_ratio(chance) for chance in chances]
    return figures | _lifts(transitions, shares, chances, "lift_category")


def category_paths(categories: Sequence[str], separator: str = " > ") -> list[Integers]:
    """Category paths as SIDs: per depth, a number per item that is equal for items with equal first parts."""
    parts = [[part.strip() for part in category.split(separator)] if category else [] for category in categories]
    depth = max(1, *(len(path) for path in parts)) if parts else 1
    return [numbered(np.array([separator.join(path[:level]) for path in parts])) for level in range(1, depth + 1)]


def _lifts(transitions: Transitions, shares: list[Floats], chances: list[Floats], name: str) -> dict[str, Any]:
    """Share over chance; None where the chance is zero, as when every item is alone on its SID."""
    pairs = list(zip(shares, chances, strict=True))
    return {
        name: [float(share.sum() / chance.sum()) if chance.sum() else None for share, chance in pairs],
        f"{name}_error": [transitions.error(share, chance) for share, chance in pairs],
    }


def _ratio(values: Floats) -> float:
    return float(values.mean())
