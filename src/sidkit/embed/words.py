"""The words of texts, and how often they occur. A text may be None, which counts as empty."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..errors import InputError

__all__ = ["IDEOGRAPH", "STOP", "checked", "counts", "tokens", "words"]

IDEOGRAPH = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e01-\u0e4e"  # vowel signs and accents are not \w to `re`
LETTER = rf"(?:[^\W_{IDEOGRAPH}]|[{MARKS}])"
WORD = re.compile(rf"[{IDEOGRAPH}]|\d+\.\d+{LETTER}*|(?!(?<=\w['’])s\b){LETTER}+(?:-{LETTER}+)*")
STOP_WORDS = """
    a an and are as at be by for from has have in into is it its no not of on or that the their this to was were
    will with you your
"""
STOP = frozenset(STOP_WORDS.split())

Integers = NDArray[np.int64]


def words(text: str) -> list[str]:
    """The words of a text, lower-cased, without a few English stop words.

    A Chinese character or a Japanese kana is a word by itself; usb-c and 1.5l stay together; a possessive 's is
    dropped.
    """
    return [word for word in WORD.findall(unicodedata.normalize("NFKC", text).lower()) if word not in STOP]


def tokens(texts: Iterable[str | None]) -> tuple[Integers, Integers, list[str], int]:
    """All words of all texts: (index of each word, row of each word, the vocabulary, number of texts).

    The vocabulary is sorted by frequency, then alphabetically.
    """
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    flat, lengths = array("q"), array("q")
    for text in checked(texts):
        row = [index[word] for word in words(text or "")]
        flat.extend(row)
        lengths.append(len(row))
    seen = np.array(flat, np.int64)
    names = list(index)
    frequency = np.bincount(seen, minlength=len(names))
    order = sorted(range(len(names)), key=lambda i: (-frequency[i], names[i]))
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank[seen], np.repeat(np.arange(len(lengths)), lengths), [names[i] for i in order], len(lengths)


def counts(rows: Integers, terms: Integers, n: int, v: int) -> Any:
    """How often each of n rows has each of v terms: (n, v) csr."""
    return sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, terms)), shape=(n, v))


def checked(texts: Iterable[str | None]) -> Iterable[str | None]:
    """The texts, if they are not a single string."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings, not one string; put it in a list")
    return texts
