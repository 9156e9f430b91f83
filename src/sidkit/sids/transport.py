"""Entropic transport of the items of a prefix to the room of its last codes, rounded to whole items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rounded_transport", "transport_plan"]

ITERATIONS = 100
SETTLED = 1e-3  # of the rows' potentials, in units of the temperature
SHARPNESS = 0.05  # the temperature, in standard deviations of the costs


def rounded_transport(added: NDArray[np.float64], own: NDArray[np.int32], room: NDArray[np.int64]) -> NDArray[np.int32]:
    """A code for every row of costs (n, K): the largest share of its plan that still has room, surest rows first.

    room: (K,) items that each code can take. Rows for which no room is left keep their code.
    """
    out = own.copy()
    columns = np.flatnonzero(room > 0)
    if not len(columns):
        return out
    plan = transport_plan(added[:, columns], np.minimum(room[columns], len(own)))
    left = room[columns].copy()
    for row in np.argsort(-plan.max(axis=1), kind="stable")[: int(left.sum())]:
        share = np.where(left > 0, plan[row], -1.0)
        choice = int(share.argmax())
        out[row] = columns[choice]
        left[choice] -= 1
    return out


def transport_plan(costs: NDArray[np.float64], room: NDArray[Any]) -> NDArray[np.float64]:
    """Shares (n, K) of rows of mass one over columns of mass `room`, of the least cost minus temperature times entropy.

    Sinkhorn's algorithm in logarithms. What is left of the room, or of the rows, goes to one further row or column that
    costs nothing.
    """
    n, k = costs.shape
    rows, columns = np.ones(n), room.astype(np.float64)
    spare = columns.sum() - n
    if spare > 0:
        costs, rows = np.vstack([costs, np.zeros((1, k))]), np.append(rows, spare)
    elif spare < 0:
        costs, columns = np.hstack([costs, np.zeros((n, 1))]), np.append(columns, -spare)
    scale = float(costs.std()) or 1.0
    scores = -costs / (SHARPNESS * scale)
    f, g = np.zeros(len(rows)), np.zeros(len(columns))
    for _ in range(ITERATIONS):
        before = f
        f = np.log(rows) - _log_sum(scores + g)
        g = np.log(columns) - _log_sum((scores + f[:, None]).T)
        if np.abs(f - before).max() < SETTLED:
            break
    plan: NDArray[np.float64] = np.exp(scores + f[:, None] + g)
    return plan[:n, :k]


def _log_sum(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log sum exp over every row."""
    peak = x.max(axis=1)
    total: NDArray[np.float64] = np.log(np.exp(x - peak[:, None]).sum(axis=1)) + peak
    return total
