"""The users, times and categories of the searches in a simulated log, before any word or result.

A session belongs to one user and one category. The next session of a user stays in the category, goes on to its
companion, or turns to a category that the user likes. Within a session a search is at least as precise as the one
before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .draws import stream, uniform
from .people import People
from .world import World

__all__ = ["INTENTS", "SearchRecords", "draw_records"]

INTENTS = ("weak", "broad", "precise")
FIRST_INTENT = (0.25, 0.5, 0.25)  # of a session
REFINED = 0.4  # how often the next search of a session is more precise
LENGTH = 0.55  # chance that a search is the last of its session
STAYS, GOES_ON = 0.35, 0.15
SPAN = 90 * 86_400  # seconds that the log covers
CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class SearchRecords:
    """n searches in the order of time, 19 bytes each; session numbers rise with the start of the session."""

    time: NDArray[np.int64]
    user: NDArray[np.int32]
    session: NDArray[np.int32]
    leaf: NDArray[np.int8]
    intent: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.time)

    def part(self, start: int, stop: int) -> SearchRecords:
        """Some of them."""
        names = ("time", "user", "session", "leaf", "intent")
        return SearchRecords(*(getattr(self, name)[start:stop] for name in names))

    def within(self, leaves: NDArray[np.int8]) -> SearchRecords:
        """The same, with searches in categories without items turned to others. leaves: (l,) sorted, with items."""
        at = np.searchsorted(leaves, self.leaf) % len(leaves)
        return replace(self, leaf=leaves[at])


def draw_records(n: int, people: People, world: World, shares: NDArray[np.float64], seed: int) -> SearchRecords:
    """n searches; shares: (L,) how many items each category has."""
    lengths = np.minimum(stream(seed, "lengths").geometric(LENGTH, size=n), 6)
    sessions = int(np.searchsorted(np.cumsum(lengths), n)) + 1
    lengths = lengths[:sessions]
    lengths[-1] -= lengths.sum() - n
    rng = stream(seed, "sessions")
    start = np.sort(rng.integers(0, SPAN, size=sessions))
    user = np.searchsorted(people.activity, rng.random(sessions), side="right").astype(np.int32)
    leaf = _leaves(user, people, world, shares, seed)
    session = np.repeat(np.arange(sessions, dtype=np.int32), lengths)
    step = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # position within the session
    wait = np.where(step > 0, stream(seed, "times").integers(8, 180, size=n), 0)
    intent = _intents(session, step, seed)
    time = np.repeat(start, lengths) + _within(wait, lengths)
    order = np.argsort(time, kind="stable")
    session = session[order]
    return SearchRecords(time[order], user[session], session, leaf[session], intent[order])


def _within(values: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cumulative sums that start anew in every session."""
    total = np.cumsum(values)
    sums: NDArray[np.int64] = total - np.repeat(total[np.cumsum(lengths) - lengths], lengths)
    return sums


def _intents(session: NDArray[np.int32], step: NDArray[np.int64], seed: int) -> NDArray[np.int8]:
    first = np.searchsorted(np.cumsum(FIRST_INTENT)[:-1], uniform(seed, "intents", session))
    rows = np.arange(len(session))
    refined = np.where(step > 0, uniform(seed, "refine", rows) < REFINED, False).astype(np.int64)
    starts = np.flatnonzero(step == 0)
    lengths = np.diff(np.append(starts, len(session)))
    intent: NDArray[np.int64] = np.minimum(first + _within(refined, lengths), len(INTENTS) - 1)
    return intent.astype(np.int8)


def _leaves(
    user: NDArray[np.int32], people: People, world: World, shares: NDArray[np.float64], seed: int
) -> NDArray[np.int8]:
    """The category of each session, (sessions,)."""
    leaf = _liked(user, people, world, shares, seed)
    move = stream(seed, "leaves").random(len(user))
    order = np.argsort(user, kind="stable")  # sessions of one user after the other, each in the order of time
    counts = np.bincount(user, minlength=len(people))
    turn = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    for begin, end in pairwise(ends.tolist()):  # all users' second sessions, then their third ones, ...
        at = by_turn[begin:end]
        here, before = order[at], leaf[order[at - 1]]
        stays, goes = move[here] < STAYS, move[here] < STAYS + GOES_ON
        leaf[here] = np.where(stays, before, np.where(goes, world.companion[before], leaf[here]))
    return leaf


def _liked(
    user: NDArray[np.int32], people: People, world: World, shares: NDArray[np.float64], seed: int
) -> NDArray[np.int8]:
    """A category for each session, by its size and the user's taste."""
    u = stream(seed, "leaves", 1).random(len(user))
    leaf = np.empty(len(user), np.int8)
    for start in range(0, len(user), CHUNK):
        part = slice(start, start + CHUNK)
        weight = shares**0.7 * np.exp(1.1 * people.style[user[part]] @ world.leaf_taste.T)
        total = np.cumsum(weight, axis=1)
        leaf[part] = (total < u[part, None] * total[:, -1:]).sum(axis=1)
    return leaf
