"""Codebook quality from codes alone. A metric's name says its denominator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..sids import prefix_numbers

__all__ = ["entropy_bits", "gini", "perplexity", "quality", "require_codes"]


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
    n = len(array)
    numbers = prefix_numbers(array, sizes)
    shares = [np.unique(number, return_counts=True)[1] for number in numbers]
    tokens = [np.bincount(array[:, level], minlength=size) for level, size in enumerate(sizes)]
    full = shares[-1]
    alone = int((full == 1).sum())
    room = np.cumprod([float(size) for size in sizes])
    bits = [entropy_bits(count) for count in tokens]
    figures = {
        "items": n,
        "distinct_sids": len(full),
        "icr_per_sid": alone / len(full),
        "icr_per_item": alone / n,
        "collision_per_item": 1 - alone / n,
        "surplus_per_item": (n - len(full)) / n,
        "items_per_sid": n / len(full),
        "largest_bucket": int(full.max()),
        "utilisation": [len(share) / float(space) for share, space in zip(shares, room, strict=True)],
        "prefix_gini": [gini(share) for share in shares],
        "codes_used": [int((count > 0).sum()) / size for count, size in zip(tokens, sizes, strict=True)],
        "entropy_bits": bits,
        "perplexity": [2.0**bit for bit in bits],
    }
    if vectors is not None:
        from .coherence import coherence

        found = coherence(np.asarray(vectors), array, sizes)
        figures |= {name: found[name] for name in ("sc_per_group", "pd_per_group_pair")}
    return figures


def require_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """The codes as an array (n, levels), if they fit the sizes and there are any."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise InputError(f"codes of shape {array.shape} do not fit {len(sizes)} sizes")
    if 0 in array.shape:
        raise InputError("there are no codes to measure")
    if (array < 0).any() or (array >= np.asarray(sizes)).any():
        raise InputError(f"some codes lie outside their codebook (sizes {tuple(sizes)})")
    return array


def gini(counts: NDArray[Any]) -> float:
    """2 sum_q q f_(q) / (M sum f) - (M + 1) / M over the M sorted frequencies f (paper, Eq. 21).

    0 when all are equal, towards 1 when one has everything. Leave unused entries out before the call.
    """
    sorted_counts = np.sort(np.asarray(counts, np.float64))
    m = len(sorted_counts)
    return float(2 * (np.arange(1, m + 1) @ sorted_counts) / (m * sorted_counts.sum()) - (m + 1) / m)


def perplexity(counts: NDArray[Any]) -> float:
    """2 to the entropy of the frequencies: the number of codes in effective use."""
    return float(2.0 ** entropy_bits(counts))


def entropy_bits(counts: NDArray[Any]) -> float:
    """The entropy of frequencies, in bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share))) + 0.0
