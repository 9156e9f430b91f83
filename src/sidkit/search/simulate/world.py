"""What the users and items of a simulated shop share: tastes, companions of categories, words of weak queries.

Tastes are vectors of one space. A person likes a brand, a colour or a category by the inner product of the two; the
vector of a person comes from gender, age and city, and a part that is personal. So a profile tells something of a
taste, and past clicks tell more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..grammar.vocabulary import leaves
from .draws import stream
from .items import brand_names

__all__ = ["AGES", "CITIES", "GENDERS", "World", "make_world"]

STYLE = 8  # dimensions of a taste
GENDERS = ("F", "M")
AGES = ("12-17", "18-23", "24-30", "31-40", "41-49", "50+")
CITIES = (
    *("Ambleford", "Brackwater", "Cindermouth", "Dunmarrow", "Eastholm", "Farrowgate", "Glimmerby", "Harrowick"),
    *("Inverlock", "Jasperton", "Kettlesby", "Lowmarsh", "Millhaven", "Northolt Bay", "Oldcastle", "Penharrow"),
    *("Quarrytown", "Ravensea", "Stonebridge", "Tidewell"),
)
FOR_HER, FOR_HIM = ("women", "girls", "ladies"), ("men", "boys", "gentlemen")
GIFTS = ("gift", "birthday gift", "christmas gift", "gift ideas", "present")
GIFT_SHARE = 0.3  # of categories that people give


@dataclass(frozen=True, eq=False)
class World:
    """L categories, B brands, W words of weak queries."""

    leaf_taste: NDArray[np.float32]  # (L, 8)
    brand_taste: NDArray[np.float32]  # (B, 8)
    colour_taste: NDArray[np.float32]  # (L, colours, 8), by the position of a colour in the category's list
    companion: NDArray[np.int64]  # (L,) the category that people look at next
    who: NDArray[np.int8]  # (L, values) whom an item is made for: 0 for her, 1 for him, -1 for anybody
    words: tuple[str, ...]  # of weak queries
    words_of_leaf: Any  # per category the words that lead to it
    leaves_of_word: Any  # per word the categories it leads to
    use_of_word: NDArray[np.int8]  # (W, L) the position of the word among the uses of a category, -1 where it is none


def make_world(seed: int) -> World:
    rng, all_leaves = stream(seed, "world"), leaves()
    colours = sorted({word for leaf in all_leaves for word in leaf.slots.get("colour", ())})
    leaf_taste = rng.normal(size=(len(all_leaves), STYLE))
    brand_taste = rng.normal(size=(len(brand_names()), STYLE))
    of_colour = dict(zip(colours, rng.normal(size=(len(colours), STYLE)), strict=True))
    most = max(len(leaf.slots.get("colour", ())) for leaf in all_leaves)
    colour_taste = np.zeros((len(all_leaves), most, STYLE))
    for number, leaf in enumerate(all_leaves):
        for at, word in enumerate(leaf.slots.get("colour", ())):
            colour_taste[number, at] = of_colour[word]
    words, per_leaf = _weak_words(rng)
    use = np.full((len(words), len(all_leaves)), -1, np.int8)
    for number, leaf in enumerate(all_leaves):
        for word in set(per_leaf[number]) & set(leaf.slots.get("use", ())):
            use[words.index(word), number] = leaf.slots["use"].index(word)
    positions = {word: i for i, word in enumerate(words)}
    return World(
        leaf_taste.astype(np.float32),
        brand_taste.astype(np.float32),
        colour_taste.astype(np.float32),
        _companions(rng),
        _made_for(),
        words,
        tuple(np.array([positions[word] for word in known]) for known in per_leaf),
        tuple(np.array([i for i, known in enumerate(per_leaf) if word in known]) for word in words),
        use,
    )


def _companions(rng: np.random.Generator) -> NDArray[np.int64]:
    """For each category another one of its department."""
    departments = [leaf.path.split(" > ")[0] for leaf in leaves()]
    companion = np.zeros(len(departments), np.int64)
    for number, name in enumerate(departments):
        others = [i for i, other in enumerate(departments) if other == name and i != number]
        companion[number] = rng.choice(others)
    return companion


def _made_for() -> NDArray[np.int8]:
    values = [leaf.slots.get("who", ()) for leaf in leaves()]
    table = np.full((len(values), max(map(len, values))), -1, np.int8)
    for number, words in enumerate(values):
        for at, word in enumerate(words):
            table[number, at] = 0 if word in FOR_HER else 1 if word in FOR_HIM else -1
    return table


def _weak_words(rng: np.random.Generator) -> tuple[tuple[str, ...], list[list[str]]]:
    """Words that lead to several categories: uses that they share, groups and departments, and gifts."""
    per_leaf = []
    for leaf in leaves():
        department, group, _ = leaf.path.split(" > ")
        known = [*leaf.slots.get("use", ()), group.lower(), department.lower()]
        known += [word for word in GIFTS if rng.random() < GIFT_SHARE]
        per_leaf.append(known)
    counts: dict[str, int] = {}
    for word in (word for known in per_leaf for word in set(known)):
        counts[word] = counts.get(word, 0) + 1
    words = tuple(sorted(word for word, count in counts.items() if count > 1))
    return words, [[word for word in dict.fromkeys(known) if counts[word] > 1] for known in per_leaf]
