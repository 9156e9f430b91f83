"""The target, what each candidate is expected to reach, and the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import SpecError

__all__ = ["Advice", "Candidate", "Sizes", "Target", "choose"]

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """The limits that the SIDs must meet; None is no limit."""

    icr_per_sid: float | None = None
    sids_per_item: float | None = None
    largest_bucket: int | None = None

    def __post_init__(self) -> None:
        for name, share in (("ICR", self.icr_per_sid), ("SIDs per item", self.sids_per_item)):
            if share is not None and not 0 < share < 1:
                raise SpecError(
                    f"a target of {share:g} for {name} cannot be used; give a share between 0 and 1, as 0.95"
                )
        if self.largest_bucket is not None and self.largest_bucket < 1:
            raise SpecError(f"the largest bucket holds at least 1 item, not {self.largest_bucket}")

    def met_by(self, icr: float, sids: float, bucket: float) -> bool:
        return (
            (self.icr_per_sid is None or icr >= self.icr_per_sid)
            and (self.sids_per_item is None or sids >= self.sids_per_item)
            and (self.largest_bucket is None or bucket <= self.largest_bucket)
        )


@dataclass(frozen=True)
class Candidate:
    """Sizes, and what is expected of them with all items; low and high are the ends of a 90 % interval."""

    sizes: Sizes
    codewords: int  # in all levels together
    fitted_on: int  # rows of the larger fit
    measured: bool  # fitted on all rows, not predicted
    drifts: bool  # the larger sample was much worse than the smaller; larger ones may be worse still
    icr_per_sid: float
    icr_per_sid_low: float
    icr_per_sid_high: float
    sids_per_item: float
    sids_per_item_low: float
    sids_per_item_high: float
    largest_bucket: float
    largest_bucket_low: float
    largest_bucket_high: float

    def meets(self, target: Target) -> str:
        """yes: the whole interval meets the target; likely: its middle does; no: neither does."""
        if target.met_by(self.icr_per_sid_low, self.sids_per_item_low, self.largest_bucket_high):
            return "yes"
        return "likely" if target.met_by(self.icr_per_sid, self.sids_per_item, self.largest_bucket) else "no"


@dataclass(frozen=True)
class Advice:
    """Every candidate, and the one with the fewest codewords that meets the target; None if none does."""

    items: int
    counted: int  # items whose SIDs were counted
    target: Target
    candidates: Sequence[Candidate]
    chosen: Candidate | None
    pairs: int = 0  # pairs of fits behind the intervals
    others: Mapping[str, int] = field(default_factory=dict)  # role -> its rows, of those fitted with the items

    @property
    def drifts(self) -> bool:
        """Whether the sample is too small to show how items group; a larger one is needed."""
        return any(one.drifts for one in self.candidates)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        plain = asdict(self)
        for row, candidate in zip(plain["candidates"], self.candidates, strict=True):
            row["meets"] = candidate.meets(self.target)
        return plain


def choose(candidates: Sequence[Candidate], target: Target) -> Candidate | None:
    """The candidate with the fewest codewords that surely meets the target, else that likely does."""
    for wanted in ("yes", "likely"):
        good = [one for one in candidates if one.meets(target) == wanted]
        if good:
            return min(good, key=lambda one: (one.codewords, len(one.sizes)))
    return None
