"""The tables of a shop, their columns and types."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

__all__ = ["FACTS", "FORMAT", "OPTIONAL", "TABLES", "VERSION", "Keys", "is_key", "schema"]

FORMAT, VERSION, FACTS = "sidkit-shop", 1, "shop.json"

_PAIRS = {
    "query_id": pa.int64(),
    "query": pa.string(),
    "item_id": "item",
    "user": "user",
    "session": "session",
    "time": pa.int64(),
    "intent": pa.string(),
}

# A type that is a word is the type of the ids of items, users or sessions: strings or integers, one in all tables.
TABLES: dict[str, dict[str, Any]] = {
    "items": {
        "item_id": "item",
        **dict.fromkeys(("title", "brand", "seller", "category_1", "category_2", "category_3"), pa.string()),
        "price": pa.float64(),
        "keywords": pa.list_(pa.string()),
        "text": pa.string(),
    },
    "log": {
        "user": "user",
        "session": "session",
        "time": pa.int64(),
        "query": pa.string(),
        **dict.fromkeys(("shown", "clicked", "ordered"), "items"),
        "split": pa.string(),
    },
    "users": {"user": "user"},
    "counters": {"item_id": "item", **dict.fromkeys(("shown", "clicked", "ordered"), pa.int64())},
    "queries": {
        "query_id": pa.int64(),
        "query": pa.string(),
        **dict.fromkeys(("train_records", "test_records"), pa.int64()),
    },
    "click": _PAIRS,
    "order": _PAIRS,
    "relevance": {
        **dict.fromkeys(("query", "title", "brand", "seller", "attributes"), pa.string()),
        "score": pa.float64(),
    },
}
OPTIONAL = ("click", "order", "relevance")


class Keys(NamedTuple):
    """The types of ids: strings or 64-bit integers."""

    item: Any
    user: Any = pa.string()
    session: Any = pa.int64()


def is_key(kind: Any) -> bool:
    """Whether a shop's ids can have this type."""
    return bool(kind in (pa.string(), pa.int64()))


def schema(table: str, keys: Keys) -> Any:
    """The Arrow schema of a table."""
    named = {"item": keys.item, "items": pa.list_(keys.item), "user": keys.user, "session": keys.session}
    return pa.schema([(name, named.get(kind, kind)) for name, kind in TABLES[table].items()])
