"""Items that would share a semantic ID take free codes of the last level.

Nearest centroids give several items one SID while most codes under their prefix stay unused. Encoding all items of a
catalogue together can do better: under each prefix the last tokens are dealt out together, an assignment problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress, Silent
from .prefixes import prefix_numbers

__all__ = ["Costs", "spread_codes"]

AT_ONCE = 1 << 22  # costs in memory at once: 32 MB

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Costs = Callable[[Integers], NDArray[np.float64]]  # row numbers (n,) -> (n, K), the cost of each last code for each row


def spread_codes(codes: Any, sizes: Sequence[int], costs: Costs, progress: Progress | None = None) -> Codes:
    """The codes (n, levels) with as many different SIDs as the last level has room for.

    All tokens but the last stay. Under a prefix where items collide, the last tokens become those that
    - are all different, or use all K codes of the last level if there are more than K items;
    - have the least sum of costs.
    Prefixes without collisions keep their tokens, and so do items that have to share. Of a prefix with more than
    AT_ONCE / K items (16,384 for 256 codes) only that many, the first, may be moved.
    """
    out, report = np.array(codes, np.int32), progress or Silent()
    groups = _colliding(out, sizes)
    report.start("spread", sum(map(len, groups)))
    for batch in _batches(groups, max(sizes[-1], AT_ONCE // sizes[-1])):
        rows = np.concatenate(batch)
        ends = np.cumsum([len(group) for group in batch])
        for group, cost in zip(batch, np.split(costs(rows), ends[:-1]), strict=True):
            out[group, -1] = _assigned(cost, out[group, -1])
        report.advance(len(rows))
    return out


def _colliding(codes: Codes, sizes: Sequence[int]) -> list[Integers]:
    """The rows of each prefix under which two rows have the same last token, in order."""
    parent, full = [np.zeros(len(codes), np.int64), *prefix_numbers(codes, sizes)][-2:]
    _, sid, count = np.unique(full, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(np.isin(parent, parent[count[sid] > 1]))
    rows = rows[np.argsort(parent[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(parent[rows])) + 1) if len(rows) else []


def _batches(groups: list[Integers], limit: int) -> Iterator[list[Integers]]:
    """As many groups at a time as have `limit` rows; a larger group is cut to its first rows."""
    size, batch = 0, list[Integers]()
    for group in groups:
        if batch and size + len(group) > limit:
            yield batch
            size, batch = 0, []
        batch.append(group[:limit])
        size += len(group)
    if batch:
        yield batch


def _assigned(costs: NDArray[np.float64], tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """New last tokens for the rows of a prefix: costs (n, K), tokens (n,) those they have.

    Every row gets a different code; or, with more rows than codes, every code gets one row and the others stay.
    """
    from scipy.optimize import linear_sum_assignment

    row, code = linear_sum_assignment(costs - np.take_along_axis(costs, tokens[:, None], 1))
    out = tokens.copy()
    out[row] = code
    return out
