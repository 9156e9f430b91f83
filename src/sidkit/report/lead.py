"""Which tokenizer of a comparison leads, and whether by more than seeds differ."""

from __future__ import annotations

from statistics import mean, stdev
from typing import NamedTuple

from .comparison import COUNTED, Comparison

__all__ = ["lead_of"]


class Ruler(NamedTuple):
    """The figure that tokenizers are ranked by, its scale and its words."""

    figure: str
    scale: float
    form: str
    leads: str
    value: str
    unit: str


ALONE = Ruler(
    "icr_per_item",
    100.0,
    ".2f",
    "gives the most items a SID to themselves",
    "of items have a SID to themselves under",
    "points",
)
BY_COUNTING = Ruler(
    COUNTED.name, 1.0, ".4f", "is expected to recommend best", f"{COUNTED.label} of", COUNTED.label.split()[-1]
)


def lead_of(comparison: Comparison) -> tuple[str, list[tuple[str, str]]]:
    """The headline and its (value, label) numbers: by counting where that was done, else by items alone on a SID."""
    ruler = BY_COUNTING if comparison.is_counted else ALONE
    values = {label: [run[ruler.figure] for run in runs] for label, runs in comparison.figures.items()}
    order = sorted(values, key=lambda label: -mean(values[label]))
    best, top = order[0], mean(values[order[0]])
    numbers = [(f"{top:.1%}" if ruler is ALONE else f"{top:{ruler.form}}", f"{ruler.value} {best}")]
    headline = f"{best} {ruler.leads}."
    if len(order) == 1:
        return headline, numbers
    second = order[1]
    lead = ruler.scale * (top - mean(values[second]))
    std = ruler.scale * max(stdev(values[label]) if len(values[label]) > 1 else 0.0 for label in (best, second))
    seeds = min(len(values[best]), len(values[second]))
    numbers.append((f"{lead:{ruler.form}}", f"{ruler.unit} ahead of {second}"))
    between = f"{ruler.unit} between seeds (standard deviation)"
    numbers.append((f"±{std:{ruler.form}}" if seeds > 1 else "?", between))
    if seeds < 2:
        return f"{headline} Its lead over {second} rests on one seed; run more seeds to know whether it holds.", numbers
    if lead > 2 * std:
        return f"{headline} Its lead over {second} is larger than the differences between seeds.", numbers
    tie = f"{best} and {second} do not differ clearly: the lead is less than twice the standard deviation over seeds."
    return tie, numbers
