"""The simulated shop of the demo."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sidkit.demo import catalogue
from sidkit.demo.visits import visits
from sidkit.embed.text import embed_texts
from sidkit.embed.word_counts import WordCounts
from sidkit.errors import SpecError
from sidkit.search.grammar.vocabulary import TEMPLATES, leaves

SLOTS = {"noun", "kind", "material", "who", "use", "trait", "part", "model", "colour", "size", "amount"}


@pytest.fixture(scope="module")
def shop() -> pa.Table:
    return catalogue(5000, seed=0)


def column(table: pa.Table, name: str) -> np.ndarray:
    return np.array(table[name].to_pylist())


def test_a_seed_decides_the_catalogue():
    assert catalogue(300, seed=3).equals(catalogue(300, seed=3))
    assert not catalogue(300, seed=3).equals(catalogue(300, seed=4))


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_the_shop_has_the_requested_number_of_items(n):
    assert catalogue(n).num_rows == n


def test_a_catalogue_of_nothing_is_refused():
    with pytest.raises(SpecError, match="catalogue of 0 items; ask for at least 1"):
        catalogue(0)


def test_columns_have_the_promised_types(shop):
    text = ["item_id", "title", "category", "brand"]
    assert shop.schema == pa.schema([*((name, pa.string()) for name in text), ("price", pa.float64())])
    assert all(shop[name].null_count == 0 for name in shop.column_names)


def test_item_ids_are_unique(shop):
    ids = shop["item_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert ids[0] == "P000001"


def test_prices_are_positive_with_two_decimals(shop):
    prices = column(shop, "price")
    assert prices.min() > 0.9
    np.testing.assert_array_equal(prices, prices.round(2))


def test_titles_are_clean(shop):
    for title in shop["title"].to_pylist():
        assert not re.search(r"[\[\]{}#@]|  | ,|,,|^\W|[,|-]$", title), title
        assert not re.search(r"\b([a-zA-Z]{2,}) \1\b", title), title


def test_every_title_names_its_brand_and_its_thing(shop):
    nouns = {leaf.path: leaf.slots["noun"] for leaf in leaves()}
    for row in shop.to_pylist():
        assert row["brand"] in row["title"]
        assert any(noun.lower() in row["title"].lower() for noun in nouns[row["category"]])


def test_the_vocabulary_is_whole():
    paths = [leaf.path for leaf in leaves()]
    assert len(set(paths)) == len(paths) == 115
    assert len({path.split(" > ")[0] for path in paths}) == 12
    for leaf in leaves():
        assert leaf.path.count(" > ") == 2
        assert set(leaf.slots) <= SLOTS
        assert leaf.price[0] < leaf.price[1]
        assert all(value and "@" not in value for values in leaf.slots.values() for value in values)


def test_templates_name_only_known_slots():
    named = {slot for template in TEMPLATES for slot in re.findall(r"\{(\w+)\}", template)}
    assert named == SLOTS | {"brand", "whose"}


def test_category_sizes_fall_like_zipf(shop):
    sizes = [size for _, size in Counter(shop["category"].to_pylist()).most_common()]
    assert len(sizes) > 100
    assert sizes[0] > 5 * sizes[len(sizes) // 2]


def test_brands_keep_to_their_department(shop):
    departments = Counter(
        (brand, category.split(" > ")[0])
        for brand, category in zip(column(shop, "brand"), column(shop, "category"), strict=True)
    )
    seen = Counter(brand for brand, _ in departments)
    assert sorted(brand for brand, places in seen.items() if places > 1) == ["Cornerpost", "Dayfellow", "Plainpenny"]


def test_some_products_come_in_variants_with_almost_the_same_title(shop):
    colours = r"\b(Black|White|Grey|Silver|Graphite|Cream|Navy|Red|Blue|Beige|Mint|Charcoal)\b"
    stems = Counter(re.sub(colours, "*", title) for title in shop["title"].to_pylist())
    in_variants = sum(count for count in stems.values() if count > 1) / shop.num_rows
    assert 0.05 < in_variants < 0.5
    assert len(set(shop["title"].to_pylist())) > 0.98 * shop.num_rows


def test_nearest_neighbours_share_the_category_far_above_chance(shop):
    category = column(shop, "category")
    x = embed_texts(shop["title"].to_pylist(), d=64)
    cosine = x[:500] @ x.T
    np.fill_diagonal(cosine, -2)
    nearest = np.argsort(-cosine, axis=1)[:, :5]
    shares = (category[nearest] == category[:500, None]).mean()
    chance = (category[:500, None] == category).mean()
    assert shares > 0.85
    assert chance < 0.05


def test_a_category_has_its_own_words(shop):
    category = column(shop, "category")
    counts = WordCounts(shop["title"].to_pylist())
    expected = {
        "Home & Kitchen > Bathroom > Slippers": "slippers",
        "Electronics > Computing > Keyboards": "keyboard",
        "Clothing > Bottoms > Jeans": "jeans",
        "Pet Supplies > Cats > Cat Litter": "litter",
    }
    for path, word in expected.items():
        rows = np.flatnonzero(category == path)
        assert counts.distinctive(rows, top=1) == [word]
        assert word in counts.shared(rows)


def test_visitors_look_at_different_items_of_the_shop_and_a_seed_decides(shop):
    table = visits(shop, users=300, seed=1)
    lists = table["items"].to_pylist()
    known = set(shop["item_id"].to_pylist())
    assert 290 <= len(lists) <= 300
    assert all(len(items) >= 4 and len(set(items)) == len(items) and set(items) <= known for items in lists)
    assert table.equals(visits(shop, users=300, seed=1))
    assert not table.equals(visits(shop, users=300, seed=2))


def test_visitors_stay_in_a_category_far_more_often_than_chance(shop):
    category = dict(zip(shop["item_id"].to_pylist(), shop["category"].to_pylist(), strict=True))
    lists = [[category[item] for item in items] for items in visits(shop, users=300)["items"].to_pylist()]
    steps = [a == b for items in lists for a, b in pairwise(items)]
    chance = sum((count / shop.num_rows) ** 2 for count in Counter(category.values()).values())
    assert np.mean(steps) > 10 * chance
