"""The limits of the verdict: beyond which values a finding is watch or poor.

They are sidkit's own, and are printed on the page and in docs/reading-the-report.md so that they can be questioned.
"""

from __future__ import annotations

from typing import NamedTuple

from ..sids.metrics import METRICS

__all__ = ["GRADES", "LIMITS", "Limit", "grade_of"]

GRADES = ("good", "watch", "poor")


class Limit(NamedTuple):
    """Values beyond `watch` and `poor` get that grade; beyond is below where low values are bad, else above."""

    watch: float
    poor: float
    measured_as: str
    low_is_bad: bool = False

    def grade(self, value: float) -> str:
        sign = -1 if self.low_is_bad else 1
        return "poor" if sign * (value - self.poor) > 0 else "watch" if sign * (value - self.watch) > 0 else "good"

    def text(self, value: float) -> str:
        """One of its two values in words."""
        if self.low_is_bad:
            return f"below {value:.0%}"
        unit = " times" if self.measured_as.endswith(("even share", "by chance")) else ""
        return f"above {value:.0%}" if value < 1 else f"above {value:g}{unit}"


LIMITS = {
    "meaning": Limit(
        0.3, 0.05, "nearest items that share the first token, from chance (0%) to as many as could (100%)", True
    ),
    "codes in use": Limit(0.9, 0.5, "codes of a level that at least one item has / codes it could have", True),
    "effective use": Limit(0.5, 0.25, "perplexity of a level / codes it could have", True),
    "sharing": Limit(0.1, 0.5, METRICS["collision_per_item"].formula),
    "largest bucket": Limit(20, 100, METRICS["largest_bucket"].formula),
    "heaviest first token": Limit(5, 10, "items under the fullest first token / an even share"),
    "carryover": Limit(1.5, 5, "what a level passes on along the centroid it has chosen / by chance"),
    "repeated centroids": Limit(
        0.4, 0.7, "centroids with another of their level within a tenth of the usual distance / centroids"
    ),
}


def grade_of(name: str, value: float) -> str:
    return LIMITS[name].grade(value)
