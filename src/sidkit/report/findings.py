"""The findings of a verdict: one per question, each with a grade, a few words for the headline, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, prod
from typing import Any, NamedTuple

from .draw.marks import number_text
from .limits import GRADES, LIMITS, grade_of

__all__ = ["Finding", "balance", "bucket", "codes_in_use", "collisions", "few_collisions", "levels", "meaning", "space"]


class Finding(NamedTuple):
    grade: str
    short: str
    text: str


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
    return Finding(grade, short, f"{text}by chance it would be {number_text(chance, True)}.{advice}")


def few_collisions(figures: Mapping[str, Any]) -> bool:
    return bool(figures["collision_per_item"] <= LIMITS["sharing"].watch)


def collisions(figures: Mapping[str, Any], collapsed: bool) -> Finding:
    """How many items share their SID; collapsed: whether a level hardly uses its codes."""
    share = figures["collision_per_item"]
    grade = grade_of("sharing", share)
    amount = {"good": "few", "watch": "some", "poor": "most"}[grade]
    advice = {
        "good": "A generated SID nearly always names one item.",
        "watch": "A generated SID often names several items to choose from; a report page lists them.",
        "poor": "More codes per level, or one more level, would separate these items; a report page lists them.",
    }[grade]
    if grade == "poor" and collapsed:
        advice = "There are enough codes, but they are not used; a report page lists the items."
    text = f"{share:.1%} of items share their SID with another item. {advice}"
    return Finding(grade, f"{amount} items share a SID", text)


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
    codes = "its codes" if n >= max(sizes) else f"the codes that {n:,} items can have"
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
    return Finding(grade, f"level {level + 1} {state}", text)


def bucket(figures: Mapping[str, Any]) -> Finding:
    """How crowded the fullest SID is."""
    largest = int(figures["largest_bucket"])
    grade = grade_of("largest bucket", largest)
    if largest == 1:
        return Finding("good", "no SID has two items", "No two items share a SID.")
    short = {"good": "no SID is crowded", "watch": "one SID is crowded", "poor": "one SID is very crowded"}[grade]
    return Finding(grade, short, f"The most crowded SID has {largest:,} items.")


def balance(heaviest: int, size: int, n: int) -> Finding:
    """How full the fullest first token is: `heaviest` items of n, with a codebook of `size`."""
    times = heaviest * min(size, n) / n
    grade = grade_of("heaviest first token", times)
    short = {"good": "the first level is balanced", "watch": "the first level is uneven", "poor": "one token dominates"}
    text = f"The fullest first token holds {heaviest / n:.1%} of all items, {times:.1f} times an even share."
    return Finding(grade, short[grade], text)


def space(sizes: Sequence[int], n: int) -> list[Finding]:
    """A finding where there are fewer possible SIDs than items."""
    possible = prod(int(size) for size in sizes)
    if possible >= n:
        return []
    text = f"There are {possible:,} possible SIDs for {n:,} items: collisions cannot be avoided with these sizes."
    return [Finding("poor", "there are fewer SIDs than items", text)]
