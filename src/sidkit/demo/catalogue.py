"""A made-up shop catalogue: products drawn from a small grammar, some of them in several variants.

A product has a category, a brand and a few attributes of that category; its variants differ in colour, size or amount
alone. The sizes of categories follow Zipf's law, and earlier words of a list are drawn more often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..errors import SpecError
from .vocabulary import HOUSE_BRANDS, TEMPLATES, Leaf, leaves

__all__ = ["catalogue"]

# The probability that a title mentions an attribute.
MENTIONED = {"kind": 0.9, "material": 0.6, "who": 0.7, "use": 0.7, "trait": 0.8, "part": 0.6, "model": 0.5}
VARYING = ("colour", "size", "amount")
POSSESSIVE = {"women": "women's", "men": "men's", "kids": "kids'", "boys": "boys'", "girls": "girls'"}
TIERS = (0.8, 1.0, 1.3)
ENDINGS = (0.99, 0.49, 0.95, 0.0)
DRAWS = 32  # random numbers reserved for each product
OPTIONAL = re.compile(r"\[([^\]{]*\{(\w+)\}[^\]]*)\]")

Item = tuple[str, str, str, float]  # title, category, brand, price


def catalogue(n: int = 20_000, seed: int = 0) -> Any:
    """A pyarrow table of n items: item_id, title, category, brand, price. The same seed gives the same table."""
    if n < 1:
        raise SpecError(f"cannot make a catalogue of {n} items; ask for at least 1")
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    items = _items(n, rng)
    shuffled = [items[i] for i in rng.permutation(n)]
    titles, categories, brands, prices = zip(*shuffled, strict=True)
    return pa.table(
        {
            "item_id": [f"P{i:06d}" for i in range(1, n + 1)],
            "title": titles,
            "category": categories,
            "brand": brands,
            "price": pa.array(prices, pa.float64()),
        }
    )


def _items(n: int, rng: np.random.Generator) -> list[Item]:
    categories = leaves()
    share = 1.0 / np.arange(1, len(categories) + 1) ** 0.7
    chosen = rng.choice(rng.permutation(len(categories)), size=n, p=share / share.sum())
    items: list[Item] = []
    for number in chosen.tolist():
        if len(items) >= n:
            break
        items.extend(_product(categories[number], iter(rng.random(DRAWS).tolist())))
    return items[:n]


def _product(leaf: Leaf, draws: Iterator[float]) -> list[Item]:
    """One product, in all its variants."""
    brand = _pick(HOUSE_BRANDS, next(draws)) if next(draws) < 0.08 else _pick(leaf.brands, next(draws), 2.2)
    template = TEMPLATES[int(len(TEMPLATES) * next(draws))]
    base = leaf.price[0] * (leaf.price[1] / leaf.price[0]) ** (0.6 * next(draws) + 0.3 * next(draws))
    base *= TIERS[len(brand) % len(TIERS)]
    ending = _pick(ENDINGS, next(draws), 2.0)

    words = {"brand": brand, **_attributes(leaf, draws)}
    varying = [slot for slot in VARYING if slot in leaf.slots]
    first = {slot: int(len(leaf.slots[slot]) * next(draws) ** 1.3) for slot in varying}
    axis = varying[int(len(varying) * next(draws))] if varying else ""
    wanted = 2 + int(4 * next(draws)) if next(draws) < 0.4 else 1

    items = []
    for step in range(min(wanted, len(leaf.slots.get(axis, ("",))))):
        option = {slot: (at + step * (slot == axis)) % len(leaf.slots[slot]) for slot, at in first.items()}
        words |= {slot: _cased(leaf.slots[slot][at]) for slot, at in option.items()}
        price = max(1.0, float(int(base * (1 + 0.4 * option.get("amount", 0))))) + ending
        items.append((_fill(template, words), leaf.path, brand, round(price, 2)))
    return items


def _attributes(leaf: Leaf, draws: Iterator[float]) -> dict[str, str]:
    """The words that all variants share. An attribute that would repeat a word is left out."""
    words = {"noun": _pick(leaf.slots["noun"], next(draws))}
    used = set(re.findall(r"\w+", words["noun"]))
    for slot, often in MENTIONED.items():
        mention, u = next(draws), next(draws)
        if slot not in leaf.slots or mention > often:
            continue
        word = _pick(leaf.slots[slot], u)
        parts = re.findall(r"\w+", word)
        if used.isdisjoint(parts):
            words[slot] = word
            used.update(parts)
    if "model" in words:
        digits = iter(f"{next(draws):.6f}"[2:])
        words["model"] = re.sub("#", lambda _: next(digits), words["model"])
    if words.get("who") in POSSESSIVE:
        words["whose"] = POSSESSIVE[words["who"]]
    return {slot: _cased(word) for slot, word in words.items()}


def _pick(values: tuple[Any, ...], u: float, skew: float = 1.4) -> Any:
    """One of the values; the larger the skew, the more often an early one."""
    return values[int(len(values) * u**skew)]


def _fill(template: str, words: dict[str, str]) -> str:
    filled = OPTIONAL.sub(lambda part: part[1] if part[2] in words else "", template)
    return " ".join(filled.format_map(words).split()).replace(" ,", ",")


@cache
def _cased(phrase: str) -> str:
    """Title case, except for numbers with their units, capitals and small words."""
    if phrase[0].isdigit():
        return phrase
    return " ".join(
        word if word in ("and", "of", "in", "with") or not word.islower() else re.sub(r"(^|-)\w", _upper, word)
        for word in phrase.split()
    )


def _upper(letter: re.Match[str]) -> str:
    return letter[0].upper()
