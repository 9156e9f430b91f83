"""Amazon reviews and metadata of 2014: who reviewed what in which order, and five fields of text per item."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...progress import Progress, Silent
from ..listing import readable
from .core import Collected, core_of, require_core
from .lines import BadLines, parse_object, read_lines
from .write import ItemText, write_dataset

__all__ = ["item_text", "read_amazon"]

REVIEW = ("reviewerID", "asin", "unixReviewTime")
FIELDS = ("title", "price", "salesRank", "brand", "categories")
ASIN = re.compile(rb"""\{\s*(["'])asin\1\s*:\s*(["'])([\w-]+)\2""")  # the first field of most lines


def read_amazon(
    reviews: Path,
    metadata: Path,
    output: Path,
    least: int = 5,
    bad: BadLines | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write items.parquet and sequences.parquet to a folder; the counts.

    Both files are read once, line by line. In memory are 16 bytes per review, the ids, and the texts of the items that
    are kept. least: events that every user and item has; 1 keeps all.
    """
    require_core(least)
    for path in (reviews, metadata):
        with readable(path), path.open("rb"):
            pass
    bad, progress = bad or BadLines(), progress or Silent()
    events = _read_reviews(reviews, bad, progress)
    kept = core_of(events, least)
    texts = _read_metadata(metadata, set(kept.item_ids), bad, progress)
    missing = [item for item in kept.item_ids if item not in texts]
    if len(missing) == len(kept.item_ids):
        raise InputError(
            f"{metadata} has none of the {len(missing):,} items of {reviews} (the first is {missing[0]!r}); "
            "are the two files of the same category?"
        )
    facts = {
        "source": "amazon",
        "core": least,
        "read": {"users": len(events.users), "items": len(events.items), "interactions": len(events)},
        "items_without_metadata": len(missing),
        "bad_lines": len(bad.found),
    }
    return write_dataset(output, kept, dict.fromkeys(missing, item_text({})) | texts, facts)


def item_text(fields: dict[str, Any]) -> ItemText:
    """The text of an item as the public pipeline embeds it: five fields, a line each, None for a missing one.

    'title':Gloom
     'price':19.99
     'salesRank':{'Toys & Games': 7}
     'brand':None
     'categories':[['Toys & Games', 'Games']]
    """
    text = "\n ".join(f"'{name}':{fields.get(name)}" for name in FIELDS)
    title, brand = (str(fields[name]) if fields.get(name) else None for name in ("title", "brand"))
    return ItemText(text, title, brand, _category(fields.get("categories")))


def _category(paths: Any) -> str | None:
    """The first path of categories, as `sidkit judge` reads it: Toys & Games > Games."""
    first = paths[0] if isinstance(paths, list) and paths else None
    return " > ".join(map(str, first)) if isinstance(first, list) and first else None


def _read_reviews(path: Path, bad: BadLines, progress: Progress) -> Collected:
    events = Collected()
    for number, line in read_lines(path, bad, progress, "reviews"):
        review = parse_object(line)
        if isinstance(review, str):
            bad.add(path, number, review)
            continue
        user: Any
        item: Any
        time: Any
        user, item, time = (review.get(name) for name in REVIEW)
        if not len(events) and user is None and item is not None:
            raise InputError(
                f"line {number} of {path} has no 'reviewerID' (fields: {', '.join(map(str, review))}); the reviews are "
                "the first file and the metadata the second: did you swap them?"
            )
        reason = _unusable(user, item, time)
        if reason:
            bad.add(path, number, reason)
        else:
            events.add(user, item, time)
    if not len(events):
        raise InputError(f"{path} holds no reviews")
    return events


def _unusable(user: Any, item: Any, time: Any) -> str:
    for name, value in zip(REVIEW, (user, item), strict=False):
        if not isinstance(value, str) or not value or not value.isascii():
            return f"has no text {name!r}"
    if not isinstance(time, int) or isinstance(time, bool) or abs(time) >= 1 << 63:
        return "has no whole number 'unixReviewTime'"
    return ""


def _read_metadata(path: Path, wanted: Container[str], bad: BadLines, progress: Progress) -> dict[str, ItemText]:
    """The texts of the wanted items; the first line of an item counts. Lines of other items are not parsed."""
    texts: dict[str, ItemText] = {}
    for number, line in read_lines(path, bad, progress, "metadata"):
        start = ASIN.match(line)
        if start and start[3].decode() not in wanted:
            continue
        fields = parse_object(line)
        if isinstance(fields, str):
            bad.add(path, number, fields)
        elif not isinstance(item := fields.get("asin"), str):
            bad.add(path, number, "has no text 'asin'")
        elif item in wanted and item not in texts:
            texts[item] = item_text(fields)
    return texts
