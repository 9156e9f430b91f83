"""Rows that cannot be computed with: NaN, infinity, nothing but zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadRowsError
from .progress import Progress, Silent
from .rows import CHUNK, Source

__all__ = ["bad_rows_error", "find_bad_rows", "require_good_rows"]


def find_bad_rows(source: Source, progress: Progress | None = None) -> dict[int, str]:
    """Row number -> what is wrong with it, for every row that holds NaN or infinity or is zero."""
    report, start, bad = progress or Silent(), 0, {}
    for x in source.chunks(CHUNK):
        for row in np.flatnonzero(~_usable(x)):
            bad[start + int(row)] = _complaint(x[row])
        start += len(x)
        report.advance(len(x))
    return bad


def require_good_rows(source: Source, progress: Progress | None = None) -> None:
    """An error that counts the bad rows and names the first few, or nothing."""
    bad = find_bad_rows(source, progress)
    if bad:
        raise bad_rows_error(source, bad)


def bad_rows_error(source: Source, bad: Mapping[int, str]) -> BadRowsError:
    """The error that counts bad rows and names the first few."""
    first = ", ".join(f"{source.name(row)} {why}" for row, why in list(bad.items())[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return BadRowsError(
        f"{len(bad)} of {source.shape[0]} rows cannot be used: {first}{more}; "
        "repair them, or leave them out with --bad-rows drop",
        list(bad),
    )


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
