"""The verdict in words: what the figures mean for somebody who wants to use these IDs.

Each finding is good, watch or poor. The thresholds are sidkit's own, chosen to be argued with: they stand in LIMITS, on
the page and in docs/reading-the-report.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, prod, sqrt
from typing import Any

__all__ = ["GRADES", "LIMITS", "verdict"]

GRADES = ("good", "watch", "poor")

# What is measured -> (watch beyond, poor beyond, in words). "Beyond" is below for those of LOW.
LIMITS: dict[str, tuple[float, float, str]] = {
    "meaning": (0.3, 0.05, "nearest items that share the first token, from chance (0%) to as many as could (100%)"),
    "codes in use": (0.9, 0.5, "codes of a level that at least one item has / codes it could have"),
    "effective use": (0.5, 0.25, "perplexity of a level / codes it could have"),
    "sharing": (0.1, 0.5, "items that share their SID / items"),
    "largest bucket": (20, 100, "most items on one SID"),
    "heaviest first token": (5, 10, "items under the fullest first token / an even share"),
}
LOW = ("meaning", "codes in use", "effective use")  # bad where they are low
NOISE = 0.02  # of "meaning": where random SIDs would differ by more than this, it is not judged


def verdict(
    figures: Mapping[str, Any], sizes: Sequence[int], heaviest: int, neighbours: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A headline, the numbers behind it and all findings, from `quality` and the fullest first token's items.

    A level can have no more codes in use than there are items, so levels are judged by min(size, items). Meaning is
    judged where it was measured: neighbours is what `neighbour_agreement` found.
    """
    n = int(figures["items"])
    near = neighbours if neighbours is not None and _can_tell(neighbours) else None
    levels = _levels(figures, sizes, n)
    findings = [
        *([_meaning(near)] if near else []),
        _collisions(figures, any(found["grade"] == "poor" for found in levels)),
        *levels,
        _bucket(figures),
        _balance(heaviest, min(sizes[0], n), n),
        *_room(figures, sizes, n),
    ]
    findings.sort(key=lambda found: -GRADES.index(found["grade"]))
    grade = findings[0]["grade"]
    worst = min(range(len(sizes)), key=lambda level: figures["codes_used"][level] * sizes[level] / min(sizes[level], n))
    full = all(used == 1 for used in figures["codes_used"])
    place = "every level" if full and len(set(sizes)) == 1 else f"level {worst + 1}, the least used"
    return {
        "grade": grade,
        "headline": _headline(findings, figures, near is not None),
        "numbers": [
            {"value": f"{figures['icr_per_item']:.1%}", "label": "of items have a SID of their own"},
            {"value": f"{_used(figures, sizes, worst):,} of {sizes[worst]:,}", "label": f"codes in use at {place}"},
            {"value": f"{figures['largest_bucket']:,}", "label": "items on the most crowded SID"},
            *([_shared(near)] if near else []),
        ],
        "findings": findings,
    }


def _used(figures: Mapping[str, Any], sizes: Sequence[int], level: int) -> int:
    return round(float(figures["codes_used"][level]) * sizes[level])


def _grade(name: str, value: float) -> str:
    watch, poor, _ = LIMITS[name]
    if name in LOW:
        return "poor" if value < poor else "watch" if value < watch else "good"
    return "poor" if value > poor else "watch" if value > watch else "good"


def _finding(grade: str, short: str, text: str) -> dict[str, str]:
    return {"grade": grade, "short": short, "text": text}


def _can_tell(near: Mapping[str, Any]) -> bool:
    """Whether random SIDs would be known as such: not if items are few, or all but a few have one first token.

    They differ by sqrt(chance (1 - chance) / neighbours asked about) / (most - chance), one standard deviation.
    """
    chance, most = float(near["chance"][0]), float(near["most"][0])
    asked = int(near["neighbours"]) * int(near["queries"])
    return sqrt(chance * (1 - chance) / asked) <= NOISE * (most - chance) and near["above_chance"][0] is not None


def _meaning(near: Mapping[str, Any]) -> dict[str, str]:
    share, chance, reached = (near[key][0] for key in ("share", "chance", "above_chance"))
    grade = _grade("meaning", reached)
    short = {
        "good": "near items share tokens",
        "watch": "SIDs say little of what items are",
        "poor": "SIDs say next to nothing of what items are",
    }[grade]
    tail = {
        "good": "",
        "watch": " That is weak, unless the SIDs were made from other vectors than these.",
        "poor": " SIDs dealt out at random are hardly worse: do these belong to these items and these vectors?",
    }[grade]
    text = f"Of an item's {near['neighbours']} nearest, {_percent(share)} share its first token; by chance it would be "
    return _finding(grade, short, f"{text}{_percent(chance)}.{tail}")


