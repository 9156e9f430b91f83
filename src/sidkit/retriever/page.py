"""How well a recommender does, for people: the figure of rare items, and a page with all figures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import sqrt
from typing import Any

from ..errors import count_of
from ..measure.ranking import CUTS, labels_at
from ..measure.seen import SEEN
from ..report.draw.chart import Panel, Series
from ..report.draw.figure import Figure
from ..report.html import figure_section, numbers_list, page, section, table
from ..report.made import Made

__all__ = ["READINGS", "SEEN_LISTS", "WITHOUT_MODEL", "evaluation_page", "fusion_words", "known_share", "seen_figure"]

READINGS = {
    "item": "item (a random one per SID)",
    "expected": "item, expected",
    "corrected": "item, collision-corrected",
    "sid": "SID",
    "fused": "fused with counts",
}
WITHOUT_MODEL = {"popular": "no model: the most popular", "followed": "no model: what followed the last item"}
SEEN_LISTS = {"model": "model", "fused": "fused", "followed": "counting"}
SEEN_AT = "recall@10"
LOOK_FOR = (
    "how high the model's bars are on the left. A target that was never seen is out of reach of counting and of every "
    "model over item ids, and one that was seen 1 to 4 times is hard for them. Where the model is no better there, "
    "semantic IDs bring nothing that ids do not. Whiskers contain 95 % of what other users of the kind would give."
)


def seen_figure(seen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Figure:
    """Recall@10 by how often the target was seen in training; seen: by list and group (`sidkit.measure.seen`)."""
    lists = [name for name in SEEN_LISTS if name in seen]
    first, series = seen[lists[0]], []
    for tone, name in enumerate(lists):
        found = {place: seen[name][group] for place, group in enumerate(SEEN) if seen[name][group]["users"]}
        recalls = [one[SEEN_AT] for one in found.values()]
        errors = [1.96 * sqrt(p * (1 - p) / one["users"]) for p, one in zip(recalls, found.values(), strict=True)]
        whiskers = [(min(p, error), error) for p, error in zip(recalls, errors, strict=True)]
        series.append(Series(SEEN_LISTS[name], [float(place) for place in found], recalls, tone, "bars", whiskers))
    names = [f"{group} ({first[group]['share']:.1%})" for group in SEEN]
    panel = Panel(
        "Recall@10",
        "times the target was seen in training (share of the users)",
        "mean over users",
        series,
        names=names,
    )
    known = f" A model over item ids could know {known_share(seen):.1%} of the targets: those that are in training."
    return Figure("seen", "Are new and rare items found?", LOOK_FOR + known, [panel])


def known_share(seen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> float:
    """The share of targets that are in training at all, which a model over item ids could know."""
    return 1.0 - float(next(iter(seen.values()))["0"]["share"])


def fusion_words(fusion: Mapping[str, Any]) -> str:
    """What a fusion gains; fusion: of retriever.json."""
    weights, facts = fusion["weights"], fusion["validation"]
    gain = f"{facts['gain']:+.4f} ± {facts['standard_error']:.4f} of NDCG@10 on validation"
    if not facts["on"]:
        return f"fusion with counts is off: its best weights have {gain}, which may be chance"
    again = "" if weights["repeats"] else ", without items of the history"
    return f"{'fused with counts' if weights['terms'] else 'the model alone'}{again}: {gain}"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def evaluation_page(name: str, facts: Mapping[str, Any], made: Made | None = None) -> str:
    """One page of what `sidkit evaluate` knows; facts: as its --json has them."""
    means, counting, labels = facts["means"], facts["counting"], labels_at(*CUTS)
    read = {reading: words for reading, words in READINGS.items() if f"{reading}_recall@5" in means}
    rows = [(words, {key: means[f"{reading}_{key}"] for key in labels}) for reading, words in read.items()]
    rows += [(WITHOUT_MODEL[one], figures) for one, figures in counting.items()]
    cells = [[escape(words), *(f"{figures[key]:.4f}" for key in labels)] for words, figures in rows]
    names = {READINGS["item"]: "the model alone"}
    names |= {words: words for words in (READINGS["fused"], *WITHOUT_MODEL.values())}
    numbers = numbers_list((f"{row['ndcg@10']:.4f}", f"NDCG@10, {names[one]}") for one, row in rows if one in names)
    fused = f"<p>{escape(_sentence(fusion_words(facts['fusion'])))}.</p>" if facts.get("fusion") else ""
    whole = table([count_of(facts["users"], "user"), *labels.values()], cells)
    sections = [("", "", numbers + fused)]
    if facts["seen"]:
        sections.append(figure_section(seen_figure(facts["seen"])))
    sections.append(("figures", "All figures", section("figures", "All figures", whole)))
    users = f"{count_of(facts['users'], 'user')}, one target each"
    return page(f"How well {name} recommends", "sidkit evaluate", users, sections, made)
