"""What is printed below the figures of a recommender: items by how often they were seen, and what fusion does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from ..measure.seen import SEEN
from ..retriever.page import SEEN_LISTS, fusion_words, known_share
from .printing import WIDE, console_at_least

__all__ = ["print_beyond"]

FIGURES = {"recall@10": "Recall@10", "ndcg@10": "NDCG@10"}


def print_beyond(seen: Mapping[str, Mapping[str, Mapping[str, Any]]], fusion: Mapping[str, Any] | None) -> None:
    """seen: by list and group (`sidkit.measure.seen`); fusion: of retriever.json."""
    if seen:
        _print_seen(seen)
    if fusion:
        print(fusion_words(fusion))


def _print_seen(seen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    lists = [name for name in SEEN_LISTS if name in seen]
    first = seen[lists[0]]
    head = [
        "target items",
        "users",
        "share",
        *(f"{label}, {SEEN_LISTS[name]}" for name in lists for label in FIGURES.values()),
    ]
    rows = []
    for group, words in SEEN.items():
        values = [seen[name][group][figure] for name in lists for figure in FIGURES]
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        rows.append([words, f"{first[group]['users']:,.0f}", f"{first[group]['share']:.1%}", *cells])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in head:
        table.add_column(heading, no_wrap=heading == head[0])
    for row in rows:
        table.add_row(*row)
    print()
    console_at_least(WIDE).print(table)
    print(f"a model over item ids could know {known_share(seen):.1%} of the targets: those that are in training at all")