def _shared(near: Mapping[str, Any]) -> dict[str, str]:
    label = f"of nearest items share the first token; by chance {_percent(near['chance'][0])}"
    return {"value": _percent(near["share"][0]), "label": label}


def _percent(share: float) -> str:
    """To two digits, so that chance does not read as zero."""
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _collisions(figures: Mapping[str, Any], collapsed: bool) -> dict[str, str]:
    share = figures["collision_per_item"]
    grade = _grade("sharing", share)
    short = {"good": "few items share a SID", "watch": "some items share a SID", "poor": "most items share a SID"}[
        grade
    ]
    tail = {
        "good": "A generated SID nearly always names one item.",
        "watch": "Whoever generates such a SID must still choose among its items; a report page lists them.",
        "poor": "More codes per level, or one more level, would tell these items apart; a report page lists them.",
    }[grade]
    if grade == "poor" and collapsed:
        tail = "There are codes enough, but they are not used; a report page lists the items."
    return _finding(grade, short, f"{share:.1%} of items share their SID with another item. {tail}")


def _levels(figures: Mapping[str, Any], sizes: Sequence[int], n: int) -> list[dict[str, str]]:
    found = []
    for level, size in enumerate(sizes):
        reach = min(size, n)
        used = _used(figures, sizes, level)
        effective = figures["perplexity"][level]
        by_use = _grade("codes in use", used / reach)
        by_weight = _grade("effective use", effective / reach)
        grade = max(by_use, by_weight, key=GRADES.index)
        if grade == "good":
            continue
        what = "has collapsed" if grade == "poor" else "is not used to the full"
        text = f"Level {level + 1} {what}: {used:,} of {size:,} codes are in use, "
        text += f"and its items spread as if there were {effective:,.0f}."
        low = figures["collision_per_item"] <= LIMITS["sharing"][0]
        text += " The collision rate does not show it: the other levels make up for it." if low else ""
        found.append(_finding(grade, f"level {level + 1} {what}", text))
    if not found:
        least = min(_used(figures, sizes, level) / min(size, n) for level, size in enumerate(sizes))
        share = "all" if least == 1 else f"at least {floor(100 * least)}%"
        codes = "its codes" if n >= max(sizes) else f"the codes that {n:,} items can have"
        return [_finding("good", "every level is used", f"Every level has {share} of {codes} in use.")]
    return found


def _bucket(figures: Mapping[str, Any]) -> dict[str, str]:
    largest = int(figures["largest_bucket"])
    grade = _grade("largest bucket", largest)
    if largest == 1:
        return _finding("good", "no SID has two items", "No two items share a SID.")
    short = {"good": "no SID is crowded", "watch": "one SID is crowded", "poor": "one SID is very crowded"}[grade]
    return _finding(grade, short, f"The most crowded SID has {largest:,} items.")


def _balance(heaviest: int, reach: int, n: int) -> dict[str, str]:
    times = heaviest * reach / n
    grade = _grade("heaviest first token", times)
    short = {"good": "the first level is balanced", "watch": "the first level is uneven", "poor": "one token dominates"}
    text = f"The fullest first token holds {heaviest / n:.1%} of all items, {times:.1f} times an even share."
    return _finding(grade, short[grade], text)


def _room(figures: Mapping[str, Any], sizes: Sequence[int], n: int) -> list[dict[str, str]]:
    room = prod(int(size) for size in sizes)
    if room >= n:
        return []
    text = f"There are {room:,} possible SIDs for {n:,} items: collisions cannot be avoided with these sizes."
    return [_finding("poor", "there are fewer SIDs than items", text)]


def _headline(findings: Sequence[Mapping[str, str]], figures: Mapping[str, Any], meant: bool) -> str:
    """The worst first; that collisions are low is admitted, so that it cannot stand alone."""
    bad = [found["short"] for found in findings if found["grade"] == findings[0]["grade"]]
    low = figures["collision_per_item"] <= LIMITS["sharing"][0]
    if findings[0]["grade"] == "good":
        good = ["every level is used", "few items share a SID", *(["near items share tokens"] if meant else [])]
        return f"In good shape: {_listed(good)}."
    start = "Not ready" if findings[0]["grade"] == "poor" else "Usable, with care"
    return f"{start}: {_listed(bad)}{', although few items share a SID' if low else ''}."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
