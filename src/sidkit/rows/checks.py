"""Rows that cannot be computed with: NaN, infinity, nothing but zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRowsError
from ..progress import Progress, Silent
from .seam import CHUNK
from .sources import Source, Wrapped

__all__ = ["Checked", "bad_rows_error", "find_bad_rows", "require_good_rows"]


Look = Callable[[NDArray[Any]], None]


def find_bad_rows(
    source: Source, progress: Progress | None = None, look: Look | None = None, dtype: Any = None
) -> dict[int, str]:
    """Row number -> what is wrong with it, for every row that holds NaN or infinity or is zero.

    look, where given, sees the good rows of every chunk; dtype is what is computed in, if not the rows' own.
    """
    report, start, bad = progress or Silent(), 0, {}
    for chunk in source.chunks(CHUNK):
        x = _as(chunk, dtype)
        usable = _usable(x)
        for row in np.flatnonzero(~usable):
            bad[start + int(row)] = _complaint(x[row])
        if look is not None:
            look(chunk if usable.all() else chunk[usable])
        start += len(x)
        report.advance(len(x))
    return bad


def require_good_rows(
    source: Source, progress: Progress | None = None, look: Look | None = None, dtype: Any = None
) -> None:
    """An error that counts the bad rows and names the first few, or nothing. Rows that were checked are not read."""
    if getattr(source, "checked", False) and look is None and dtype in (None, source.dtype):
        (progress or Silent()).advance(source.shape[0])
        return
    bad = find_bad_rows(source, progress, look, dtype)
    if bad:
        raise bad_rows_error(source, bad)


@dataclass(frozen=True, eq=False)
class Checked(Wrapped):
    """A source whose rows are checked as they are read. The first bad one ends the work; the error counts all."""

    computed_in: Any = None  # a dtype, if not the rows' own

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for x in self.source.chunks(size, start):
            if not _usable(_as(x, self.computed_in)).all():
                require_good_rows(self.source, dtype=self.computed_in)
            yield x


def bad_rows_error(source: Source, bad: Mapping[int, str]) -> BadRowsError:
    """The error that counts bad rows and names the first few."""
    first = ", ".join(f"{source.name(row)} {why}" for row, why in list(bad.items())[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return BadRowsError(
        f"{len(bad)} of {source.shape[0]} rows cannot be used: {first}{more}; "
        "repair them, or leave them out with --bad-rows drop",
        list(bad),
    )


def _as(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        return x if dtype is None else x.astype(dtype, copy=False)


def _usable(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows whose length is a positive finite number in the dtype they are computed in."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("nd,nd->n", x, x)
    usable: NDArray[np.bool_] = np.isfinite(square) & (square > 0)
    return usable


def _complaint(row: NDArray[Any]) -> str:
    if np.isnan(row).any():
        return "holds NaN"
    if np.isinf(row).any():
        return "holds infinity"
    return f"is too short or too long for {row.dtype}" if row.any() else "is all zeros"
