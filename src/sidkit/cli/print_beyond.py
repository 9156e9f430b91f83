"""What is printed below the figures of a recommender: items by how often they were seen, and what fusion does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from ..measure.seen import SEEN
from .printing import WIDE, console_at_least

__all__ = ["print_beyond"]

LISTS = {"model": "model", "fused": "fused"}
FIGURES = {"recall@10": "Recall@10", "ndcg@10": "NDCG@10"}


def print_beyond(seen: Mapping[str, Mapping[str, Mapping[str, Any]]], fusion: Mapping[str, Any] | None) -> None:
    """seen: by list and group (`sidkit.measure.seen`); fusion: of retriever.json."""
    if seen:
        _print_seen(seen)
    if fusion:
        print(_fusion_words(fusion))


def _print_seen(seen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    lists = [name for name in LISTS if name in seen]
    first = seen[lists[0]]
    head = [
        "target items",
        "users",
        "share",
        *(f"{label}, {LISTS[name]}" for name in lists for label in FIGURES.values()),
    ]
    rows = []
    for group, words in SEEN.items():
        values = [seen[name][group][figure] for name in lists for figure in FIGURES]
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        rows.append([words, f"{first[group]['users']:,.0f}", f"{first[group]['share']:.1%}", *cells])
    known = 1 - first["0"]["share"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in head:
        table.add_column(heading, no_wrap=heading == head[0])
    for row in rows:
        table.add_row(*row)
    print()
    console_at_least(WIDE).print(table)
    print(f"a model over item ids could know {known:.1%} of the targets: those that are in training at all")


def _fusion_words(fusion: Mapping[str, Any]) -> str:
    weights, facts = fusion["weights"], fusion["validation"]
    gain = f"{facts['gain']:+.4f} ± {facts['standard_error']:.4f} of NDCG@10 on validation"
    if not facts["on"]:
        return f"fusion with counts is off: its best weights have {gain}, which may be chance"
    parts = [
        f"{weights['followed']:.0%} what followed the last item",
        f"{weights['together']:.0%} what was taken together",
        *["nothing of the history again"] * (not weights["repeats"]),
    ]
    return f"fused with counts ({', '.join(parts)}): {gain}"
