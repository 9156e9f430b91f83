"""The figures of a report and of a comparison, as panels. What is drawn is thinned; what is said is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sids.prefixes import prefix_numbers
from .draw.chart import GUIDE, Figure, Panel, Series
from .words import COUNTING, LOOK_FOR, TITLES

__all__ = ["bucket_panel", "lorenz_panel", "map_panels", "prefix_sizes", "report_figures", "usage_panel"]

POINTS = 160  # of a line, at most
Counts = NDArray[np.int64]
Places = Sequence[NDArray[np.float64]]


def report_figures(
    codes: NDArray[Any], sizes: Sequence[int], facts: Mapping[str, Any], places: Places = (), method: str = ""
) -> list[Figure]:
    """Every figure that the facts allow, in the order of the page."""
    counts = prefix_sizes(codes, sizes)
    figures = [
        _figure("utilisation", [usage_panel("Codes in use and perplexity", facts, sizes)]),
        _figure("lorenz", [lorenz_panel("Lorenz curves of prefixes", counts, facts["prefix_gini"])]),
        _figure("buckets", [bucket_panel("Prefixes with at least so many items", counts)]),
    ]
    if "carryover" in facts:
        rows = f" Measured on {facts['carryover']['rows']:,} items."
        figures.append(_figure("carryover", [_carryover_panel(facts["carryover"])], rows))
    figures.append(_figure("tokens", _token_panels(codes, sizes)))
    if len(places):
        figures.append(_figure("centroids", map_panels({"": places}), f" Drawn by {method}."))
    return figures + _judged(facts)


def prefix_sizes(codes: NDArray[Any], sizes: Sequence[int]) -> list[Counts]:
    """Per level, how many items each occupied prefix has, ascending."""
    return [np.sort(np.unique(number, return_counts=True)[1]) for number in prefix_numbers(codes, sizes)]


def usage_panel(title: str, facts: Mapping[str, Any], sizes: Sequence[int]) -> Panel:
    levels = list(range(len(sizes)))
    effective = [facts["perplexity"][level] / sizes[level] for level in levels]
    return Panel(
        title,
        "level (size)",
        "share of the codebook",
        [
            Series("codes in use", levels, facts["codes_used"], 0, "bars"),
            Series("perplexity / size", levels, effective, 1, "bars"),
        ],
        percent=True,
        names=[f"{level + 1} ({sizes[level]:,})" for level in levels],
        y_range=(0.0, 1.12),
    )


def lorenz_panel(title: str, counts: Sequence[Counts], gini: Sequence[float]) -> Panel:
    series = [Series("even", [0, 1], [0, 1], GUIDE)]
    for level, sizes in enumerate(counts):
        share = np.r_[0.0, np.cumsum(sizes) / sizes.sum()]
        at = np.unique(np.linspace(0, len(sizes), POINTS).astype(int))
        name = f"level {level + 1}, Gini {gini[level]:.2f}"
        series.append(Series(name, (at / len(sizes)).tolist(), share[at].tolist(), level))
    names = ("share of prefixes in use, least used first", "share of items")
    return Panel(title, *names, series, x_range=(0.0, 1.0), y_range=(0.0, 1.0))


def bucket_panel(title: str, counts: Sequence[Counts], **ranges: Any) -> Panel:
    series = []
    for level, sizes in enumerate(counts):
        value, first = np.unique(sizes, return_index=True)
        at = _thinned(np.log(value + 1.0))
        x, y = value[at], (len(sizes) - first)[at]
        x, y = np.r_[1, np.repeat(x, 2)[:-1], x[-1:]], np.r_[y[:1], np.repeat(y, 2)[1:], 1]
        series.append(Series(f"level {level + 1}", x.tolist(), y.tolist(), level))
    return Panel(title, "items", "prefixes with at least so many", series, log=True, **ranges)


def map_panels(places: Mapping[str, Places]) -> list[Panel]:
    """Centroids on a plane, per tokenizer and level; all panels have the same axes."""
    everything = np.concatenate([level for levels in places.values() for level in levels])
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = 0.04 * (high - low) + 1e-9
    (left, bottom), (right, top) = (low - room).tolist(), (high + room).tolist()
    return [
        Panel(
            title or "Centroids of all levels",
            "first direction",
            "second direction",
            [Series(f"level {i + 1}", at[:, 0].tolist(), at[:, 1].tolist(), i, "dots") for i, at in enumerate(levels)],
            axes=False,
            x_range=(left, right),
            y_range=(bottom, top),
        )
        for title, levels in places.items()
    ]


def _figure(name: str, panels: Sequence[Panel], more: str = "", **values: Any) -> Figure:
    return Figure(name, TITLES[name], LOOK_FOR[name].format(**values) + more, panels)


def _carryover_panel(carried: Mapping[str, Any]) -> Panel:
    levels = list(range(len(carried["per_level"])))
    series = [
        Series("if the centroid is subtracted", levels, carried["per_level"], 0, "bars"),
        Series("passed on here", levels, carried["passed_on"], 1, "bars"),
        Series("by chance", [-0.5, len(levels) - 0.5], [carried["isotropic"]] * 2, GUIDE),
    ]
    names = [str(level + 1) for level in levels]
    return Panel("Residual carryover", "level", "share of the residual's length", series, percent=True, names=names)


def _token_panels(codes: NDArray[Any], sizes: Sequence[int]) -> list[Panel]:
    panels = []
    for level, size in enumerate(sizes):
        counts = np.sort(np.bincount(codes[:, level], minlength=size))[::-1]
        at = np.unique(np.r_[np.geomspace(1, size, POINTS // 2), np.linspace(1, size, POINTS // 2)].astype(int)) - 1
        even = len(codes) / size
        title = f"Level {level + 1}: {int((counts > 0).sum()):,} of {size:,} tokens occur"
        series = [
            Series(f"even share, {even:,.3g}", [0, size], [even, even], GUIDE),
            Series("items per token", (at + 1).tolist(), counts[at].tolist(), level),
        ]
        panels.append(Panel(title, "tokens, most frequent first", "items", series, x_range=(0.0, float(size))))
    return panels


def _judged(facts: Mapping[str, Any]) -> list[Figure]:
    """What people did, neighbours and categories, as far as they were given, each beside what chance would give."""
    figures = []
    if "behaviour" in facts:
        found = facts["behaviour"]
        bars = {"next item shares it": found["share"]}
        if "chance_category" in found:
            bars["another of its category would"] = found["chance_category"]
        bars["any popular item would"] = found["chance_popular"]
        lifts = ", ".join("–" if lift is None else f"{lift:,.1f}" for lift in found["lift"])
        more = f" {LOOK_FOR['behaviour beside categories']}" if "chance_category" in found else ""
        panels = [_chance_panel("The next item shares the prefix", bars)]
        figures.append(_figure("behaviour", panels, more, transitions=found["transitions"], lifts=lifts))
    if "counting" in facts:
        figures.append(_figure("counting", [_counting_panel(facts["counting"])], users=facts["counting"]["users"]))
    if "neighbours" in facts:
        found = facts["neighbours"]
        bars = {"neighbours that share it": found["share"], "any item would": found["chance"]}
        above = found["above_chance"][0]
        reached = "" if above is None else f": here level 1 is {above:.0%} of the way from chance to as many as could"
        panels = [_chance_panel("Neighbours that share the prefix", bars)]
        figures.append(_figure("neighbours", panels, **found, reached=reached))
    if "categories" in facts:
        found = facts["categories"]
        bars = {"purity": found["purity"], "shuffled": found["purity_chance"], "NMI, adjusted": found["nmi_adjusted"]}
        figures.append(_figure("categories", [_chance_panel("Agreement with categories", bars)], **found))
    return figures


def _chance_panel(title: str, bars: Mapping[str, Sequence[float]]) -> Panel:
    levels = list(range(len(next(iter(bars.values())))))
    series = [Series(name, levels, values, tone, "bars") for tone, (name, values) in enumerate(bars.items())]
    return Panel(title, "level", "share", series, percent=True, names=[str(level + 1) for level in levels])


def _counting_panel(found: Mapping[str, Any]) -> Panel:
    figures = {"recall@20": "Recall@20", "ndcg@20": "NDCG@20"}
    series = [
        Series(words, list(range(len(figures))), [found[way][figure] for figure in figures], tone, "bars")
        for tone, (way, words) in enumerate(COUNTING.items())
    ]
    return Panel("Found without a model", "", "mean over users", series, names=list(figures.values()))


def _thinned(along: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of at most POINTS values, evenly spaced along an ascending axis, both ends among them."""
    wanted = np.linspace(along[0], along[-1], POINTS)
    return np.unique(np.r_[0, np.clip(np.searchsorted(along, wanted), 0, len(along) - 1)])
