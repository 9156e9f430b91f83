"""Answers about a prefix: what is in it, how the next token divides it, and its siblings."""

from __future__ import annotations

from typing import Any

import numpy as np

from .catalogue import Side
from .lookup import Lookup, Missing, Prefix, page_of, paged
from .tree import Branches, Tree

__all__ = ["counterpart", "members", "node"]

MEMBERS = 25  # a page of items
BRANCHES, TWIGS = 24, 10  # a page of branches, and how many of the next level are drawn in each
SIBLINGS = 4  # on either side


def node(lookup: Lookup, key: str, prefix: Prefix, page: int = 0, order: str = "items") -> dict[str, Any]:
    """A prefix: its counts, its path, its words, a page of its branches, and its siblings."""
    side, tree, low, high = lookup.run(key, prefix)
    buckets = tree.distinct(low, high)
    answer = {
        "side": side.key,
        "prefix": prefix,
        "sid": side.sid(prefix),
        "levels": len(side.sizes),
        "items": high - low,
        "of": len(tree),
        "sids": len(buckets),
        "largest": int(buckets.max()),
        "alone": int((buckets == 1).sum()),
        "path": [lookup.step(side, prefix[:level]) for level in range(1, len(prefix) + 1)],
        "shared": lookup.shared(tree.rows[low:high]),
        "branches": _branches(lookup, side, tree, prefix, (low, high), page, order),
    }
    if prefix:
        above = tree.span(prefix[:-1]) or (0, 0)
        answer["apart"] = lookup.apart(tree.rows[low:high], tree.rows[slice(*above)])
        answer["siblings"] = _siblings(lookup, side, tree, prefix, above)
    return answer


def members(lookup: Lookup, key: str, prefix: Prefix, page: int = 0) -> dict[str, Any]:
    """A page of the items under a prefix, by SID."""
    side, tree, low, high = lookup.run(key, prefix)
    rows = tree.rows[low:high][page_of(high - low, page, MEMBERS)]
    return paged(high - low, page, MEMBERS, [lookup.item(int(row), side, len(prefix)) for row in rows])


def counterpart(lookup: Lookup, key: str, prefix: Prefix) -> dict[str, Any]:
    """The items of a prefix in the other table: the largest branches of its tree of these items alone.

    Tokens that all of them share in that table are skipped; the answer starts at the first that separates them.
    """
    side, tree, low, high = lookup.run(key, prefix)
    other = lookup.catalogue.other(side)
    if other is None:
        raise Missing("there is no second table; start with --compare")
    part = other.part(tree.rows[low:high])
    common: Prefix = ()
    while len(common) < part.levels - 1 and len(only := part.branches(0, len(part), len(common))) == 1:
        common = (*common, int(only.codes[0]))
    branches = _branches(lookup, other, part, common, (0, len(part)), 0, "items")
    for branch in branches["list"]:
        branch["total"] = lookup.step(other, branch["prefix"])["items"]
    return {
        "side": other.key,
        "prefix": common,
        "sid": other.sid(common),
        "items": len(part),
        "missing": high - low - len(part),
        "branches": branches,
    }


def _branches(
    lookup: Lookup, side: Side, tree: Tree, prefix: Prefix, run: tuple[int, int], page: int, order: str
) -> dict[str, Any]:
    """A page of the branches of a run, each with the words that set it apart and its own largest branches."""
    level = len(prefix)
    if level == len(side.sizes):
        return {**paged(0, 0, BRANCHES, []), "size": 0}
    branches = tree.branches(*run, level)
    branches = branches.largest_first() if order == "items" else branches
    shown = branches.pick(page_of(len(branches), page, BRANCHES))
    listed = _with_words(lookup, side, tree, prefix, shown)
    for branch, start in zip(listed, shown.starts, strict=True):
        branch |= _twigs(side, tree, tuple(branch["prefix"]), int(start), branch["items"])
    return {**paged(len(branches), page, BRANCHES, listed), "size": side.sizes[level]}


def _with_words(lookup: Lookup, side: Side, tree: Tree, prefix: Prefix, shown: Branches) -> list[dict[str, Any]]:
    words = lookup.contrast([tree.rows[a : a + n] for a, n in zip(shown.starts, shown.counts, strict=True)])
    return [{**branch, "words": apart} for branch, apart in zip(_listed(side, prefix, shown), words, strict=True)]


def _listed(side: Side, prefix: Prefix, shown: Branches) -> list[dict[str, Any]]:
    return [
        {"prefix": [*prefix, int(code)], "token": side.token(len(prefix), int(code)), "items": int(count)}
        for code, count in zip(shown.codes, shown.counts, strict=True)
    ]


def _twigs(side: Side, tree: Tree, prefix: Prefix, start: int, count: int) -> dict[str, Any]:
    """The largest branches of a branch, how many more there are, and how many items those have."""
    if len(prefix) == len(side.sizes):
        return {"twigs": [], "more": 0, "rest": 0}
    branches = tree.branches(start, start + count, len(prefix)).largest_first()
    shown = branches.pick(slice(TWIGS))
    rest = {"more": len(branches) - len(shown), "rest": count - int(shown.counts.sum())}
    return {"twigs": _listed(side, prefix, shown), **rest}


def _siblings(lookup: Lookup, side: Side, tree: Tree, prefix: Prefix, above: tuple[int, int]) -> dict[str, Any]:
    """The rank of a prefix, by items, among those that differ in the last token only; and those around it."""
    siblings = tree.branches(*above, len(prefix) - 1).largest_first()
    rank = int(np.flatnonzero(siblings.codes == prefix[-1])[0])
    first = max(0, min(rank - SIBLINGS, len(siblings) - 2 * SIBLINGS - 1))
    near = siblings.pick(slice(first, first + 2 * SIBLINGS + 1))
    return {"total": len(siblings), "rank": rank + 1, "list": _with_words(lookup, side, tree, prefix[:-1], near)}
