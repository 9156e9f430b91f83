"""The verdict in words: what the figures mean for the use of these SIDs.

Each finding is good, watch or poor, by the limits of `limits`; the verdict has the grade of its worst finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from .draw.marks import number_text
from .findings import Finding, balance, bucket, codes_in_use, collisions, few_collisions, levels, meaning, space
from .limits import GRADES

__all__ = ["verdict"]

NOISE = 0.02  # meaning is not judged where random SIDs would differ by more than this


def verdict(
    figures: Mapping[str, Any],
    sizes: Sequence[int],
    heaviest: int,
    neighbours: Mapping[str, Any] | None = None,
    room: float | None = None,
    further: Sequence[Finding] = (),
) -> dict[str, Any]:
    """A headline, the numbers behind it and all findings.

    figures: of `quality`; heaviest: items under the fullest first token; neighbours: the result of
    `neighbour_agreement`, without which meaning is not judged; room: see `collisions`; further: findings that need more
    than codes.
    """
    n = int(figures["items"])
    near = neighbours if neighbours is not None and _is_certain(neighbours) else None
    of_levels = levels(figures, sizes)
    findings = [
        *([meaning(near)] if near else []),
        collisions(figures, any(finding.grade == "poor" for finding in of_levels), room),
        *of_levels,
        bucket(figures),
        balance(heaviest, sizes[0], n),
        *space(sizes, n),
        *further,
    ]
    findings.sort(key=lambda finding: -GRADES.index(finding.grade))
    return {
        "grade": findings[0].grade,
        "headline": _headline(findings, few_collisions(figures), near is not None),
        "numbers": [{"value": value, "label": label} for value, label in _numbers(figures, sizes, near)],
        "findings": [finding._asdict() for finding in findings],
    }


def _is_certain(near: Mapping[str, Any]) -> bool:
    """Whether random SIDs would be recognised: not where items are few, or nearly all have one first token.

    They differ by sqrt(chance (1 - chance) / neighbours compared) / (most - chance), one standard deviation.
    """
    chance, most = float(near["chance"][0]), float(near["most"][0])
    compared = int(near["neighbours"]) * int(near["queries"])
    return sqrt(chance * (1 - chance) / compared) <= NOISE * (most - chance) and near["above_chance"][0] is not None


def _numbers(figures: Mapping[str, Any], sizes: Sequence[int], near: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The (value, label) of what the first screen shows large."""
    n = int(figures["items"])
    worst = min(range(len(sizes)), key=lambda level: figures["codes_used"][level] * sizes[level] / min(sizes[level], n))
    all_full = len(set(sizes)) == 1 and all(used == 1 for used in figures["codes_used"])
    which = "every level" if all_full else f"level {worst + 1}, the least used"
    numbers = [
        (f"{figures['icr_per_item']:.1%}", "of items have a SID to themselves"),
        (f"{codes_in_use(figures, sizes, worst):,} of {sizes[worst]:,}", f"codes in use at {which}"),
        (f"{figures['largest_bucket']:,}", "items on the most crowded SID"),
    ]
    if near:
        share, chance = (number_text(near[key][0], True) for key in ("share", "chance"))
        numbers.append((share, f"of nearest items share the first token; by chance {chance}"))
    return numbers


def _headline(findings: Sequence[Finding], few_collide: bool, meaning_judged: bool) -> str:
    """The worst findings. Few collisions are mentioned only after them, so that they cannot decide alone."""
    worst = findings[0].grade
    if worst == "good":
        good = ["every level is used", "few items share a SID", "near items share tokens"]
        return f"In good shape: {_listed(good if meaning_judged else good[:2])}."
    start = "Not ready" if worst == "poor" else "Usable, with care"
    bad = [finding.short for finding in findings if finding.grade == worst]
    return f"{start}: {_listed(bad)}{', although few items share a SID' if few_collide else ''}."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
