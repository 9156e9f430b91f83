"""A dictionary of keywords from a catalogue: which field, or which words of the titles, give which attribute type.

The eighteen types are OneSearch's. Its dictionary comes from a year of clicked pairs through entity recognition; this
one comes from the catalogue alone, by the rules in FEEDS. It is a table (keyword, type, count) that a user can edit
before it is used: a row that is deleted is no keyword any more, and a type that is wrong can be changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from ...errors import InputError, SpecError
from .attribute_words import ATTRIBUTE_WORDS, ATTRIBUTE_WORDS_ZH
from .words import normal

__all__ = ["FEEDS", "Feed", "dictionary"]

UNITS = "in|inch|inches|ft|feet|mm|cm|m|oz|lb|lbs|kg|g|gal|gallon|qt|l|ml|gb|tb|mb|mah|w|watt|watts|v|volt|volts|amp|hp"
UNITS += "|btu|pack|piece|pc"
UNITS_ZH = "毫米|厘米|米|寸|斤|公斤|千克|克|毫升|升|瓦|码|件|片|包|盒|瓶|袋|支|卷"
SIZE = re.compile(rf"\b\d+(?:[./]\d+)? ?(?:(?:{UNITS})\b|(?:{UNITS_ZH}))")
MODEL = re.compile(r"\b(?=\w*[a-z])(?=\w*\d)[a-z0-9]{4,}\b")
SHARED = 0.9  # of a series' titles, at least, are of one brand
LONGEST = 5  # words of a keyword, at most

Rows = list[dict[str, Any]]


class Feed(NamedTuple):
    """One line of the table: a type, the field it is read from, and how a value becomes keywords."""

    type: str
    field: str
    rule: str  # a name in RULES, for people
    example: str = ""


FEEDS = (
    Feed("Brand", "brand", "value", "Simpson Strong-Tie"),
    Feed("Anchor", "seller", "value", "the shop or host that sells it"),
    Feed("Entity", "category_3", "parts", "Hammer Drills; Cordless Drills"),
    Feed("Entity", "category_2", "parts"),
    Feed("Entity", "category_1", "parts"),
    Feed("Color", "color", "parts", "Browns / Tans, Tugboat"),
    Feed("Material", "material", "parts", "Galvanized Steel"),
    Feed("Specifications", "title", "sizes", "12 in, 1/2 gal, 64 gb"),
    Feed("Model", "title", "models", "sc141"),
    Feed("Series", "title", "series", "a word after the brand that goes with this brand alone"),
    *(Feed(name, "title", "words", "a list in attribute_words.py") for name in ATTRIBUTE_WORDS),
    Feed("Entity", "keywords", "values", "keywords that the catalogue has already"),
    Feed("Entity", "title", "ngrams", "frequent sequences of two or three words"),
    Feed("Modifier", "title", "unigrams", "frequent words that no line above has"),
)


def dictionary(items: Any, least: int = 5, most: int = 20_000, feeds: Iterable[Feed] = FEEDS) -> Any:
    """An Arrow table keyword, type, count (items that have it), from a catalogue: a table with a shop's columns.

    A keyword belongs to the first line of FEEDS that gives it. least: items that must have it; most: keywords at most,
    those of most items. Columns that a catalogue does not have are passed over.
    """
    if least < 1 or most < 1:
        raise SpecError(f"a dictionary needs least and most of at least 1, not {least} and {most}")
    columns = {"brand", "title", "keywords"} | {feed.field for feed in feeds}
    names = [name for name in items.column_names if name in columns]
    rows: Rows = items.select(names).to_pylist()
    chosen: dict[str, tuple[str, int]] = {}
    for feed in feeds:
        if feed.field not in names:
            continue
        for keyword, count in RULES[feed.rule](rows, feed).items():
            if count >= least and keyword not in chosen and 0 < len(keyword.split()) <= LONGEST:
                chosen[keyword] = feed.type, count
    if not chosen:
        raise InputError(f"no keyword occurs in {least} items; lower the least, or give a larger catalogue")
    ordered = sorted(chosen.items(), key=lambda one: (-one[1][1], one[0]))[:most]
    return pa.table(
        {
            "keyword": [keyword for keyword, _ in ordered],
            "type": [kind for _, (kind, _) in ordered],
            "count": pa.array([count for _, (_, count) in ordered], pa.int64()),
        }
    )


def _count(rows: Rows, keywords_of: Callable[[dict[str, Any]], Iterable[str]]) -> Counter[str]:
    """In how many rows every keyword occurs."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(keywords_of(row)))
    return counts


def _value(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: [normal(row[feed.field] or "")])


def _values(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: map(normal, row[feed.field] or ()))


def _parts(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: map(normal, re.split(r"[,;/>&|]", row[feed.field] or "")))


def _sizes(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: SIZE.findall(normal(row[feed.field] or "")))


def _models(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: MODEL.findall(normal(row[feed.field] or "")))


def _words(rows: Rows, feed: Feed) -> Counter[str]:
    listed = {normal(word) for word in ATTRIBUTE_WORDS[feed.type].split()}
    unspaced = ATTRIBUTE_WORDS_ZH[feed.type].split()

    def found(row: dict[str, Any]) -> Iterator[str]:
        title = normal(row[feed.field] or "")
        yield from listed.intersection(title.split())
        yield from (word for word in unspaced if word in title)

    return _count(rows, found)


def _series(rows: Rows, feed: Feed) -> Counter[str]:
    """Words that follow the brand in titles, and are in titles of hardly any other brand."""
    after: Counter[tuple[str, str]] = Counter()
    for row in rows:
        title, brand = normal(row[feed.field] or ""), normal(row.get("brand") or "")
        if brand and title.startswith(brand + " "):
            word = title[len(brand) + 1 :].partition(" ")[0]
            if word.isalpha() and len(word) > 2:
                after[word, brand] += 1
    titles = _count(rows, lambda row: normal(row[feed.field] or "").split())
    return Counter({word: count for (word, _), count in after.items() if count >= SHARED * titles[word]})


def _ngrams(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: _sequences(normal(row[feed.field] or "").split(), (2, 3)))


def _unigrams(rows: Rows, feed: Feed) -> Counter[str]:
    return _count(rows, lambda row: _sequences(normal(row[feed.field] or "").split(), (1,)))


def _sequences(words: list[str], lengths: tuple[int, ...]) -> Iterator[str]:
    """Sequences of n words that begin and end with a word of letters that is no filler and no unit."""
    for n in lengths:
        for start in range(len(words) - n + 1):
            ends = words[start], words[start + n - 1]
            if all(len(word) > 1 and word.isalpha() and word not in FILLERS for word in ends):
                yield " ".join(words[start : start + n])


FILLERS = {
    "a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "it", "no", "not", "of", "off", "on", "or", "set",
    "the", "to", "up", "with", "without", "sq", "cu", *UNITS.split("|"),
}  # fmt: skip
RULES: dict[str, Callable[[Rows, Feed], Counter[str]]] = {
    "value": _value,
    "values": _values,
    "parts": _parts,
    "sizes": _sizes,
    "models": _models,
    "words": _words,
    "series": _series,
    "ngrams": _ngrams,
    "unigrams": _unigrams,
}
