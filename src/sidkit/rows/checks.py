"""Rows that cannot be used: rows with NaN or infinity, and rows of zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRowsError
from ..progress import Progress, Silent
from .seam import CHUNK
from .sources import Composed, Source, Wrapped, is_checked, offers

__all__ = [
    "NAMED",
    "Checked",
    "WithStandIns",
    "bad_rows_error",
    "complaint",
    "find_bad_rows",
    "refused",
    "require_good_rows",
]

NAMED = 3  # bad rows that an error names

Look = Callable[[NDArray[Any]], None]


def find_bad_rows(
    source: Source, progress: Progress | None = None, look: Look | None = None, dtype: Any = None
) -> dict[int, str]:
    """Index of the row -> what is wrong with it, for every row with NaN or infinity or of zeros.

    look, if given, is called with the good rows of every chunk; dtype is computed in, if not that of the rows.
    """
    report, start, bad = progress or Silent(), 0, {}
    for chunk in source.chunks(CHUNK):
        x = _as(chunk, dtype)
        usable = _usable(x)
        for row in np.flatnonzero(~usable):
            bad[start + int(row)] = complaint(x[row])
        if look is not None:
            look(chunk if usable.all() else chunk[usable])
        start += len(x)
        report.advance(len(x))
    return bad


def require_good_rows(
    source: Source, progress: Progress | None = None, look: Look | None = None, dtype: Any = None
) -> None:
    """An error that counts the bad rows and names the first few, if there are any. Rows once checked are not read.

    Each part of a composed source is checked once, however often its rows come, unless look is given.
    """
    if look is None and offers(source, Composed):

        def checked(part: Source) -> Source:
            require_good_rows(part, progress, dtype=dtype)
            return part

        source.through(checked)  # type: ignore[attr-defined]
        return
    if is_checked(source) and look is None and dtype in (None, source.dtype):
        (progress or Silent()).advance(source.shape[0])
        return
    bad = find_bad_rows(source, progress, look, dtype)
    if bad:
        raise bad_rows_error(source, bad)


@dataclass(frozen=True, eq=False)
class Checked(Wrapped):
    """A source whose rows are checked as they are read. The first bad row ends the work; the error counts all."""

    computed_in: Any = None  # a dtype, if not that of the rows

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for x in self.source.chunks(size, start):
            if not _usable(_as(x, self.computed_in)).all():
                require_good_rows(self.source, dtype=self.computed_in)
            yield x


@dataclass(frozen=True, eq=False)
class WithStandIns(Wrapped):
    """A source whose bad rows are recorded as they are read; the first unit vector stands in for each.

    One pass can then compute with the rows and find the bad ones, whose results the caller leaves out.
    """

    bad: dict[int, str] = field(default_factory=dict)  # index of a row that was read -> what is wrong with it
    checked = True

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for x in self.source.chunks(size, start):
            yield self._replaced(x, np.arange(start, start + len(x)))
            start += len(x)

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self._replaced(self.source.take(indices), indices)

    def _replaced(self, x: NDArray[Any], indices: NDArray[np.int64]) -> NDArray[Any]:
        rows = np.flatnonzero(~_usable(x))
        if not len(rows):
            return x
        self.bad.update((int(indices[row]), complaint(x[row])) for row in rows)
        x = x.copy()
        x[rows] = np.eye(1, x.shape[1], dtype=x.dtype)
        return x


def bad_rows_error(source: Source, bad: Mapping[int, str]) -> BadRowsError:
    """The error that counts bad rows and names the first few."""
    named = [f"{source.name(row)} {why}" for row, why in list(bad.items())[:NAMED]]
    return refused(list(bad), named, source.shape[0])


def refused(bad: list[int], named: list[str], total: int) -> BadRowsError:
    """The error for these rows of `total`, the first of which are named."""
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return BadRowsError(
        f"{len(bad)} of {total} rows cannot be used: {', '.join(named)}{more}; "
        "repair them, or leave them out with --bad-rows drop",
        bad,
    )


def _as(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        return x if dtype is None else x.astype(dtype, copy=False)


def _usable(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row has a positive, finite length in its dtype: (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("nd,nd->n", x, x)
    usable: NDArray[np.bool_] = np.isfinite(square) & (square > 0)
    return usable


def complaint(row: NDArray[Any]) -> str:
    """The reason why a row is bad."""
    if np.isnan(row).any():
        return "holds NaN"
    if np.isinf(row).any():
        return "holds infinity"
    return f"is too short or too long for {row.dtype}" if row.any() else "is all zeros"
