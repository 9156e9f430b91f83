"""Rows that are divided among processes, which can work on them at the same time and exchange arrays meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from ..progress import Progress
from .seam import Rows

__all__ = ["Exchange", "Member", "WorksTogether"]

T = TypeVar("T")


class Exchange(Protocol):
    """What the processes say to each other. All of them call the same, in the same order."""

    def add(self, array: NDArray[Any]) -> None:
        """The sum of all members' arrays of this shape and dtype, in place; the same bits for every member."""


@dataclass(frozen=True)
class Member:
    """One of the processes, and what it has."""

    number: int  # from 0
    parts: Sequence[tuple[int, Rows]]  # its rows, each with the number of the first one among all rows
    exchange: Exchange
    device: str
    progress: Progress


@runtime_checkable
class WorksTogether(Protocol):
    """Rows whose processes may be asked to work on one thing together."""

    @property
    def divides_batches(self) -> bool:
        """Whether minibatches are divided among them too, each process with the rows that it holds."""

    def together(self, f: Callable[[Member], T]) -> T:
        """What member 0 has of f, called by all of them at once; called again where a process was lost.

        f changes nothing that stays, and tells its progress once for each of its rows.
        """
