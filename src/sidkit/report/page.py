"""The report page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from ..errors import count_of
from ..sids.metrics import metrics_for
from .evidence import Evidence
from .html import chips, figure_section, look_for, page, section, short, table, verdict_box
from .limits import LIMITS
from .made import Made
from .words import LOOK_FOR

__all__ = ["report_page"]

JUDGED = ("behaviour", "counting", "neighbours", "categories")


def report_page(evidence: Evidence, name: str, made: Made | None = None) -> str:
    """One self-contained HTML document with this name as its title; made: where it comes from."""
    facts = evidence.facts
    drawn = {figure.name: figure_section(figure) for figure in evidence.figures}
    sections = [
        ("verdict", "", verdict_box(facts["verdict"])),
        *(drawn[key] for key in drawn if key not in JUDGED),
        ("formulas", "Collision formulas", section("formulas", "Collisions by every formula in use", _formulas(facts))),
        ("levels", "Level by level", section("levels", "Level by level", _levels(facts))),
        *(drawn[key] for key in JUDGED if key in drawn),
    ]
    if "collisions" in facts:
        inside = _policy(facts["collisions"])
        sections.append(("policy", "Collision policy", section("policy", "What the collision policy cost", inside)))
    if facts["collision_groups"]:
        inside = _groups(facts["collision_groups"])
        sections.append(("groups", "Collision groups", section("groups", "Items that share a SID", inside)))
    sections.append(("tree", "Prefix tree", section("tree", "A sample of the prefix tree", _tree(facts["tree"]))))
    sections.append(("limits", "Limits", section("limits", "The limits of the verdict", _limits())))
    subtitle = f"{count_of(facts['items'], 'item')} · {'-'.join(map(str, facts['sizes']))}"
    if "tokenizer" in facts:
        subtitle += " · {recipe}, seed {seed}, {dimensions} dimensions".format(**facts["tokenizer"])
    return page(name, "Semantic ID report", subtitle, sections, made)


def _formulas(facts: Mapping[str, Any]) -> str:
    rows = [
        [
            escape(metric.term or metric.label),
            f"<code>{escape(metric.formula)}</code>",
            f"<b>{escape(metric.text(facts[metric.name]))}</b>",
            escape(metric.used_by),
        ]
        for metric in metrics_for("page", facts, per_level=False)
    ]
    counts = (
        f"Here: {count_of(facts['items'], 'item')}, {count_of(facts['distinct_sids'], 'distinct SID')}, "
        f"{count_of(round(facts['icr_per_item'] * facts['items']), 'item')} alone on their SID."
    )
    head = ("name", "formula", "value", "as used by")
    return look_for(LOOK_FOR["formulas"]) + f"<p>{counts}</p>" + table(head, rows, "words")


def _levels(facts: Mapping[str, Any]) -> str:
    metrics = metrics_for("page", facts, per_level=True)
    rows = [
        [str(level + 1), f"{size:,}", *(escape(metric.text(facts[metric.name][level])) for metric in metrics)]
        for level, size in enumerate(facts["sizes"])
    ]
    head = ("level", "size", *(metric.label for metric in metrics))
    return look_for(LOOK_FOR["levels"]) + table(head, rows)


def _policy(made: Mapping[str, Any]) -> str:
    """What `sidkit encode` or `sidkit resolve` noted of its policy, as a table."""
    rows = [("policy", made["policy"]), ("new items", f"{made['new']:,}"), ("items moved", f"{made['moved']:,}")]
    if made.get("published"):
        rows.insert(1, ("items that keep a published SID", f"{made['kept']:,}"))
    rows.append(("added distortion per moved item", f"{made['added_cost_per_moved_item']:.4f}"))
    rows.append(("added distortion per new item", f"{made['added_cost_per_new_item']:.5f}"))
    if made.get("greedy_added_cost") is not None:
        rows.append(
            ("added in all, and if done greedily", f"{made['added_cost']:.3f}, {made['greedy_added_cost']:.3f}")
        )
    if "neighbours" in made:
        near = made["neighbours"]
        overlap = f"{near['overlap_before']:.2%} before, {near['overlap_after']:.2%} after"
        rows.append((f"of the {near['neighbours']} nearest by code, those nearest by embedding", overlap))
    rows.append(("items that share a SID with others", f"{made['sharing']:,}"))
    return look_for(LOOK_FOR["policy"]) + table(("what", "value"), [[escape(cell) for cell in row] for row in rows])


def _groups(groups: Iterable[Mapping[str, Any]]) -> str:
    return look_for(LOOK_FOR["groups"]) + '<div class="groups">' + "".join(map(_group, groups)) + "</div>"


def _group(group: Mapping[str, Any]) -> str:
    ids = [f'<span class="id">{short(str(item))}</span>' for item in group["ids"]]
    texts = [short(text) or "<i>no text</i>" for text in group.get("texts", ())] or [""] * len(ids)
    lines = "".join(f"<li>{item} {text}</li>" for item, text in zip(ids, texts, strict=True))
    more = group["items"] - len(ids)
    lines += f'<li class="count">and {more:,} more</li>' if more > 0 else ""
    different = group.get("different_texts", group["items"])
    note = f", {different:,} different text{'s' if different != 1 else ''}" if different < group["items"] else ""
    head = f'<span class="sid">{escape(group["sid"])}</span> <span class="count">{group["items"]:,} items{note}</span>'
    return f'<div class="group"><p>{head}</p>{chips(group.get("words", ()))}<ul>{lines}</ul></div>'


def _tree(tops: Iterable[Mapping[str, Any]]) -> str:
    return look_for(LOOK_FOR["tree"]) + '<div class="tree"><ul>' + "".join(map(_branch, tops)) + "</ul></div>"


def _branch(branch: Mapping[str, Any]) -> str:
    inside = "".join(map(_branch, branch.get("branches", ())))
    left = branch.get("branches_in_all", 0) - len(branch.get("branches", ()))
    inside += f'<li class="count">and {left:,} more branches</li>' if left > 0 else ""
    texts = "".join(f'<span class="text">{short(text)}</span>' for text in branch.get("texts", ()))
    head = f'<span class="sid">{escape(branch["prefix"])}</span> <span class="count">{branch["items"]:,}</span>'
    return f"<li>{head} {chips(branch['words'])}{texts}{f'<ul>{inside}</ul>' if inside else ''}</li>"


def _limits() -> str:
    rows = [
        [escape(name), escape(limit.measured_as), limit.text(limit.watch), limit.text(limit.poor)]
        for name, limit in LIMITS.items()
    ]
    return look_for(LOOK_FOR["limits"]) + table(("what", "measured as", "watch", "poor"), rows, "words")
