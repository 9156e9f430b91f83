"""One product of the simulated shop: a category, a brand, attributes of the category, and the variants it is sold in.

A product has a word for every attribute of its category, but its title mentions only some of them. Variants differ in
colour, size or amount alone. Earlier words of a list are drawn more often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .titles import fill, in_title_case, slots_of, words_of
from .vocabulary import HOUSE_BRANDS, TEMPLATES, Leaf

__all__ = ["DRAWS", "MENTIONED", "VARYING", "Product", "draw_product"]

# How often a product's title mentions an attribute.
MENTIONED = {"kind": 0.9, "material": 0.6, "who": 0.7, "use": 0.7, "trait": 0.8, "part": 0.6, "model": 0.5}
VARYING = ("colour", "size", "amount")
POSSESSIVE = {"women": "women's", "men": "men's", "kids": "kids'", "boys": "boys'", "girls": "girls'"}
TIERS = (0.8, 1.0, 1.3)
ENDINGS = (0.99, 0.49, 0.95, 0.0)
DRAWS = 32  # random numbers set aside for each product


class Product(NamedTuple):
    """Indices are positions in the lists of words of the category (`leaf.slots`)."""

    leaf: Leaf
    brand: str
    template: str
    base: float  # price of the smallest amount, without the ending
    ending: float
    attributes: dict[str, int]  # noun and every attribute of the category, mentioned in the title or not
    words: dict[str, str]  # what the titles of all variants mention
    variants: list[dict[str, int]]  # colour, size and amount of each

    def title(self, variant: dict[str, int]) -> str:
        slots = self.leaf.slots
        return fill(self.template, self.words | {slot: in_title_case(slots[slot][i]) for slot, i in variant.items()})

    def mentioned(self) -> frozenset[str]:
        """The slots that the titles have a word for."""
        slots = slots_of(self.template)
        return frozenset(
            slot
            for slot in (*self.words, *self.variants[0])
            if slot in slots or (slot == "who" and "whose" in slots and "whose" in self.words)
        )

    def price(self, variant: dict[str, int]) -> float:
        return round(max(1.0, float(int(self.base * (1 + 0.4 * variant.get("amount", 0))))) + self.ending, 2)


def draw_product(leaf: Leaf, draws: Iterator[float]) -> Product:
    """A product of a category; `draws` gives at least DRAWS numbers in [0, 1)."""
    brand = _pick(HOUSE_BRANDS, next(draws)) if next(draws) < 0.08 else _pick(leaf.brands, next(draws), 2.2)
    template = TEMPLATES[int(len(TEMPLATES) * next(draws))]
    base = leaf.price[0] * (leaf.price[1] / leaf.price[0]) ** (0.6 * next(draws) + 0.3 * next(draws))
    base *= TIERS[len(brand) % len(TIERS)]
    ending = _pick(ENDINGS, next(draws), 2.0)

    attributes, words = _attributes(leaf, draws)
    varying = [slot for slot in VARYING if slot in leaf.slots]
    first = {slot: int(len(leaf.slots[slot]) * next(draws) ** 1.3) for slot in varying}
    axis = varying[int(len(varying) * next(draws))] if varying else ""
    wanted = 2 + int(4 * next(draws)) if next(draws) < 0.4 else 1
    variants = [
        {slot: (at + step * (slot == axis)) % len(leaf.slots[slot]) for slot, at in first.items()}
        for step in range(min(wanted, len(leaf.slots.get(axis, ("",)))))
    ]
    return Product(leaf, brand, template, base, ending, attributes, {"brand": brand, **words}, variants)


def _attributes(leaf: Leaf, draws: Iterator[float]) -> tuple[dict[str, int], dict[str, str]]:
    """All attributes by index, and those that the title mentions by word.

    The title leaves out an attribute that would repeat a word it already has.
    """
    attributes = {"noun": _index(len(leaf.slots["noun"]), next(draws))}
    words = {"noun": leaf.slots["noun"][attributes["noun"]]}
    used = words_of(words["noun"])
    for slot, often in MENTIONED.items():
        mention, u = next(draws), next(draws)
        if slot not in leaf.slots:
            continue
        attributes[slot] = _index(len(leaf.slots[slot]), u)
        word = leaf.slots[slot][attributes[slot]]
        if mention <= often and used.isdisjoint(words_of(word)):
            words[slot] = word
            used |= words_of(word)
    if "model" in words:
        digits = iter(f"{next(draws):.6f}"[2:])
        words["model"] = re.sub("#", lambda _: next(digits), words["model"])
    if words.get("who") in POSSESSIVE:
        words["whose"] = POSSESSIVE[words["who"]]
    return attributes, {slot: in_title_case(word) for slot, word in words.items()}


def _pick(values: tuple[Any, ...], u: float, skew: float = 1.4) -> Any:
    """One of the values, earlier ones more often the larger the skew."""
    return values[_index(len(values), u, skew)]


def _index(count: int, u: float, skew: float = 1.4) -> int:
    return int(count * u**skew)
