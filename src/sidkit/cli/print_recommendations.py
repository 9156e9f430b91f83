"""What `sidkit recommend` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import count_of
from .printing import print_rows
from .terminal import plain

__all__ = ["print_recommendations"]


def print_recommendations(facts: Mapping[str, Any], wanted: int) -> None:
    """A line for every recommendation, and what was left out of the history."""
    items, unknown = facts["items"], facts["unknown"]
    lines = [f"after {count_of(len(facts['history']), 'item')} of the history"]
    if unknown:
        listed = ", ".join(map(plain, unknown[:5])) + (" ..." if len(unknown) > 5 else "")
        lines[0] += f"; {count_of(len(unknown), 'unknown item')} left out: {listed}"
    texts = any("text" in one for one in items)
    head = ["", "item", *(["text"] if texts else []), "SID", "probability"]
    rows = [
        [
            str(one["rank"]),
            str(one["item_id"]),
            *([one.get("text", "")] if texts else []),
            one["sid"],
            _probability(one),
        ]
        for one in items
    ]
    print_rows(lines, head, rows)
    different = {one["sid"]: one["probability"] for one in items}
    print(f"together these {count_of(len(different), 'SID')} have {sum(different.values()):.1%} of the probability")
    if len(items) < wanted:
        print(f"only {count_of(len(items), 'item')} found; search further with --beams, or allow more by --per-sid")


def _probability(one: Mapping[str, Any]) -> str:
    """Of the SID, and how many items have it."""
    share = one["probability"]
    text = f"{share:.1%}" if share >= 0.1 else f"{100 * share:.2g}%"
    return text if one["items_on_sid"] == 1 else f"{text}, {count_of(one['items_on_sid'], 'item')} have this SID"
