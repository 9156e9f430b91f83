"""Prefixes and items of a catalogue, looked up and described for several answers.

Words come from a sample of at most SAMPLE items of a prefix, evenly spaced in the order of SIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .catalogue import Catalogue, Side
from .tree import Tree

__all__ = ["Integers", "Lookup", "Missing", "Prefix", "page_of", "paged"]

Integers = NDArray[np.int64]
Prefix = tuple[int, ...]
SAMPLE = 1000


class Missing(Exception):
    """There is no such prefix, item or page."""


class Lookup:
    """Looks up sides, prefixes and items of one catalogue, and describes them as plain values."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def side(self, key: str) -> Side:
        if key not in self.catalogue.sides:
            raise Missing(f"there is no table {key!r}")
        return self.catalogue.sides[key]

    def run(self, key: str, prefix: Prefix) -> tuple[Side, Tree, int, int]:
        """The side, its tree, and the run of a prefix in it: from and to."""
        side = self.side(key)
        run = side.tree.span(prefix)
        if run is None:
            raise Missing(f"no item has the prefix {'-'.join(map(str, prefix))}")
        return side, side.tree, *run

    def row(self, item: str) -> int:
        row = self.catalogue.row_of(item)
        if row is None:
            raise Missing(f"there is no item {item!r}")
        return row

    def item(self, row: int, side: Side | None = None, known: int = 0) -> dict[str, Any]:
        """An item in a list, with its SID on this side, else on the first that has it.

        rest: the SID without its first `known` tokens, which the page shows already.
        """
        sides = [side] if side else list(self.catalogue.sides.values())
        item = {"id": self.catalogue.ids[row].as_py(), "text": self.text(row)}
        for one in sides:
            if (codes := one.codes_of(row)) is not None:
                rest = one.rest(codes, known)
                return item | {"sid": one.sid(codes), "rest": rest, "prefix": codes, "side": one.key}
        return item

    def text(self, row: int) -> str | None:
        return None if self.catalogue.texts is None else self.catalogue.texts[row].as_py()

    def step(self, side: Side, prefix: Sequence[int]) -> dict[str, Any]:
        """A prefix in a path."""
        low, high = side.tree.span(prefix) or (0, 0)
        token = side.token(len(prefix) - 1, prefix[-1])
        return {"prefix": list(prefix), "token": token, "sid": side.sid(prefix), "items": high - low}

    def shared(self, rows: Integers) -> list[str]:
        """The words most of these items have."""
        words = self.catalogue.words
        return words.counts.shared(_sample(rows), top=8) if words is not None else []

    def apart(self, rows: Integers, within: Integers) -> list[str]:
        """The words that distinguish these items from the others of a larger group."""
        words = self.catalogue.words
        if words is None or len(rows) == len(within):
            return []
        return words.counts.distinctive(_sample(rows), top=8, within=_sample(within))

    def contrast(self, groups: list[Integers]) -> list[list[str]]:
        """For each group, the words that distinguish it from the others."""
        words = self.catalogue.words
        if words is None:
            return [[] for _ in groups]
        return words.counts.contrast([_sample(rows) for rows in groups], top=5)


def _sample(rows: Integers) -> Integers:
    if len(rows) <= SAMPLE:
        return rows
    return rows[np.linspace(0, len(rows) - 1, SAMPLE).astype(np.int64)]


def page_of(total: int, page: int, size: int) -> slice:
    """The slice of a list that a page (from 0) shows; the first page may be empty."""
    if page < 0 or (page and page * size >= total):
        raise Missing(f"there is no page {page + 1}")
    return slice(page * size, (page + 1) * size)


def paged(total: int, page: int, size: int, listed: list[Any]) -> dict[str, Any]:
    """A page of a list as plain values."""
    return {"total": total, "page": page, "pages": -(-total // size), "list": listed}
