"""Answers about a prefix: what is in it, how the next token divides it, who stands beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .catalogue import Side
from .parts import Missing, Parts, Prefix, page_of, paged
from .tree import Branches, Tree

__all__ = ["beside", "members", "node"]

MEMBERS = 25
BRANCHES, TWIGS = 24, 10  # a page of branches, and how many of the next level are drawn in each
SIBLINGS = 4  # on either side


def node(parts: Parts, key: str, prefix: Prefix, page: int = 0, order: str = "items") -> dict[str, Any]:
    side, tree, low, high = parts.found(key, prefix)
    buckets = tree.distinct(low, high)
    told = {
        "side": side.key,
        "prefix": prefix,
        "sid": side.sid(prefix),
        "levels": len(side.sizes),
        "items": high - low,
        "of": len(tree),
        "sids": len(buckets),
        "largest": int(buckets.max()),
        "alone": int((buckets == 1).sum()),
        "path": [parts.step(side, prefix[:level]) for level in range(1, len(prefix) + 1)],
        "shared": parts.shared(tree.rows[low:high]),
        "branches": _branches(parts, side, tree, prefix, (low, high), page, order),
    }
    if prefix:
        above = tree.span(prefix[:-1]) or (0, 0)
        told["apart"] = parts.apart(tree.rows[low:high], tree.rows[slice(*above)])
        told["siblings"] = _siblings(parts, side, tree, prefix, above)
    return told


def members(parts: Parts, key: str, prefix: Prefix, page: int = 0) -> dict[str, Any]:
    """The items under a prefix, by SID."""
    side, tree, low, high = parts.found(key, prefix)
    rows = tree.rows[low:high][page_of(high - low, page, MEMBERS)]
    return paged(high - low, page, MEMBERS, [parts.item(int(row), side, len(prefix)) for row in rows])


def beside(parts: Parts, key: str, prefix: Prefix) -> dict[str, Any]:
    """Where the other table puts the items of a prefix: the largest branches of its tree of these items alone.

    Tokens that all of them share there are passed over: the answer is about the first that separates them.
    """
    side, tree, low, high = parts.found(key, prefix)
    other = parts.catalogue.other(side)
    if other is None:
        raise Missing("there is no second table; start with --compare")
    part = other.part(tree.rows[low:high])
    common: Prefix = ()
    while len(common) < part.levels - 1 and len(only := part.branches(0, len(part), len(common))) == 1:
        common = (*common, int(only.codes[0]))
    branches = _branches(parts, other, part, common, (0, len(part)), 0, "items")
    for branch in branches["list"]:
        branch["whole"] = parts.step(other, branch["prefix"])["items"]
    told = {"side": other.key, "prefix": common, "sid": other.sid(common)}
    return {**told, "items": len(part), "missing": high - low - len(part), "branches": branches}


def _branches(
    parts: Parts, side: Side, tree: Tree, prefix: Prefix, run: tuple[int, int], page: int, order: str
) -> dict[str, Any]:
    """A page of the branches of a run, each with words that set it apart and its largest branches in turn."""
    level = len(prefix)
    if level == len(side.sizes):
        return {**paged(0, 0, BRANCHES, []), "size": 0}
    found = tree.branches(*run, level)
    found = found.largest_first() if order == "items" else found
    shown = found.pick(page_of(len(found), page, BRANCHES))
    listed = _listed(parts, side, tree, prefix, shown)
    for branch, start in zip(listed, shown.starts, strict=True):
        branch |= _twigs(side, tree, tuple(branch["prefix"]), int(start), branch["items"])
    return {**paged(len(found), page, BRANCHES, listed), "size": side.sizes[level]}


def _listed(parts: Parts, side: Side, tree: Tree, prefix: Prefix, shown: Branches) -> list[dict[str, Any]]:
    words = parts.contrast([tree.rows[a : a + n] for a, n in zip(shown.starts, shown.counts, strict=True)])
    return [{**one, "words": said} for one, said in zip(_named(side, prefix, shown), words, strict=True)]


def _named(side: Side, prefix: Prefix, shown: Branches) -> list[dict[str, Any]]:
    return [
        {"prefix": [*prefix, int(code)], "token": side.token(len(prefix), int(code)), "items": int(count)}
        for code, count in zip(shown.codes, shown.counts, strict=True)
    ]


def _twigs(side: Side, tree: Tree, prefix: Prefix, start: int, count: int) -> dict[str, Any]:
    """The largest branches of a branch, how many more there are, and how many items those hold."""
    if len(prefix) == len(side.sizes):
        return {"twigs": [], "more": 0, "rest": 0}
    found = tree.branches(start, start + count, len(prefix)).largest_first()
    shown = found.pick(slice(TWIGS))
    rest = {"more": len(found) - len(shown), "rest": count - int(shown.counts.sum())}
    return {"twigs": _named(side, prefix, shown), **rest}


def _siblings(parts: Parts, side: Side, tree: Tree, prefix: Prefix, above: tuple[int, int]) -> dict[str, Any]:
    """Where a prefix stands among those that differ in its last token only, by number of items."""
    found = tree.branches(*above, len(prefix) - 1).largest_first()
    rank = int(np.flatnonzero(found.codes == prefix[-1])[0])
    first = max(0, min(rank - SIBLINGS, len(found) - 2 * SIBLINGS - 1))
    near = found.pick(slice(first, first + 2 * SIBLINGS + 1))
    return {"total": len(found), "rank": rank + 1, "list": _listed(parts, side, tree, prefix[:-1], near)}
