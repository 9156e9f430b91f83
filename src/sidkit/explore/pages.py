"""The explorer's answers: plain values, never more than a page of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError
from ..sids.template import read_sid
from .catalogue import Catalogue, Side
from .lookup import Integers, Lookup, Missing, page_of, paged
from .prefixes import counterpart, members, node

__all__ = ["Asked", "Missing", "Pages"]

RESULTS = 25
NEAREST, SURPRISES = 100, 10


class Asked(NamedTuple):
    """The answer of a search model: the codes of the query, if it has a SID, and items with their probabilities."""

    codes: list[int] | None
    items: list[tuple[Any, float]]


class Pages:
    """The answers about one catalogue; the costly ones are cached. model: answers a query, if there is one."""

    def __init__(self, catalogue: Catalogue, model: Callable[[str], Asked] | None = None) -> None:
        self.catalogue, self.lookup, self.model = catalogue, Lookup(catalogue), model
        self.node = lru_cache(512)(partial(node, self.lookup))
        self.counterpart = lru_cache(64)(partial(counterpart, self.lookup))
        self.members = partial(members, self.lookup)

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
            "model": self.model is not None,
        }

    def require_sids(self, sizes: Sequence[int], sids: Mapping[str, Sequence[int]]) -> None:
        """An error unless the first side has these sizes and gives these items these codes: those of a search model."""
        side = next(iter(self.catalogue.sides.values()))
        rows = {item: self.catalogue.row_of(item) for item in sids}
        other = [item for item, row in rows.items() if row is None or side.codes_of(row) != list(sids[item])]
        if tuple(side.sizes) != tuple(sizes) or other:
            first = f", that of {other[0]!r} for one" if other else ""
            raise InputError(
                f"the search model writes other SIDs than {side.name} has{first}; explore sids.parquet of its folder"
            )

    def ask(self, query: str) -> dict[str, Any]:
        """The items that the search model finds for a query, best first."""
        if self.model is None:
            raise Missing("there is no search model; start with --search")
        if not query.strip():
            return {"query": query, "sid": None, "list": []}
        asked, side = self.model(query), next(iter(self.catalogue.sides.values()))
        items = [self.lookup.item(self.lookup.row(str(item))) | {"probability": p} for item, p in asked.items]
        sid = None if asked.codes is None else side.sid(asked.codes)
        prefix = asked.codes if asked.codes and side.tree.span(asked.codes) else None
        return {"query": query, "sid": sid, "prefix": prefix, "side": side.key, "list": items}

    def item(self, item: str) -> dict[str, Any]:
        """An item, its SID on every side, and the words that each token adds."""
        row = self.lookup.row(item)
        sides = {}
        for side in self.catalogue.sides.values():
            codes = side.codes_of(row)
            if codes is not None:
                sides[side.key] = {"sid": side.sid(codes), "prefix": codes, "path": self._explained(side, codes)}
        if len(sides) == 2:
            self._count_together(sides)
        return {"id": item, "text": self.lookup.text(row), "sides": sides, "near": self.catalogue.vectors is not None}

    def near(self, item: str, key: str) -> dict[str, Any]:
        """Items near by embedding but far by SID, and near by SID but far by embedding."""
        row, side, vectors = self.lookup.row(item), self.lookup.side(key), self.catalogue.vectors
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
            return [self.lookup.item(int(r), side, known) | {"cosine": float(cosine[r])} for r in rows[:SURPRISES]]

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
        catalogue, query = self.catalogue, query.strip()
        row = catalogue.row_of(query) if query else None
        rows = catalogue.words.find(query) if catalogue.words is not None else np.zeros(0, np.int64)
        if query and not len(rows):
            rows = np.flatnonzero(pc.starts_with(catalogue.ids, query).to_numpy(zero_copy_only=False))
        listed = [self.lookup.item(int(r)) for r in rows[page_of(len(rows), page, RESULTS)]]
        return {
            "query": query,
            "item": None if row is None else self.lookup.item(row),
            "prefixes": [step for side in catalogue.sides.values() for step in self._prefixes(side, query)],
            **paged(len(rows), page, RESULTS, listed),
        }

    def _explained(self, side: Side, codes: Sequence[int]) -> list[dict[str, Any]]:
        """Every token of a SID, how many items share it so far, and the words it adds."""
        steps, above = [], side.tree.rows
        for level in range(1, len(codes) + 1):
            rows = _rows(side, codes[:level])
            steps.append({**self.lookup.step(side, codes[:level]), "words": self.lookup.apart(rows, above)})
            above = rows
        return steps

    def _count_together(self, sides: dict[str, Any]) -> None:
        """Adds to every prefix of one side how many of its items the other keeps together at the same depth."""
        for step, other in zip(sides["a"]["path"], sides["b"]["path"], strict=False):
            mine, theirs = (_rows(self.lookup.side(k), s["prefix"]) for k, s in (("a", step), ("b", other)))
            step["together"] = other["together"] = len(np.intersect1d(mine, theirs, assume_unique=True))

    def _mates(self, side: Side, codes: Sequence[int]) -> tuple[Integers, int]:
        """The items of the longest prefix that this item shares with any other, and its length."""
        for level in range(len(codes), 0, -1):
            rows = _rows(side, codes[:level])
            if len(rows) > 1:
                return rows, level
        return np.zeros(0, np.int64), 0

    def _prefixes(self, side: Side, query: str) -> list[dict[str, Any]]:
        """The prefix that a text is, in any of the known forms, if an item has it."""
        try:
            prefix = read_sid(query, side.template)
        except InputError:
            return []
        return [self.lookup.step(side, prefix) | {"side": side.key}] if side.tree.span(prefix) else []


def _rows(side: Side, prefix: Sequence[int]) -> Integers:
    return side.tree.rows[slice(*(side.tree.span(prefix) or (0, 0)))]


def _largest(values: NDArray[Any], without: int, count: int) -> Integers:
    """The indices of the largest values above -2, largest first, without one index."""
    values[without] = -2.0
    count = min(count, len(values) - 1)
    top = np.argpartition(-values, count)[:count]
    top = top[values[top] > -2.0]
    ordered: Integers = top[np.argsort(-values[top], kind="stable")]
    return ordered
