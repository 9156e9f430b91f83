"""Renumbering the codewords of a refit, so that items keep as many of their published tokens as possible.

A refit finds much the same clusters under other numbers. One permutation per token, or per parent where codebooks are
private to parents, puts the numbers back: for new code j and old code a let N[j, a] be the items that have both, then

    the permutation with the largest sum over j of N[j, new(j)]

is an assignment problem, solved exactly (SciPy). Tokens are independent of each other in this sum, so all together keep
the most tokens that renumbering can keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..stages.cluster.per_parent import ParentBooks
from ..stages.level import FittedLevel
from ..stages.scalar import FittedFSQ
from ..stages.stage import Fitted
from ..tokenizer.tokenizer import FittedTokenizer
from .churn import churn
from .matching import best_permutation, common_items
from .renumber import BitMap, CodeMap, ParentMap, Renumbering, TokenMap, renumbered

__all__ = ["AlignedRefit", "align_tokenizer"]

Integers = NDArray[np.int64]
MOST_BITS = 6  # of a token for which all ways to turn its bits are tried: 46,080


@dataclass(frozen=True, eq=False)
class AlignedRefit:
    """A tokenizer with aligned codes, how they were renumbered, and how many tokens changed, ready for JSON."""

    fitted: FittedTokenizer
    renumbering: Renumbering
    facts: dict[str, Any]


def align_tokenizer(old_codes: Any, new: FittedTokenizer, X: Any, device: str = "auto") -> AlignedRefit:
    """The refit `new` with its codes renumbered so that rows X keep as many of the tokens old_codes as possible.

    old_codes: (n, tokens), of the same rows under the old tokenizer, or as they were published.
    Every row of X is encoded again with the result: its tokens are the renumbered ones.
    """
    old, codes = np.asarray(old_codes), new.encode(X, device)
    if old.shape != codes.shape:
        raise InputError(f"old codes of shape {old.shape} cannot be aligned with new ones of shape {codes.shape}")
    if not len(old):
        raise InputError("no items are shared, so there is nothing to align by")
    fixed: set[int] = set()
    while True:
        renumbering = Renumbering(_token_maps(old, codes, new, fixed))
        fitted, wanted = renumbered(new, renumbering), renumbering.apply(codes)
        differing = fitted.encode(X, device) != wanted
        first = np.unique(differing.argmax(axis=1)[differing.any(axis=1)])
        again = {int(token) for token in first} - fixed
        if not again:
            break
        fixed |= again  # rows of length zero tie with every centroid and take code 0, which has to stay where it is
    facts = {
        "items": len(old),
        "ties": int(differing.any(axis=1).sum()),
        "fixed_code_0": sorted(token + 1 for token in fixed),
        **churn(old, codes, wanted, new),
    }
    return AlignedRefit(fitted, renumbering, facts)


def _token_maps(old: NDArray[Any], codes: NDArray[Any], new: FittedTokenizer, fixed: set[int]) -> tuple[TokenMap, ...]:
    maps, done = list[TokenMap](), 0
    for stage in new.stages:
        for token, size in enumerate(stage.sizes):
            maps.append(_token_map(stage, token, int(size), old[:, done], codes[:, : done + 1], done in fixed))
            done += 1
    return tuple(maps)


def _token_map(
    stage: Fitted, token: int, size: int, old: NDArray[Any], codes: NDArray[Any], fix_zero: bool
) -> TokenMap:
    """The best map of a token, from the old tokens (n,) and the new ones up to it (n, tokens)."""
    if isinstance(stage, FittedLevel) and isinstance(stage.clusters, ParentBooks):
        return _per_parent(stage.clusters, old, codes)
    together = common_items(codes[:, -1], old, size)
    if isinstance(stage, FittedFSQ):
        return _bits(together, may_invert=not fix_zero)
    if fix_zero:
        together[0, 0] += len(old) + 1
    return CodeMap(_winners_first(best_permutation(together), together, _vectors(stage, token)))


def _per_parent(books: ParentBooks, old: NDArray[Any], codes: NDArray[Any]) -> ParentMap:
    """The best permutation under every parent that the items have; the others keep their codes."""
    length = np.diff(books.starts)
    new = np.arange(len(books.centroids)) - np.repeat(books.starts[:-1], length)
    parents = books.parents_of(codes[:, :-1])
    order = np.argsort(parents, kind="stable")
    cuts = np.flatnonzero(np.diff(parents[order], prepend=-2))
    for start, stop in zip(cuts, np.append(cuts[1:], len(order)), strict=True):
        parent, rows = parents[order[start]], order[start:stop]
        if parent < 0:
            continue
        first, last = books.starts[parent], books.starts[parent + 1]
        together = common_items(codes[rows, -1], old[rows], int(last - first))
        permutation = best_permutation(together)
        new[first:last] = _winners_first(permutation, together, books.centroids[first:last])
    return ParentMap(books, new)


def _bits(together: Integers, may_invert: bool) -> BitMap:
    """The best way to reorder and invert the bits of a token: all are tried, or, with many bits, the best per bit."""
    bits = (len(together) - 1).bit_length()
    if bits > MOST_BITS:
        return _bits_one_by_one(together, bits, may_invert)
    best, most = BitMap.of(range(bits), [False] * bits), -1
    codes, masks = np.arange(2**bits), np.arange(2**bits if may_invert else 1)
    for to in permutations(range(bits)):
        moved = BitMap.of(to, [False] * bits).new
        kept = together[codes, moved[None, :] ^ masks[:, None]].sum(axis=1)
        if kept.max() > most:
            most, mask = int(kept.max()), int(masks[kept.argmax()])
            best = BitMap.of(to, [bool(mask >> bit & 1) for bit in to])
    return best


def _bits_one_by_one(together: Integers, bits: int, may_invert: bool) -> BitMap:
    """Bits matched by how many items they agree on, inverted or not."""
    values = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    agree = values.T @ together @ values + (1 - values).T @ together @ (1 - values)
    total = int(together.sum())
    to = best_permutation(np.maximum(agree, total - agree) if may_invert else agree)
    inverted = [may_invert and bool(2 * agree[bit, to[bit]] < total) for bit in range(bits)]
    return BitMap.of(to.tolist(), inverted)


def _vectors(stage: Fitted, token: int) -> NDArray[Any]:
    """What decides a code: all numbers that a stage holds for each code of a token, (K, ...)."""
    arrays = stage.arrays
    if isinstance(stage, FittedLevel):
        return np.concatenate([np.asarray(array, np.float64).reshape(len(array), -1) for array in arrays.values()], 1)
    return np.asarray(arrays.get(f"centroids{token}", arrays.get(f"codebook.{token}", np.empty((0, 1)))))


def _winners_first(new: Integers, together: Integers, vectors: NDArray[Any]) -> Integers:
    """The permutation with the lowest number, of equal centroids, still at the one that was lowest: it takes all rows.

    Its equals have no items, so they swap numbers with other codes without items; where that does not suffice, with it.
    """
    if len(vectors) != len(new):
        return new
    _, group, count = np.unique(vectors, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    if count.max() == 1:
        return new
    new = new.copy()
    idle = np.flatnonzero((count[group] == 1) & (together.sum(axis=1) == 0))
    for one in np.flatnonzero(count > 1):
        winner, *others = np.flatnonzero(group == one)
        for other in others:
            higher = idle[new[idle] > new[winner]]
            if new[other] > new[winner]:
                continue
            swap = higher[0] if len(higher) else winner
            new[other], new[swap] = new[swap], new[other]
    return new
