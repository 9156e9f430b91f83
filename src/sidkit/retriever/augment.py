"""Other examples in every epoch: shorter histories, and items of a history under another of their SIDs.

What is drawn depends on the run's seed and the epoch alone, so that it is the same whichever runs share its stack, and
after a training was resumed. Targets are never changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["cut_lengths", "drawn_tokens"]

CUT, SWAP = 1, 2  # streams of random numbers, apart from that of the order of examples


def cut_lengths(length: NDArray[np.int64], share: float, seed: int, epoch: int) -> NDArray[np.int64]:
    """The lengths (n,) of histories in an epoch: a share of them is cut to a length drawn from 1 to its own.

    What is cut are the oldest items, so that an example is a sub-sequence that ends at its target.
    """
    if not share:
        return length
    rng = np.random.default_rng((seed, epoch, CUT))
    cut = rng.random(len(length)) < share
    return np.where(cut, rng.integers(1, np.maximum(length, 1) + 1), length)


def drawn_tokens(tokens: NDArray[Any], share: float, seed: int, epoch: int) -> NDArray[Any]:
    """(items, L) the SIDs by which histories name items in an epoch: a share of the items has another of its own.

    tokens: (1 + A, items, L), each item's SID and A others.
    """
    others, items = len(tokens) - 1, tokens.shape[1]
    if not share or not others:
        first: NDArray[Any] = tokens[0]
        return first
    rng = np.random.default_rng((seed, epoch, SWAP))
    which = np.where(rng.random(items) < share, rng.integers(1, others + 1, items), 0)
    drawn: NDArray[Any] = tokens[which, np.arange(items)]
    return drawn
