"""The target, what each candidate is expected to reach, and the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import SpecError

__all__ = ["CLOSE", "Advice", "Candidate", "CountedNdcg", "Sizes", "Target", "choose"]

Sizes = tuple[int, ...]
CLOSE = 0.02  # of counted NDCG: sizes that close are taken for equally good, and the fewest codewords win


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

    @property
    def is_set(self) -> bool:
        """Whether anything is asked for."""
        return (self.icr_per_sid, self.sids_per_item, self.largest_bucket) != (None, None, None)

    def met_by(self, icr: float, sids: float, bucket: float) -> bool:
        return (
            (self.icr_per_sid is None or icr >= self.icr_per_sid)
            and (self.sids_per_item is None or sids >= self.sids_per_item)
            and (self.largest_bucket is None or bucket <= self.largest_bucket)
        )


@dataclass(frozen=True)
class CountedNdcg:
    """How well sizes recommend by counting first tokens: NDCG@20, the mean over the fits.

    plain, spread   of the SIDs as they are, and with items spread (None where the last level cannot be spread)
    filled          once items are spread: SIDs with one item / distinct, distinct / items, most items on one SID
    apart           how far two fits differ; 0 with one
    """

    plain: float
    spread: float | None = None
    filled: tuple[float, float, float] | None = None
    apart: float = 0.0

    @property
    def best(self) -> float:
        return self.plain if self.spread is None else max(self.plain, self.spread)

    @property
    def prefers_spread(self) -> bool:
        return self.spread is not None and self.spread > self.plain


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
    counted: CountedNdcg | None = None  # on sequences, where these are given
    shortened: bool = False  # the first tokens of another candidate

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
    users: int = 0  # whose next item was predicted by counting

    @property
    def spread(self) -> bool:
        """Whether the chosen sizes recommend better with items spread."""
        return self.chosen is not None and self.chosen.counted is not None and self.chosen.counted.prefers_spread

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
    """The candidate with the fewest codewords that surely meets the target, else that likely does.

    Candidates that were counted on sequences are ranked by that: of those that meet the target, or would with items
    spread, the one with the fewest codewords that comes within CLOSE of the best. Shortened ones are not ranked: what
    counting predicts was only seen for SIDs of one length (docs/results.md).
    """
    for wanted in ("yes", "likely"):
        good = [one for one in candidates if one.meets(target) == wanted or _meets_spread(one, target)]
        good = [one for one in good if one.counted is None or not one.shortened]
        most = max((one.counted.best for one in good if one.counted is not None), default=0.0)
        good = [one for one in good if one.counted is None or one.counted.best >= (1 - CLOSE) * most]
        if good:
            return min(good, key=lambda one: (one.codewords, len(one.sizes)))
    return None


def _meets_spread(one: Candidate, target: Target) -> bool:
    """Whether it meets the target once its items are spread, which counting prefers."""
    counted = one.counted
    return (
        counted is not None and counted.prefers_spread and target.met_by(*(counted.filled or (0.0, 0.0, float("inf"))))
    )
