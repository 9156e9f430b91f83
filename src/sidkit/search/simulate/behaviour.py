"""The clicks and orders of simulated users.

    P(click at rank r) = examined(r) * sigmoid(relevance + taste - 1.9)      examined(r) = (1 + r)^-0.6, r = 0, 1, ...
    P(order | click)   = sigmoid(0.8 * taste + 0.8 * relevance - 3.8)

Relevance compares the item with the one that the user has in mind: words that were typed count most, words that were
not typed count the less the weaker the intent. Taste is brand, colour and category by the user's style, the price by
the budget, whom the item is made for, and a quality that everybody sees and no column tells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .draws import gaussian
from .engine import SearchIndex
from .items import SLOTS
from .people import People
from .queries import Typed
from .sessions import INTENTS, SearchRecords
from .world import World

__all__ = ["choose_targets", "click", "order", "utilities"]

EXAMINED = 0.6
TYPED, DIFFERS = 0.8, 0.9  # what a word that was typed is worth where it is met, and costs where it is not
UNTYPED = {"precise": 0.35, "broad": 0.15, "weak": 0.0}
SAME_LEAF = {"precise": 0.0, "broad": 0.0, "weak": 1.6}
EXACT = {"precise": 1.6, "broad": 0.3, "weak": 0.0}
EASILY = {"precise": -0.6, "broad": 0.3, "weak": 0.8}  # the less is typed, the more is worth a look
LEAF, BRAND, WHO, COLOUR = (SLOTS.index(name) for name in ("leaf", "brand", "who", "colour"))


def choose_targets(
    candidates: NDArray[np.int32], user: NDArray[np.int32], u: NDArray[np.float64], index: SearchIndex, people: People,
    world: World, seed: int,
) -> NDArray[np.int32]:  # fmt: skip
    """The item that each user has in mind: of (n, m) candidates the one they like best, with some chance."""
    liked = _taste(candidates, user, index, people, world, seed) - 0.7 * np.log(-np.log(u))
    return np.take_along_axis(candidates, liked.argmax(axis=1)[:, None], axis=1)[:, 0]


def utilities(
    shown: NDArray[np.int32], records: SearchRecords, typed: Typed, target: NDArray[np.int32], index: SearchIndex,
    people: People, world: World, seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """(relevance, taste) of every result: (n, 20) each."""
    words, wanted = index.traits.words[shown], index.traits.words[target]
    same_leaf = words[..., LEAF] == records.leaf[:, None]
    same = (words == wanted[:, None]) & (wanted >= 0)[:, None] & same_leaf[..., None]
    attributes = np.array([slot not in ("leaf", "noun") for slot in SLOTS])
    of_typed = (typed.slots & attributes).astype(np.float32)
    untyped = (~typed.slots & attributes & (wanted >= 0)).astype(np.float32)
    met = np.einsum("nms,ns->nm", same.astype(np.float32), of_typed)
    also = np.einsum("nms,ns->nm", same.astype(np.float32), untyped)
    factor = {name: np.array([table[one] for one in INTENTS])[records.intent][:, None] for name, table in
              (("untyped", UNTYPED), ("leaf", SAME_LEAF), ("exact", EXACT), ("easily", EASILY))}  # fmt: skip
    relevance = TYPED * met - DIFFERS * (of_typed.sum(axis=1)[:, None] - met) + factor["untyped"] * also
    relevance += factor["easily"] + factor["leaf"] * (same_leaf - 0.5) + factor["exact"] * (shown == target[:, None])
    return relevance, _taste(shown, records.user, index, people, world, seed)


def _taste(
    items: NDArray[np.int32], user: NDArray[np.int32], index: SearchIndex, people: People, world: World, seed: int
) -> NDArray[np.float64]:
    words, style = index.traits.words[items], people.style[user][:, None]
    leaf, colour, who = words[..., LEAF], words[..., COLOUR], words[..., WHO]
    brand = (world.brand_taste[words[..., BRAND]] * style).sum(axis=-1)
    tint = (world.colour_taste[leaf, np.maximum(colour, 0)] * style).sum(axis=-1) * (colour >= 0)
    sort = (world.leaf_taste[leaf] * style).sum(axis=-1)
    made_for = np.where(who >= 0, world.who[leaf, np.maximum(who, 0)], -1)
    fits = np.where(made_for < 0, 0.0, np.where(made_for == people.gender[user][:, None], 0.5, -1.0))
    price = -0.35 * (index.traits.price[items] - people.budget[user][:, None]) ** 2
    quality = gaussian(seed, "quality", items)
    taste: NDArray[np.float64] = 1.1 * brand + 0.6 * tint + 0.3 * sort + fits + price + 0.35 * quality
    return taste


def click(
    shown: NDArray[np.int32], relevance: NDArray[np.float64], taste: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which results are clicked, (n, 20)."""
    examined = (1.0 + np.arange(shown.shape[1])) ** -EXAMINED
    chance = examined / (1 + np.exp(1.9 - relevance - taste))
    clicked: NDArray[np.bool_] = (rng.random(shown.shape) < chance) & (shown >= 0)
    return clicked


def order(
    clicked: NDArray[np.bool_], relevance: NDArray[np.float64], taste: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which of the clicked results is ordered, (n, 20): at most one of a search."""
    chance = 1 / (1 + np.exp(3.8 - 0.8 * relevance - 0.8 * taste))
    ordered = clicked & (rng.random(clicked.shape) < chance)
    first = np.zeros_like(ordered)
    rows = np.flatnonzero(ordered.any(axis=1))
    first[rows, ordered[rows].argmax(axis=1)] = True
    return first
