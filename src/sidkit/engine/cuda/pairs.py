"""(row, codeword, weight) pairs of a fit on a GPU, grouped by codeword with a counting sort and added up."""

from __future__ import annotations

import torch
from torch import Tensor

from .tiles import ceil_div, power_below
from .triton import sums as kernels_sum

__all__ = ["Pairs"]

PAIRS = 512  # pairs a codeword should have in a sub-block of rows
L2_SHARE = 24 << 20  # bytes of rows in a sub-block, when rows are read more than once
LANES = 16  # pairs added up side by side


class Pairs:
    """k pairs of each of n rows, counted by codeword and sub-block of rows as the kernels write them."""

    def __init__(self, n: int, k: int, K: int, x: Tensor) -> None:
        self.n, self.k, self.K = n, k, K
        self.rank_bits = 32 - max(1, (K - 1).bit_length())
        sub = power_below(PAIRS * K // k)
        if k > 1:
            sub = min(sub, power_below(L2_SHARE // (x.shape[1] * x.element_size())))
        self.sub = max(256, min(sub, 1 << self.rank_bits))
        self.subs = ceil_div(n, self.sub)
        zeros = torch.zeros(self.subs * K + 2, dtype=torch.int32, device=x.device)
        self.counts, self.listed, self.longest = zeros[:-2], zeros[-2:-1], zeros[-1:].view(torch.float32)
        self.code = torch.empty(n * k, dtype=torch.int32, device=x.device)
        self.weight = torch.empty(n * k, dtype=torch.float32, device=x.device)

    def place(self, index: Tensor) -> None:
        """Give every pair its place; index: (n, k) int32."""
        many = self.n * self.k
        kernels_sum.place_kernel[(ceil_div(many, 1024),)](
            index, self.code, self.counts, many, self.K, self.sub, self.k, self.rank_bits, 1024
        )

    def sums(self, x: Tensor, weighted: bool, folds: int) -> tuple[Tensor, Tensor]:
        """Mass (K,) and weighted sum (K, d) of the rows under each codeword, float64."""
        K, d, many = self.K, x.shape[1], self.n * self.k
        ends = torch.cumsum(self.counts, 0, dtype=torch.int32)
        pairs = torch.empty(many, dtype=torch.int64, device=x.device)
        kernels_sum.scatter_kernel[(ceil_div(many, 512),)](
            self.code, self.weight, ends, pairs, many, K, self.sub, self.k, self.rank_bits, weighted, 512
        )
        whole = torch.zeros(folds * K * d + K, dtype=torch.int64, device=x.device)
        mass, total, low = whole[:K], whole[K : K + K * d], whole[-K * d :]
        dims = min(128, 1 << (d - 1).bit_length())
        kernels_sum.sum_kernel[(self.subs * K, ceil_div(d, dims))](
            x, pairs, ends, self.longest, mass, total, low, K, d, LANES, dims, folds, num_warps=1
        )
        mass_out = torch.empty(K, dtype=torch.float64, device=x.device)
        total_out = torch.empty(K, d, dtype=torch.float64, device=x.device)
        kernels_sum.finish_kernel[(K,)](mass, total, low, self.longest, mass_out, total_out, K, d, 128, folds)
        return mass_out, total_out
