"""How many items could have a semantic ID to themselves by another last token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .prefixes import prefix_numbers

__all__ = ["separable"]


def separable(codes: Any, sizes: Sequence[int]) -> float:
    """The most items that can have a SID to themselves if all tokens but the last stay / items.

    Under a prefix with c items and K codes of the last level, all c where c is at most K, else K - 1: the others share
    the last one.
    """
    array = np.asarray(codes)
    if len(sizes) == 1:
        counts = np.array([len(array)])
    else:
        counts = np.unique(prefix_numbers(array[:, :-1], sizes[:-1])[-1], return_counts=True)[1]
    return float(np.where(counts > sizes[-1], sizes[-1] - 1, counts).sum() / max(len(array), 1))
