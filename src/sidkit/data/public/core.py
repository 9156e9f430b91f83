"""Events of users and items as arrays, and the part of them in which everyone has at least five."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, SpecError

__all__ = ["Collected", "CoreEvents", "core_of", "require_core"]


@dataclass
class Collected:
    """Events as they are read: 16 bytes each, and the names of users and items once."""

    users: dict[str, int] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    user: Any = field(default_factory=lambda: array("i"))
    item: Any = field(default_factory=lambda: array("i"))
    time: Any = field(default_factory=lambda: array("q"))

    def add(self, user: str, item: str, time: int) -> None:
        self.user.append(self.users.setdefault(user, len(self.users)))
        self.item.append(self.items.setdefault(item, len(self.items)))
        self.time.append(time)

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True, eq=False)
class CoreEvents:
    """The events that are kept: users and items are numbered by their first event in the file.

    item, time: (events,) grouped by user, in time order; starts: (users + 1,) where each user begins.
    """

    user_ids: list[str]
    item_ids: list[str]
    item: NDArray[np.int32]
    time: NDArray[np.int64]
    starts: NDArray[np.int64]
    rounds: int  # how often users and items were left out until all had enough


def require_core(least: int) -> None:
    if least < 1:
        raise SpecError(f"--core {least} makes no sense; 5 keeps users and items with five events, 1 keeps all")


def core_of(events: Collected, least: int) -> CoreEvents:
    """The largest part in which every user and every item has at least this many events (the k-core).

    Leaving out a user can leave an item with too few, and the other way round, so it is repeated until nothing
    changes. Events of one user and one time keep the order of the file. There is at least one event.
    """
    user, item = np.frombuffer(events.user, np.int32), np.frombuffer(events.item, np.int32)
    kept = np.arange(len(user))
    rounds = 0
    while len(kept):
        enough = (np.bincount(user[kept]) >= least)[user[kept]] & (np.bincount(item[kept]) >= least)[item[kept]]
        if enough.all():
            break
        kept, rounds = kept[enough], rounds + 1
    if not len(kept):
        raise InputError(
            f"no user and item have {least} events each among {len(events):,} events; a smaller --core keeps more"
        )
    users, user_of = _by_first(user[kept])
    items, item_of = _by_first(item[kept])
    times = np.frombuffer(events.time, np.int64)[kept]
    order = np.lexsort((times, user_of))  # stable
    starts = np.concatenate([[0], np.cumsum(np.bincount(user_of))]).astype(np.int64)
    names = list(events.users), list(events.items)
    return CoreEvents(
        [names[0][one] for one in users], [names[1][one] for one in items], item_of[order], times[order], starts, rounds
    )


def _by_first(values: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The different values in the order of their first occurrence, and the index of each value among them."""
    different, first, index = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return different[order], place[index]
