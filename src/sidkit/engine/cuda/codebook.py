"""A codebook on a GPU: exact, and rounded and padded for the score kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import frexp
from typing import Any

import torch
from torch import Tensor

from ...geometry import squared_length, unit
from .tiles import Mode, ceil_div
from .triton.arguments import CodebookArgs

__all__ = ["CudaCodebook", "book"]

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32}
PAD = 256  # codewords are padded to a multiple of every tile's width


def book(centroids: Any, metric: str, x: Tensor, bonus: Any = None) -> CudaCodebook:
    """Centroids (K, d) made ready to score rows like x; a bonus (K,) is added to euclidean scores."""
    exact = torch.as_tensor(centroids).to(x.device).double()
    if metric == "cosine":
        return CudaCodebook(unit(exact), torch.zeros(len(exact), dtype=torch.float64, device=x.device), True, 1.0, 0.0)
    offset = -0.5 * squared_length(exact)[:, 0]
    if bonus is not None:
        offset = offset + torch.as_tensor(bonus).to(offset)
    reach, offset_reach = torch.stack([squared_length(exact).max() ** 0.5, offset.abs().max()]).tolist()
    return CudaCodebook(exact, offset, False, reach, offset_reach)


@dataclass(frozen=True, eq=False)
class CudaCodebook:
    """A codebook ready for scoring: score(x, j) = x . exact[j] + exact_offset[j], as on the CPU."""

    exact: Tensor  # (K, d) float64
    exact_offset: Tensor  # (K,) float64
    cosine: bool
    reach: float  # the longest codeword
    offset_reach: float  # the largest |offset|
    _operands: dict[Any, CodebookArgs] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.exact)

    def operands(self, mode: Mode, padded: int, wide: int) -> CodebookArgs:
        """The codebook rounded and padded for a mode, which is done once; in blocks of `wide` codewords."""
        if (mode, padded) not in self._operands:
            self._operands[mode, padded] = self._rounded(mode, padded)
        return self._operands[mode, padded]._replace(blocks=ceil_div(len(self), wide))

    def _rounded(self, mode: Mode, padded: int) -> CodebookArgs:
        K, d = self.exact.shape
        wide, device = ceil_div(K, PAD) * PAD, self.exact.device
        offset = None
        if not self.cosine:
            offset = torch.zeros(wide, dtype=torch.float32, device=device)
            offset[:K] = self.exact_offset
        if mode != "fp32":
            rows = torch.zeros(wide, padded, dtype=DTYPES[mode], device=device)
            rows[:K, :d] = self.exact
            return CodebookArgs(rows, None, offset, 1.0, K)
        peak = float(self.exact.abs().max())
        scale = 2.0 ** (10 - frexp(peak)[1]) if peak > 0 else 1.0  # the largest entry between 2^9 and 2^10
        high, low = (torch.zeros(wide, padded, dtype=torch.float16, device=device) for _ in range(2))
        high[:K, :d] = self.exact * scale
        low[:K, :d] = self.exact * scale - high[:K, :d].double()
        return CodebookArgs(high, low, offset, scale, K)
