"""How much a fit computes, from which "auto" chooses the device and the compiled kernels their price."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..engine.device import MOST_NEIGHBOURS

__all__ = ["PASSES", "HasSizes", "HasWork", "Work", "work_of", "work_of_fit"]

PASSES = 25  # passes over the rows that a clusterer is taken to make where it does not report its work


class Work(NamedTuple):
    """The number of codewords that a fit of one stage compares each row with."""

    codewords: float  # of the full width, over all passes
    neighbours: int = 1  # the most codewords that a row is given at once


@runtime_checkable
class HasWork(Protocol):
    """A stage, or the clusterer of one, that knows how much its fit computes."""

    def work(self) -> Work: ...


@runtime_checkable
class _HasSize(Protocol):
    @property
    def size(self) -> int: ...


@runtime_checkable
class HasSizes(Protocol):
    """A stage that knows the number of codes of each of its tokens."""

    @property
    def sizes(self) -> tuple[int, ...]: ...


def work_of(part: Any) -> Work:
    """The work of a stage or clusterer: what it reports, or PASSES passes over the codebooks it has."""
    if isinstance(part, HasWork):
        return part.work()
    if isinstance(part, _HasSize):
        return Work(float(PASSES * part.size))
    return Work(float(PASSES * sum(part.sizes)) if isinstance(part, HasSizes) else 0.0)


def work_of_fit(stages: Iterable[Any]) -> float:
    """How many codewords a fit compares each row with; 0 where a GPU's kernels keep too few neighbours for a stage."""
    parts = [work_of(stage) for stage in stages]
    if any(part.neighbours > MOST_NEIGHBOURS for part in parts):
        return 0.0
    return float(sum(part.codewords for part in parts))
