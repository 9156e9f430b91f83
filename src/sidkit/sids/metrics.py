"""The quality figures, one entry each.

The terminal, the pages, the model card, the comparison and the documents all draw from this table. A new figure is one
entry here and its value in `quality.figures_of`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from math import floor, log10
from typing import Literal

__all__ = ["METRICS", "Metric", "View", "metrics_for"]

View = Literal["terminal", "page", "card", "compare"]
EVERYWHERE: tuple[View, ...] = ("terminal", "page", "card", "compare")


@dataclass(frozen=True)
class Metric:
    """A quality figure: what it is called, what it measures and how it is shown.

    name       key in `quality` and in JSON; it names the denominator
    label      in the terminal, on the pages and in the model card
    formula    in words
    form       format of one value: ".2%", ",d", ".3f"
    better     which values are better; "none" where neither is
    per_level  whether there is one value per level
    equation   in the paper, or where else it comes from
    term       what the literature calls it
    used_by    who uses that term for this formula
    short      column heading of a comparison; the label where empty
    views      where it is shown
    """

    name: str
    label: str
    formula: str
    form: str
    better: Literal["higher", "lower", "none"] = "none"
    per_level: bool = False
    equation: str = ""
    term: str = ""
    used_by: str = ""
    short: str = ""
    views: tuple[View, ...] = EVERYWHERE

    @property
    def is_share(self) -> bool:
        return self.form.endswith("%")

    @property
    def title(self) -> str:
        """The label with a capital, as a heading."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def origin(self) -> str:
        """Where it comes from, in brackets: " (paper, Eq. 19)", " (OneSearch)"; empty where that is not known."""
        origin = f"paper, Eq. {self.equation}" if self.equation else self.used_by
        return f" ({origin})" if origin else ""

    def digits(self, largest: float) -> int:
        """Decimals to show values up to `largest` with: those of the form or, for a smaller share, two digits.

        A share is given in percent. A deep level's utilisation would read as zero otherwise.
        """
        decimals = re.search(r"\.(\d+)", self.form)
        usual = int(decimals[1]) if decimals else 0
        return 1 - floor(log10(largest)) if self.is_share and 0 < largest < 0.5 * 10**-usual else usual

    def text(self, value: float | None) -> str:
        """A value as it is shown; empty for None."""
        if value is None:
            return ""
        return f"{value:.{self.digits(100 * value)}%}" if self.is_share else f"{value:{self.form}}"


def metrics_for(view: View, figures: Container[str], per_level: bool | None = None) -> list[Metric]:
    """The metrics that a view shows, of those that the figures contain; with per_level, only that kind."""
    return [
        metric
        for metric in METRICS.values()
        if view in metric.views and metric.name in figures and per_level in (None, metric.per_level)
    ]


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("items", "items", "n", ",d", views=("terminal",)),
        Metric("distinct_sids", "distinct SIDs", "number of different SIDs", ",d", views=("terminal",)),
        Metric(
            "icr_per_sid",
            "SIDs with one item / distinct SIDs (ICR)",
            "SIDs with exactly one item / distinct SIDs",
            ".2%",
            "higher",
            equation="19",
            term="independent-code ratio, per SID",
            used_by="PRQ-KMeans",
            short="ICR",
        ),
        Metric(
            "icr_per_item",
            "items alone on their SID / items",
            "items alone on their SID / items",
            ".2%",
            "higher",
            term="independent-code ratio, per item",
            used_by="OneSearch",
            views=("terminal", "page", "card"),
        ),
        Metric(
            "collision_per_item",
            "items that share their SID / items",
            "items that share their SID / items",
            ".2%",
            "lower",
            term="collision rate, per item",
            used_by="CollisionGenRec",
            views=("terminal", "page"),
        ),
        Metric(
            "surplus_per_item",
            "(items − distinct SIDs) / items",
            "(items − distinct SIDs) / items",
            ".2%",
            "lower",
            term="collision rate, surplus",
            used_by="LC-Rec, MiniOneRec",
            views=("page",),
        ),
        Metric("items_per_sid", "items / distinct SIDs", "items / distinct SIDs", ".2f", "lower", views=()),
        Metric("largest_bucket", "largest bucket", "most items on one SID", ",d", "lower", views=("terminal", "card")),
        Metric(
            "codes_used",
            "codes in use",
            "codes in use / size",
            ".1%",
            "higher",
            per_level=True,
            views=("terminal", "page"),
        ),
        Metric(
            "perplexity",
            "perplexity",
            "2^entropy: number of codes in effective use",
            ",.1f",
            "higher",
            per_level=True,
            views=("terminal", "page"),
        ),
        Metric(
            "entropy_bits", "bits", "entropy of the token, in bits", ".2f", "higher", per_level=True, views=("page",)
        ),
        Metric(
            "utilisation",
            "prefix utilisation",
            "occupied prefixes / product of the sizes up to this level",
            ".2%",
            "higher",
            per_level=True,
            equation="20",
            short="Util",
        ),
        Metric(
            "prefix_gini",
            "prefix Gini",
            "Gini of items over occupied prefixes",
            ".3f",
            "lower",
            per_level=True,
            equation="21",
            short="Gini",
        ),
        Metric(
            "sc_per_group",
            "semantic cohesion (SC)",
            "mean cosine within prefixes of several items",
            ".3f",
            "higher",
            per_level=True,
            term="semantic cohesion",
            used_by="R3-VAE",
            short="SC",
        ),
        Metric(
            "pd_per_group_pair",
            "preference discrimination (PD)",
            "log of the mean kernel between the prefixes' mean vectors",
            ".3f",
            "lower",
            per_level=True,
            term="preference discrimination",
            used_by="R3-VAE",
            short="PD",
        ),
    )
}


def described(per_level: bool) -> str:
    """The metrics with or without a value per level, for a docstring: a line each, with name, formula and origin."""
    metrics = [metric for metric in METRICS.values() if metric.per_level is per_level]
    width = max(len(metric.name) for metric in METRICS.values()) + 2
    return "\n    ".join(f"{metric.name:{width}}{metric.formula}{metric.origin}" for metric in metrics)
