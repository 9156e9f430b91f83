"""How many items could have a semantic ID to themselves by another last token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .prefixes import by_first_token, sid_numbers

__all__ = ["separable"]


def separable(codes: Any, sizes: Sequence[int]) -> float:
    """The most items that can have a SID to themselves if all tokens but the last stay / items.

    Under a prefix with c items and K codes of the last level, all c where c is at most K, else K - 1: the others share
    the last one.
    """
    array = np.asarray(codes)
    most, counts = int(sizes[-1]), [np.array([len(array)])]
    if len(sizes) > 1:
        parents = (sid_numbers(array[rows, :-1], sizes[:-1]) for rows in by_first_token(array, sizes))
        counts = [np.unique(number, return_counts=True)[1] for number in parents]
    alone = sum(int(np.where(count > most, most - 1, count).sum()) for count in counts)
    return alone / max(len(array), 1)
