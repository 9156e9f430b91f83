"""SC and PD, the two measures of R3-VAE: how similar the items of a prefix are, and how different prefixes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..geometry import squared_length, unit
from .prefixes import prefix_numbers, require_codes

__all__ = ["coherence"]

CHUNK = 1 << 13  # rows, or group means, in memory at once
Floats = NDArray[np.float64]


def coherence(
    vectors: Any, codes: Any, sizes: Sequence[int], t: float = 2.0, groups: int = 4096, seed: int = 0
) -> dict[str, Any]:
    """Semantic cohesion and preference discrimination of every level, items grouped by their prefix up to it.

        SC = mean over groups G of two items or more of  2 / (|G| (|G| - 1)) sum_{i<j in G} cos(v_i, v_j)
        PD = log 2 / (M (M - 1)) sum_{a<b} exp(-t (1 - cos(p_a, p_b))),   p_a the mean vector of group a

    sc_per_group        per level; higher is better, in [-1, 1]; None where every item is alone
    pd_per_group_pair   per level; lower is better, in [-2 t, 0]; None where there is only one group
    groups              per level, number of groups
    groups_of_several   per level, groups of two items or more, which count for SC
    groups_compared     per level, groups compared for PD: all, or a random sample of `groups` where there are more
    sc, pd              means over the levels that have a value, as the paper's loss averages them

    vectors: (n, d), the items' embeddings; codes: (n, levels). A zero vector has cosine 0 with every other.
    SC is exact without forming pairs: the cosines of a group add up to (|sum u|^2 - sum |u|^2) / 2, u = v / |v|.
    Rows are read a chunk at a time, so vectors may be memory-mapped.
    """
    array = require_codes(codes, sizes)
    if vectors.ndim != 2 or len(vectors) != len(array):
        raise InputError(f"vectors of shape {vectors.shape} do not fit codes of shape {array.shape}")
    if groups < 2:
        raise SpecError(f"PD compares groups; it needs at least 2, not {groups}")
    numbers = prefix_numbers(array, sizes)
    order = np.argsort(numbers[-1], kind="stable")  # in this order the items of a group are adjacent, at every level
    levels = [_level(vectors, order, number[order], t, groups, seed) for number in numbers]
    report: dict[str, Any] = {key: [level[key] for level in levels] for key in levels[0]}
    for short, key in (("sc", "sc_per_group"), ("pd", "pd_per_group_pair")):
        known = [value for value in report[key] if value is not None]
        report[short] = sum(known) / len(known) if known else None
    return report


def _level(
    vectors: Any, order: NDArray[np.int64], number: NDArray[np.int64], t: float, most: int, seed: int
) -> dict[str, Any]:
    starts = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    ends = np.r_[starts[1:], len(number)]
    total = len(starts)
    compared = np.arange(total)
    if total > most:
        compared = np.sort(np.random.default_rng(seed).choice(total, most, replace=False))
    cosines, means = 0.0, np.empty((len(compared), vectors.shape[1]))
    for batch, unit_sum, square, plain_sum in _group_sums(vectors, order, starts, ends):
        count = (ends - starts)[batch]
        pairs = np.maximum(count * (count - 1), 1)
        cosines += float((((unit_sum**2).sum(axis=1) - square) / pairs)[count >= 2].sum())
        inside = (compared >= batch.start) & (compared < batch.stop)
        local = compared[inside] - batch.start
        means[inside] = plain_sum[local] / count[local, None]
    several = int((ends - starts >= 2).sum())
    return {
        "sc_per_group": cosines / several if several else None,
        "pd_per_group_pair": _discrimination(means, t) if total >= 2 else None,
        "groups": total,
        "groups_of_several": several,
        "groups_compared": len(compared),
    }


def _group_sums(
    vectors: Any, order: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
    """Batches of whole groups and, per group, sum u, sum |u|^2 and sum v; about CHUNK rows are in memory at once."""
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + CHUNK, side="right")))
        unit_sum, square, plain_sum = (
            np.zeros((last - first, width)) for width in (vectors.shape[1], 1, vectors.shape[1])
        )
        for begin in range(starts[first], ends[last - 1], CHUNK):  # more than once only for one large group
            rows = order[begin : min(begin + CHUNK, ends[last - 1])]
            v = np.asarray(vectors[rows], np.float64)
            u = unit(v)
            cuts = np.maximum(starts[first:last], begin) - begin
            unit_sum += np.add.reduceat(u, cuts)
            square += np.add.reduceat(squared_length(u), cuts)
            plain_sum += np.add.reduceat(v, cuts)
        yield slice(first, last), unit_sum, square[:, 0], plain_sum
        first = last


def _discrimination(means: Floats, t: float) -> float:
    """PD of group means (M, d), one block of rows against all at a time."""
    u, total = unit(means), 0.0
    for start in range(0, len(u), 1024):
        block = u[start : start + 1024]
        apart = np.exp(-t * (1.0 - block @ u.T))
        total += float(apart.sum() - apart[np.arange(len(block)), np.arange(start, start + len(block))].sum())
    return float(np.log(total / (len(u) * (len(u) - 1))))
