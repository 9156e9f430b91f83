"""One fitted stage in the form that the compiled kernels and the GPU's kernel take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cpu import CpuCodebook

__all__ = ["CarryStep"]


@dataclass(frozen=True, eq=False)
class CarryStep:
    """One stage: subtract the row's share of a vector (`geometry.residual`), then scale the row to length one.

    vectors: (K, d), chosen by the row's code in `column`; (1, d), shared by all rows (column -1); or None. For a GPU
    they may be a tensor there.
    book: the codebook that finds the code while encoding; None where codes are known.
    """

    vectors: Any = None
    keep: float = 0.0
    normalize: bool = True
    column: int = -1
    book: CpuCodebook | None = None
