"""The comparison page: tokenizers side by side, and what one separates and another merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from ..data.joint import ITEMS
from ..errors import count_of
from ..sids.metrics import Metric
from .comparison import Comparison
from .contenders import Contender
from .counted import PREDICTS
from .draw.figure import Figure
from .evidence import assess
from .html import chips, figure_section, findings_list, look_for, numbers_list, page, section, short, table
from .lead import lead_of
from .limits import GRADES
from .made import Made
from .words import LOOK_FOR

__all__ = ["compare_page"]

SHOWN = 5  # SIDs of a group


def compare_page(
    comparison: Comparison,
    contenders: Sequence[Contender],
    figures: Sequence[Figure],
    name: str,
    pairs: Sequence[Mapping[str, Any]],
    made: Made | None = None,
) -> str:
    """One self-contained HTML document. pairs: as `pairs_of` gives them; made: where it comes from."""
    sections = [
        ("verdict", "", _verdict(comparison, contenders)),
        ("table", "The table", section("table", "Codebook quality", _table(comparison))),
        *(figure_section(figure) for figure in figures),
        ("pairs", "What one separates", section("pairs", "What one separates and another merges", _pairs(pairs))),
    ]
    seeds = f"seed{'s' if len(comparison.seeds) > 1 else ''} {', '.join(map(str, comparison.seeds))}"
    others = "".join(f" · fitted with {n:,} {role}" for role, n in comparison.roles.items() if role != ITEMS)
    subtitle = f"{count_of(len(contenders[0].table), 'item')}{others} · {len(contenders)} tokenizers · {seeds}"
    return page(name, "Semantic ID comparison", subtitle, sections, made)


def _verdict(comparison: Comparison, contenders: Sequence[Contender]) -> str:
    """The leader, whether its lead is certain, and each tokenizer's verdict; the worst gives the colour."""
    headline, numbers = lead_of(comparison)
    verdicts = [(one.label, assess(one.table)["verdict"]) for one in contenders]
    lines = [
        (verdict["grade"], f'<span class="sid">{escape(label)}</span> {escape(verdict["headline"])}')
        for label, verdict in verdicts
    ]
    worst = max((verdict["grade"] for _, verdict in verdicts), key=GRADES.index)
    by = f'<p class="soft">{escape(f"Ranked by {PREDICTS}.")}</p>' if comparison.is_counted else ""
    found = f"{numbers_list(numbers)}{by}{findings_list(lines)}"
    return f'<div class="verdict {worst}"><h2>{escape(headline)}</h2>{found}</div>'


def _table(comparison: Comparison) -> str:
    ranks, classes, columns = comparison.ranks(), {1: "best", 2: "second"}, comparison.columns()
    rows = [
        [escape(label)]
        + [
            f'<td class="{classes.get(rank, "")}">{escape(cell)}</td>'
            for cell, rank in zip(comparison.cells(label), ranks[label], strict=True)
        ]
        for label in comparison.figures
    ]
    metrics = dict.fromkeys(column.metric for column in columns)
    explained = f"{LOOK_FOR['table']} {'; '.join(map(_explained, metrics))}."
    return look_for(explained) + table(["method", *(column.heading for column in columns)], rows)


def _explained(metric: Metric) -> str:
    direction = f" ({metric.better} is better)" if metric.better != "none" else ""
    return f"{metric.short or metric.label}: {metric.formula}{direction}"


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    return look_for(LOOK_FOR["pairs"]) + "".join(map(_pair, pairs))


def _pair(pair: Mapping[str, Any]) -> str:
    a, b, merged, separated = (pair[k] for k in ("merged_by", "separated_by", "pairs_merged", "pairs_separated"))
    share = f" ({separated / merged:.1%})" if merged else ""
    summary = (
        f"{a} puts {count_of(merged, 'pair')} of items on one SID; {b} separates {separated:,} of them{share} and "
        f"gives {pair['items_separated']:,} of the items a SID to themselves."
    )
    title, groups = f"Merged by {a}, separated by {b}", "".join(map(_group, pair["groups"]))
    return f'<h3>{escape(title)}</h3><p>{escape(summary)}</p><div class="groups">{groups}</div>'


def _group(group: Mapping[str, Any]) -> str:
    lines = ""
    for branch in group["branches"][:SHOWN]:
        shown = zip(branch["ids"], branch.get("texts") or [""] * len(branch["ids"]), strict=True)
        texts = "".join(
            f'<span class="text"><span class="id">{short(str(item))}</span> {short(text)}</span>'
            for item, text in islice(shown, 2)
        )
        head = f'<span class="sid">{escape(branch["sid"])}</span> <span class="count">{branch["items"]}</span>'
        lines += f"<li>{head} {chips(branch['words'])}{texts}</li>"
    more = len(group["branches"]) - SHOWN
    lines += f'<li class="count">and {more} more SIDs</li>' if more > 0 else ""
    head = f'<span class="sid">{escape(group["sid"])}</span> <span class="count">{group["items"]} items, now on</span>'
    return f'<div class="group"><p>{head}</p><ul>{lines}</ul></div>'
