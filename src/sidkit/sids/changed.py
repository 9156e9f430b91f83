"""What changed between two sets of semantic IDs of the same items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.ids import match
from ..errors import InputError
from .prefixes import prefix_numbers
from .table import SidTable

__all__ = ["changed_shares", "difference"]

PARTS = 6  # of a split or merged prefix that are listed


def changed_shares(old: NDArray[Any], new: NDArray[Any]) -> dict[str, list[float]]:
    """Per level, the share of items with another token, and with another prefix up to that level.

    old, new: (n, levels), row by row the same items.
    """
    differs = old != new
    return {
        "tokens": differs.mean(axis=0).tolist(),
        "prefixes": np.logical_or.accumulate(differs, axis=1).mean(axis=0).tolist(),
    }


def difference(old: SidTable, new: SidTable, most: int = 20) -> dict[str, Any]:
    """What moved, how far, and which prefixes were split or merged; ready for JSON.

    shared, added, removed   items in both, only in the new table, only in the old one
    moved                    shared items with another SID
    tokens_kept              [items that keep their first 0, 1, ... tokens and no more]; the last keep their SID
    tokens, prefixes         per level, `changed_shares` of the shared items
    levels                   per level, how many prefixes of the old table were split (their items are now under
                             several), how many of the new one were merged (its items come from several), and how many
                             hold the same items as before, under the same name or another
    splits, merges           the largest `most` of each;   moved_items: the first `most` items that moved
    """
    if len(old.sizes) != len(new.sizes):
        raise InputError(f"these SIDs have {len(old.sizes)} and {len(new.sizes)} tokens; they cannot be compared")
    row = match(old.ids, new.ids)
    here = np.flatnonzero(row >= 0)
    before, after = old.codes[here], new.codes[row[here]]
    kept = np.logical_and.accumulate(before == after, axis=1).sum(axis=1)
    moved = np.flatnonzero(kept < before.shape[1])
    facts: dict[str, Any] = {
        "items": [len(old), len(new)],
        "shared": len(here),
        "added": len(new) - len(here),
        "removed": len(old) - len(here),
        "moved": len(moved),
        "tokens_kept": np.bincount(kept, minlength=before.shape[1] + 1).tolist(),
    }
    if not len(here):
        return facts | {"tokens": [], "prefixes": [], "levels": [], "splits": [], "merges": [], "moved_items": []}
    sizes = [max(pair) for pair in zip(old.sizes, new.sizes, strict=True)]
    levels, splits, merges = [], list[dict[str, Any]](), list[dict[str, Any]]()
    for level, numbers in enumerate(zip(prefix_numbers(before, sizes), prefix_numbers(after, sizes), strict=True)):
        pairs = _Pairs(*numbers)
        levels.append(pairs.counts())
        splits += pairs.several(0, level, before, after, old, new, most)
        merges += pairs.several(1, level, after, before, new, old, most)
    return (
        facts
        | changed_shares(before, after)
        | {
            "levels": levels,
            "splits": _largest(splits, most),
            "merges": _largest(merges, most),
            "moved_items": [
                {
                    "item_id": old.ids[int(here[at])].as_py(),
                    "old": old.write(before[at].tolist()),
                    "new": new.write(after[at].tolist()),
                    "tokens_kept": int(kept[at]),
                }
                for at in moved[:most]
            ],
        }
    )


class _Pairs:
    """The pairs of an old and a new prefix that items have, at one level."""

    def __init__(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        sides = [np.unique(side, return_inverse=True)[1].ravel() for side in (old, new)]
        both = sides[0] * (int(sides[1].max()) + 1) + sides[1]
        _, first, self.count = np.unique(both, return_index=True, return_counts=True)
        self.row = first  # an item of each pair
        self.side = [side[first] for side in sides]
        self.parts = [np.bincount(side) for side in self.side]  # pairs of every prefix

    def counts(self) -> dict[str, int]:
        alone = (self.parts[0][self.side[0]] == 1) & (self.parts[1][self.side[1]] == 1)
        return {
            "old": len(self.parts[0]),
            "new": len(self.parts[1]),
            "split": int((self.parts[0] > 1).sum()),
            "merged": int((self.parts[1] > 1).sum()),
            "same_items": int(alone.sum()),
        }

    def several(
        self, side: int, level: int, ours: Any, theirs: Any, named: SidTable, others: SidTable, most: int
    ) -> list[dict[str, Any]]:
        """The largest prefixes of one side whose items are under several of the other."""
        total = np.bincount(self.side[side], self.count)
        chosen = np.flatnonzero(self.parts[side] > 1)
        chosen = chosen[np.argsort(-total[chosen], kind="stable")][:most]
        found = []
        for prefix in chosen:
            pairs = np.flatnonzero(self.side[side] == prefix)
            pairs = pairs[np.argsort(-self.count[pairs], kind="stable")]
            parts = [
                {"prefix": others.write(theirs[self.row[at], : level + 1].tolist()), "items": int(self.count[at])}
                for at in pairs[:PARTS]
            ]
            name = named.write(ours[self.row[pairs[0]], : level + 1].tolist())
            found.append(
                {"level": level + 1, "prefix": name, "items": int(total[prefix]), "in": len(pairs), "parts": parts}
            )
        return found


def _largest(found: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: -one["items"])[:most]
