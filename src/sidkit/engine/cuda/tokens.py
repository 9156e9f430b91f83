"""The nearest codewords on a GPU, exact: near-ties are decided in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from . import tiles
from .carry import scored
from .codebook import CudaCodebook
from .tiles import Tile, ceil_div, power_above, tile_for
from .triton import repair as kernels_repair
from .triton import top as kernels_top
from .triton.arguments import RowList, SlotShape

__all__ = ["nearest", "top"]

EXACT = 1 << 28  # numbers split into halves at once: 4 bytes each
CANDIDATES = 4  # codewords that one product of halves keeps of a row; twice as many of a row that is read in parts
SCREENED = 128  # codewords from which that product pays


def top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    """The k best codewords of every row and their scores, best first: (n, k) int32, (n, k) float32."""
    parts = [_ordered_top(part, book, k) for part in x.contiguous().split(_exact_rows(x))]
    return torch.cat([index for index, _ in parts]), torch.cat([value for _, value in parts])


def nearest(x: Tensor, book: CudaCodebook) -> Tensor:
    """The best codeword of every row, near-ties decided in float64, lowest index first: (n,) int32."""
    if len(book) == 1 or len(x) == 0:
        return torch.zeros(len(x), dtype=torch.int32, device=x.device)
    parts = x.contiguous().split(_exact_rows(x))
    if len(book) < SCREENED:
        return torch.cat([_best(part, book) for part in parts])
    screened = [_screened(part, book) for part in parts]
    counts = torch.cat([undecided.length for _, undecided in screened]).tolist()  # the host waits once
    for part, (best, undecided), count in zip(parts, screened, counts, strict=True):
        if count:
            rows = undecided.rows[:count]
            best[rows] = _best(part[rows], book)
    return torch.cat([best for best, _ in screened])


def _best(x: Tensor, book: CudaCodebook) -> Tensor:
    return _exact_top(x, book, 1)[0][:, 0]


def _screened(x: Tensor, book: CudaCodebook) -> tuple[Tensor, RowList]:
    """The best codewords, of the few that one product of halves leaves, and the rows that it leaves more."""
    (n, d), K, tile = x.shape, len(book), tile_for(x.shape[1], 2, "fp16")
    kept = CANDIDATES if tile.dims == tile.padded else 2 * CANDIDATES
    index = torch.empty(n, kept, dtype=torch.int32, device=x.device)
    lists = torch.empty(2, n, dtype=torch.int32, device=x.device)
    counts = torch.zeros(2, 1, dtype=torch.int32, device=x.device)
    close, undecided = RowList(lists[0], counts[0]), RowList(lists[1], counts[1])
    c, keep = book.operands("fp32", tile.padded, tile.wide), _slots(tile, K, kept, 2)
    kernels_top.screen_kernel[(ceil_div(n, tile.rows),)](
        scored(x, "half", tile), c._replace(low=None), index, close, undecided, n,
        2.0 * 2.0**-10 + _rounding(d, keep.LOW), book.reach, book.offset_reach, tile.shape(d), keep, **tile.launch,
    )  # fmt: skip
    kernels_repair.choose_kernel[(8 * tiles.PROGRAMS,)](
        x, book.exact, book.exact_offset, index, close, d, min(64, power_above(d)), 16, kept
    )
    return index[:, 0].clone(), undecided


def _slots(tile: Tile, K: int, k: int, depth: int) -> SlotShape:
    """Slots of a depth for the k best of K codewords."""
    blocks = ceil_div(K, tile.wide) * tile.split
    return SlotShape(k, power_above(k), depth, depth < min(k, blocks), False, tile.low_bits(K), K % tile.wide != 0)


def _rounding(d: int, low: int) -> float:
    """The error of a difference of two scores over |x||c|: halves lose 3 * 2^-22, a sum of d products d * 2^-22 at
    most, the index of the block a score's low bits.
    """
    return 2.0 * (d + 16 + low + 1) * 2.0**-22


def _ordered_top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    index, value = _exact_top(x, book, k)
    if k > 1:
        kernels_repair.rescore_kernel[(ceil_div(len(x), 16),)](
            x, book.exact, book.exact_offset, index, value, len(x),
            x.shape[1], min(64, power_above(x.shape[1])), 16, k, power_above(k),
        )  # fmt: skip
    return index, value


def _exact_rows(x: Tensor) -> int:
    """How many rows are split into halves at once."""
    return max(1, EXACT // int(x.shape[1]))


def _exact_top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    """Indices that are right, and scores that are right to a few units in 2^-16."""
    (n, d), K = x.shape, len(book)
    index = torch.empty(n, k, dtype=torch.int32, device=x.device)
    value = torch.empty(n, k, dtype=torch.float32, device=x.device)
    undecided = RowList(torch.empty_like(index[:, 0]), torch.zeros(1, dtype=torch.int32, device=x.device))
    tile = tile_for(d, k, "fp32")
    c, keep = book.operands("fp32", tile.padded, tile.wide), _slots(tile, K, k + 1, 2 if k <= 8 else 3)
    kernels_top.tokens_kernel[(ceil_div(n, tile.rows),)](
        scored(x, "fp32", tile), c, index, value, undecided, n, _rounding(d, keep.LOW), book.reach,
        book.offset_reach, tile.shape(d), keep, **tile.launch,
    )  # fmt: skip
    kernels_repair.settle_kernel[(8 * tiles.PROGRAMS,)](
        x, book.exact, book.exact_offset, index, value, undecided, K, d, 16, 4, 128, k, num_warps=8
    )
    return index, value
