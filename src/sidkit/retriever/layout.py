"""Batches of one fixed shape with hardly any padding.

The examples of a batch have lengths from 1 to 20 items; computing 20 for all of them would be mostly waste, and shapes
that change from batch to batch cannot be recorded once and replayed. So a batch is a stratified draw: the examples,
sorted by length, are cut into as many strata as a batch has slots, and every batch takes one from each. Slot k then
holds nearly the same length in every batch, so one packing of slots into rows, computed once, serves all of them.
Each example is seen once per epoch, as with plain shuffling; which ones meet in a batch is random within their strata.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heapreplace

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout"]


@dataclass(frozen=True, eq=False)
class Layout:
    """The position of each slot in the rows of a batch.

    length    (n,) items in the history of each example
    slot      (rows, width) the slot a token belongs to, `slots` where there is none
    item      (rows, width) the index of the item in that slot's history, oldest first
    level     (rows, width) the index of the token in that item's SID
    mine      (rows, targets) the slot that a target token belongs to, `slots` where there is none; a SID has `levels`
    """

    length: NDArray[np.int64]
    batches: int
    slots: int
    slot: NDArray[np.int64]
    item: NDArray[np.int64]
    level: NDArray[np.int64]
    mine: NDArray[np.int64]

    @classmethod
    def plan(cls, length: NDArray[np.int64], batch: int, history: int, levels: int) -> Layout:
        """The packing with the fewest computed tokens, for batches of about `batch` examples."""
        batches = max(1, -(-len(length) // batch))
        slots = -(-len(length) // batches)
        longest = np.zeros(batches * slots, np.int64)
        longest[batches * slots - len(length) :] = np.sort(length)  # empty slots count as the shortest
        caps = np.maximum(longest.reshape(slots, batches).max(1), 1)
        width = -(-history * levels // 16) * 16
        rows = min(
            (_pack(caps, width // levels, most) for most in range(1, 13)),
            key=lambda rows: len(rows) * (width + levels * max(map(len, rows))),  # tokens of both sides
        )
        most = max(map(len, rows))
        slot = np.full((len(rows), width), slots)
        item, level = np.zeros_like(slot), np.zeros_like(slot)
        mine = np.full((len(rows), -(-most * levels // 8) * 8), slots)  # multiples of 8 suit matrix units
        for row, members in enumerate(rows):
            at = 0
            for index, member in enumerate(members):
                size = caps[member] * levels
                slot[row, at : at + size] = member
                item[row, at : at + size] = np.arange(size) // levels
                level[row, at : at + size] = np.arange(size) % levels
                mine[row, index * levels : (index + 1) * levels] = member
                at += size
        return cls(np.asarray(length), batches, slots, slot, item, level, mine)

    def order(self, seed: int, epoch: int) -> NDArray[np.int32]:
        """(batches, slots + 1) the examples of every batch of an epoch; -1 is an empty slot, as the last always is."""
        rng = np.random.default_rng((seed, epoch))
        shuffled = rng.permutation(len(self.length))
        ranked = shuffled[np.argsort(self.length[shuffled].astype(np.int16), kind="stable")]
        empty = np.full(self.batches * self.slots - len(ranked), -1)
        grid = np.concatenate([empty, ranked]).reshape(self.slots, self.batches)
        batches = np.full((self.batches, self.slots + 1), -1, np.int32)
        batches[:, :-1] = rng.permuted(grid, axis=1).T
        return batches

    @property
    def fill(self) -> float:
        """The share of computed history tokens that are not padding."""
        levels = int(self.level.max()) + 1
        return float(self.length.sum() * levels / (self.batches * self.slot.size))


def _pack(caps: NDArray[np.int64], room: int, most: int) -> list[list[int]]:
    """Slots into few rows of `room` items and at most `most` slots: longest first, each into the emptiest row."""
    count = max(-(-int(caps.sum()) // room), -(-len(caps) // most))
    while (rows := _fit(caps, count, room, most)) is None:
        count += max(1, count // 200)
    return rows


def _fit(caps: NDArray[np.int64], count: int, room: int, most: int) -> list[list[int]] | None:
    """The slots in `count` rows, or None if they do not fit."""
    rows: list[list[int]] = [[] for _ in range(count)]
    left = [(-room, row) for row in range(count)]  # a heap
    for slot in np.argsort(-caps, kind="stable").tolist():
        if not left or -left[0][0] < caps[slot]:
            return None
        used, row = left[0]
        rows[row].append(slot)
        if len(rows[row]) == most:
            heappop(left)
        else:
            heapreplace(left, (used + int(caps[slot]), row))
    return rows
