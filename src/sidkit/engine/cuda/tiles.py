"""How a matrix of scores is cut into tiles on a GPU, and a codebook rounded and padded to suit."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import frexp
from typing import Any, Literal

import torch
from torch import Tensor

from ...errors import SpecError

__all__ = ["CudaCodebook", "Mode", "Operands", "Tile", "ceil_div", "power_above", "power_below", "tile_for"]

Mode = Literal["fp16", "bf16", "tf32", "fp32"]  # what is multiplied: float16, bfloat16, TensorFloat-32, float16 halves

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32}
MOST = 16  # of a row's nearest codewords
PAD = 256  # codewords are padded to a multiple of every tile's width


@dataclass(frozen=True)
class Tile:
    """A program's share: rows, slots, blocks of slots scored together, dimensions at a time."""

    rows: int
    slots: int
    split: int
    dims: int
    padded: int  # dimensions in all, rounded up
    warps: int
    stages: int
    registers: int | None = None

    @property
    def wide(self) -> int:
        return self.slots * self.split

    @property
    def launch(self) -> dict[str, int]:
        limit = {} if self.registers is None else {"maxnreg": self.registers}
        return {"num_warps": self.warps, "num_stages": self.stages} | limit

    def blocks(self, K: int) -> tuple[int, int]:
        """How many blocks cover K codewords, and the mask of the bits that number their slots' blocks."""
        blocks = ceil_div(K, self.wide)
        return blocks, (1 << (blocks * self.split - 1).bit_length()) - 1


def tile_for(d: int, k: int, mode: Mode) -> Tile:
    """The tiles that were fastest on an H200 (benchmarks/gpu.md)."""
    if k > MOST:
        raise SpecError(f"on a GPU a row can have at most its {MOST} nearest centroids, not {k}; use --device cpu")
    padded = max(16, power_above(d))
    if padded > 256 or (padded > 128 and mode == "tf32"):
        dims = 32 if mode == "tf32" else 64
        return Tile(128, 64, 4, dims, ceil_div(d, dims) * dims, 8, 2 if mode == "fp32" else 3)
    if padded > 128 and mode == "fp32":
        return Tile(64, 64, 1, padded, padded, 4, 1)
    if padded > 128:
        return Tile(128, 64, 1, padded, padded, 8, 2)
    if mode in ("tf32", "fp32"):
        return Tile(128, 64, 1, padded, padded, 8, 3)
    if k == 1:
        return Tile(128, 64, 1, padded, padded, 4, 2, 168)
    return Tile(128, 32, 2, padded, padded, 4, 2, 168)


@dataclass(frozen=True)
class Operands:
    """A codebook for one way of multiplying."""

    rows: Tensor  # (K rounded up to PAD, padded dimensions)
    low: Tensor  # the low halves, for fp32
    offset: Tensor  # (K rounded up,) float32
    scale: float  # the power of two that rows and low were multiplied with


@dataclass(frozen=True, eq=False)
class CudaCodebook:
    """A codebook ready for scoring: score(x, j) = x . exact[j] + exact_offset[j], as on the CPU."""

    exact: Tensor  # (K, d) float64
    exact_offset: Tensor  # (K,) float64
    cosine: bool
    reach: float  # the longest codeword
    offset_reach: float
    _operands: dict[Any, Operands] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.exact)

    def operands(self, mode: Mode, padded: int) -> Operands:
        """The codebook rounded and padded for one way of multiplying, made once."""
        if (mode, padded) not in self._operands:
            self._operands[mode, padded] = self._rounded(mode, padded)
        return self._operands[mode, padded]

    def _rounded(self, mode: Mode, padded: int) -> Operands:
        K, d = self.exact.shape
        wide, device = ceil_div(K, PAD) * PAD, self.exact.device
        offset = torch.zeros(wide, dtype=torch.float32, device=device)
        offset[:K] = self.exact_offset
        if mode != "fp32":
            rows = torch.zeros(wide, padded, dtype=DTYPES[mode], device=device)
            rows[:K, :d] = self.exact
            return Operands(rows, rows, offset, 1.0)
        peak = float(self.exact.abs().max())
        scale = 2.0 ** (10 - frexp(peak)[1]) if peak > 0 else 1.0  # the largest entry between 2^9 and 2^10
        high, low = (torch.zeros(wide, padded, dtype=torch.float16, device=device) for _ in range(2))
        high[:K, :d] = self.exact * scale
        low[:K, :d] = self.exact * scale - high[:K, :d].double()
        return Operands(high, low, offset, scale)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_above(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def power_below(n: int) -> int:
    """The largest power of two that is not above n (1 for n below 1)."""
    return 1 << (max(1, n).bit_length() - 1)
