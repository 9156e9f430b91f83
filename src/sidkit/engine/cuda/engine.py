"""torch and Triton: rows on a CUDA device.

Fits (`soft_sums`) take the rows as they come: float16 and bfloat16 rows are multiplied as they are, in one product on
the tensor cores; float32 rows in TensorFloat-32, or in three products of float16 halves ("fp32"), which is as good as
float32. Tokens (`nearest`, `top`) always go through the three products, with a bound on what these can be wrong by;
rows within it are settled in float64. So they equal the float64 answer, lowest index on ties, as on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import SpecError, need
from ...geometry import squared_length, unit

need("triton", "torch", "computing on a CUDA device")

from .carry import CarryPlan, carried, lengths, plan_carry, scored  # noqa: E402
from .pairs import Pairs  # noqa: E402
from .tiles import CudaCodebook, Mode, ceil_div, power_above, tile_for  # noqa: E402
from .triton import again as kernels_again  # noqa: E402
from .triton import dense as kernels_dense  # noqa: E402
from .triton import sums as kernels_sum  # noqa: E402
from .triton import top as kernels  # noqa: E402

__all__ = [
    "CarryPlan",
    "CudaCodebook",
    "add_up",
    "book",
    "carried",
    "column_sums",
    "lengths",
    "nearest",
    "plan_carry",
    "soft_sums",
    "top",
]

AT_ONCE = 21 << 20  # pairs sorted together: 16 bytes each
PROGRAMS = 264  # for kernels that walk over a list whose length only the device knows: two per multiprocessor
EXACT = 1 << 28  # numbers split into halves at once: 4 bytes each
DENSE = 128  # codewords, and dimensions, up to which a fit's sums are one product


def book(centroids: Any, metric: str, x: Tensor, bonus: Any = None) -> CudaCodebook:
    """Centroids (K, d) made ready to score rows like x; a bonus (K,) is added to euclidean scores."""
    exact = torch.as_tensor(centroids).to(device=x.device, dtype=torch.float64)
    if metric == "cosine":
        return CudaCodebook(unit(exact), torch.zeros(len(exact), dtype=torch.float64, device=x.device), True, 1.0, 0.0)
    offset = -0.5 * squared_length(exact)[:, 0]
    if bonus is not None:
        offset = offset + torch.as_tensor(bonus).to(offset)
    reach, offset_reach = torch.stack([squared_length(exact).max() ** 0.5, offset.abs().max()]).tolist()
    return CudaCodebook(exact, offset, False, reach, offset_reach)


def soft_sums(
    x: Tensor,
    book: CudaCodebook,
    k: int,
    beta: float,
    scale: float = 0.5,
    precision: Mode = "tf32",
    skip_zero: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """What rows x add to a k-means fit: mass (K,), sums (K, d) and objective (1,), all float64.

        mass_j = sum_i w_ij,   sum_j = sum_i w_ij x_i,   objective = sum_i max_j s_ij
        w_i = softmax(beta s_i) over the k best;   s = cos(x, c)  or  -scale |x - c|^2

    precision "fp32" scores float32 rows in three products; all else is decided by the rows' own dtype. Rows of 16 bits
    must have length one, or zero. skip_zero gives the latter no say. The same rows give the same bits on every run.
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
    total: list[Tensor] = []
    for start in range(0, len(x), AT_ONCE // k):
        part = _sorted_sums(x[start : start + AT_ONCE // k], book, k, beta, scale, mode, skip_zero, unit_rows)
        total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
    return total[0], total[1], total[2]


def top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    """The k best codewords of every row and their scores, best first: (n, k) int32, (n, k) float32."""
    parts = [_ordered_top(some, book, k) for some in x.contiguous().split(_exact_rows(x))]
    return torch.cat([index for index, _ in parts]), torch.cat([value for _, value in parts])


def nearest(x: Tensor, book: CudaCodebook) -> Tensor:
    """The best codeword of every row, near-ties decided in float64, lowest index first: (n,) int32."""
    if len(book) == 1 or len(x) == 0:
        return torch.zeros(len(x), dtype=torch.int32, device=x.device)
    return torch.cat([_exact_top(some, book, 1)[0][:, 0] for some in x.contiguous().split(_exact_rows(x))])


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
        pairs = Pairs(len(x[rows]), k, size, x)
        pairs.longest.copy_(torch.linalg.vector_norm(x[rows], float("inf"), dtype=torch.float32))
        pairs.weight.copy_((weight[rows] / heaviest).reshape(-1))
        pairs.place(index[rows].to(torch.int32).contiguous())
        part_mass, part_total = pairs.sums(x[rows], weighted=True, folds=2)
        mass += part_mass * heaviest
        total += part_total * heaviest
    return mass, total


def column_sums(x: Tensor) -> Tensor:
    """The sum of the rows, float64: (d,)."""
    x = x.contiguous()
    n, d = x.shape
    padded = power_above(d)
    rows = max(1, 2048 // padded)
    run = max(1, ceil_div(n, rows * 4 * PROGRAMS))
    parts = torch.empty(max(1, ceil_div(n, rows * run)), d, dtype=torch.float64, device=x.device)
    kernels_sum.column_kernel[(len(parts),)](x, parts, n, run, d, padded, rows)
    return parts.sum(0)


def _ordered_top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    index, value = _exact_top(x, book, k)
    if k > 1:
        kernels_again.rescore_kernel[(ceil_div(len(x), 16),)](
            x, book.exact, book.exact_offset, index, value, len(x),
            x.shape[1], min(64, power_above(x.shape[1])), 16, k, power_above(k),
        )  # fmt: skip
    return index, value


def _exact_rows(x: Tensor) -> int:
    """Rows whose halves are made at once."""
    return max(1, EXACT // int(x.shape[1]))


def _sorted_sums(
    x: Tensor, book: CudaCodebook, k: int, beta: float, scale: float, mode: Mode, skip_zero: bool, unit_rows: bool
) -> tuple[Tensor, ...]:
    """Top k of every row, pairs sorted by codeword, sums by codeword."""
    (n, d), K = x.shape, len(book)
    tile = tile_for(d, k, mode)
    c, rows, pairs = book.operands(mode, tile.padded), scored(x, mode, tile, unit_rows), Pairs(n, k, K, x)
    if unit_rows:
        pairs.longest.fill_(1.0)
    best = torch.empty(n, dtype=torch.float32, device=x.device)
    listed = torch.empty(n, dtype=torch.int32, device=x.device)
    blocks, low = tile.blocks(K)
    depth = 1 if k == 1 else 2 if k <= 8 else 3
    evict = depth < min(k, blocks * tile.split)
    shared: dict[str, Any] = {
        "K_TOP": k, "KP": power_above(k), "PASSES": 3 if mode == "fp32" else 1, "TF32": mode == "tf32",
        "HAS_LENGTH": rows.length is not None, "HAS_OFFSET": not book.cosine, "COSINE": book.cosine,
        "RANK_BITS": pairs.rank_bits, "SKIP_ZERO": skip_zero, "UNIT": unit_rows,
    }  # fmt: skip
    kernels.top_kernel[(pairs.subs * pairs.sub // tile.rows,)](
        *rows.pointers, c.rows, c.low, c.offset, pairs.code, pairs.weight, pairs.counts, best, pairs.longest,
        listed, best, listed, pairs.listed,
        n, K, blocks, c.scale, 0.0, book.reach, book.offset_reach, beta, scale, pairs.sub, pairs.subs,
        d, tile.padded, tile.dims, tile.rows, tile.slots, tile.split, DEPTH=depth, EVICT=evict,
        PACK=mode != "fp32" and (low + 1) * tile.slots <= 4096, LOW=low, RAGGED=K % tile.wide != 0, FIT=True,
        **shared, **tile.launch,
    )  # fmt: skip
    if evict or book.cosine:
        kernels_again.repair_kernel[(4 * PROGRAMS,)](
            *rows.pointers, c.rows, c.low, c.offset, pairs.code, pairs.weight, pairs.counts, best, listed, pairs.listed,
            K, ceil_div(K, 128), c.scale, beta, scale, pairs.sub, d, tile.padded, min(128, tile.dims), 32, 128,
            **shared, num_warps=4, num_stages=2,
        )  # fmt: skip
    mass, total = pairs.sums(x, weighted=k > 1 or skip_zero, folds=2 if x.dtype == torch.float32 else 1)
    return mass, total, column_sums(best[:, None])


def _dense_sums(
    x: Tensor, book: CudaCodebook, k: int, beta: float, scale: float, skip_zero: bool, unit_rows: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, weights and sums in one pass, for a codebook that fits on a multiprocessor."""
    (n, d), K = x.shape, len(book)
    wide, padded, rows = max(16, power_above(K)), max(16, power_above(d)), 64
    run = max(1, min(256, ceil_div(n, rows * 4 * PROGRAMS)))
    programs = ceil_div(n, rows * run)
    c = book.operands("fp16", padded)
    sums = torch.empty(programs, wide, padded, dtype=torch.float32, device=x.device)
    mass = torch.empty(programs, wide, dtype=torch.float32, device=x.device)
    best = torch.empty(n, dtype=torch.float32, device=x.device)
    kernels_dense.dense_kernel[(programs,)](
        x, c.rows, c.offset, sums, mass, best, n, K, beta, scale, run,
        d, padded, rows, wide, k, not book.cosine, K != wide, book.cosine, skip_zero, unit_rows,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    total = sums.sum(0, dtype=torch.float64)[:K, :d]
    return mass.sum(0, dtype=torch.float64)[:K], total, column_sums(best[:, None])


def _exact_top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    """Indices that are right, and scores that are right to a few units in 2^-16."""
    (n, d), K = x.shape, len(book)
    index = torch.empty(n, k, dtype=torch.int32, device=x.device)
    value = torch.empty(n, k, dtype=torch.float32, device=x.device)
    listed = torch.empty(n, dtype=torch.int32, device=x.device)
    list_length = torch.zeros(1, dtype=torch.int32, device=x.device)
    tile = tile_for(d, k, "fp32")
    c, rows = book.operands("fp32", tile.padded), scored(x, "fp32", tile)
    blocks, low = tile.blocks(K)
    depth = 2 if k <= 8 else 3
    # Halves lose 3 * 2^-22 of |x||c|, a sum of d products d * 2^-22 at most, the block's number a score's low bits.
    tolerance = 2.0 * (d + 16 + low + 1) * 2.0**-22
    kernels.top_kernel[(ceil_div(n, tile.rows),)](
        *rows.pointers, c.rows, c.low, c.offset, listed, value, listed, value, value, index, value, listed, list_length,
        n, K, blocks, c.scale, tolerance, book.reach, book.offset_reach, 1.0, 1.0, n, 1,
        d, tile.padded, tile.dims, tile.rows, tile.slots, tile.split, K_TOP=k, KP=power_above(k + 1),
        DEPTH=depth, EVICT=depth < min(k + 1, blocks * tile.split), PACK=False, LOW=low, PASSES=3, TF32=False,
        HAS_LENGTH=True, HAS_OFFSET=not book.cosine, RAGGED=K % tile.wide != 0, COSINE=book.cosine, FIT=False,
        RANK_BITS=0, SKIP_ZERO=False, UNIT=False, **tile.launch,
    )  # fmt: skip
    kernels_again.settle_kernel[(8 * PROGRAMS,)](
        x, book.exact, book.exact_offset, index, value, listed, list_length, K, d, 16, 256, k, num_warps=8
    )
    return index, value
