"""One fitting pass on a GPU: the mass, the sums and the objective that rows add to k-means."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import SpecError
from . import tiles
from .aside import Aside
from .carry import scored
from .codebook import CudaCodebook
from .pairs import AT_ONCE, CodePairs, column_sums
from .tiles import Mode, ceil_div, power_above, tile_for
from .triton import dense as kernels_dense
from .triton import repair as kernels_repair
from .triton import top as kernels_top
from .triton.arguments import PairArgs, RowList, SlotShape, TileShape

__all__ = ["soft_sums"]

DENSE = 128  # codewords, and dimensions, up to which the sums of a fit are one product


def soft_sums(
    x: Tensor,
    book: CudaCodebook,
    k: int,
    beta: float,
    scale: float = 0.5,
    precision: Mode = "tf32",
    skip_zero: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The contribution of rows x to a k-means fit: mass (K,), sums (K, d) and objective (1,), all float64.

        mass_j = sum_i w_ij,   sum_j = sum_i w_ij x_i,   objective = sum_i max_j s_ij
        w_i = softmax(beta s_i) over the k best;   s = cos(x, c)  or  -scale |x - c|^2

    precision "fp32" scores float32 rows in three products; otherwise the dtype of the rows decides. Rows of 16 bits
    must have length one or zero. skip_zero leaves rows of length zero out. The same rows give the same bits every time.
    """
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise SpecError(f"rows on a GPU must be float32, float16 or bfloat16, not {x.dtype}")
    if len(x) == 0:
        nothing = torch.zeros_like(book.exact)
        return nothing[:, 0], nothing, torch.zeros(1, dtype=torch.float64, device=x.device)
    x = x.contiguous()
    rounded: dict[torch.dtype, Mode] = {torch.float16: "fp16", torch.bfloat16: "bf16"}
    mode = rounded.get(x.dtype, "fp32" if precision == "fp32" else "tf32")
    unit_rows = x.dtype != torch.float32 and book.cosine and not skip_zero
    if mode == "fp16" and len(book) <= DENSE and x.shape[1] <= DENSE and k <= 8:
        return _dense_sums(x, book, k, beta, scale, skip_zero, unit_rows)
    weighted, folds = k > 1 or skip_zero, 2 if x.dtype == torch.float32 else 1
    aside = Aside(x.device)
    total: list[Tensor] = []
    for rows in x.split(AT_ONCE // k):
        pairs, best = _sorted_pairs(rows, book, k, beta, scale, mode, skip_zero, unit_rows)
        with aside.of(pairs.code, pairs.weight, pairs.zeros, best):
            part = (*pairs.sums(rows, weighted, folds), column_sums(best[:, None]))
            total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
    aside.join(*total)
    return total[0], total[1], total[2]


def _sorted_pairs(
    x: Tensor, book: CudaCodebook, k: int, beta: float, scale: float, mode: Mode, skip_zero: bool, unit_rows: bool
) -> tuple[CodePairs, Tensor]:
    """Top k of every row as pairs, counted by codeword, and the score of the first."""
    (n, d), K = x.shape, len(book)
    tile = tile_for(d, k, mode)
    rows, c = scored(x, mode, tile, unit_rows), book.operands(mode, tile.padded, tile.wide)
    pairs = CodePairs(n, k, K, x)
    if unit_rows:
        pairs.longest.fill_(1.0)
    best = torch.empty(n, dtype=torch.float32, device=x.device)
    undecided = RowList(torch.empty(n, dtype=torch.int32, device=x.device), pairs.undecided)
    out = PairArgs(pairs.code, pairs.weight, pairs.counts, best, pairs.longest, pairs.sub, pairs.subs)
    depth, low = 1 if k == 1 else 2 if k <= 8 else 3, tile.low_bits(K)
    keep = SlotShape(
        k, power_above(k), depth, evict := depth < min(k, c.blocks * tile.split),
        mode != "fp32" and (low + 1) * tile.slots <= 4096, low, K % tile.wide != 0,
    )  # fmt: skip
    kernels_top.fit_kernel[(pairs.subs * pairs.sub // tile.rows,)](
        rows, c, out, undecided, n, beta, scale, tile.shape(d), keep, pairs.rank_bits, skip_zero, unit_rows,
        **tile.launch,
    )  # fmt: skip
    if evict or book.cosine:
        kernels_repair.repair_kernel[(4 * tiles.PROGRAMS,)](
            rows, c._replace(blocks=ceil_div(K, 128)), out, undecided, beta, scale,
            TileShape(d, tile.padded, min(128, tile.dims), 32, 128), SlotShape(k, power_above(k)), pairs.rank_bits,
            skip_zero, unit_rows, num_warps=4, num_stages=2,
        )  # fmt: skip
    return pairs, best


def _dense_sums(
    x: Tensor, book: CudaCodebook, k: int, beta: float, scale: float, skip_zero: bool, unit_rows: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, weights and sums in one pass, for a codebook that fits on a multiprocessor."""
    (n, d), K = x.shape, len(book)
    wide, padded, rows = max(16, power_above(K)), max(16, power_above(d)), 64
    run = max(1, min(256, ceil_div(n, rows * 4 * tiles.PROGRAMS)))
    programs = ceil_div(n, rows * run)
    c = book.operands("fp16", padded, wide)
    sums = torch.empty(programs, wide, padded, dtype=torch.float32, device=x.device)
    mass = torch.empty(programs, wide, dtype=torch.float32, device=x.device)
    best = torch.empty(n, dtype=torch.float32, device=x.device)
    kernels_dense.dense_kernel[(programs,)](
        x, c.rows, c.offset, sums, mass, best, n, K, beta, scale, run,
        d, padded, rows, wide, k, K != wide, skip_zero, unit_rows,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    total = sums.sum(0, dtype=torch.float64)[:K, :d]
    return mass.sum(0, dtype=torch.float64)[:K], total, column_sums(best[:, None])
