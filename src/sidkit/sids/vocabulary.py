"""Which token of a model stands for which code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """Which token stands for which code: code + the sizes of the levels before + 1. Token 0 pads, starts and ends."""

    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return 1 + sum(self.sizes)

    @property
    def first(self) -> tuple[int, ...]:
        """The token of code 0, level by level."""
        return tuple(1 + sum(self.sizes[:level]) for level in range(len(self.sizes)))

    def tokens(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """codes: (n, levels) -> tokens of the same shape."""
        return np.asarray(codes, np.int64) + np.array(self.first, np.int64)
