"""Codebook quality from codes alone. A metric's name says its denominator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .coherence import coherence
from .prefixes import PrefixIndex, require_codes

__all__ = ["Occupancy", "entropy_bits", "figures_of", "gini", "occupancy_of", "perplexity", "quality"]


def quality(codes: Any, sizes: Sequence[int], vectors: Any = None) -> dict[str, Any]:
    """Named metrics of codes (n, levels) with codebooks of these sizes; with the items' vectors (n, d), SC and PD too.

    items                  n
    distinct_sids          |S|, the number of different full SIDs
    icr_per_sid            SIDs with exactly one item / |S|             (the paper's ICR, Eq. 19)
    icr_per_item           items alone on their SID / n                 (OneSearch's ICR)
    collision_per_item     items that share their SID / n               (1 - icr_per_item)
    surplus_per_item       (n - |S|) / n                                (the RQ-VAE family's collision rate)
    items_per_sid          n / |S|
    largest_bucket         most items on one SID
    utilisation            per level, occupied prefixes / product of sizes up to it   (the paper's Util, Eq. 20)
    prefix_gini            per level, Gini of items over occupied prefixes            (the paper's Gini, Eq. 21)
    codes_used             per level, codes in use / size
    entropy_bits           per level, entropy of the token, in bits
    perplexity             per level, 2^entropy: the number of codes in effective use
    sc_per_group           per level, mean cosine within prefixes of several items     (R3-VAE's SC; see `coherence`)
    pd_per_group_pair      per level, how close the prefixes' mean vectors are         (R3-VAE's PD)
    """
    array = require_codes(codes, sizes)
    figures = figures_of([occupancy_of(array, sizes)], sizes)
    if vectors is not None:
        cohesion = coherence(np.asarray(vectors), array, sizes)
        figures |= {name: cohesion[name] for name in ("sc_per_group", "pd_per_group_pair")}
    return figures


class Occupancy(NamedTuple):
    """How many rows each prefix and each code has. Occupancies of parts add if no prefix is in two parts."""

    buckets: list[tuple[NDArray[np.int64], NDArray[np.int64]]]  # per level: bucket sizes, and how many have each size
    tokens: list[NDArray[np.int64]]  # per level: rows with each code


def occupancy_of(codes: NDArray[Any], sizes: Sequence[int]) -> Occupancy:
    """The occupancy of codes (n, levels)."""
    index = PrefixIndex(codes, sizes)
    counts = [np.diff(index.bounds(level)) for level in range(index.levels)]
    tokens = [np.bincount(codes[:, level], minlength=size) for level, size in enumerate(sizes)]
    return Occupancy([np.unique(count, return_counts=True) for count in counts], tokens)


def figures_of(parts: Sequence[Occupancy], sizes: Sequence[int]) -> dict[str, Any]:
    """The metrics of `quality` from the occupancies of parts that have no prefix in common."""
    levels = range(len(sizes))
    buckets = [_sum_of([part.buckets[level] for part in parts]) for level in levels]
    tokens = [sum(part.tokens[level] for part in parts) for level in levels]
    size, count = buckets[-1]
    n, distinct, alone = int(size @ count), int(count.sum()), int(count[size == 1].sum())
    room = np.cumprod([float(size) for size in sizes])
    bits = [entropy_bits(np.asarray(rows)) for rows in tokens]
    return {
        "items": n,
        "distinct_sids": distinct,
        "icr_per_sid": alone / distinct,
        "icr_per_item": alone / n,
        "collision_per_item": 1 - alone / n,
        "surplus_per_item": (n - distinct) / n,
        "items_per_sid": n / distinct,
        "largest_bucket": int(size.max()),
        "utilisation": [int(count.sum()) / float(space) for (_, count), space in zip(buckets, room, strict=True)],
        "prefix_gini": [_gini(*bucket) for bucket in buckets],
        "codes_used": [int((np.asarray(rows) > 0).sum()) / size for rows, size in zip(tokens, sizes, strict=True)],
        "entropy_bits": bits,
        "perplexity": [2.0**bit for bit in bits],
    }


def gini(counts: NDArray[Any]) -> float:
    """2 sum_q q f_(q) / (M sum f) - (M + 1) / M over the M sorted frequencies f (paper, Eq. 21).

    0 if all are equal, close to 1 if one has nearly everything. Leave out unused entries before the call.
    """
    return _gini(*np.unique(np.asarray(counts), return_counts=True))


def _gini(values: NDArray[Any], counts: NDArray[Any]) -> float:
    """The same, from the distinct frequencies in ascending order and how often each occurs."""
    f, count = values.astype(np.float64), counts.astype(np.float64)
    m, before = count.sum(), np.cumsum(count) - count
    ranks = count * before + count * (count + 1) / 2  # the sum of the ranks of equal frequencies
    return float(2 * (ranks @ f) / (m * (f @ count)) - (m + 1) / m)


def _sum_of(parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(values, counts) of all parts in one."""
    values, index = np.unique(np.concatenate([value for value, _ in parts]), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, index, np.concatenate([count for _, count in parts]))
    return values, counts


def perplexity(counts: NDArray[Any]) -> float:
    """2 to the entropy of the frequencies: the number of codes in effective use."""
    return float(2.0 ** entropy_bits(counts))


def entropy_bits(counts: NDArray[Any]) -> float:
    """The entropy of frequencies, in bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share))) + 0.0
