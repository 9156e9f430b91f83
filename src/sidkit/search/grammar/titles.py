"""Titles of products: a template filled with words, in title case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

__all__ = ["fill", "in_title_case", "slots_of", "words_of"]

SLOT = re.compile(r"\[([^\]{]*)\{(\w+)\}([^\]]*)\]|\{(\w+)\}")
SMALL_WORDS = ("and", "of", "in", "with")


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template with its slots filled; a part in brackets is left out where there is no word for its slot."""
    text = []
    for literal, before, slot, after in _pieces(template):
        text.append(literal)
        if slot in words:
            text += (before, words[slot], after)
    return " ".join("".join(text).split()).replace(" ,", ",")


@cache
def _pieces(template: str) -> tuple[tuple[str, str, str, str], ...]:
    """(literal text, text before a slot, slot, text after it) in order."""
    pieces, end = [], 0
    for match in SLOT.finditer(template):
        before, slot, after, required = match.groups()
        pieces.append((template[end : match.start()], before or "", slot or required, after or ""))
        end = match.end()
    return (*pieces, (template[end:], "", "", ""))


@cache
def slots_of(template: str) -> frozenset[str]:
    """The slots that a template has."""
    return frozenset(slot for _, _, slot, _ in _pieces(template)) - {""}


@cache
def words_of(phrase: str) -> frozenset[str]:
    """The different words of a phrase."""
    return frozenset(re.findall(r"\w+", phrase))


@cache
def in_title_case(phrase: str) -> str:
    """Title case that leaves numbers with their units, capitals and small words alone."""
    if phrase[0].isdigit():
        return phrase
    return " ".join(
        word if word in SMALL_WORDS or not word.islower() else re.sub(r"(^|-)\w", _upper, word)
        for word in phrase.split()
    )


def _upper(letter: re.Match[str]) -> str:
    return letter[0].upper()
