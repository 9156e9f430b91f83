"""(row, codeword, weight) pairs of a fit on a GPU, grouped by codeword with a counting sort and added up."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .carry import Uncarried
from .tiles import ceil_div, power_below
from .triton import sums as kernels_sum

__all__ = ["AT_ONCE", "CodePairs", "add_up", "column_sums", "hard_sums"]

AT_ONCE = 21 << 20  # pairs sorted together: 16 bytes each
PAIRS = 512  # pairs a codeword should have in a sub-block of rows
FEWEST = 64  # and at least, or adding up so few to 64-bit sums outweighs reading rows from memory again
L2_SHARE = 24 << 20  # bytes of rows in a sub-block, when rows are read more than once
LANES = 16  # pairs added up in parallel


class CodePairs:
    """k pairs of each of n rows, counted by codeword and sub-block of rows as the kernels write them."""

    def __init__(self, n: int, k: int, K: int, x: Tensor) -> None:
        self.n, self.k, self.K = n, k, K
        self.rank_bits = 32 - max(1, (K - 1).bit_length())
        sub = power_below(PAIRS * K // k)
        if k > 1:
            share = power_below(L2_SHARE // (x.shape[1] * x.element_size()))
            sub = min(sub, max(share, power_below(FEWEST * K // k)))
        self.sub = max(256, min(sub, 1 << self.rank_bits))
        self.subs = ceil_div(n, self.sub)
        self.zeros = torch.zeros(self.subs * K + 2, dtype=torch.int32, device=x.device)
        self.counts, self.undecided = self.zeros[:-2], self.zeros[-2:-1]
        self.longest = self.zeros[-1:].view(torch.float32)
        self.code = torch.empty(n * k, dtype=torch.int32, device=x.device)
        self.weight = torch.empty(n * k, dtype=torch.float32, device=x.device)

    def rank(self, index: Tensor) -> None:
        """Give every pair its position among the pairs of its codeword; index: (n, k) int32."""
        count = self.n * self.k
        kernels_sum.rank_kernel[(ceil_div(count, 1024),)](
            index, self.code, self.counts, count, self.K, self.sub, self.k, self.rank_bits, 1024
        )

    def sums(self, x: Tensor, weighted: bool, folds: int) -> tuple[Tensor, Tensor]:
        """Mass (K,) and weighted sum (K, d) of the rows under each codeword, float64."""
        K, d, count = self.K, x.shape[1], self.n * self.k
        ends = torch.cumsum(self.counts, 0, dtype=torch.int32)
        pairs = torch.empty(count, dtype=torch.int64, device=x.device)
        kernels_sum.scatter_kernel[(ceil_div(count, 512),)](
            self.code, self.weight, ends, pairs, count, K, self.sub, self.k, self.rank_bits, weighted, 512
        )
        zeros = torch.zeros(folds * K * d + K, dtype=torch.int64, device=x.device)
        mass, total, low = zeros[:K], zeros[K : K + K * d], zeros[-K * d :]
        dims = min(128, 1 << (d - 1).bit_length())
        kernels_sum.sum_kernel[(self.subs * K, ceil_div(d, dims))](
            x, pairs, ends, self.longest, mass, total, low, K, d, LANES, dims, folds, num_warps=1
        )
        mass_out = torch.empty(K, dtype=torch.float64, device=x.device)
        total_out = torch.empty(K, d, dtype=torch.float64, device=x.device)
        kernels_sum.finish_kernel[(K,)](mass, total, low, self.longest, mass_out, total_out, K, d, 128, folds)
        return mass_out, total_out


def add_up(x: Tensor, index: Tensor, weight: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Weighted mass (size,) and sum (size, d) of the rows under each codeword, float64; index, weight: (n, k).

    Products are rounded to 2^-41 of the largest entry times the largest weight, and add without further rounding.
    """
    mass = torch.zeros(size, dtype=torch.float64, device=x.device)
    total = torch.zeros(size, x.shape[1], dtype=torch.float64, device=x.device)
    x = x.contiguous()
    heaviest, k = float(weight.max()) if weight.numel() else 0.0, index.shape[1]
    for start in range(0, len(x) if heaviest > 0 else 0, AT_ONCE // k):
        rows = slice(start, start + AT_ONCE // k)
        pairs = CodePairs(len(x[rows]), k, size, x)
        pairs.longest.copy_(torch.linalg.vector_norm(x[rows], float("inf"), dtype=torch.float32))
        pairs.weight.copy_((weight[rows] / heaviest).reshape(-1))
        pairs.rank(index[rows].to(torch.int32).contiguous())
        part_mass, part_total = pairs.sums(x[rows], weighted=True, folds=2)
        mass += part_mass * heaviest
        total += part_total * heaviest
    return mass, total


def hard_sums(
    x: Tensor, codes: Tensor, sizes: Sequence[int], mean: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Mass (K,) and sum (K, d) of the rows, less the mean, under the codes of each column: codes (n, m), m sizes."""
    full, ones = x if mean is None else x - mean, x.new_ones((len(x), 1))
    return [add_up(full, codes[:, j : j + 1], ones, size) for j, size in enumerate(sizes)]


def column_sums(x: Tensor) -> Tensor:
    """The sum of the rows, float64: (d,)."""
    return Uncarried(x).column_sums()
