"""The figures of a report and of a comparison, as panels. Curves are thinned for drawing; numbers are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import count_of
from ..sids.prefixes import token_counts
from ..sids.quality import occupancy_of
from .draw.chart import GUIDE, Panel, Series
from .draw.figure import Figure
from .judged_figures import judged_figures
from .words import titled_figure

__all__ = ["bucket_panel", "lorenz_panel", "map_panels", "prefix_sizes", "report_figures", "usage_panel"]

LINE_POINTS = 160  # of a curve, at most
Buckets = tuple[NDArray[np.int64], NDArray[np.int64]]  # numbers of items, and how many prefixes have each
Points = Sequence[NDArray[np.float64]]


def report_figures(
    codes: NDArray[Any], sizes: Sequence[int], facts: Mapping[str, Any], points: Points = (), method: str = ""
) -> list[Figure]:
    """Every figure that the facts allow, in the order of the page."""
    counts = prefix_sizes(codes, sizes)
    figures = [
        titled_figure("utilisation", [usage_panel("Codes in use and perplexity", facts, sizes)]),
        titled_figure("lorenz", [lorenz_panel("Lorenz curves of prefixes", counts, facts["prefix_gini"])]),
        titled_figure("buckets", [bucket_panel("Prefixes by number of items", counts)]),
    ]
    if "carryover" in facts:
        rows = f" Measured on {count_of(facts['carryover']['rows'], 'item')}."
        figures.append(titled_figure("carryover", [_carryover_panel(facts["carryover"])], rows))
    figures.append(titled_figure("tokens", _token_panels(codes, sizes)))
    if len(points):
        figures.append(titled_figure("centroids", map_panels({"": points}), f" Drawn by {method}."))
    return figures + judged_figures(facts)


def prefix_sizes(codes: NDArray[Any], sizes: Sequence[int]) -> list[Buckets]:
    """Per level, the numbers of items that occupied prefixes have, ascending, and how many prefixes have each."""
    return occupancy_of(codes, sizes).buckets


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


def lorenz_panel(title: str, buckets: Sequence[Buckets], gini: Sequence[float]) -> Panel:
    series = [Series("even", [0, 1], [0, 1], GUIDE)]
    for level, (items, times) in enumerate(buckets):
        prefixes, held = np.r_[0, np.cumsum(times)], np.r_[0, np.cumsum(items * times)]
        at = np.unique(np.linspace(0, prefixes[-1], LINE_POINTS).astype(int))
        bucket = np.minimum(np.searchsorted(prefixes, at, "right") - 1, len(items) - 1)
        share = (held[bucket] + (at - prefixes[bucket]) * items[bucket]) / held[-1]
        name = f"level {level + 1}, Gini {gini[level]:.2f}"
        series.append(Series(name, (at / prefixes[-1]).tolist(), share.tolist(), level))
    names = ("share of prefixes in use, least used first", "share of items")
    return Panel(title, *names, series, x_range=(0.0, 1.0), y_range=(0.0, 1.0))


def bucket_panel(title: str, buckets: Sequence[Buckets], **ranges: Any) -> Panel:
    series = []
    for level, (value, times) in enumerate(buckets):
        at = _thinned(np.log(value + 1.0))
        x, y = value[at], np.cumsum(times[::-1])[::-1][at]
        x, y = np.r_[1, np.repeat(x, 2)[:-1], x[-1:]], np.r_[y[:1], np.repeat(y, 2)[1:], 1]
        series.append(Series(f"level {level + 1}", x.tolist(), y.tolist(), level))
    return Panel(title, "x items", "prefixes with x items or more", series, log=True, **ranges)


def map_panels(points: Mapping[str, Points]) -> list[Panel]:
    """Centroids on a plane, per tokenizer and level; all panels have the same axes."""
    everything = np.concatenate([level for levels in points.values() for level in levels])
    low, high = everything.min(axis=0), everything.max(axis=0)
    margin = 0.04 * (high - low) + 1e-9
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
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
        for title, levels in points.items()
    ]


def _carryover_panel(carried: Mapping[str, Any]) -> Panel:
    levels = list(range(len(carried["per_level"])))
    series = [
        Series("if the centroid is subtracted", levels, carried["per_level"], 0, "bars"),
        Series("passed on by this tokenizer", levels, carried["passed_on"], 1, "bars"),
        Series("by chance", [-0.5, len(levels) - 0.5], [carried["isotropic"]] * 2, GUIDE),
    ]
    names = [str(level + 1) for level in levels]
    return Panel("Residual carryover", "level", "share of the residual's length", series, percent=True, names=names)


def _token_panels(codes: NDArray[Any], sizes: Sequence[int]) -> list[Panel]:
    panels = []
    for level, size in enumerate(sizes):
        counts = np.sort(token_counts(codes[:, level], size))[::-1]
        half = LINE_POINTS // 2
        at = np.unique(np.r_[np.geomspace(1, size, half), np.linspace(1, size, half)].astype(int)) - 1
        even = len(codes) / size
        title = f"Level {level + 1}: {int((counts > 0).sum()):,} of {size:,} tokens occur"
        series = [
            Series(f"even share, {even:,.3g}", [0, size], [even, even], GUIDE),
            Series("items per token", (at + 1).tolist(), counts[at].tolist(), level),
        ]
        panels.append(Panel(title, "tokens, most frequent first", "items", series, x_range=(0.0, float(size))))
    return panels


def _thinned(along: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of at most LINE_POINTS values, evenly spaced along an ascending axis, both ends among them."""
    wanted = np.linspace(along[0], along[-1], LINE_POINTS)
    return np.unique(np.r_[0, np.clip(np.searchsorted(along, wanted), 0, len(along) - 1)])
