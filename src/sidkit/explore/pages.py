"""What the explorer answers: plain values, never more than a page of them.

Words come from a sample of at most SAMPLE items of a prefix, evenly spaced in the order of SIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..sids import TEMPLATES
from .catalogue import Catalogue, Side
from .tree import Tree

__all__ = ["Missing", "Pages"]

Integers = NDArray[np.int64]
Prefix = tuple[int, ...]

MEMBERS = RESULTS = 25  # a page of items
BRANCHES, TWIGS = 24, 10  # a page of branches, and how many of the next level are drawn in each
SIBLINGS = 4  # on either side
SAMPLE = 1000  # items whose words are counted
NEAREST, SURPRISES = 100, 10
DEEP = 1_000_000  # items of one prefix that are compared by embedding


class Missing(Exception):
    """There is no such prefix, item or page."""


class Pages:
    """The answers about one catalogue; the costly ones are remembered."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.node = lru_cache(512)(self._node)
        self.beside = lru_cache(64)(self._beside)

    def about(self) -> dict[str, Any]:
        sides = [
            {"key": s.key, "name": s.name, "items": len(s.rows), "sizes": s.sizes, "sids": len(s.tree.starts[-1])}
            for s in self.catalogue.sides.values()
        ]
        shown = self.catalogue
        return {
            "items": len(shown),
            "sides": sides,
            "texts": shown.texts is not None,
            "embeddings": shown.vectors is not None,
        }

    # -- prefixes --

    def _node(self, key: str, prefix: Prefix, page: int = 0, order: str = "items") -> dict[str, Any]:
        side, tree, low, high = self._found(key, prefix)
        told = {
            **self._summary(side, prefix, low, high),
            "of": len(tree),
            "path": [self._step(side, prefix[:level]) for level in range(1, len(prefix) + 1)],
            "shared": self._shared(tree.rows[low:high]),
            "branches": self._branches(side, tree, prefix, (low, high), page, order),
        }
        if prefix:
            above = tree.span(prefix[:-1]) or (0, 0)
            told["apart"] = self._apart(tree.rows[low:high], tree.rows[slice(*above)])
            told["siblings"] = self._siblings(side, tree, prefix, above)
        return told

    def _summary(self, side: Side, prefix: Prefix, low: int, high: int) -> dict[str, Any]:
        buckets = side.tree.distinct(low, high)
        return {
            "side": side.key,
            "prefix": prefix,
            "sid": side.sid(prefix),
            "levels": len(side.sizes),
            "items": high - low,
            "sids": len(buckets),
            "largest": int(buckets.max()),
            "alone": int((buckets == 1).sum()),
        }

    def _branches(
        self, side: Side, tree: Tree, prefix: Prefix, run: tuple[int, int], page: int, order: str
    ) -> dict[str, Any]:
        level = len(prefix)
        if level == len(side.sizes):
            return {"total": 0, "size": 0, "page": 0, "pages": 0, "items": 0, "list": []}
        found = tree.branches(*run, level)
        found = found.largest_first() if order == "items" else found
        shown = found.pick(_page(len(found), page, BRANCHES))
        groups = [tree.rows[a : a + c] for a, c in zip(shown.starts, shown.counts, strict=True)]
        words = self._contrast(groups)
        listed = [
            {
                "prefix": (*prefix, int(code)),
                "token": side.token(level, int(code)),
                "items": int(count),
                "words": said,
                **self._twigs(side, tree, (*prefix, int(code)), int(start), int(count)),
            }
            for code, start, count, said in zip(shown.codes, shown.starts, shown.counts, words, strict=True)
        ]
        return {
            "total": len(found),
            "size": side.sizes[level],
            "page": page,
            "pages": -(-len(found) // BRANCHES),
            "items": int(shown.counts.sum()),
            "list": listed,
        }

    def _twigs(self, side: Side, tree: Tree, prefix: Prefix, start: int, count: int) -> dict[str, Any]:
        """The largest branches of a branch, and what is left of it."""
        level = len(prefix)
        if level == len(side.sizes):
            return {"twigs": [], "more": 0, "rest": 0}
        found = tree.branches(start, start + count, level).largest_first()
        shown = found.pick(slice(TWIGS))
        listed = [
            {"prefix": (*prefix, int(code)), "token": side.token(level, int(code)), "items": int(items)}
            for code, items in zip(shown.codes, shown.counts, strict=True)
        ]
        return {"twigs": listed, "more": len(found) - len(shown), "rest": count - int(shown.counts.sum())}

    def _siblings(self, side: Side, tree: Tree, prefix: Prefix, above: tuple[int, int]) -> dict[str, Any]:
        """Where a prefix stands among those that differ in its last token only, by number of items."""
        level = len(prefix) - 1
        found = tree.branches(*above, level).largest_first()
        rank = int(np.flatnonzero(found.codes == prefix[-1])[0])
        first = max(0, min(rank - SIBLINGS, len(found) - 2 * SIBLINGS - 1))
        near = found.pick(slice(first, first + 2 * SIBLINGS + 1))
        words = self._contrast([tree.rows[a : a + c] for a, c in zip(near.starts, near.counts, strict=True)])
        listed = [
            {
                "prefix": (*prefix[:-1], int(code)),
                "token": side.token(level, int(code)),
                "items": int(count),
                "words": said,
            }
            for code, count, said in zip(near.codes, near.counts, words, strict=True)
        ]
        return {"total": len(found), "rank": rank + 1, "list": listed}

    def members(self, key: str, prefix: Prefix, page: int = 0) -> dict[str, Any]:
        """The items under a prefix, by SID."""
        side, tree, low, high = self._found(key, prefix)
        shown = _page(high - low, page, MEMBERS)
        rows = tree.rows[low:high][shown]
        return _paged(high - low, page, MEMBERS, [self._item(int(row), side) for row in rows])

    def _beside(self, key: str, prefix: Prefix, page: int = 0) -> dict[str, Any]:
        """Where the other table puts the items of a prefix: its tree of these items alone."""
        side, tree, low, high = self._found(key, prefix)
        other = self.catalogue.other(side)
        if other is None:
            raise Missing("there is no second table; start with --compare")
        part = other.part(tree.rows[low:high])
        if not len(part):
            empty = {"total": 0, "size": other.sizes[0], "page": 0, "pages": 0, "items": 0, "list": []}
            return {"side": other.key, "items": 0, "missing": high - low, "branches": empty}
        branches = self._branches(other, part, (), (0, len(part)), page, "items")
        for branch in branches["list"]:
            span = other.tree.span(branch["prefix"]) or (0, 0)
            branch["whole"] = span[1] - span[0]
        return {"side": other.key, "items": len(part), "missing": high - low - len(part), "branches": branches}

    # -- items --

    def item(self, item: str) -> dict[str, Any]:
        row = self._row(item)
        sides = {}
        for side in self.catalogue.sides.values():
            codes = side.codes_of(row)
            if codes is not None:
                sides[side.key] = {"sid": side.sid(codes), "prefix": codes, "path": self._explained(side, codes)}
        if len(sides) == 2:
            self._together(sides)
        return {"id": item, "text": self._text(row), "sides": sides, "near": self.catalogue.vectors is not None}

    def _explained(self, side: Side, codes: Sequence[int]) -> list[dict[str, Any]]:
        """Every token of a SID, how many items are left after it, and the words it adds."""
        told, above = [], (0, len(side.tree))
        for level in range(1, len(codes) + 1):
            prefix = tuple(codes[:level])
            run = side.tree.span(prefix) or (0, 0)
            words = self._apart(side.tree.rows[slice(*run)], side.tree.rows[slice(*above)])
            told.append({**self._step(side, prefix), "words": words})
            above = run
        return told

    def _together(self, told: dict[str, Any]) -> None:
        """For every prefix of the first table, how many of its items the second keeps together at the same depth."""
        rows = {
            key: [_rows(self.catalogue.sides[key].tree, step["prefix"]) for step in one["path"]]
            for key, one in told.items()
        }
        for key, other in (("a", "b"), ("b", "a")):
            for mine, theirs, step in zip(rows[key], rows[other], told[key]["path"], strict=False):
                step["together"] = int(np.isin(mine, theirs, assume_unique=True).sum())

    def near(self, item: str, key: str) -> dict[str, Any]:
        """Items near by embedding but far by SID, and near by SID but far by embedding."""
        row, side, vectors = self._row(item), self._side(key), self.catalogue.vectors
        codes = side.codes_of(row)
        if vectors is None:
            raise Missing("there are no embeddings; start with --embeddings")
        if codes is None or not vectors[row].any():
            raise Missing(f"{item!r} has no SID here, or no embedding")
        cosine = vectors @ vectors[row]
        near = _largest(np.where(side.position >= 0, cosine, -2.0), row, NEAREST)
        shared = (side.codes[side.position[near]] == codes).cumprod(axis=1).sum(axis=1)
        apart = near[shared == 0]
        mates, depth = self._mates(side, codes)
        mates = mates[(mates != row) & vectors[mates].any(axis=1)]
        odd = mates[np.argsort(cosine[mates], kind="stable")]
        return {
            "nearest": len(near),
            "sharing": [int((shared >= level).sum()) for level in range(len(codes) + 1)],
            "apart": [self._item(int(r), side) | {"cosine": float(cosine[r])} for r in apart[:SURPRISES]],
            "mates": len(mates),
            "depth": depth,
            "odd": [self._item(int(r), side) | {"cosine": float(cosine[r])} for r in odd[:SURPRISES]],
        }

    def _mates(self, side: Side, codes: Sequence[int]) -> tuple[Integers, int]:
        """The items of the longest prefix that this item shares with any other, and its length."""
        for level in range(len(codes), 0, -1):
            low, high = side.tree.span(codes[:level]) or (0, 0)
            if high - low > 1:
                return side.tree.rows[low : min(high, low + DEEP)], level
        return np.zeros(0, np.int64), 0

    # -- search --

    def search(self, query: str, page: int = 0) -> dict[str, Any]:
        """An item by its id, a prefix by its SID, items by words of their texts (or by the start of their ids)."""
        shown, query = self.catalogue, query.strip()
        row = shown.row_of(query) if query else None
        words = shown.words
        found = words.find(query) if words is not None else np.zeros(0, np.int64)
        if query and not len(found):
            import pyarrow.compute as pc

            found = np.flatnonzero(pc.starts_with(shown.ids, query).to_numpy(zero_copy_only=False))
        listed = [self._item(int(r)) for r in found[_page(len(found), page, RESULTS)]]
        return {
            "query": query,
            "item": None if row is None else self._item(row),
            "prefixes": self._prefixes(query),
            **_paged(len(found), page, RESULTS, listed),
        }

    def _prefixes(self, query: str) -> list[dict[str, Any]]:
        found = []
        for side in self.catalogue.sides.values():
            for form in dict.fromkeys(TEMPLATES.values()):
                try:
                    prefix = form.parse(query)
                except (InputError, ValueError):
                    continue
                if prefix and side.tree.span(prefix):
                    found.append(self._step(side, prefix) | {"side": side.key})
                    break
        return found

    # -- parts --

    def _side(self, key: str) -> Side:
        if key not in self.catalogue.sides:
            raise Missing(f"there is no table {key!r}")
        return self.catalogue.sides[key]

    def _found(self, key: str, prefix: Prefix) -> tuple[Side, Tree, int, int]:
        side = self._side(key)
        run = side.tree.span(prefix)
        if run is None:
            raise Missing(f"no item has the prefix {'-'.join(map(str, prefix))}")
        return side, side.tree, *run

    def _row(self, item: str) -> int:
        row = self.catalogue.row_of(item)
        if row is None:
            raise Missing(f"there is no item {item!r}")
        return row

    def _item(self, row: int, side: Side | None = None) -> dict[str, Any]:
        """An item in a list: its SID is that of the side asked for, else of the first that knows it."""
        sides = [side] if side else list(self.catalogue.sides.values())
        known = next(((s, codes) for s in sides if (codes := s.codes_of(row)) is not None), None)
        sid = {"sid": known[0].sid(known[1]), "prefix": known[1], "side": known[0].key} if known else {}
        return {"id": self.catalogue.ids[row].as_py(), "text": self._text(row), **sid}

    def _text(self, row: int) -> str | None:
        return None if self.catalogue.texts is None else self.catalogue.texts[row].as_py()

    def _step(self, side: Side, prefix: Prefix) -> dict[str, Any]:
        low, high = side.tree.span(prefix) or (0, 0)
        token = side.token(len(prefix) - 1, prefix[-1])
        return {"prefix": prefix, "token": token, "sid": side.sid(prefix), "items": high - low}

    def _shared(self, rows: Integers) -> list[str]:
        words = self.catalogue.words
        return words.counts.shared(_sample(rows), top=8) if words is not None else []

    def _apart(self, rows: Integers, within: Integers) -> list[str]:
        words = self.catalogue.words
        if words is None or len(rows) == len(within):
            return []
        return words.counts.distinctive(_sample(rows), top=8, within=_sample(within))

    def _contrast(self, groups: list[Integers]) -> list[list[str]]:
        words = self.catalogue.words
        return (
            words.counts.contrast([_sample(rows) for rows in groups], top=5)
            if words is not None
            else [[] for _ in groups]
        )


def _page(total: int, page: int, size: int) -> slice:
    if page < 0 or (page and page * size >= total):
        raise Missing(f"there is no page {page + 1}")
    return slice(page * size, (page + 1) * size)


def _paged(total: int, page: int, size: int, listed: list[Any]) -> dict[str, Any]:
    return {"total": total, "page": page, "pages": -(-total // size), "list": listed}


def _rows(tree: Tree, prefix: Sequence[int]) -> Integers:
    return tree.rows[slice(*(tree.span(prefix) or (0, 0)))]


def _sample(rows: Integers) -> Integers:
    if len(rows) <= SAMPLE:
        return rows
    return rows[np.linspace(0, len(rows) - 1, SAMPLE).astype(np.int64)]


def _largest(values: NDArray[Any], without: int, many: int) -> Integers:
    """The places of the largest values, largest first, but for one place."""
    values[without] = -2.0
    many = min(many, len(values) - 1)
    top = np.argpartition(-values, many)[:many] if many else np.zeros(0, np.int64)
    top = top[values[top] > -2.0]
    ordered: Integers = top[np.argsort(-values[top], kind="stable")]
    return ordered
