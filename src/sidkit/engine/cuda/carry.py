"""Rows on a GPU carried through stages by one kernel, and rows made ready for scoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ...geometry import squared_length
from ..steps import CarryStep
from . import tiles
from .tiles import Mode, Tile, ceil_div, power_above
from .triton import carry as kernels_carry
from .triton.arguments import RowArgs

__all__ = ["CarryPlan", "Uncarried", "carried", "lengths", "plan_carry", "scored"]


@dataclass(frozen=True, eq=False)
class CarryPlan:
    """The effect of earlier stages on a row, in the layout of one kernel: the vectors of all stages in one table."""

    steps: tuple[tuple[int, int, float, bool], ...] = ()  # see carry_kernel
    table: Tensor | None = None  # (rows, d) float32
    coarse: Tensor | None = None  # the same in float16, for rows that are rounded to 16 bits
    inverse: Tensor | None = None  # 1 / |c|^2 of the table's rows, 0 for zero rows
    coarse_inverse: Tensor | None = None

    @property
    def unit(self) -> bool:
        """Whether rows come out with length one (or zero)."""
        return bool(self.steps) and self.steps[-1][3]


def plan_carry(steps: Sequence[CarryStep], x: Tensor) -> CarryPlan:
    """The plan that carries rows like x through these steps."""
    plan, tables, first = [], [], 0
    for step in steps:
        plan.append((-1 if step.vectors is None else first, step.column, float(step.keep), bool(step.normalize)))
        if step.vectors is not None:
            tables.append(torch.as_tensor(step.vectors).to(x.device, torch.float32).reshape(-1, x.shape[1]))
            first += len(tables[-1])
    if not tables:
        return CarryPlan(tuple(plan))
    table = torch.cat(tables)
    coarse = table.half() if float(table.abs().max()) < 6e4 else table
    return CarryPlan(tuple(plan), table, coarse, _inverse_squares(table), _inverse_squares(coarse.float()))


def carried(x: Tensor, plan: CarryPlan, codes: Tensor | None, first_row: int = 0, out: Tensor | None = None) -> Tensor:
    """Rows x (n, d) after the steps of a plan, in the dtype of out (float32 by default).

    codes: (width, N) int32, of which the columns from first_row on belong to x.
    """
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device) if out is None else out
    fine = out.dtype == torch.float32
    table, inverse = (plan.table, plan.inverse) if fine else (plan.coarse, plan.coarse_inverse)
    _launch(x, plan.steps, table, inverse, codes, first_row, RowArgs(out))
    return out


@dataclass(frozen=True, eq=False)
class Uncarried:
    """Rows x (n, d) on their way through the steps of a plan; codes and first_row are as for `carried`."""

    x: Tensor
    plan: CarryPlan = field(default_factory=CarryPlan)
    codes: Tensor | None = None
    first_row: int = 0

    def parts(self, size: int) -> Iterator[Uncarried]:
        """The same rows, `size` at a time."""
        x = self.x.contiguous()
        for start in range(0, len(x), size):
            yield replace(self, x=x[start : start + size], first_row=self.first_row + start)

    def some(self, numbers: Tensor) -> Uncarried:
        """The rows of these numbers (m,)."""
        codes = None if self.codes is None else self.codes[:, self.first_row + numbers].contiguous()
        return Uncarried(self.x[numbers], self.plan, codes)

    def carried(self) -> Tensor:
        """The rows after the steps, in float32; as they are if there are none."""
        return carried(self.x, self.plan, self.codes, self.first_row) if self.plan.steps else self.x

    def halves(self, low: bool) -> RowArgs:
        """The rows after the steps as float16 halves, 2^e row = high + low, or the high ones alone."""
        n, d = self.x.shape
        high = torch.empty(n, d, dtype=torch.float16, device=self.x.device)
        scale, length = (torch.empty(n, dtype=torch.float32, device=self.x.device) for _ in range(2))
        rows = RowArgs(high, torch.empty_like(high) if low else None, scale, length)
        _launch(self.x, self.plan.steps, self.plan.table, self.plan.inverse, self.codes, self.first_row, rows)
        return rows

    def column_sums(self) -> Tensor:
        """The sum of the rows after the steps, float64: (d,)."""
        x, codes, plan = self.x.contiguous(), self.codes, self.plan
        n, d = x.shape
        padded = power_above(d)
        rows = max(1, 2048 // padded)
        run = max(1, ceil_div(n, rows * 4 * tiles.PROGRAMS))
        parts = torch.empty(max(1, ceil_div(n, rows * run)), d, dtype=torch.float64, device=x.device)
        kernels_carry.column_kernel[(len(parts),)](
            x, plan.table, plan.inverse, codes, parts, n, self.first_row, 0 if codes is None else codes.stride(0), run,
            d, padded, rows, plan.steps,
        )  # fmt: skip
        return parts.sum(0)


def scored(x: Tensor, mode: Mode, tile: Tile, unit: bool = False) -> RowArgs:
    """Rows x (n, d) ready for the score kernels: "fp32" gives both halves of a row. Unit rows need no lengths."""
    if mode == "fp32":
        return Uncarried(x).halves(low=True)
    if unit or tile.dims == tile.padded:
        return RowArgs(x)
    return RowArgs(x, length=lengths(x))


def lengths(x: Tensor) -> Tensor:
    """|x| of every row, in float32: (n,)."""
    n, d = x.shape
    length = torch.empty(n, dtype=torch.float32, device=x.device)
    kernels_carry.length_kernel[(ceil_div(n, 32),)](x, length, n, d, 32, 128)
    return length


def _launch(
    x: Tensor,
    steps: tuple[Any, ...],
    table: Tensor | None,
    inverse: Tensor | None,
    codes: Tensor | None,
    first_row: int,
    out: RowArgs,
) -> None:
    n, d = x.shape
    padded = power_above(d)
    rows = max(1, min(16, 4096 // padded))
    kernels_carry.carry_kernel[(ceil_div(n, rows),)](
        x, table, inverse, codes, out, n, first_row, 0 if codes is None else codes.stride(0),
        d, padded, rows, steps, num_warps=4 if padded * rows <= 4096 else 8,
    )  # fmt: skip


def _inverse_squares(table: Tensor) -> Tensor:
    square = squared_length(table)[:, 0]
    return (square > 0) / (square + (square == 0))
