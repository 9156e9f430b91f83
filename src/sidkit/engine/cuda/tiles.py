"""How a matrix of scores is cut into tiles on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...errors import SpecError
from ..device import MOST_NEIGHBOURS
from .triton.arguments import TileShape

__all__ = ["Mode", "Tile", "ceil_div", "power_above", "power_below", "tile_for"]

Mode = Literal["fp16", "bf16", "tf32", "fp32"]  # what is multiplied: float16, bfloat16, TensorFloat-32, float16 halves
PROGRAMS = 264  # of kernels whose amount of work only the device knows: two per multiprocessor of an H200


@dataclass(frozen=True)
class Tile:
    """The part of a matrix that one program computes at a time, and how it is launched."""

    rows: int
    slots: int
    split: int  # blocks of slots scored together
    dims: int  # dimensions multiplied at a time
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

    def shape(self, d: int) -> TileShape:
        return TileShape(d, self.padded, self.dims, self.rows, self.slots, self.split)

    def low_bits(self, K: int) -> int:
        """The mask of the bits that hold the index of a block of slots, for K codewords."""
        return (1 << (ceil_div(K, self.wide) * self.split - 1).bit_length()) - 1


def tile_for(d: int, k: int, mode: Mode) -> Tile:
    """The tiles that were fastest on an H200 (docs/gpu-kernels.md)."""
    if k > MOST_NEIGHBOURS:
        raise SpecError(
            f"on a GPU a row can have at most its {MOST_NEIGHBOURS} nearest centroids, not {k}; use --device cpu"
        )
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


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_above(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def power_below(n: int) -> int:
    """The largest power of two that is not above n (1 for n below 1)."""
    return 1 << (max(1, n).bit_length() - 1)
