"""Whether the order within sequences is that of a list, not that of time.

Files that note only the day of an event leave open in which order the things of one day were done, and often list them
by number. Two people who took the same two items then have them in the same order, whatever they did first, except
where a day changes: often before the last items of a sequence. What is learned from such steps is partly the numbering.

    agreement        of two sequences that have the same two items at most WINDOW apart, how often both have them in the
                     same order; without the last two items of each sequence. 0.5 if order says nothing
    agreement_last   how often the steps into the last two items have the order that the others have, where others have
                     both items that near
    arranged         whether a list seems to order the sequences: agreement is at least AGREE, and agreement_last is
                     lower by at least FALL and by three standard errors

Numbers of public data: docs/results/beyond.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences

__all__ = ["AGREE", "FALL", "order_of"]

WINDOW, AGREE, FALL = 5, 0.8, 0.1

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


def order_of(sequences: Sequences) -> dict[str, Any]:
    """sequences: without unknown items. The figures are None where no two sequences share a pair."""
    items = int(sequences.rows.max(initial=0)) + 1
    pair, upward = _pairs(sequences.training(), items)
    known, which = np.unique(pair, return_inverse=True)
    often = np.bincount(which, minlength=len(known))
    up = np.bincount(which, upward, minlength=len(known))
    met = float((often * (often - 1)).sum())
    last, order = _last_steps(sequences, items)
    at = np.minimum(np.searchsorted(known, last), max(len(known) - 1, 0))
    seen = known[at] == last if len(known) else np.zeros(len(last), bool)
    if not met or not seen.any():
        return {"agreement": None, "agreement_last": None, "arranged": False}
    agreement = float((up * (up - 1) + (often - up) * (often - up - 1)).sum() / met)
    share = (up / often)[at[seen]]
    same = np.where(order[seen], share, 1 - share)
    error = float(same.std() / np.sqrt(len(same)))
    fall = agreement - float(same.mean())
    arranged = agreement >= AGREE and fall >= max(FALL, 3 * error)
    return {"agreement": agreement, "agreement_last": float(same.mean()), "arranged": arranged}


def _pairs(sequences: Sequences, items: int) -> tuple[Integers, Bools]:
    """Of every two items at most WINDOW apart, the number of the pair, and whether the larger row comes second."""
    rows, which = sequences.rows, np.repeat(np.arange(len(sequences)), np.diff(sequences.starts))
    parts = [(np.zeros(0, np.int64), np.zeros(0, bool))]
    for gap in range(1, WINDOW + 1):
        inside = which[:-gap] == which[gap:]
        parts.append(_numbered(rows[:-gap][inside], rows[gap:][inside], items))
    return np.concatenate([pair for pair, _ in parts]), np.concatenate([up for _, up in parts])


def _last_steps(sequences: Sequences, items: int) -> tuple[Integers, Bools]:
    steps = [sequences.held_out(back)[1] for back in (1, 2)]
    at = np.concatenate(steps)
    return _numbered(sequences.rows[at - 1], sequences.rows[at], items)


def _numbered(a: Integers, b: Integers, items: int) -> tuple[Integers, Bools]:
    a, b = a[a != b], b[a != b]
    return np.minimum(a, b) * items + np.maximum(a, b), a < b
