"""The findings of a verdict: one per question, each with a grade, a few words for the headline, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, prod
from typing import Any, NamedTuple

from ..errors import count_of
from .draw.marks import number_text
from .limits import GRADES, LIMITS, grade_of

__all__ = [
    "Finding",
    "balance",
    "bucket",
    "codes_in_use",
    "collapsed_levels",
    "collisions",
    "few_collisions",
    "levels",
    "meaning",
    "repeated_centroids",
    "repetition",
    "space",
]


class Finding(NamedTuple):
    """see: the section of a report page that shows what is not good."""

    grade: str
    short: str
    text: str
    see: str = ""


def meaning(neighbours: Mapping[str, Any]) -> Finding:
    """Whether near items share their first token, from `neighbour_agreement`."""
    share, chance, reached = (neighbours[key][0] for key in ("share", "chance", "above_chance"))
    grade = grade_of("meaning", reached)
    short = {
        "good": "near items share tokens",
        "watch": "SIDs reflect little of what items are",
        "poor": "SIDs reflect next to nothing of what items are",
    }[grade]
    advice = {
        "good": "",
        "watch": " That is weak, unless the SIDs were made from other vectors than these.",
        "poor": " Random SIDs are hardly worse: do these SIDs belong to these items and these vectors?",
    }[grade]
    text = f"Of an item's {neighbours['neighbours']} nearest items, {number_text(share, True)} share its first token; "
    see = "" if grade == "good" else "neighbours"
    return Finding(grade, short, f"{text}by chance it would be {number_text(chance, True)}.{advice}", see)


def few_collisions(figures: Mapping[str, Any]) -> bool:
    return bool(figures["collision_per_item"] <= LIMITS["sharing"].watch)


def collisions(figures: Mapping[str, Any], collapsed: bool, room: float | None = None) -> Finding:
    """How many items share their SID; collapsed: whether a level hardly uses its codes.

    room: the share of the items that could have a SID of their own if the last tokens were dealt out (`separable`).
    """
    share = figures["collision_per_item"]
    grade = grade_of("sharing", share)
    amount = {"good": "few", "watch": "some", "poor": "most"}[grade]
    advice = {
        "good": "A generated SID nearly always names one item.",
        "watch": "A generated SID often names several items to choose from.",
        "poor": "More codes per level, or one more level, would separate these items.",
    }[grade]
    if grade == "poor" and collapsed:
        advice = "There are enough codes, but they are not used."
    if grade != "good" and room is not None and 1 - room < share / 2:
        apart = "all items" if room == 1 else f"up to {floor(1000 * room) / 10:.1f}% of the items"
        advice += f" Encoding with --spread would give {apart} a SID to themselves, by free codes of the last level."
    text = f"{share:.1%} of items share their SID with another item. {advice}"
    return Finding(grade, f"{amount} items share a SID", text, "" if grade == "good" else "groups")


def codes_in_use(figures: Mapping[str, Any], sizes: Sequence[int], level: int) -> int:
    return round(float(figures["codes_used"][level]) * sizes[level])


def levels(figures: Mapping[str, Any], sizes: Sequence[int]) -> list[Finding]:
    """A finding for each level that does not use its codes, or one that all levels do.

    A level can have no more codes in use than there are items, so it is judged by min(size, items).
    """
    n = int(figures["items"])
    findings = [_level(figures, sizes, level) for level in range(len(sizes))]
    findings = [finding for finding in findings if finding.grade != "good"]
    if findings:
        return findings
    least = min(codes_in_use(figures, sizes, level) / min(size, n) for level, size in enumerate(sizes))
    share = "all" if least == 1 else f"at least {floor(100 * least)}%"
    codes = "its codes" if n >= max(sizes) else f"the codes that {count_of(n, 'item')} can have"
    return [Finding("good", "every level is used", f"Every level has {share} of {codes} in use.")]


def _level(figures: Mapping[str, Any], sizes: Sequence[int], level: int) -> Finding:
    size, effective = sizes[level], figures["perplexity"][level]
    possible, used = min(size, int(figures["items"])), codes_in_use(figures, sizes, level)
    grades = grade_of("codes in use", used / possible), grade_of("effective use", effective / possible)
    grade = max(grades, key=GRADES.index)
    state = "has collapsed" if grade == "poor" else "is not fully used"
    text = f"Level {level + 1} {state}: {used:,} of {size:,} codes are in use, "
    text += f"and its items are distributed as if there were {effective:,.0f}."
    text += " The collision rate does not show it: the other levels make up for it." if few_collisions(figures) else ""
    return Finding(grade, f"level {level + 1} {state}", text, "utilisation")


def collapsed_levels(figures: Mapping[str, Any], sizes: Sequence[int]) -> list[Finding]:
    """The findings on levels that have collapsed, of the figures of `quality`."""
    return [finding for finding in levels(figures, sizes) if finding.grade == "poor"]


def bucket(figures: Mapping[str, Any]) -> Finding:
    """How crowded the fullest SID is."""
    largest = int(figures["largest_bucket"])
    grade = grade_of("largest bucket", largest)
    if largest == 1:
        return Finding("good", "no SID has two items", "No two items share a SID.")
    short = {"good": "no SID is crowded", "watch": "one SID is crowded", "poor": "one SID is very crowded"}[grade]
    return Finding(grade, short, f"The most crowded SID has {largest:,} items.", "" if grade == "good" else "groups")


def balance(heaviest: int, size: int, n: int) -> Finding:
    """How full the fullest first token is: `heaviest` items of n, with a codebook of `size`."""
    times = heaviest * min(size, n) / n
    grade = grade_of("heaviest first token", times)
    short = {"good": "the first level is balanced", "watch": "the first level is uneven", "poor": "one token dominates"}
    text = f"The fullest first token holds {heaviest / n:.1%} of all items, {times:.1f} times an even share."
    return Finding(grade, short[grade], text, "" if grade == "good" else "tokens")


def space(sizes: Sequence[int], n: int) -> list[Finding]:
    """A finding where there are fewer possible SIDs than items."""
    possible = prod(int(size) for size in sizes)
    if possible >= n:
        return []
    text = f"There are {possible:,} possible SIDs for {n:,} items: collisions cannot be avoided with these sizes."
    return [Finding("poor", "there are fewer SIDs than items", text)]


def repetition(carried: Mapping[str, Any], last_is_level: bool) -> list[Finding]:
    """Whether a level has to encode again what the one before it chose, from `carryover`.

    last_is_level: no level comes after the last one, so that what it passes on does not matter.
    """
    passed_on = carried["passed_on"][: -1 if last_is_level else None]
    if not passed_on:
        return []
    level = max(range(len(passed_on)), key=passed_on.__getitem__)
    times = passed_on[level] / carried["isotropic"]
    grade = grade_of("carryover", times)
    if grade == "good":
        return [
            Finding(grade, "no level repeats another", "No level has to encode again what the one before it chose.")
        ]
    text = (
        f"Level {level + 1} passes on {passed_on[level]:.1%} of its residual along the centroid it has chosen, "
        f"{times:.1f} times what chance would: the next level has to encode that again. Residuals by projection "
        "(prq-kmeans) pass on none."
    )
    return [Finding(grade, f"level {level + 2} repeats level {level + 1}", text, "carryover")]


def repeated_centroids(shares: Sequence[float]) -> list[Finding]:
    """Whether centroids repeat each other: per level, the share that has a near twin (`near_twins`)."""
    if not shares:
        return []
    level = max(range(len(shares)), key=shares.__getitem__)
    grade = grade_of("repeated centroids", shares[level])
    if grade == "good":
        return [Finding(grade, "centroids differ", "Hardly any centroid repeats another of its level.")]
    text = (
        f"{shares[level]:.0%} of the centroids of level {level + 1} nearly repeat another one: items between them get "
        "their tokens by accident. Smaller codebooks, or more data, would do."
    )
    return [Finding(grade, f"centroids of level {level + 1} repeat each other", text, "centroids")]
