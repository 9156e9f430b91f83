"""What `judge` prints, and `report` below its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from ..errors import count_of
from ..measure.ranking import CUTS, labels_at
from ..report.words import ARRANGED, COUNTING
from .printing import console_at_least

__all__ = ["print_judgement"]

Shown = tuple[str, Table, list[str]]  # title, table, notes


def print_judgement(facts: Mapping[str, Any]) -> None:
    console = console_at_least(120, highlight=False)
    shown = {"behaviour": _behaviour, "counting": _counting, "neighbours": _neighbours, "categories": _categories}
    for name, show in shown.items():
        if name in facts:
            title, table, notes = show(facts[name])
            console.print(f"[bold]{title}[/bold]")
            console.print(table)
            console.print(*notes, "", sep="\n", style="dim")
    if facts.get("order", {}).get("arranged"):
        words = ARRANGED.format(**facts["order"])
        console.print(f"Careful: {words} (docs/judging.md)", style="yellow", soft_wrap=True)


def _counting(facts: Mapping[str, Any]) -> Shown:
    labels = labels_at(max(CUTS))
    table = Table("", *labels.values(), box=None, pad_edge=False, header_style="bold")
    for method, words in COUNTING.items():
        table.add_row(words, *(f"{facts[method][name]:.4f}" for name in labels))
    note = f"how well the last item but one of {count_of(facts['users'], 'user')} is predicted"
    return "Counting: what can be recommended without a model?", table, [note]


def _behaviour(facts: Mapping[str, Any]) -> Shown:
    columns = {
        "shares prefix": _percent(facts["share"], facts["share_error"]),
        "popular item": _percent(facts["chance_popular"]),
        "any item": _percent(facts["chance_uniform"]),
        "lift": _times(facts["lift"], facts["lift_error"]),
    }
    left_out = f"{facts['transitions_repeated']:,} repeats, {facts['transitions_unknown']:,} with an item without a SID"
    notes = [
        "popular item, any item: the share if the next item were drawn that way; lift: over a popular item",
        f"{count_of(facts['transitions'], 'transition')} in {count_of(facts['sequences'], 'sequence')}; "
        f"left out: {left_out}",
    ]
    if "category_share" in facts:
        columns["in category"] = _percent(facts["chance_category"])
        columns["lift over it"] = _times(facts["lift_category"], facts["lift_category_error"])
        shares = ", ".join(_percent(facts["category_share"]))
        lifts = ", ".join(_times(facts["category_lift"], facts["category_lift_error"]))
        notes.append(f"the category paths themselves, level by level: the next item shares {shares}; lift {lifts}")
    return "Behaviour: does the next item share the prefix?", _per_level(columns), notes


def _neighbours(facts: Mapping[str, Any]) -> Shown:
    k = facts["neighbours"]
    columns = {
        f"of {k} nearest": _percent(facts["share"], facts["share_error"]),
        "any item": _percent(facts["chance"]),
        "lift": _times(facts["lift"]),
        "above chance": ["" if value is None else f"{value:.0%}" for value in facts["above_chance"]],
    }
    error = f" ±{facts['overlap_error']:.2%}" if facts["overlap_error"] else ""
    overlap = f"{facts['overlap']:.2%}{error} of the {k} nearest by code are among the {k} nearest by embedding"
    sample = f"a sample of {facts['queries']:,} of {count_of(facts['items'], 'item')}"
    without = f"; {facts['items_without_vector']:,} have no vector" if facts["items_without_vector"] else ""
    return "Neighbours: do the nearest items share the prefix?", _per_level(columns), [overlap, sample + without]


def _categories(facts: Mapping[str, Any]) -> Shown:
    columns = {
        "purity": _percent(facts["purity"]),
        "shuffled": _percent(facts["purity_chance"]),
        "NMI": [f"{value:.3f}" for value in facts["nmi"]],
        "NMI shuffled": [f"{value:.3f}" for value in facts["nmi_chance"]],
        "NMI adjusted": [f"{value:.3f}" for value in facts["nmi_adjusted"]],
    }
    none = count_of(facts["items_unlabelled"], "item has", "items have")
    note = f"{count_of(facts['labels'], 'category', 'categories')}; {none} none"
    return "Categories: do prefixes follow them?", _per_level(columns), [note]


def _per_level(columns: Mapping[str, Sequence[str]]) -> Table:
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
