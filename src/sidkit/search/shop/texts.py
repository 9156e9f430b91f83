"""Texts of a shop: queries in one form, and what is embedded of an item."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["item_text", "normalise"]

BLANKS = r"[\s\p{Z}\x{1c}-\x{1f}\x{85}\x{200b}\x{feff}]+"  # the last two have no width


def normalise(texts: Any) -> Any:
    """Texts without blanks at their ends, and with one where there were several."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(texts.cast(pa.string()), BLANKS, " "))


def item_text(title: Any, brand: Any, *categories: Any) -> Any:
    """Title; brand; category > category > category, without what is missing."""
    return reduce(partial(_joined, "; "), (title, brand, reduce(partial(_joined, " > "), categories)))


def _joined(between: str, a: Any, b: Any) -> Any:
    """The two with something between them, or the one that is there. (Arrow's own "skip" loses rows of nulls alone.)"""
    return pc.coalesce(pc.binary_join_element_wise(a, b, between), a, b)
