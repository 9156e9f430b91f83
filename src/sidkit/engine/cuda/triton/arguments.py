"""Groups of arguments that the kernels share.

Triton passes a NamedTuple as its fields. A field that is None is absent: a kernel is compiled without what needs it.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["CodebookArgs", "PairArgs", "RowArgs", "RowList", "SlotShape", "TileShape"]


class RowArgs(NamedTuple):
    """Rows to be scored: the rows alone, or one or two float16 halves of every row, 2^e row = x + low."""

    x: Tensor  # (n, D)
    low: Tensor | None = None  # (n, D) float16
    scale: Tensor | None = None  # (n,) float32, 2^e of every row; absent where rows are not halves
    length: Tensor | None = None  # (n,) float32, |row|; absent where it is one, or the kernel computes it


class CodebookArgs(NamedTuple):
    """A codebook, padded with zeros to whole blocks of codewords and to DP dimensions."""

    rows: Tensor  # (padded K, DP), in the dtype of RowArgs.x
    low: Tensor | None  # (padded K, DP) float16: the low halves, with RowArgs.low
    offset: Tensor | None  # (padded K,) float32, added to scores; absent for cosines
    scale: float  # the power of two that rows and low were multiplied with
    size: int  # K
    blocks: int = 0  # blocks of SLOTS * SPLIT codewords that cover K


class PairArgs(NamedTuple):
    """The output of a fit: its (row, codeword) pairs, k per row, counted by codeword and sub-block of rows."""

    code: Tensor  # (n, k) int32: the codeword above `rank_bits` bits of position among the codeword's pairs
    weight: Tensor  # (n, k) float32
    counts: Tensor  # (subs, K) int32
    best: Tensor  # (n,) float32, the similarity of the best codeword
    longest: Tensor  # (1,) float32, the longest row
    sub: int  # rows of a sub-block
    subs: int  # sub-blocks


class RowList(NamedTuple):
    """Rows that the fast kernel could not decide, in any order."""

    rows: Tensor  # (n,) int32, of which the first `length` are used
    length: Tensor  # (1,) int32


class TileShape(NamedTuple):
    """How a program cuts rows and codebook; known when a kernel is compiled."""

    D: int  # dimensions of a row
    DP: int  # and of a codeword, padded
    BD: int  # dimensions multiplied at a time
    BM: int  # rows of a tile
    SLOTS: int  # slots of a tile
    SPLIT: int = 1  # blocks of slots scored together


class SlotShape(NamedTuple):
    """How many scores are kept and how they are marked; known when a kernel is compiled."""

    K_TOP: int  # codewords wanted
    KP: int  # at least as many, a power of two
    DEPTH: int = 1  # scores kept per slot
    EVICT: bool = False  # whether a slot can push out a score that was wanted
    PACK: bool = False  # whether a score's low bits hold the whole index of its codeword
    LOW: int = 0  # the mask of the bits that hold the index of a block
    RAGGED: bool = False  # whether the last block has codewords beyond K
