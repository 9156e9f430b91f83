"""The comparison page: tokenizers side by side on the same scales, and what one separates and another merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from statistics import mean, stdev
from typing import Any

import numpy as np

from ..progress import Progress, Silent
from ..sids.table import SidTable
from ..tokenizer.tokenizer import load
from .centroids import joint_map
from .compare import Comparison
from .contrast import contrast
from .draw.chart import Figure, Panel, Series
from .evidence import assess
from .figures import bucket_panel, lorenz_panel, map_panels, prefix_sizes
from .html import chips, figure_section, look_for, page, section, short, table
from .words import LOOK_FOR, TITLES

__all__ = ["Side", "compare_page", "comparison_figures", "pairs_of", "sides_of"]


@dataclass(frozen=True)
class Side:
    """One tokenizer of a comparison, with its first seed: the SIDs of all items, and its centroids."""

    label: str
    table: SidTable
    codebooks: Sequence[Any]


def sides_of(found: Comparison, X: Any, ids: Any, progress: Progress | None = None, device: str = "auto") -> list[Side]:
    """Encode the items X, whose ids these are, with the first run of every tokenizer."""
    sides = []
    for label, homes in found.homes.items():
        fitted = load(homes[0])
        codes = fitted.encode(X, device=device, progress=progress or Silent())
        sides.append(Side(label, SidTable(ids, codes, fitted.sizes), fitted.codebooks))
    return sides


def pairs_of(sides: Sequence[Side], texts: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """For each two tokenizers, both ways, what one separates of what the other merges.

    merged_by, separated_by   the labels of the two; the rest is of `contrast`
    """
    return [
        {"merged_by": a.label, "separated_by": b.label} | contrast(a.table, b.table, texts)
        for one, other in combinations(sides, 2)
        for a, b in ((one, other), (other, one))
    ]


def comparison_figures(found: Comparison, sides: Sequence[Side], map_by: str = "auto") -> list[Figure]:
    """Every figure of the page; panels of one figure have the same scales."""
    counts = {side.label: prefix_sizes(side.table.codes, side.table.sizes) for side in sides}
    gini = {label: found.figures[label][0]["prefix_gini"] for label in counts}
    most = max(int(levels[0].max()) for levels in counts.values())
    many = max(len(levels[-1]) for levels in counts.values())
    ranges = {"x_range": (1.0, float(10 ** len(str(most)))), "y_range": (1.0, float(10 ** len(str(many))))}
    figures = [
        Figure("figures", "The same figures, side by side", LOOK_FOR["side by side"], list(_bars(found))),
        Figure(
            "lorenz",
            TITLES["lorenz"],
            LOOK_FOR["lorenz"],
            [lorenz_panel(label, levels, gini[label]) for label, levels in counts.items()],
        ),
        Figure(
            "buckets",
            TITLES["buckets"],
            LOOK_FOR["buckets"],
            [bucket_panel(label, levels, **ranges) for label, levels in counts.items()],
        ),
    ]
    return figures + _map(sides, map_by)


def _bars(found: Comparison) -> list[Panel]:
    """Means over seeds, with whiskers of one standard deviation; no bar where a tokenizer has no such level."""
    levels = found.levels()
    alone = [("of SIDs", "icr_per_sid"), ("of items", "icr_per_item")]
    panels = [_bar_panel(found, "On a SID of their own", "", [(name, _one(key)) for name, key in alone], percent=True)]
    for title, key, percent in (
        ("Codes in use", "codes_used", True),
        ("Prefix Gini (lower is more even)", "prefix_gini", False),
    ):
        groups = [(str(level + 1), _one(key, level)) for level in range(levels)]
        panels.append(_bar_panel(found, title, "level", groups, percent=percent))
    for level in range(1, levels):  # a panel each, because they differ by orders of magnitude
        groups = [(str(level + 1), _one("utilisation", level))]
        panels.append(_bar_panel(found, f"Prefix utilisation, level {level + 1}", "level", groups, percent=True))
    return panels


def _one(key: str, level: int | None = None) -> Any:
    return lambda run: run[key] if level is None else run[key][level] if level < len(run[key]) else None


def _bar_panel(found: Comparison, title: str, x_label: str, groups: Sequence[tuple[str, Any]], percent: bool) -> Panel:
    series = []
    for tone, (label, runs) in enumerate(found.figures.items()):
        values = {place: [pick(run) for run in runs] for place, (_, pick) in enumerate(groups)}
        values = {place: some for place, some in values.items() if None not in some}
        spread = [stdev(some) if len(some) > 1 else 0.0 for some in values.values()]
        series.append(Series(label, list(values), [mean(some) for some in values.values()], tone, "bars", spread))
    names = [name for name, _ in groups]
    return Panel(title, x_label, "share" if percent else "Gini", series, percent=percent, names=names)


def _map(sides: Sequence[Side], map_by: str) -> list[Figure]:
    """The joint map of those tokenizers whose centroids live in spaces of one dimension, the commonest."""
    widths = {side.label: {book.shape[1] for book in side.codebooks} for side in sides}
    single = [next(iter(found)) for found in widths.values() if len(found) == 1]
    if not single:
        return []
    width = max(single, key=single.count)
    drawn = [side for side in sides if widths[side.label] == {width}]
    books = [book for side in drawn for book in side.codebooks]
    places, method = joint_map(books, map_by)
    ends = np.cumsum([len(side.codebooks) for side in drawn])
    shown = {side.label: places[end - len(side.codebooks) : end] for side, end in zip(drawn, ends, strict=True)}
    left = [side.label for side in sides if side not in drawn]
    more = f" Drawn by {method}; all panels share one fit and the same axes."
    more += f" Not drawn: {', '.join(left)}, whose centroids live in other spaces." if left else ""
    return [Figure("centroids", TITLES["centroids"], LOOK_FOR["centroids"] + more, map_panels(shown))] if places else []


def compare_page(
    found: Comparison,
    sides: Sequence[Side],
    figures: Sequence[Figure],
    name: str,
    pairs: Sequence[Mapping[str, Any]],
) -> str:
    """One self-contained HTML document. pairs: as `pairs_of` gives them."""
    n = len(sides[0].table)
    sections = [
        ("verdict", "", _verdict(found, sides)),
        ("table", "The table", section("table", "Codebook quality", _table(found))),
        *(figure_section(figure) for figure in figures),
        (
            "pairs",
            "What one separates",
            section("pairs", "What one separates and another merges", _pairs(pairs)),
        ),
    ]
    seeds = f"seeds {', '.join(map(str, found.seeds))}" if len(found.seeds) > 1 else f"seed {found.seeds[0]}"
    return page(name, "Semantic ID comparison", f"{n:,} items · {len(sides)} tokenizers · {seeds}", sections)


def _verdict(found: Comparison, sides: Sequence[Side]) -> str:
    """Who leads, whether by more than seeds differ, and each one's own verdict."""
    own = {label: [run["icr_per_item"] for run in runs] for label, runs in found.figures.items()}
    order = sorted(own, key=lambda label: -mean(own[label]))
    best = order[0]
    numbers = [(f"{mean(own[best]):.1%}", f"of items have a SID of their own under {best}")]
    headline = f"{best} gives the most items a SID of their own."
    if len(order) > 1:
        lead = 100 * (mean(own[best]) - mean(own[order[1]]))
        spread = 100 * max(stdev(own[label]) if len(own[label]) > 1 else 0.0 for label in order[:2])
        seeds = min(len(own[label]) for label in order[:2])
        if seeds < 2:
            headline += f" Its lead over {order[1]} rests on one seed, so nobody knows what it is worth."
        elif lead > 2 * spread:
            headline += f" Its lead over {order[1]} is larger than seeds explain."
        else:
            headline = f"{best} and {order[1]} cannot be told apart: the lead is under twice what seeds differ by."
        numbers.append((f"{lead:.2f}", f"points ahead of {order[1]}"))
        numbers.append((f"±{spread:.2f}" if seeds > 1 else "?", "points between seeds (standard deviation)"))
    cells = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for value, label in numbers)
    told = [(side.label, assess(side.table)["verdict"]) for side in sides]
    lines = "".join(
        f'<li class="{verdict["grade"]}"><b>{verdict["grade"]}</b><span><span class="sid">{escape(label)}</span> '
        f"{escape(verdict['headline'])}</span></li>"
        for label, verdict in told
    )
    return (
        f'<div class="verdict"><h2>{escape(headline)}</h2><dl class="numbers">{cells}</dl>'
        f'<ul class="findings">{lines}</ul></div>'
    )


