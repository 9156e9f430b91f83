"""The log of a simulated shop, in blocks of a fixed number of searches: the same whatever is made at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..shop.lists import lists
from .behaviour import choose_targets, click, order, utilities
from .draws import stream, uniform
from .engine import SearchIndex, draw_targets, results
from .people import People, user_names
from .queries import type_queries
from .sessions import INTENTS, SearchRecords
from .world import World

__all__ = ["Scene", "draw_log"]

BLOCK = 4096  # searches
CHOICES = 8  # items among which a user finds the one to have in mind


@dataclass(frozen=True, eq=False)
class Scene:
    """All that a log is drawn from."""

    records: SearchRecords
    index: SearchIndex
    people: People
    world: World
    seed: int


def draw_log(scene: Scene, test_from: int) -> Iterator[Any]:
    """Tables in the layout of log.parquet, with rows of items for ids, and the intent of each search."""
    for block, start in enumerate(range(0, len(scene.records), BLOCK)):
        yield _block(scene, scene.records.part(start, start + BLOCK), stream(scene.seed, "log", block), test_from)


def _block(scene: Scene, records: SearchRecords, rng: np.random.Generator, test_from: int) -> Any:
    index, people, world, seed = scene.index, scene.people, scene.world, scene.seed
    target = _targets(scene, records)
    typed = type_queries(records, index.traits.words[target], people, world, rng)
    shown = results(index, records, typed, target, world, rng)
    relevance, taste = utilities(shown, records, typed, target, index, people, world, seed)
    clicked = click(shown, relevance, taste, rng)
    ordered = order(clicked, relevance, taste, rng)
    return pa.table(
        {
            "user": user_names(records.user.astype(np.int64)),
            "session": records.session.astype(np.int64),
            "time": records.time,
            "query": typed.texts,
            "shown": _lists(shown, shown >= 0),
            "clicked": _lists(shown, clicked),
            "ordered": _lists(shown, ordered),
            "split": np.where(records.time >= test_from, "test", "train"),
            "intent": pa.array(INTENTS).take(pa.array(records.intent)),
        }
    )


def _targets(scene: Scene, records: SearchRecords) -> NDArray[np.int32]:
    """The item that the user of each search has in mind: one for the whole session."""
    drawn = [uniform(scene.seed, "target", records.session, k) for k in range(2 * CHOICES)]
    u = np.stack(drawn, axis=1)
    candidates = draw_targets(scene.index, records.leaf.astype(np.int64), u[:, :CHOICES])
    return choose_targets(candidates, records.user, u[:, CHOICES:], scene.index, scene.people, scene.world, scene.seed)


def _lists(rows: NDArray[np.int32], which: NDArray[np.bool_]) -> Any:
    return lists(pa.array(rows[which]), which.sum(axis=1))
