"""What the explorer answers: plain values, never more than a page of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError
from ..sids.template import read_sid
from .catalogue import Catalogue, Side
from .parts import Integers, Missing, Parts, page_of, paged
from .prefixes import beside, members, node

__all__ = ["Missing", "Pages"]

RESULTS = 25
NEAREST, SURPRISES = 100, 10


class Pages:
    """The answers about one catalogue; the costly ones are remembered."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.parts = catalogue, Parts(catalogue)
        self.node = lru_cache(512)(partial(node, self.parts))
        self.beside = lru_cache(64)(partial(beside, self.parts))
        self.members = partial(members, self.parts)

    def about(self) -> dict[str, Any]:
        sides = [
            {"key": s.key, "name": s.name, "items": len(s.rows), "sizes": s.sizes, "sids": len(s.tree.starts[-1])}
            for s in self.catalogue.sides.values()
        ]
        texts, vectors = self.catalogue.texts, self.catalogue.vectors
        return {
            "items": len(self.catalogue),
            "sides": sides,
            "texts": texts is not None,
            "embeddings": vectors is not None,
        }

    def item(self, item: str) -> dict[str, Any]:
        """An item, its SID on every side, and what each token of it says."""
        row = self.parts.row(item)
        sides = {}
        for side in self.catalogue.sides.values():
            codes = side.codes_of(row)
            if codes is not None:
                sides[side.key] = {"sid": side.sid(codes), "prefix": codes, "path": self._explained(side, codes)}
        if len(sides) == 2:
            self._count_together(sides)
        return {"id": item, "text": self.parts.text(row), "sides": sides, "near": self.catalogue.vectors is not None}

    def near(self, item: str, key: str) -> dict[str, Any]:
        """Items near by embedding but far by SID, and near by SID but far by embedding."""
        row, side, vectors = self.parts.row(item), self.parts.side(key), self.catalogue.vectors
        codes = side.codes_of(row)
        if vectors is None:
            raise Missing("there are no embeddings; start with --embeddings")
        if codes is None or not vectors[row].any():
            raise Missing(f"{item!r} has no SID here, or no embedding")
        cosine = vectors @ vectors[row]
        near = _largest(np.where(side.position >= 0, cosine, -2.0), row, NEAREST)
        shared = (side.codes[side.position[near]] == codes).cumprod(axis=1).sum(axis=1)
        mates, depth = self._mates(side, codes)
        mates = mates[(mates != row) & vectors[mates].any(axis=1)]
        odd = mates[np.argsort(cosine[mates], kind="stable")]

        def listed(rows: Integers, known: int = 0) -> list[dict[str, Any]]:
            return [self.parts.item(int(r), side, known) | {"cosine": float(cosine[r])} for r in rows[:SURPRISES]]

        return {
            "nearest": len(near),
            "sharing": [int((shared >= level).sum()) for level in range(1, len(codes) + 1)],
            "apart": listed(near[shared == 0]),
            "mates": len(mates),
            "depth": depth,
            "odd": listed(odd, depth),
        }

    def search(self, query: str, page: int = 0) -> dict[str, Any]:
        """An item by its id, a prefix by its SID, items by words of their texts, else by the start of their ids."""
        shown, query = self.catalogue, query.strip()
        row = shown.row_of(query) if query else None
        found = shown.words.find(query) if shown.words is not None else np.zeros(0, np.int64)
        if query and not len(found):
            found = np.flatnonzero(pc.starts_with(shown.ids, query).to_numpy(zero_copy_only=False))
        listed = [self.parts.item(int(r)) for r in found[page_of(len(found), page, RESULTS)]]
        return {
            "query": query,
            "item": None if row is None else self.parts.item(row),
            "prefixes": [step for side in shown.sides.values() for step in self._prefixes(side, query)],
            **paged(len(found), page, RESULTS, listed),
        }

    def _explained(self, side: Side, codes: Sequence[int]) -> list[dict[str, Any]]:
        """Every token of a SID, how many items are left after it, and the words it adds."""
        told, above = [], side.tree.rows
        for level in range(1, len(codes) + 1):
            rows = _rows(side, codes[:level])
            told.append({**self.parts.step(side, codes[:level]), "words": self.parts.apart(rows, above)})
            above = rows
        return told

    def _count_together(self, told: dict[str, Any]) -> None:
        """For every prefix on one side, how many of its items the other keeps together at the same depth."""
        for step, other in zip(told["a"]["path"], told["b"]["path"], strict=False):
            mine, theirs = (_rows(self.parts.side(k), s["prefix"]) for k, s in (("a", step), ("b", other)))
            step["together"] = other["together"] = len(np.intersect1d(mine, theirs, assume_unique=True))

    def _mates(self, side: Side, codes: Sequence[int]) -> tuple[Integers, int]:
        """The items of the longest prefix that this item shares with any other, and its length."""
        for level in range(len(codes), 0, -1):
            rows = _rows(side, codes[:level])
            if len(rows) > 1:
                return rows, level
        return np.zeros(0, np.int64), 0

    def _prefixes(self, side: Side, query: str) -> list[dict[str, Any]]:
        """The prefix that a text spells in any of the known forms, if some item has it."""
        try:
            prefix = read_sid(query, side.template)
        except InputError:
            return []
        return [self.parts.step(side, prefix) | {"side": side.key}] if side.tree.span(prefix) else []


def _rows(side: Side, prefix: Sequence[int]) -> Integers:
    return side.tree.rows[slice(*(side.tree.span(prefix) or (0, 0)))]


def _largest(values: NDArray[Any], without: int, many: int) -> Integers:
    """The places of the largest values above -2, largest first, but for one place."""
    values[without] = -2.0
    many = min(many, len(values) - 1)
    top = np.argpartition(-values, many)[:many]
    top = top[values[top] > -2.0]
    ordered: Integers = top[np.argsort(-values[top], kind="stable")]
    return ordered
