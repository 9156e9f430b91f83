"""The page of what changed between two sets of semantic IDs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from ..errors import count_of
from .draw.chart import Panel, Series
from .draw.figure import Figure
from .html import figure_section, look_for, numbers_list, page, section, table
from .words import LOOK_FOR

__all__ = ["difference_page"]


def difference_page(facts: Mapping[str, Any], old: str, new: str) -> str:
    """One self-contained HTML document of the facts of `sids.changed.difference`; old, new: names of the two."""
    sections = [("numbers", "", _numbers(facts))]
    if facts["shared"]:
        sections += [
            figure_section(_kept_figure(facts)),
            ("levels", "Level by level", section("levels", "Level by level", _levels(facts))),
            ("splits", "Split", section("splits", "Prefixes that were split", _several(facts["splits"], "splits"))),
            ("merges", "Merged", section("merges", "Prefixes that were merged", _several(facts["merges"], "merges"))),
            ("moved", "Moved", section("moved", "Items that moved", _moved(facts["moved_items"]))),
        ]
    subtitle = f"{old} with {count_of(facts['items'][0], 'item')}, {new} with {facts['items'][1]:,}"
    return page(f"{old} → {new}", "What changed", subtitle, sections)


def _numbers(facts: Mapping[str, Any]) -> str:
    share = f"{facts['moved'] / facts['shared']:.1%}" if facts["shared"] else "–"
    cells = [(f"{facts[name]:,}", name) for name in ("shared", "moved", "added", "removed")]
    cells.append((share, "of the shared items moved"))
    if facts.get("distance", {}).get("items"):
        cells.append((f"{facts['distance']['mean']:.3f}", "mean distance between old and new SID, 1 − cosine"))
    return f'<div class="verdict">{numbers_list(cells)}</div>'


def _kept_figure(facts: Mapping[str, Any]) -> Figure:
    counts = facts["tokens_kept"]
    names = [*(str(tokens) for tokens in range(len(counts) - 1)), "all"]
    share = [count / facts["shared"] for count in counts]
    bars = Series("items", list(range(len(counts))), share, 0, "bars")
    panel = Panel("", "first tokens kept", "share of shared items", [bars], percent=True, names=names)
    return Figure("kept", "How far items moved", LOOK_FOR["kept"], [panel])


def _levels(facts: Mapping[str, Any]) -> str:
    head = ("level", "other token", "other prefix", "prefixes before", "after", "split", "merged", "same items")
    rows = [
        [
            str(level + 1),
            f"{facts['tokens'][level]:.1%}",
            f"{facts['prefixes'][level]:.1%}",
            *(f"{counts[name]:,}" for name in ("old", "new", "split", "merged", "same_items")),
        ]
        for level, counts in enumerate(facts["levels"])
    ]
    return look_for(LOOK_FOR["changed_levels"]) + table(head, rows)


def _several(found: Iterable[Mapping[str, Any]], name: str) -> str:
    rows = []
    for one in found:
        parts = ", ".join(f"{escape(part['prefix'])} {part['items']:,}" for part in one["parts"])
        parts += f" and {one['in'] - len(one['parts']):,} more" if one["in"] > len(one["parts"]) else ""
        rows.append([str(one["level"]), escape(one["prefix"]), f"{one['items']:,}", f"{one['in']:,}", parts])
    if not rows:
        return "<p>None.</p>"
    return look_for(LOOK_FOR[name]) + table(("level", "prefix", "items", "prefixes", "which"), rows, "words")


def _moved(items: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [escape(str(one["item_id"])), escape(one["old"]), escape(one["new"]), str(one["tokens_kept"])] for one in items
    ]
    return table(("item", "before", "after", "tokens kept"), rows, "words") if rows else "<p>None.</p>"
