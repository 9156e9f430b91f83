"""The figures of a comparison: tokenizers side by side on the same scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np

from ..sids.metrics import METRICS, Metric
from .centroids import joint_map
from .comparison import COUNTED, Comparison
from .contenders import Contender
from .draw.chart import Panel, Series
from .draw.figure import Figure
from .figures import bucket_panel, lorenz_panel, map_panels, prefix_sizes
from .words import LOOK_FOR, TITLES

__all__ = ["comparison_figures"]


def comparison_figures(comparison: Comparison, contenders: Sequence[Contender], map_by: str = "auto") -> list[Figure]:
    """Every figure of the page; the panels of one figure have the same scales."""
    counts = {one.label: prefix_sizes(one.table.codes, one.table.sizes) for one in contenders}
    gini = {label: comparison.figures[label][0]["prefix_gini"] for label in counts}
    items = max(int(levels[0][0].max()) for levels in counts.values())
    prefixes = max(int(levels[-1][1].sum()) for levels in counts.values())
    ranges = {"x_range": (1.0, float(10 ** len(str(items)))), "y_range": (1.0, float(10 ** len(str(prefixes))))}
    lorenz = [lorenz_panel(label, levels, gini[label]) for label, levels in counts.items()]
    buckets = [bucket_panel(label, levels, **ranges) for label, levels in counts.items()]
    figures = [
        Figure("figures", "The same figures, side by side", LOOK_FOR["side by side"], _bars(comparison)),
        Figure("lorenz", TITLES["lorenz"], LOOK_FOR["lorenz"], lorenz),
        Figure("buckets", TITLES["buckets"], LOOK_FOR["buckets"], buckets),
    ]
    return figures + _map(contenders, map_by)


def _bars(comparison: Comparison) -> list[Panel]:
    """Means over seeds, with whiskers of one standard deviation; no bar where a tokenizer has no such level."""
    levels, utilisation = comparison.levels(), METRICS["utilisation"]
    alone = [("of SIDs", METRICS["icr_per_sid"], None), ("of items", METRICS["icr_per_item"], None)]
    counted = [("", COUNTED, None)] if comparison.is_counted else []
    panels = [_bar_panel(comparison, "Recommended by counting", "", counted)] if counted else []
    panels.append(_bar_panel(comparison, "SIDs with one item, items alone on their SID", "", alone))
    for metric in (METRICS["codes_used"], METRICS["prefix_gini"]):
        title = f"{metric.title} (lower is more even)" if metric.better == "lower" else metric.title
        groups = [(str(level + 1), metric, level) for level in range(levels)]
        panels.append(_bar_panel(comparison, title, "level", groups))
    for level in range(1, levels):  # a panel each, because they differ by orders of magnitude
        title = f"{utilisation.title}, level {level + 1}"
        panels.append(_bar_panel(comparison, title, "level", [(str(level + 1), utilisation, level)]))
    return panels


def _bar_panel(
    comparison: Comparison, title: str, x_label: str, groups: Sequence[tuple[str, Metric, int | None]]
) -> Panel:
    """A group of bars for each (name, metric, level), a bar per tokenizer."""
    series = []
    for tone, (label, runs) in enumerate(comparison.figures.items()):
        values = {x: [_value(run, metric, level) for run in runs] for x, (_, metric, level) in enumerate(groups)}
        complete = {x: [v for v in of_runs if v is not None] for x, of_runs in values.items() if None not in of_runs}
        stds = [stdev(of_runs) if len(of_runs) > 1 else 0.0 for of_runs in complete.values()]
        series.append(Series(label, list(complete), [mean(v) for v in complete.values()], tone, "bars", stds))
    metric = groups[0][1]
    y_label, names = "share" if metric.is_share else metric.short, [name for name, _, _ in groups]
    return Panel(title, x_label, y_label, series, percent=metric.is_share, names=names)


def _value(run: Mapping[str, Any], metric: Metric, level: int | None) -> float | None:
    value = run[metric.name]
    return value if level is None else value[level] if level < len(value) else None


def _map(contenders: Sequence[Contender], map_by: str) -> list[Figure]:
    """The joint map of the tokenizers whose centroids have the same dimension, the commonest one."""
    dimensions = {one.label: {book.shape[1] for book in one.codebooks} for one in contenders}
    single = [next(iter(widths)) for widths in dimensions.values() if len(widths) == 1]
    if not single:
        return []
    commonest = max(single, key=single.count)
    drawn = [one for one in contenders if dimensions[one.label] == {commonest}]
    points, method = joint_map([book for one in drawn for book in one.codebooks], map_by)
    if not points:
        return []
    ends = np.cumsum([len(one.codebooks) for one in drawn])
    by_label = {one.label: points[end - len(one.codebooks) : end] for one, end in zip(drawn, ends, strict=True)}
    omitted = [one.label for one in contenders if one not in drawn]
    note = f" Drawn by {method}; all panels share one fit and the same axes."
    note += f" Not drawn: {', '.join(omitted)}, whose centroids have other dimensions." if omitted else ""
    return [Figure("centroids", TITLES["centroids"], LOOK_FOR["centroids"] + note, map_panels(by_label))]
