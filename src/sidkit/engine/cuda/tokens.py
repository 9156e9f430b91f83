"""The nearest codewords on a GPU, exact: near-ties are decided in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import tiles
from .carry import Uncarried, scored
from .codebook import CudaCodebook
from .tiles import Tile, ceil_div, power_above, tile_for
from .triton import repair as kernels_repair
from .triton import top as kernels_top
from .triton.arguments import RowList, SlotShape

__all__ = ["nearest", "nearest_after", "top"]

EXACT = 1 << 28  # numbers split into halves at once: 4 bytes each
CANDIDATES = 4  # codewords that one product of halves keeps of a row; twice as many of a row that is read in parts
SCREENED = 128  # codewords from which that product pays


def top(x: Tensor, book: CudaCodebook, k: int) -> tuple[Tensor, Tensor]:
    """The k best codewords of every row and their scores, best first: (n, k) int32, (n, k) float32."""
    parts = [_ordered_top(part, book, k) for part in x.contiguous().split(_exact_rows(x))]
    return torch.cat([index for index, _ in parts]), torch.cat([value for _, value in parts])


def nearest(x: Tensor, book: CudaCodebook) -> Tensor:
    """The best codeword of every row, near-ties decided in float64, lowest index first: (n,) int32."""
    return nearest_after(Uncarried(x), book)


def nearest_after(rows: Uncarried, book: CudaCodebook) -> Tensor:
    """`nearest` of rows after the steps of a plan; those that float16 decides are carried in float16 alone."""
    n, size = len(rows.x), _exact_rows(rows.x)
    if len(book) == 1 or n == 0:
        return torch.zeros(n, dtype=torch.int32, device=rows.x.device)
    if len(book) < SCREENED:
        return torch.cat([_best(part.carried(), book) for part in rows.parts(size)])
    parts = list(rows.parts(2 * size))  # of one half each
    screens = [_screened(part, book) for part in parts]
    counts = torch.stack([screen.counts for screen in screens]).tolist()  # the host waits once
    for part, screen, (close, undecided) in zip(parts, screens, counts, strict=True):
        for numbers in _pieces(screen.lists[0, :close], size // 4):
            screen.index[numbers, 0] = _chosen(part.some(numbers).carried(), book, screen.index[numbers])
        for numbers in _pieces(screen.lists[1, :undecided], size // 4):
            screen.index[numbers, 0] = _best(part.some(numbers).carried(), book)
    return torch.cat([screen.index[:, 0] for screen in screens])


class Screen(NamedTuple):
    """What one product of halves leaves of a codebook for each of n rows."""

    index: Tensor  # (n, kept) int32, the best codewords by coarse scores, best first
    lists: Tensor  # (2, n) int32, rows: those whose best is one of these, perhaps not the first; those with more
    counts: Tensor  # (2,) int32, how many of each


def _pieces(numbers: Tensor, size: int) -> tuple[Tensor, ...]:
    return numbers.split(max(1, size)) if len(numbers) else ()


def _best(x: Tensor, book: CudaCodebook) -> Tensor:
    return _exact_top(x, book, 1)[0][:, 0]


def _chosen(x: Tensor, book: CudaCodebook, index: Tensor) -> Tensor:
    """The best of the codewords index (n, kept) of every row, in float64."""
    kernels_repair.choose_kernel[(ceil_div(len(x), 16),)](
        x, book.exact, book.exact_offset, index, len(x),
        x.shape[1], min(64, power_above(x.shape[1])), 16, index.shape[1],
    )  # fmt: skip
    return index[:, 0]


def _screened(rows: Uncarried, book: CudaCodebook) -> Screen:
    (n, d), K, device = rows.x.shape, len(book), rows.x.device
    tile = tile_for(d, 2, "fp16")
    kept = CANDIDATES if tile.dims == tile.padded else 2 * CANDIDATES
    index = torch.empty(n, kept, dtype=torch.int32, device=device)
    lists = torch.empty(2, n, dtype=torch.int32, device=device)
    counts = torch.zeros(2, dtype=torch.int32, device=device)
    close, undecided = RowList(lists[0], counts[:1]), RowList(lists[1], counts[1:])
    c, keep = book.operands("fp32", tile.padded, tile.wide), _slots(tile, K, kept, 2)
    kernels_top.screen_kernel[(ceil_div(n, tile.rows),)](
        rows.halves(low=False), c._replace(low=None), index, close, undecided, n,
        2.0 * 2.0**-10 + _rounding(d, keep.LOW), book.reach, book.offset_reach, tile.shape(d), keep, **tile.launch,
    )  # fmt: skip
    return Screen(index, lists, counts)


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
