"""The items of a simulated shop, drawn from the grammar block by block.

A block is a fixed number of products, so that the first n items are the same however many are made at once. Every item
has a word for each attribute of its category; titles and keywords mention some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..grammar.product import DRAWS, draw_product
from ..grammar.vocabulary import HOUSE_BRANDS, leaves
from ..shop.texts import item_text
from .draws import stream

__all__ = ["SLOTS", "Traits", "brand_names", "draw_items", "leaf_shares"]

BLOCK = 2048  # products
# The columns of `Traits.words`: positions in the lists of words of an item's category, -1 where it has none.
SLOTS = ("leaf", "brand", "noun", "kind", "material", "who", "use", "trait", "part", "colour", "size", "amount")
ATTRIBUTES = SLOTS[3:]
RESELLERS = 300


@dataclass(frozen=True, eq=False)
class Traits:
    """The attributes of items, mentioned in their titles or not; 29 bytes per item.

    words: (n, 12) int8, one column per slot; mentioned: (n,) bit s is set where the title has a word for slot s;
    price: (n,) its position in the price range of the category, from about -1.5 to 1.5.
    """

    words: NDArray[np.int8]
    mentioned: NDArray[np.uint16]
    price: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def joined(cls, parts: list[Traits]) -> Traits:
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("words", "mentioned", "price")))


@cache
def brand_names() -> tuple[str, ...]:
    """All brands, those of the house first."""
    return tuple(dict.fromkeys([*HOUSE_BRANDS, *(name for leaf in leaves() for name in leaf.brands)]))


def leaf_shares(seed: int) -> NDArray[np.float64]:
    """The share of products that each category has: Zipf's law over a shuffled list."""
    share = 1.0 / np.arange(1, len(leaves()) + 1) ** 0.7
    shares: NDArray[np.float64] = (share / share.sum())[stream(seed, "categories").permutation(len(share))]
    return shares


def draw_items(n: int, seed: int) -> Iterator[tuple[Any, Traits]]:
    """The first n items of the shop of a seed: a table in the layout of items.parquet, and their traits, per block."""
    share, start, block = leaf_shares(seed), 0, 0
    while start < n:
        rows, traits = _block(share, seed, block)
        keep = stream(seed, "items", block).permutation(len(traits))[: n - start]
        chosen = [rows[i] for i in keep.tolist()]
        yield _table(chosen, start), Traits(traits.words[keep], traits.mentioned[keep], traits.price[keep])
        start += len(keep)
        block += 1


Row = tuple[str, str, str, tuple[str, ...], float, list[str]]  # title, brand, seller, categories, price, keywords


def _block(share: NDArray[np.float64], seed: int, block: int) -> tuple[list[Row], Traits]:
    rng = stream(seed, "products", block)
    chosen = rng.choice(len(share), size=BLOCK, p=share)
    draws, extra = rng.random((BLOCK, DRAWS)).tolist(), rng.random((BLOCK, 2 + len(ATTRIBUTES))).tolist()
    all_leaves, brands = leaves(), {name: i for i, name in enumerate(brand_names())}
    rows: list[Row] = []
    words: list[list[int]] = []
    mentioned: list[int] = []
    for number, numbers, further in zip(chosen.tolist(), draws, extra, strict=True):
        leaf = all_leaves[number]
        made = draw_product(leaf, iter(numbers))
        seller = f"{made.brand} Store" if further[0] < 0.5 else f"Reseller {int(further[1] ** 2 * RESELLERS):03d}"
        path, in_title = tuple(leaf.path.split(" > ")), made.mentioned()
        bits = sum(1 << s for s, slot in enumerate(SLOTS) if slot in in_title)
        for variant in made.variants:
            index = made.attributes | variant
            keywords = [
                leaf.slots[slot][index[slot]]
                for slot, u in zip(ATTRIBUTES, further[2:], strict=True)
                if slot in index and (slot in in_title or u < 0.5)
            ]
            rows.append((made.title(variant), made.brand, seller, path, made.price(variant), keywords))
            words.append([number, brands[made.brand], *(index.get(slot, -1) for slot in SLOTS[2:])])
            mentioned.append(bits)
    matrix = np.array(words, np.int8)
    return rows, Traits(matrix, np.array(mentioned, np.uint16), _price_positions(matrix[:, 0], rows))


def _price_positions(leaf: NDArray[np.int8], rows: list[Row]) -> NDArray[np.float32]:
    low, high = np.log(np.array([one.price for one in leaves()]))[leaf].T
    at: NDArray[np.float64] = (np.log([row[4] for row in rows]) - low) / (high - low)
    return (3 * at - 1.5).astype(np.float32)


def _table(rows: list[Row], start: int) -> Any:
    titles, brands, sellers, paths, prices, keywords = zip(*rows, strict=True)
    columns: dict[str, Any] = {
        "item_id": pa.array([f"P{i:08d}" for i in range(start + 1, start + len(rows) + 1)]),
        "title": pa.array(titles),
        "brand": pa.array(brands),
        "seller": pa.array(sellers),
    }
    columns |= {f"category_{level + 1}": pa.array([path[level] for path in paths]) for level in range(3)}
    columns |= {"price": pa.array(prices, pa.float64()), "keywords": pa.array(keywords, pa.list_(pa.string()))}
    text = item_text(columns["title"], columns["brand"], *(columns[f"category_{level}"] for level in (1, 2, 3)))
    return pa.table({**columns, "text": text})
