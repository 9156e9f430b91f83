"""Recommending by counting, without a model: what a recommender has to beat, and what SIDs alone achieve.

The last item of every sequence is held out for the test and the one before it for validation; the rest is counted.

    popular          the most frequent items, for everybody
    followed         what most often came right after the user's last item, then the most frequent items
    by first token   SIDs, by their chance given the first token of the last item's SID: what a model could do that has
                     learned only which tokens follow which. It is higher the better SIDs group items that follow each
                     other, and the fewer items share a SID

Figures are means over users, named as in `ranking`: recall, hit_rate, ndcg and mrr at 5, 10 and 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import InputError
from ..progress import Progress
from ..sids.prefixes import require_codes
from .chances import Chances
from .ranking import CUTS, mean_figures
from .seen import ranks_by_seen, times_seen

__all__ = ["counted", "counted_by_token", "followed_by_seen", "held_out", "ranks_by_token", "require_counted"]

Integers = NDArray[np.int64]


def counted(sequences: Sequences, items: int, split: Literal["test", "valid"] = "test") -> dict[str, dict[str, float]]:
    """How well "popular" and "followed" find the held-out items among `items`. Ties go by popularity, then by row."""
    popular, followed, _ = _ranks(sequences, items, split)
    return {"popular": mean_figures(popular), "followed": mean_figures(followed)}


def followed_by_seen(
    sequences: Sequences, items: int, split: Literal["test", "valid"] = "test"
) -> dict[str, dict[str, Any]]:
    """How well "followed" finds held-out items, by how often these were seen in training (`sidkit.measure.seen`)."""
    _, followed, target = _ranks(sequences, items, split)
    return ranks_by_seen(followed, times_seen(sequences, items)[target])


def _ranks(sequences: Sequences, items: int, split: Literal["test", "valid"]) -> tuple[Integers, Integers, Integers]:
    """The ranks of the held-out items by "popular" and by "followed", from 0; and these items."""
    last, target = held_out(sequences, split)
    seen = sequences.training()
    popular = np.empty(items, np.int64)  # the rank of every item
    popular[np.argsort(-np.bincount(seen.rows, minlength=items), kind="stable")] = np.arange(items)
    start, after, _ = seen.transitions()
    return popular[target], _followed(start, after, popular, last, target), target


def counted_by_token(
    codes: Any,
    sizes: Sequence[int],
    sequences: Sequences,
    beams: int = 30,
    progress: Progress | None = None,
) -> dict[str, float]:
    """How well tokens' chances given the first token of the last item predict SIDs (see `chances`).

    codes: (n, levels). The items to predict are those of the validation. SIDs are ranked by beam search. One that g
    items share counts 1/g, as in the `expected` reading of a model's figures.
    """
    return mean_figures(*ranks_by_token(codes, sizes, sequences, beams, progress))


def ranks_by_token(
    codes: Any,
    sizes: Sequence[int],
    sequences: Sequences,
    beams: int = 30,
    progress: Progress | None = None,
    split: Literal["test", "valid"] = "valid",
) -> tuple[Integers, NDArray[np.float64]]:
    """For every item to predict, the rank of its SID from 0, and 1 / the number of items that share it: see above."""
    array = require_codes(codes, sizes)
    last, target = held_out(sequences, split)
    before, after, _ = sequences.training().transitions()
    chances = Chances(array, sizes, before, after)
    tokens, user_token = np.unique(chances.first_of(last), return_inverse=True)
    best = chances.likeliest(tokens, beams, progress)[0][user_token]
    leaf = chances.leaf_of(target)
    matches = best == leaf[:, None]
    rank = np.where(matches.any(1), matches.argmax(1), max(CUTS))
    return rank, 1 / chances.trie.counts[leaf]


def held_out(sequences: Sequences, split: Literal["test", "valid"]) -> tuple[Integers, Integers]:
    """(before, item): of every sequence that has one, the item to predict and the item before it."""
    if (sequences.rows < 0).any():
        raise InputError("items without a semantic ID have to be left out of the sequences first")
    _, position = sequences.held_out({"valid": 2, "test": 1}[split])
    return sequences.rows[position - 1], sequences.rows[position]


def require_counted(sequences: Sequences) -> Sequences:
    """The sequences without unknown items; an error if there is nothing to predict in them."""
    known = sequences.known()
    if not len(held_out(known, "valid")[0]):
        raise InputError("no sequence has three known items, so there is nothing to predict by counting")
    return known


def _followed(start: Integers, after: Integers, popular: Integers, last: Integers, target: Integers) -> Integers:
    """The rank of each target, from 0: among what followed `last` in the transitions, or behind all of that."""
    items = len(popular)
    key, count = np.unique(start * items + popular[after], return_counts=True)  # by item, then by popularity
    first, end = (np.searchsorted(key, (last + more) * items) for more in (0, 1))  # followers of the last item
    rank = np.empty(len(key) + 1, np.int64)  # of each follower, the most frequent first
    rank[np.lexsort((key, -count, key // items))] = np.arange(len(key))
    wanted = last * items + popular[target]
    at = np.searchsorted(key, wanted)  # followers of earlier items, and more popular followers of this one
    known = np.append(key, -1)[at] == wanted
    return np.where(known, rank[at] - first, end + popular[target] - at)
