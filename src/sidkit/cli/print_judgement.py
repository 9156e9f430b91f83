"""What `judge` prints, and `report` below its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["print_judgement"]


def print_judgement(judgement: Mapping[str, Any]) -> None:
    """A table and notes for each part of a judgement."""
    from rich.console import Console

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=max(console.width, 120))
    parts = {"behaviour": _behaviour, "counting": _counting, "neighbours": _neighbours, "categories": _categories}
    for name, describe in parts.items():
        if name in judgement:
            title, table, notes = describe(judgement[name])
            console.print(f"[bold]{title}[/bold]")
            console.print(table)
            console.print(*notes, "", sep="\n", style="dim")


def _counting(figures: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    from rich.table import Table

    from ..report.words import COUNTING

    table = Table("", "Recall@20", "NDCG@20", "MRR@20", box=None, pad_edge=False, header_style="bold")
    for name, words in COUNTING.items():
        table.add_row(words, *(f"{figures[name][metric]:.4f}" for metric in ("recall@20", "ndcg@20", "mrr@20")))
    note = f"the target is the last item but one of {figures['users']:,} users"
    return "Counting: what can be recommended without a model?", table, [note]


def _behaviour(figures: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    columns = {
        "shares prefix": _percent(figures["share"], figures["share_error"]),
        "popular item": _percent(figures["chance_popular"]),
        "any item": _percent(figures["chance_uniform"]),
        "lift": _times(figures["lift"], figures["lift_error"]),
    }
    transitions = f"{figures['transitions']:,} transitions in {figures['sequences']:,} sequences"
    repeated, unknown = (f"{figures[f'transitions_{name}']:,}" for name in ("repeated", "unknown"))
    legend = "popular item, any item: the share if the next item were drawn so; lift: over a popular item"
    notes = [legend, f"{transitions}; left out: {repeated} repeats, {unknown} with an item without a SID"]
    if "category_share" in figures:
        columns["in category"] = _percent(figures["chance_category"])
        columns["lift over it"] = _times(figures["lift_category"], figures["lift_category_error"])
        shares = ", ".join(_percent(figures["category_share"]))
        lifts = ", ".join(_times(figures["category_lift"], figures["category_lift_error"]))
        notes.append(f"category paths themselves, level by level: the next item shares {shares}; lift {lifts}")
    return "Behaviour: does the next item share the prefix?", _per_level(columns), notes


def _neighbours(figures: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    k = figures["neighbours"]
    columns = {
        f"of {k} nearest": _percent(figures["share"], figures["share_error"]),
        "any item": _percent(figures["chance"]),
        "lift": _times(figures["lift"]),
        "above chance": ["" if value is None else f"{value:.0%}" for value in figures["above_chance"]],
    }
    error = f" ±{figures['overlap_error']:.2%}" if figures["overlap_error"] else ""
    overlap = f"{figures['overlap']:.2%}{error} of the {k} nearest by code are among the {k} nearest by embedding"
    sample = f"neighbours of {figures['queries']:,} of {figures['items']:,} items"
    without = f"; {figures['items_without_vector']:,} have no vector" if figures["items_without_vector"] else ""
    return "Neighbours: do the nearest items share the prefix?", _per_level(columns), [overlap, sample + without]


def _categories(figures: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    columns = {
        "purity": _percent(figures["purity"]),
        "shuffled": _percent(figures["purity_chance"]),
        "NMI": [f"{value:.3f}" for value in figures["nmi"]],
        "NMI shuffled": [f"{value:.3f}" for value in figures["nmi_chance"]],
        "NMI adjusted": [f"{value:.3f}" for value in figures["nmi_adjusted"]],
    }
    note = f"{figures['labels']:,} categories; {figures['items_unlabelled']:,} items have none"
    return "Categories: do prefixes follow them?", _per_level(columns), [note]


def _per_level(columns: Mapping[str, Sequence[str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("level", *columns):
        table.add_column(heading, justify="right")
    for level, cells in enumerate(zip(*columns.values(), strict=True), 1):
        table.add_row(str(level), *cells)
    return table


def _percent(values: Sequence[float], errors: Sequence[float | None] | None = None) -> list[str]:
    pairs = zip(values, errors or [None] * len(values), strict=True)
    return [f"{100 * value:.3g}%{_plus_minus(error and 100 * error, '.1g')}" for value, error in pairs]


def _times(values: Sequence[float | None], errors: Sequence[float | None] | None = None) -> list[str]:
    pairs = zip(values, errors or [None] * len(values), strict=True)
    return ["" if value is None else f"{value:,.1f}×{_plus_minus(error, ',.1f')}" for value, error in pairs]


def _plus_minus(error: float | None, form: str) -> str:
    return f" ±{error:{form}}" if error else ""
