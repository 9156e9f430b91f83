"""Codebook quality from codes alone. A metric's name says its denominator; `metrics.METRICS` describes each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .coherence import coherence
from .metrics import METRICS, described
from .notebook import box, rows_table
from .prefixes import by_first_token, prefix_numbers, require_codes, token_counts
from .sizes import Sizes, as_sizes

__all__ = ["Occupancy", "QualityReport", "entropy_bits", "figures_of", "gini", "occupancy_of", "quality"]


class QualityReport(dict[str, Any]):
    """Metric -> value, or a list of values by level; a notebook shows a table with their formulas."""

    def _repr_html_(self) -> str:
        rows = []
        for metric in METRICS.values():
            if metric.name in self:
                values = self[metric.name] if metric.per_level else [self[metric.name]]
                rows.append((metric.name, ", ".join(map(metric.text, values)), metric.formula))
        facts = [f"{self['items']:,} items", f"{self['distinct_sids']:,} SIDs"]
        return box("Quality", facts, rows_table(("metric", "value, by level", "formula"), rows, code=(0, 1)))


def quality(codes: Any, sizes: Sizes, vectors: Any = None) -> QualityReport:
    """Named metrics of codes (n, levels) with codebooks of these sizes; with the items' vectors (n, d), SC and PD too.

    {overall}

    Per level, where a prefix is an item's tokens up to that level; SC and PD are those of `coherence`:

    {per_level}
    """
    sizes = as_sizes(sizes)
    array = require_codes(codes, sizes)
    figures = figures_of([occupancy_of(array, sizes)], sizes)
    if vectors is not None:
        measured = coherence(np.asarray(vectors), array, sizes)
        figures |= {name: measured[name] for name in ("sc_per_group", "pd_per_group_pair")}
    return QualityReport(figures)


quality.__doc__ = (quality.__doc__ or "").format(overall=described(False), per_level=described(True))


class Occupancy(NamedTuple):
    """How rows are distributed over prefixes: all that `quality` needs of them.

    Occupancies of parts of the rows add up, provided that no prefix occurs in two parts.
    """

    buckets: list[tuple[NDArray[np.int64], NDArray[np.int64]]]  # per level: bucket sizes, and how often each occurs
    tokens: list[NDArray[np.int64]]  # per level: rows with each code


def occupancy_of(codes: NDArray[Any], sizes: Sequence[int]) -> Occupancy:
    """The occupancy of codes (n, levels), part by part."""
    parts = [_buckets(codes[rows], sizes) for rows in by_first_token(codes, sizes)]
    buckets = [_added([part[level] for part in parts]) for level in range(len(sizes))]
    return Occupancy(buckets, [token_counts(codes[:, level], size) for level, size in enumerate(sizes)])


def _buckets(codes: NDArray[Any], sizes: Sequence[int]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Per level, the sizes of prefixes, ascending, and how many prefixes have each."""
    out = []
    for number in prefix_numbers(codes, sizes):
        number.sort()
        starts = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
        out.append(np.unique(np.diff(starts, append=len(number)), return_counts=True))
    return out


def figures_of(parts: Sequence[Occupancy], sizes: Sequence[int]) -> dict[str, Any]:
    """The metrics of `quality` from the occupancies of parts that have no prefix in common."""
    levels = range(len(sizes))
    buckets = [_added([part.buckets[level] for part in parts]) for level in levels]
    tokens = [sum(part.tokens[level] for part in parts) for level in levels]
    size, times = buckets[-1]
    n, distinct, alone = int(size @ times), int(times.sum()), int(times[size == 1].sum())
    possible = np.cumprod([float(size) for size in sizes])
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
        "utilisation": [int(times.sum()) / float(most) for (_, times), most in zip(buckets, possible, strict=True)],
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
    """`gini` of the frequencies `values`, ascending, each of which occurs `times` times."""
    f, t = values.astype(np.float64), times.astype(np.float64)
    m, before = t.sum(), np.cumsum(t) - t
    ranks = t * before + t * (t + 1) / 2  # sum of the ranks of equal frequencies
    return float(2 * (ranks @ f) / (m * (f @ t)) - (m + 1) / m)


def _added(parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Several (values, times) as one: the different values, ascending, and how often each occurs in all parts."""
    values, which = np.unique(np.concatenate([value for value, _ in parts]), return_inverse=True)
    times = np.zeros(len(values), np.int64)
    np.add.at(times, which, np.concatenate([count for _, count in parts]))
    return values, times


def entropy_bits(counts: NDArray[Any]) -> float:
    """The entropy of frequencies, in bits."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share @ np.log2(share))) + 0.0
