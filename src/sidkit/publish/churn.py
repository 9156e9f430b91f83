"""How many items lose their tokens when IDs are made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..sids.changed import changed_shares
from ..sids.prefixes import prefix_numbers
from .matching import best_permutation, common_items

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["churn", "least_prefix_churn"]


def churn(
    old: NDArray[Any], before: NDArray[Any], after: NDArray[Any], fitted: FittedTokenizer
) -> dict[str, list[float]]:
    """Churn per level before and after an alignment, beside the least that renumbering could leave.

    tokens_before, tokens_after, tokens_least        share of items whose token differs from the old one
    prefixes_before, prefixes_after, prefixes_least  the same for the prefix up to the level

    tokens_least: of any numbers for the codes of a token (for a codebook per parent, of any under each parent).
    prefixes_least: a bound, by which every group of items goes where most of it came from.
    """
    figures = {
        f"{kind}_{when}": values
        for when, codes in (("before", before), ("after", after))
        for kind, values in changed_shares(old, codes).items()
    }
    figures["tokens_least"] = [
        _least_token_churn(old[:, token], before[:, : token + 1], private)
        for token, private in enumerate(_private_tokens(fitted))
    ]
    sizes = [int(max(old[:, level].max(), before[:, level].max())) + 1 for level in range(old.shape[1])]
    figures["prefixes_least"] = least_prefix_churn(old, before, sizes)
    return figures


def least_prefix_churn(old: NDArray[Any], new: NDArray[Any], sizes: list[int]) -> list[float]:
    """Per level, a lower bound of the share of items whose prefix changes under any renumbering."""
    bounds = []
    for theirs, ours in zip(prefix_numbers(old, sizes), prefix_numbers(new, sizes), strict=True):
        pairs, count = np.unique(np.stack([theirs, ours], 1), axis=0, return_counts=True)
        kept = min(_largest(pairs[:, 0], count), _largest(pairs[:, 1], count))
        bounds.append(1 - kept / len(old))
    return bounds


def _largest(group: NDArray[Any], count: NDArray[Any]) -> int:
    """The sum over groups of their largest count."""
    numbers = np.unique(group, return_inverse=True)[1].ravel()
    largest = np.zeros(int(numbers.max()) + 1, np.int64)
    np.maximum.at(largest, numbers, count)
    return int(largest.sum())


def _private_tokens(fitted: FittedTokenizer) -> list[bool]:
    """For every token, whether its codebooks are private to parents."""
    from ..stages.cluster.per_parent import ParentBooks
    from ..stages.level import FittedLevel

    return [
        isinstance(stage, FittedLevel) and isinstance(stage.clusters, ParentBooks)
        for stage in fitted.stages
        for _ in stage.sizes
    ]


def _least_token_churn(old: NDArray[Any], codes: NDArray[Any], private: bool) -> float:
    """The least share of items whose token changes, over all one-to-one numbers for the new codes."""
    groups = [np.arange(len(old))]
    if private:
        parents = prefix_numbers(codes[:, :-1], [int(column.max()) + 1 for column in codes[:, :-1].T])[-1]
        order = np.argsort(parents, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(parents[order])) + 1)
    kept = 0
    for rows in groups:
        ours = np.unique(codes[rows, -1], return_inverse=True)[1].ravel()
        theirs = np.unique(old[rows], return_inverse=True)[1].ravel()
        together = common_items(ours, theirs, int(max(ours.max(), theirs.max())) + 1)
        kept += int(together[np.arange(len(together)), best_permutation(together)].sum())
    return 1 - kept / len(old)
