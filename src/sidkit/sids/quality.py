"""Codebook quality from codes alone. A metric's name says its denominator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .coherence import coherence
from .prefixes import prefix_numbers, require_codes

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
    perplexity             per level, 2^entropy: how many codes are in effective use
    sc_per_group           per level, mean cosine within prefixes of several items     (R3-VAE's SC; see `coherence`)
    pd_per_group_pair      per level, how near the prefixes' mean vectors are          (R3-VAE's PD)
    """
    array = require_codes(codes, sizes)
    figures = figures_of([occupancy_of(array, sizes)], sizes)
    if vectors is not None:
        found = coherence(np.asarray(vectors), array, sizes)
        figures |= {name: found[name] for name in ("sc_per_group", "pd_per_group_pair")}
    return figures


class Occupancy(NamedTuple):
    """How some rows lie over prefixes: all that quality needs of them, and it adds if no prefix is in two of them."""

    buckets: list[tuple[NDArray[np.int64], NDArray[np.int64]]]  # per level: sizes of buckets, and how many have each
    tokens: list[NDArray[np.int64]]  # per level: rows with each code


def occupancy_of(codes: NDArray[Any], sizes: Sequence[int]) -> Occupancy:
    """The spread of codes (n, levels)."""
    counts = [np.unique(number, return_counts=True)[1] for number in prefix_numbers(codes, sizes)]
    tokens = [np.bincount(codes[:, level], minlength=size) for level, size in enumerate(sizes)]
    return Occupancy([np.unique(count, return_counts=True) for count in counts], tokens)


def figures_of(spreads: Sequence[Occupancy], sizes: Sequence[int]) -> dict[str, Any]:
    """The metrics of `quality` from spreads that have no prefix in common."""
    levels = range(len(sizes))
    buckets = [_together([spread.buckets[level] for spread in spreads]) for level in levels]
    tokens = [sum(spread.tokens[level] for spread in spreads) for level in levels]
    size, times = buckets[-1]
    n, distinct, alone = int(size @ times), int(times.sum()), int(times[size == 1].sum())
    room = np.cumprod([float(size) for size in sizes])
    bits = [entropy_bits(np.asarray(count)) for count in tokens]
    return {
        "items": n,
        "distinct_sids": distinct,
        "icr_per_sid": alone / distinct,
        "icr_per_item": alone / n,
        "collision_per_item": 1 - alone / n,
        "surplus_per_item": (n - distinct) / n,
        "items_per_sid": n / distinct,
        "largest_bucket": int(size.max()),
        "utilisation": [int(many.sum()) / float(space) for (_, many), space in zip(buckets, room, strict=True)],
        "prefix_gini": [_gini(*bucket) for bucket in buckets],
        "codes_used": [int((np.asarray(count) > 0).sum()) / size for count, size in zip(tokens, sizes, strict=True)],
        "entropy_bits": bits,
        "perplexity": [2.0**bit for bit in bits],
    }


def gini(counts: NDArray[Any]) -> float:
    """2 sum_q q f_(q) / (M sum f) - (M + 1) / M over the M sorted frequencies f (paper, Eq. 21).

    0 when all are equal, towards 1 when one has everything. Leave unused entries out before the call.
    """
    return _gini(*np.unique(np.asarray(counts), return_counts=True))


def _gini(values: NDArray[Any], times: NDArray[Any]) -> float:
    """The same, from the different frequencies in order and how often each occurs."""
    f, many = values.astype(np.float64), times.astype(np.float64)
    m, before = many.sum(), np.cumsum(many) - many
    ranks = many * before + many * (many + 1) / 2  # of equal frequencies, added up
    return float(2 * (ranks @ f) / (m * (f @ many)) - (m + 1) / m)


def _together(parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    values, place = np.unique(np.concatenate([value for value, _ in parts]), return_inverse=True)
    times = np.zeros(len(values), np.int64)
    np.add.at(times, place, np.concatenate([many for _, many in parts]))
    return values, times


def perplexity(counts: NDArray[Any]) -> float:
    """2 to the entropy of the frequencies: the number of codes in effective use."""
    return float(2.0 ** entropy_bits(counts))


def entropy_bits(counts: NDArray[Any]) -> float:
    """The entropy of frequencies, in bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share))) + 0.0