def _table(found: Comparison) -> str:
    ranks, marks = found.ranks(), {1: "best", 2: "second"}
    rows = [
        [escape(label)]
        + [
            f'<td class="{marks.get(rank, "")}">{escape(cell)}</td>'
            for cell, rank in zip(found.cells(label), ranks[label], strict=True)
        ]
        for label in found.figures
    ]
    return look_for(LOOK_FOR["table"]) + table(["method", *(heading for heading, _ in found.columns())], rows)


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    return look_for(LOOK_FOR["pairs"]) + "".join(map(_direction, pairs))


def _direction(found: Mapping[str, Any]) -> str:
    a, b, merged, separated = (found[k] for k in ("merged_by", "separated_by", "pairs_merged", "pairs_separated"))
    title = f"Merged by {a}, separated by {b}"
    share = f" ({separated / merged:.1%})" if merged else ""
    said = (
        f"{a} puts {merged:,} pairs of items on one SID; {b} separates {separated:,} of them{share} and "
        f"gives {found['items_separated']:,} of the items a SID of their own."
    )
    groups = "".join(_group(group) for group in found["groups"])
    return f'<h3>{escape(title)}</h3><p>{escape(said)}</p><div class="groups">{groups}</div>'


def _group(group: Mapping[str, Any]) -> str:
    lines = ""
    for branch in group["branches"][:5]:
        shown = branch.get("texts") or [str(item) for item in branch["ids"]]
        texts = "".join(f'<span class="text">{short(text)}</span>' for text in shown[:2])
        head = f'<span class="sid">{escape(branch["sid"])}</span> <span class="count">{branch["items"]}</span>'
        lines += f"<li>{head} {chips(branch['words'])}{texts}</li>"
    left = len(group["branches"]) - 5
    lines += f'<li class="count">and {left} more SIDs</li>' if left > 0 else ""
    head = f'<span class="sid">{escape(group["sid"])}</span> <span class="count">{group["items"]} items, now on</span>'
    return f'<div class="group"><p>{head}</p><ul>{lines}</ul></div>'
