"""Transitions between items of sequences: how often both are in one group, and what chance would give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import InputError

__all__ = ["Transitions", "numbered"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Transitions:
    """Transitions between two different items, and the chances of their targets.

    source, target      (T,) rows of items
    sequence            (T,) the sequence each belongs to
    unknown, repeated   transitions left out: an item has no SID; the item is the same
    """

    def __init__(self, source: Integers, target: Integers, sequence: Integers, items: int) -> None:
        self.source, self.target, self.sequence, self.items = source, target, sequence, items
        self.popularity = np.bincount(target, minlength=items)
        self.unknown = self.repeated = 0

    @classmethod
    def of(cls, sequences: Sequences, items: int) -> Transitions:
        if sequences.rows.max(initial=-1) >= items:
            raise InputError(f"sequences name row {sequences.rows.max()}, but there are {items} items")
        source, target, sequence = sequences.transitions()
        known = (source >= 0) & (target >= 0)
        used = known & (source != target)
        if not used.any():
            raise InputError(
                f"there is no transition between two different items with semantic IDs in {len(sequences):,} sequences"
            )
        transitions = cls(source[used], target[used], sequence[used], items)
        transitions.unknown, transitions.repeated = int((~known).sum()), int((known & ~used).sum())
        return transitions

    def __len__(self) -> int:
        return len(self.source)

    def compact(self) -> tuple[Transitions, Integers]:
        """The same transitions between the items that occur in them, numbered from 0, and the rows of those."""
        rows = np.unique(np.concatenate([self.source, self.target]))
        source, target = (np.searchsorted(rows, side) for side in (self.source, self.target))
        compact = Transitions(source, target, self.sequence, len(rows))
        compact.unknown, compact.repeated = self.unknown, self.repeated
        return compact, rows

    def only(self, used: NDArray[np.bool_]) -> Transitions:
        return Transitions(self.source[used], self.target[used], self.sequence[used], self.items)

    def shares(self, group: Integers) -> Floats:
        """Per transition, 1 if its two items are in one group, else 0."""
        same: Floats = (group[self.source] == group[self.target]).astype(np.float64)
        return same

    def uniform(self, mates: Integers, items: int) -> Floats:
        """Per transition, the chance that another of all items, equally likely, is in the source's group.

        mates: per item, how many of all items are in its group.
        """
        chance: Floats = (mates[self.source] - 1) / (items - 1)
        return chance

    def popular(self, group: Integers) -> Floats:
        """Per transition, the chance that another item, drawn as often as items are targets, is in its group."""
        of_source = self.popularity[self.source]
        inside = np.bincount(group[self.target], minlength=group.max() + 1)[group[self.source]]
        chance: Floats = (inside - of_source) / (len(self) - of_source)
        return chance

    def within(self, group: Integers, category: Integers) -> Floats:
        """The same chance if the other item were drawn from the target's category."""
        kind = category[self.target]
        of_source = self.popularity[self.source] * (category[self.source] == kind)
        both, counts = np.unique(group[self.target] * (category.max() + 1) + kind, return_counts=True)
        wanted = group[self.source] * (category.max() + 1) + kind
        at = np.minimum(np.searchsorted(both, wanted), len(both) - 1)
        inside = np.where(both[at] == wanted, counts[at], 0)
        chance: Floats = (inside - of_source) / (np.bincount(kind)[kind] - of_source)
        return chance

    def error(self, upper: Floats, lower: Floats) -> float | None:
        """The standard error of sum(upper) / sum(lower) where whole sequences are drawn: the ratio estimator's.

        sqrt( U / (U - 1) sum_u (upper_u - ratio lower_u)^2 ) / sum(lower), over the U sequences with a transition
        """
        which, total = numbered(self.sequence), lower.sum()
        if which.max() == 0 or total == 0:
            return None
        a, b = np.bincount(which, upper), np.bincount(which, lower)
        rest = a - upper.sum() / total * b
        return float(np.sqrt(len(a) / (len(a) - 1) * (rest @ rest)) / total)


def numbered(labels: NDArray[Any]) -> Integers:
    """Equal labels as equal numbers 0, 1, 2 …, in the order of the labels."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
