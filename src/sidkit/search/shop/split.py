"""Which records of a log are the test part, and the drawing of test pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import InputError, SpecError

__all__ = ["PairDraw", "held_out_groups", "require_share", "time_boundary"]


def require_share(share: float) -> None:
    if not 0 < share < 1:
        raise SpecError(f"--test-share must lie between 0 and 1, not {share}")


def time_boundary(times: NDArray[np.int64], share: float) -> int:
    """The time from which records are the test part, so that it is about the given share of all.

    Records of one time stay together, so the share is met as nearly as the times allow.
    """
    require_share(share)
    ordered = np.sort(times)
    boundary = int(ordered[min(len(ordered) - 1, round(len(ordered) * (1 - share)))])
    if boundary == ordered[0]:
        later = ordered[ordered > boundary]
        if not len(later):
            raise InputError(
                f"cannot split by time: all {len(times):,} records have the same time, {boundary}; a test part needs "
                "later records"
            )
        boundary = int(later[0])
    return boundary


def held_out_groups(groups: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Whether each record belongs to the test part: whole groups are drawn until their records are the share.

    groups: (n,) numbers 0, 1, ... of what must stay together, such as the query. At least one group is left for each
    part, so there must be two.
    """
    require_share(share)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise InputError(f"cannot split {len(groups):,} records of {len(sizes)} group; a split needs at least 2 groups")
    order = np.random.default_rng([seed, 7]).permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    chosen = before < share * len(groups)
    chosen[0], chosen[-1] = True, False
    test = np.zeros(len(sizes), bool)
    test[order[chosen]] = True
    return test[groups]


class PairDraw:
    """A sample of at most `limit` of the pairs added, each equally likely, independent of the batches."""

    def __init__(self, limit: int, seed: int) -> None:
        self.limit = limit
        self.seen = 0
        self._rng = np.random.default_rng([seed, 11])
        self._parts: list[Any] = []
        self._waiting = 0

    def add(self, pairs: Any) -> None:
        """A batch of pairs, as a table."""
        if not len(pairs):
            return
        self._parts.append(pairs.append_column("key", pa.array(self._rng.random(len(pairs)))))
        self.seen += len(pairs)
        self._waiting += len(pairs)
        if self._waiting > 4 * self.limit + 4096:
            self._parts = [self._drawn()]
            self._waiting = len(self._parts[0])

    def table(self) -> Any | None:
        """The pairs that were drawn, in the order in which they were added; None where there were none."""
        return self._drawn().drop_columns(["key"]) if self._parts else None

    def _drawn(self) -> Any:
        table = pa.concat_tables(self._parts)
        if len(table) > self.limit:
            key = table.column("key").to_numpy()
            table = table.take(np.sort(np.argpartition(key, self.limit)[: self.limit]))
        return table.combine_chunks()
