"""A shop of four items whose training examples can be written down by hand."""

from __future__ import annotations

from functools import cache

import numpy as np

from sidkit.search.training.context import past_of
from sidkit.search.training.stages import Corpus, Events
from sidkit.search.training.tokens import Tokens, train_bpe

SIZES = (4, 3, 2)
QUERIES = ("red mug", "lamp", "   ", "mug")
QUERY_CODES = ((0, 1, 0), (3, 2, 1), (1, 1, 1), (0, 0, 0))
TITLES = ("Red Mug", "Blue Mug", None, "Green Lamp")
ITEM_CODES = ((0, 1, 1), (0, 2, 0), (2, 0, 1), (3, 2, 0))
CATEGORIES = ("kitchen/mugs", "kitchen/mugs", "kitchen/pots", None)
PROFILES = ("female 30", "male 41")

# user, time, query, item; -1 is nobody, and an item that is not in the catalogue
LOG = (
    (0, 10, 0, 0),
    (0, 20, 3, 1),
    (0, 20, 3, 3),
    (0, 50, 1, 3),
    (1, 30, 3, 0),
    (-1, 40, 1, 3),
    (1, 60, 2, 2),
    (1, 70, 0, -1),
    (0, 90, 1, 2),
)


def column(number):
    return np.array([row[number] for row in LOG])


def events(user, time, query, item):
    """Events, given what the whole log contains of their users."""
    users, times, queries, items = (column(number) for number in range(4))
    return Events(
        query, item, user,
        clicks=past_of(user, time, users, times, items),
        queries=past_of(user, time, users, times, queries),
        others=past_of(query, time, queries, times, items),
    )  # fmt: skip


def corpus(**changes):
    query, item = column(2), column(3)
    plain = {
        "queries": QUERIES,
        "query_codes": np.array(QUERY_CODES),
        "titles": TITLES,
        "item_codes": np.array(ITEM_CODES),
        "categories": CATEGORIES,
        "profiles": PROFILES,
        "training_queries": np.arange(len(QUERIES)),
        "pairs": (query, item),
        "events": events(column(0), column(1), query, item),
    }
    return Corpus(**(plain | changes))


@cache
def words():
    texts = [*QUERIES, *(title or "" for title in TITLES), *(path or "" for path in CATEGORIES), *PROFILES]
    return train_bpe(
        [*texts, "user: queries: items: item: query: category of for", "查询 商品 类目 用户 最近 对应的"] * 3, 400
    )


def tokens(sizes=SIZES):
    return Tokens(words(), sizes)


def sid(codes):
    return "".join(f"<{letter}_{code}>" for letter, code in zip("abcde", codes, strict=False))


def sequence(rows, i):
    return rows.tokens[rows.starts[i] : rows.starts[i + 1]].tolist()


def sequences(rows):
    return [sequence(rows, i) for i in range(len(rows))]
