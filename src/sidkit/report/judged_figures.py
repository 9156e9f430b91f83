"""The figures of what SIDs are judged by: behaviour, counting, neighbours and categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..measure.ranking import CUTS, labels_at
from .draw.chart import Panel, Series
from .draw.figure import Figure
from .words import COUNTING, LOOK_FOR, titled_figure

__all__ = ["chance_panel", "judged_figures"]


def judged_figures(facts: Mapping[str, Any]) -> list[Figure]:
    """A figure for each of them that the facts contain, with what chance would give."""
    draw = {"behaviour": _behaviour, "counting": _counting, "neighbours": _neighbours, "categories": _categories}
    return [figure(facts[name]) for name, figure in draw.items() if name in facts]


def _behaviour(facts: Mapping[str, Any]) -> Figure:
    bars, note = {"the next item shares it": facts["share"]}, ""
    if "chance_category" in facts:
        bars["an item of the same category"] = facts["chance_category"]
        note = f" {LOOK_FOR['behaviour beside categories']}"
    bars["a popular item"] = facts["chance_popular"]
    lifts = ", ".join("–" if lift is None else f"{lift:,.1f}" for lift in facts["lift"])
    panel = chance_panel("The next item shares the prefix", bars)
    return titled_figure("behaviour", [panel], note, transitions=facts["transitions"], lifts=lifts)


def _counting(facts: Mapping[str, Any]) -> Figure:
    labels = {name: label for name, label in labels_at(max(CUTS)).items() if not name.startswith("mrr")}
    series = [
        Series(words, list(range(len(labels))), [facts[method][name] for name in labels], tone, "bars")
        for tone, (method, words) in enumerate(COUNTING.items())
    ]
    panel = Panel("Found without a model", "", "mean over users", series, names=list(labels.values()))
    return titled_figure("counting", [panel], users=facts["users"])


def _neighbours(facts: Mapping[str, Any]) -> Figure:
    bars = {"nearest items that share it": facts["share"], "any item": facts["chance"]}
    above = facts["above_chance"][0]
    reached = "" if above is None else f" Level 1 is {above:.0%} of the way from chance to the most that is possible."
    panel = chance_panel("Nearest items that share the prefix", bars)
    return titled_figure("neighbours", [panel], **facts, reached=reached)


def _categories(facts: Mapping[str, Any]) -> Figure:
    bars = {"purity": facts["purity"], "shuffled": facts["purity_chance"], "NMI, adjusted": facts["nmi_adjusted"]}
    return titled_figure("categories", [chance_panel("Agreement with categories", bars)], **facts)


def chance_panel(title: str, bars: Mapping[str, Sequence[float]]) -> Panel:
    """A group of bars per level."""
    levels = list(range(len(next(iter(bars.values())))))
    series = [Series(name, levels, values, tone, "bars") for tone, (name, values) in enumerate(bars.items())]
    return Panel(title, "level", "share", series, percent=True, names=[str(level + 1) for level in levels])
