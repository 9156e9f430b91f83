"""What `judge` prints, and `report` below its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["print_judgement"]


def print_judgement(found: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=max(console.width, 120))
    shown = {"behaviour": _behaviour, "counting": _counting, "neighbours": _neighbours, "categories": _categories}
    for name, show in shown.items():
        if name in found:
            title, table, notes = show(found[name])
            console.print(f"[bold]{title}[/bold]")
            console.print(table)
            console.print(*notes, "", sep="\n", style="dim")


def _counting(found: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    from rich.table import Table

    from ..report.words import COUNTING

    table = Table("", "Recall@20", "NDCG@20", "MRR@20", box=None, pad_edge=False, header_style="bold")
    for name, words in COUNTING.items():
        table.add_row(words, *(f"{found[name][figure]:.4f}" for figure in ("recall@20", "ndcg@20", "mrr@20")))
    note = f"the last item but one of {found['users']:,} users is to be found"
    return "Counting: what can be recommended without a model?", table, [note]


def _behaviour(found: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    columns = {
        "shares prefix": _percent(found["share"], found["share_error"]),
        "popular item": _percent(found["chance_popular"]),
        "any item": _percent(found["chance_uniform"]),
        "lift": _times(found["lift"], found["lift_error"]),
    }
    left_out = f"{found['transitions_repeated']:,} repeats, {found['transitions_unknown']:,} with an item without a SID"
    told = "popular item, any item: the share if the next item were drawn so; lift: over a popular item"
    notes = [told, f"{found['transitions']:,} transitions in {found['sequences']:,} sequences; left out: {left_out}"]
    if "category_share" in found:
        columns["in category"] = _percent(found["chance_category"])
        columns["lift over it"] = _times(found["lift_category"], found["lift_category_error"])
        shares = ", ".join(_percent(found["category_share"]))
        lifts = ", ".join(_times(found["category_lift"], found["category_lift_error"]))
        notes.append(f"category paths themselves, level by level: the next item shares {shares}; lift {lifts}")
    return "Behaviour: does the next item share the prefix?", _per_level(columns), notes


def _neighbours(found: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    k = found["neighbours"]
    columns = {
        f"of {k} nearest": _percent(found["share"], found["share_error"]),
        "any item": _percent(found["chance"]),
        "lift": _times(found["lift"]),
        "above chance": ["" if value is None else f"{value:.0%}" for value in found["above_chance"]],
    }
    error = f" ±{found['overlap_error']:.2%}" if found["overlap_error"] else ""
    overlap = f"{found['overlap']:.2%}{error} of the {k} nearest by code are among the {k} nearest by embedding"
    asked = f"{found['queries']:,} of {found['items']:,} items asked"
    without = f"; {found['items_without_vector']:,} have no vector" if found["items_without_vector"] else ""
    return "Neighbours: do the nearest items share the prefix?", _per_level(columns), [overlap, asked + without]


def _categories(found: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
    columns = {
        "purity": _percent(found["purity"]),
        "shuffled": _percent(found["purity_chance"]),
        "NMI": [f"{value:.3f}" for value in found["nmi"]],
        "NMI shuffled": [f"{value:.3f}" for value in found["nmi_chance"]],
        "NMI adjusted": [f"{value:.3f}" for value in found["nmi_adjusted"]],
    }
    note = f"{found['labels']:,} categories; {found['items_unlabelled']:,} items have none"
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
