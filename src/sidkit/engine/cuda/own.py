"""Rows on a GPU whose centroids are those of their parent: the nearest, and k-means under every parent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...geometry import squared_length
from ..arrays import like, pieces
from .tiles import ceil_div, power_above
from .triton import own as kernels_own

__all__ = ["MOST_TOGETHER", "families", "half_squares", "nearest_of_table", "nearest_own"]

MOST_TOGETHER = 1 << 22  # rows of parents that are fitted together, and of one parent among them
BUSY = 1 << 28  # scores held at once: 4 bytes each
RUN = 8  # rows of a program

Integers = NDArray[np.int64]


def nearest_own(x: Tensor, centroids: NDArray[Any], first: Integers, count: Integers) -> Tensor:
    """As `engine.own.nearest_own`: every row against the few centroids of its parent, in float64."""
    table = like(centroids, x.float())
    begin, sizes = (torch.as_tensor(part).to(x.device) for part in (first, count))
    return nearest_of_table(x, table, half_squares(table), begin, sizes)


def nearest_of_table(x: Tensor, table: Tensor, half: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """The nearest of the centroids first .. first + count - 1 of a table (M, d): (n,) int32, ties to the lowest."""
    (n, d), code = x.shape, torch.empty(len(x), dtype=torch.int32, device=x.device)
    if n:
        padded = power_above(d)
        kernels_own.own_kernel[(ceil_div(n, RUN),)](
            x.float().contiguous(), first.argsort(), first.contiguous(), count.to(torch.int32).contiguous(),
            table, half, code, n,
            d, padded, max(2, min(32, 2048 // padded)), RUN, num_warps=4,
        )  # fmt: skip
    return code


def half_squares(table: Tensor) -> Tensor:
    """|c|^2 / 2 of every centroid, in float64: (M,)."""
    return torch.cat([0.5 * squared_length(part.double())[:, 0] for part in pieces(table, table.shape[1])])


def families(x: Tensor, count: Integers, starts: Tensor, iterations: int) -> Tensor:
    """Euclidean k-means under every parent: the centroids (P, size, d), float32.

    x: the rows, parent after parent; count: (P,) of each; starts: (P, size) the numbers of the rows that start each.
    Parents of similar size are done together, as products of many matrices; a centroid without rows stays.
    """
    size, d = starts.shape[1], x.shape[1]
    out = torch.empty(len(count), size, d, dtype=torch.float32, device=x.device)
    begin, room = np.cumsum(count) - count, _rooms(count)
    for wide in np.unique(room):
        members = np.flatnonzero(room == wide)
        step = max(1, BUSY // int(wide * max(size, d)))
        for at in range(0, len(members), step):
            some = members[at : at + step]
            number = torch.as_tensor(some).to(x.device)
            slot = torch.arange(int(wide), device=x.device)
            mine, rows = (torch.as_tensor(part[some]).to(x.device)[:, None] for part in (count, begin))
            live = (slot < mine).float()  # (parents, wide)
            own = x[rows + torch.minimum(slot, mine - 1)].float()
            out[number] = _family(own, live, x[starts[number]].float(), iterations)
    return out


def _family(x: Tensor, live: Tensor, c: Tensor, iterations: int) -> Tensor:
    """k-means of parents with the same room for rows: x (P, n, d), live (P, n) 1 for rows, c (P, size, d)."""
    pick = torch.empty(*x.shape[:2], c.shape[1], dtype=torch.float32, device=x.device)
    for _ in range(iterations):
        half = 0.5 * squared_length(c).mT  # (P, 1, size)
        code = torch.baddbmm(half, x, c.mT, beta=-1.0).argmax(2, keepdim=True)
        pick.zero_().scatter_(2, code, live[:, :, None])
        mass = pick.sum(1)[:, :, None]
        means = torch.bmm(pick.mT, x) / torch.where(mass > 0, mass, 1.0)
        c = torch.where(mass > 0, means, c)
    return c


def _rooms(count: Integers) -> Integers:
    """The room that parents of these sizes get: the next of 1, 1.5, 2, 3, 4, 6, 8, ... times 32."""
    power = 1 << np.ceil(np.log2(np.maximum(count, 32))).astype(np.int64)
    return np.where(count <= power * 3 // 4, power * 3 // 4, power)
