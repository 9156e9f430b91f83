"""Texts as words: what keyword matching and BM25 have in common."""

from __future__ import annotations

import re

__all__ = ["is_unspaced", "normal", "terms"]

UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese and Japanese, written without blanks
_WORD = re.compile(rf"\d+(?:[./]\d+)+|[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def normal(text: str) -> str:
    """Lower case, words separated by one blank, no punctuation: "1/2 in. Drill-Bit" -> "1/2 in drill bit"."""
    return " ".join(_WORD.findall(text.lower()))


def is_unspaced(character: str) -> bool:
    """Whether the character belongs to a script that has no blanks between words."""
    return _UNSPACED.match(character) is not None


def terms(text: str) -> list[str]:
    """The terms that BM25 counts: words; of Chinese and Japanese, where words are not marked, pairs of characters."""
    words_and_pairs = []
    for word in _WORD.findall(text.lower()):
        if len(word) > 2 and is_unspaced(word[0]):
            words_and_pairs += [word[i : i + 2] for i in range(len(word) - 1)]
        else:
            words_and_pairs.append(word)
    return words_and_pairs
