"""Rows that cannot be used: counted and refused, or left out and listed in a file beside the shop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...data.bad_rows import write_listing
from ...errors import BadRowsError

__all__ = ["LeftOut", "Mask"]

Mask = NDArray[np.bool_]
NAMED = 3  # examples that an error names
SHOWN = 60  # letters of an example


class _Group(NamedTuple):
    """Rows of one file that are left out for one reason."""

    file: str
    reason: str
    rows: Sequence[int]
    values: Sequence[Any]


class LeftOut:
    """The rows that are left out, and why.

    drop      whether rows may be left out; otherwise `settle` refuses them
    listing   the file that lists them
    """

    def __init__(self, listing: Path, drop: bool) -> None:
        self.listing, self.drop = listing, drop
        self.groups: list[_Group] = []
        self._settled = 0

    def add(self, file: str, reason: str, rows: Sequence[int], values: Sequence[Any]) -> None:
        """Rows of a file, numbered from 0 (-1: no row), each with what shows it: an id, a query, a line."""
        if len(rows):
            self.groups.append(_Group(file, reason, rows, values))

    def sift(self, file: str, masks: Mapping[str, Any], values: Any, start: int = 0) -> Mask:
        """Add the rows of every mask under its reason, each row once; which rows are in none of them.

        masks: reason -> (n,) which rows; values: (n,) what shows each; start: the row of the first.
        """
        good = np.ones(len(values), bool)
        for reason, mask in masks.items():
            bad = np.asarray(mask if isinstance(mask, np.ndarray) else mask.to_numpy(zero_copy_only=False)) & good
            rows = np.flatnonzero(bad)
            self.add(file, reason, (rows + start).tolist(), values.take(pa.array(rows)).to_pylist())
            good &= ~bad
        return good

    def settle(self, total: int, noun: str) -> None:
        """Refuse what was added since the last call, unless it may be left out. total: rows that were looked at."""
        groups, self._settled = self.groups[self._settled :], len(self.groups)
        if not groups or self.drop:
            return
        count = sum(len(one.rows) for one in groups)
        reasons = "; ".join(_described(groups, *key) for key in dict.fromkeys((one.file, one.reason) for one in groups))
        raise BadRowsError(
            f"{count:,} of {total:,} {noun} cannot be used: {reasons}. --bad-rows drop leaves them out and lists them",
            [int(row) for one in groups for row in one.rows],
        )

    def write(self) -> None:
        """Write the list where there is anything in it; a list of an earlier run is removed."""
        if not self.groups:
            self.listing.unlink(missing_ok=True)
            return
        rows = (
            (one.file, row if row >= 0 else "", " ".join(str(value).split()) if value is not None else "", one.reason)
            for one in self.groups
            for row, value in zip(one.rows, one.values, strict=True)
        )
        write_listing(self.listing, ("file", "row", "value", "reason"), rows)

    def facts(self) -> list[dict[str, Any]]:
        """How many rows of each file are left out, and why."""
        counts: dict[tuple[str, str], int] = {}
        for one in self.groups:
            counts[one.file, one.reason] = counts.get((one.file, one.reason), 0) + len(one.rows)
        return [{"file": file, "reason": reason, "rows": rows} for (file, reason), rows in counts.items()]


def _described(groups: Sequence[_Group], file: str, reason: str) -> str:
    """3 of items.parquet have no title: row 4 ('P17'), ..."""
    same = [one for one in groups if (one.file, one.reason) == (file, reason)]
    count = sum(len(one.rows) for one in same)
    pairs = [pair for one in same for pair in zip(one.rows[:NAMED], one.values[:NAMED], strict=True)][:NAMED]
    named = [f"row {row}" + (f" ({str(value)[:SHOWN]!r})" if value is not None else "") for row, value in pairs]
    return f"{count:,} of {file} {reason}: {', '.join(named)}" + (", ..." if count > NAMED else "")
