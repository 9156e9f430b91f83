"""A simulated shop catalogue: products drawn from a small grammar, some of them in several variants.

The sizes of the categories fall like Zipf's law.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import SpecError
from .product import DRAWS, draw_product
from .vocabulary import leaves

__all__ = ["catalogue"]

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
        made = draw_product(categories[number], iter(rng.random(DRAWS).tolist()))
        items += [(made.title(one), made.leaf.path, made.brand, made.price(one)) for one in made.variants]
    return items[:n]
