"""The paper's two case studies: a collision group followed through another tokenizer, and the prefix of a query.

The group is chosen by a rule, not by taste. Of the groups of items that share one SID under A, those qualify that B

    1. gives one common first token,
    2. separates at its second level,
    3. and divides into full SIDs of two items or more each;

of these the largest is taken, then the one that B divides into more SIDs, then the first by its SID. Where no group
qualifies, the last condition is dropped, then the second, then the first; the result lists those that held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable
from .contrast import Division, aligned, branches_of
from .groups import WordsAmong, largest_branches

__all__ = ["RULES", "collision_case", "query_case"]

RULES = (
    "one common first token",
    "separated at the second level",
    "full SIDs of two items or more each",
)
Integers = NDArray[np.int64]
EXAMPLES = 5  # branches that a query case shows, and texts of each


def collision_case(
    a: SidTable, b: SidTable, texts: Sequence[str] | None = None, sid: Sequence[int] | None = None
) -> dict[str, Any]:
    """Items that share one SID under a, traced through the levels of b (the paper's appendix on case studies).

    texts: of the items of a, in its order; sid: a SID of a to follow, instead of the one that the rule chooses.

    sid, items           the SID under a and how many items it has
    rules                the conditions that held; `groups` is how many groups met them
    prefixes_per_level   per level, into how many prefixes b divides the items
    branches             the full SIDs under b: their items, and the words that distinguish each
    """
    a, b, of_a = aligned(a, b)
    texts = [texts[int(row)] for row in of_a] if texts is not None else None
    if sid is None:
        rows, rules, groups = _chosen(a, b)
    else:
        rows, rules, groups = a.rows_of(sid), [], 1
        if len(rows) < 2:
            raise InputError(
                f"{a.template.write(sid)} has {len(rows)} items that are in both tables; a case needs two or more"
            )
    words = WordsAmong(texts, [rows])
    return {
        "sid": a.template.write(a.codes[rows[0]].tolist()),
        "items": len(rows),
        "rules": rules,
        "groups": groups,
        "words": words.shared(rows),
        "prefixes_per_level": [len(np.unique(number)) for number in prefix_numbers(b.codes[rows], b.sizes)],
        "branches": branches_of(b, rows, words),
    }


def _chosen(a: SidTable, b: SidTable) -> tuple[Integers, list[str], int]:
    """The rows of the group that the rule takes, the conditions that held, and how many groups met them."""
    first, numbers = prefix_numbers(a.codes, a.sizes)[-1], prefix_numbers(b.codes, b.sizes)
    level_one, level_two, full = (Division(first, numbers[min(level, len(numbers) - 1)]) for level in (0, 1, -1))
    collides = full.items > 1
    if not collides.any():
        raise InputError("no two items share a SID under the first tokenizer: there is no collision to follow")
    conditions = (level_one.parts == 1, level_two.parts > 1, (full.parts > 1) & (full.smallest > 1))
    for count in range(len(RULES), -1, -1):
        groups = np.flatnonzero(np.logical_and.reduce([collides, *conditions[:count]]))
        if len(groups):
            best = min(groups.tolist(), key=lambda group: (-full.items[group], -full.parts[group], group))
            return full.rows(best), list(RULES[:count]), len(groups)
    raise AssertionError("the last round asks only for a collision, and there is one")


def query_case(
    query: str, codes: Sequence[int], table: SidTable, level: int = 2, texts: Sequence[str] | None = None
) -> dict[str, Any]:
    """The items under the prefix of a query (the paper's appendix on case studies).

    codes: of the query, by the same tokenizer as the table's.

    query, sid, prefix         the query, its SID and the first `level` tokens of it
    items                      how many items are under the prefix
    next_tokens                how many different tokens follow the prefix; None at the last level
    items_per_level            how many items share 1, 2, … tokens with the query
    words, branches            the words that items under the prefix share, and the largest branches below it
    """
    if not 1 <= level <= len(table.sizes):
        raise SpecError(f"level must lie between 1 and {len(table.sizes)}, not {level}")
    prefix = [int(code) for code in codes[:level]]
    rows = table.rows_of(prefix)
    words = WordsAmong(texts if len(rows) else None, [rows])
    deeper = level < len(table.sizes)
    return {
        "query": query,
        "sid": table.template.write(codes),
        "prefix": table.template.write_prefix(prefix, len(table.sizes)),
        "items": len(rows),
        "next_tokens": len(np.unique(table.codes[rows, level])) if deeper else None,
        "items_per_level": [len(table.rows_of(codes[: depth + 1])) for depth in range(len(table.sizes))],
        "words": words.shared(rows),
        "branches": _branches(table, rows, level, words) if deeper and len(rows) else [],
    }


def _branches(table: SidTable, rows: Integers, level: int, words: WordsAmong) -> list[dict[str, Any]]:
    parts = largest_branches(table, rows, level, EXAMPLES)
    prefixes = (table.codes[part[0], : level + 1].tolist() for part in parts)
    return [
        {
            "prefix": table.template.write_prefix(prefix, len(table.sizes)),
            "items": len(part),
            "words": apart,
        }
        | words.texts_of(part[:EXAMPLES])
        for part, prefix, apart in zip(parts, prefixes, words.contrast(parts), strict=True)
    ]
