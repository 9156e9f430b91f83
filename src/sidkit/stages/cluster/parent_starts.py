"""The rows that start the codebooks of many parents, drawn for all of them at once.

Every row gets a number from a hash of the seed, its parent and its place among the parent's rows; the rows with the
lowest numbers are drawn. Whole numbers are the same everywhere, so the draw is the same on a CPU and on a GPU, and
for parents that are fitted in different processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.arrays import namespace
from ...geometry import Array
from ...rows.digests import digests

__all__ = ["repeated", "start_numbers"]

Integers = NDArray[np.int64]
GOLDEN, FIRST, SECOND = (n - (1 << 64) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def start_numbers(x: Array, parents: Integers, count: Integers, size: int, seed: int) -> Array:
    """The numbers among x of `size` rows of every parent, whose rows follow one another: (P, size).

    parents: what tells parents apart; count: their rows, at least `size` each. Copies of a row, and zero rows, are
    drawn last: of two equal centroids one would stay empty.
    """
    xp, begin = namespace(x), np.cumsum(count) - count
    own = repeated(np.arange(len(count)), count, x)
    salt = repeated(parents, count, x)
    place = repeated(-begin, count, x) + _like(np.arange(len(x)), x)
    rank = _mixed(_mixed(salt * GOLDEN + seed) + place * GOLDEN)
    digest = digests(x)
    by_digest = _sorted_by(xp, rank, digest, own)
    here, there = by_digest[1:], by_digest[:-1]
    late = ~(x != 0).any(axis=1)
    late[here] = late[here] | ((digest[here] == digest[there]) & (own[here] == own[there]))
    order = _sorted_by(xp, rank, late + 0, own)
    return order[_like(begin, x)[:, None] + _like(np.arange(size), x)]


def repeated(values: NDArray[Any], count: Integers, x: Array) -> Array:
    """Every value as often as it counts, where x is."""
    if isinstance(x, np.ndarray):
        return np.repeat(values, count)
    import torch

    times = torch.as_tensor(count).to(x.device)
    return torch.repeat_interleave(torch.as_tensor(values).to(x.device), times, output_size=int(count.sum()))


def _sorted_by(xp: Any, *keys: Array) -> Array:
    """The order by the last key; where it is equal by the one before, and so on."""
    order = None
    for key in keys:
        key = key if order is None else key[order]
        found = np.argsort(key, kind="stable") if isinstance(key, np.ndarray) else xp.argsort(key, stable=True)
        order = found if order is None else order[found]
    return order


def _mixed(z: Array) -> Array:
    """splitmix64 of whole numbers, without its lowest bit: (n,) int64, none negative."""
    z = z + GOLDEN
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * FIRST
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * SECOND
    return ((z ^ ((z >> 31) & ((1 << 33) - 1))) >> 1) & ((1 << 63) - 1)


def _like(numbers: Integers, x: Array) -> Array:
    """Whole numbers where x is."""
    if isinstance(x, np.ndarray):
        return numbers
    import torch

    return torch.as_tensor(numbers).to(x.device)
