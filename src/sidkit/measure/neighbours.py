"""Whether semantic IDs keep neighbours together: items near by embedding compared with items near by code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_source
from ..engine import engine_of, native
from ..errors import InputError, SpecError
from ..geometry import unit
from ..progress import Progress, Silent
from ..rows.checks import Checked
from ..rows.seam import CHUNK
from ..rows.sources import Source
from ..sids.prefixes import prefix_mates, require_codes
from ..sids.quality import occupancy_of

__all__ = ["agreement", "nearest_rows", "neighbour_agreement"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def neighbour_agreement(
    codes: Any,
    sizes: Sequence[int],
    vectors: Any,
    neighbours: int = 10,
    queries: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Whether the nearest items by embedding (cosine) are the nearest by code.

    codes: (n, levels); vectors: (n, d), an array, a path or a Source, row i being the item of codes[i]. The search is
    exact, for a sample of items, so every figure has the standard error of the sample (0 when it holds all items).

    items, neighbours, queries    n, k and the size of the sample
    share, share_error   per level, of an item's k nearest by embedding, those that share its prefix / k
    chance               per level, the same for any other item, all equally likely
    lift                 share / chance
    most                 per level, the largest share that groups of these sizes allow: min(k, others in the group) / k
    above_chance         per level, (share - chance) / (most - chance): 0 for chance, 1 for the most; None where groups
                         leave nothing between the two. Unlike lift, it does not grow with the number of groups
    overlap, overlap_error
                         of an item's k nearest by code, those among its k nearest by embedding / k. Nearest by code
                         are those with the longest common prefix; ties give the mean over all choices
    overlap_chance       k / (n - 1)
    """
    array, source = require_codes(codes, sizes), as_source(vectors)
    n = len(array)
    if source.shape[0] != n:
        raise InputError(f"{source.shape[0]} vectors do not fit {n} rows of codes")
    if not 1 <= neighbours < n or queries < 1:
        raise SpecError(f"cannot find {neighbours} neighbours of {queries} items among {n} items")
    query = np.sort(np.random.default_rng(seed).choice(n, min(queries, n), replace=False))
    near = nearest_rows(Checked(source), query, neighbours, progress)
    figures = agreement(array, sizes, query, near)
    return {"items": n, "neighbours": neighbours, "queries": len(query)} | figures


def agreement(codes: NDArray[Any], sizes: Sequence[int], query: Integers, near: Integers) -> dict[str, Any]:
    """The figures, from the codes of every item and the nearest rows of the queries, (queries, k)."""
    n, k = len(codes), near.shape[1]
    same = np.logical_and.accumulate(codes[near] == codes[query][:, None], axis=2)
    hits = same.sum(axis=1).T
    buckets = occupancy_of(codes, sizes).buckets
    chance = [float(times * items @ (items - 1) / n / (n - 1)) for items, times in buckets]
    most = [float(times * items @ np.minimum(items - 1, k) / n / k) for items, times in buckets]
    others = prefix_mates(codes, sizes, query) - 1
    shares = [_mean(hit / k, n) for hit in hits]
    overlap, overlap_error = _mean(_overlap(hits, others, k, n), n)
    return {
        "share": [share for share, _ in shares],
        "share_error": [error for _, error in shares],
        "chance": chance,
        "lift": [
            share / by_chance if by_chance else None for (share, _), by_chance in zip(shares, chance, strict=True)
        ],
        "most": most,
        "above_chance": [
            (share - by_chance) / (top - by_chance) if top - by_chance > 1e-9 else None
            for (share, _), by_chance, top in zip(shares, chance, most, strict=True)
        ],
        "overlap": overlap,
        "overlap_error": overlap_error,
        "overlap_chance": k / (n - 1),
    }


def nearest_rows(source: Source, query: Integers, k: int, progress: Progress | None = None) -> Integers:
    """The k rows nearest to each query row by cosine, itself left out: (queries, k), best first.

    Exact: rows are read a chunk at a time; the query rows are scored against each chunk as against a codebook.
    """
    report = progress or Silent()
    x = unit(source.take(query))
    score = np.full((len(query), 1), -np.inf, x.dtype)
    index = np.full((len(query), 1), -1, np.int64)
    report.start("neighbours", source.shape[0])
    native.prepare(2.0 * len(query) * source.shape[0] * source.shape[1])
    start, engine = 0, engine_of(x)
    for chunk in source.chunks(CHUNK):
        code, value = engine.top(x, engine.book(chunk, "cosine", x), min(k + 1, len(chunk)))
        value = np.where(code + start == query[:, None], -np.inf, value)
        index, score = np.hstack([index, code + start]), np.hstack([score, value])
        best = np.argsort(-score, axis=1, kind="stable")[:, :k]
        index, score = np.take_along_axis(index, best, 1), np.take_along_axis(score, best, 1)
        start += len(chunk)
        report.advance(len(chunk))
    return index


def _overlap(hits: Integers, others: Integers, k: int, n: int) -> Floats:
    """Per query, the expected hits among the k items with the longest common prefix, / k.

    hits: (levels, queries) nearest items that share the prefix; others: (levels, queries) all items that share it.
    Items with a longer common prefix come first; of those at the last length, a random choice fills what is left of k.
    """
    shell_hits = -np.diff(np.vstack([np.full(hits.shape[1], k), hits, np.zeros_like(hits[:1])]), axis=0)[::-1]
    shell_size = -np.diff(np.vstack([np.full(hits.shape[1], n - 1), others, np.zeros_like(others[:1])]), axis=0)[::-1]
    filled = np.vstack([np.zeros_like(others[:1]), np.cumsum(shell_size, axis=0)[:-1]])
    taken = np.clip(k - filled, 0, shell_size)
    expected: Floats = (shell_hits * taken / np.maximum(shell_size, 1)).sum(axis=0) / k
    return expected


def _mean(values: Floats, n: int) -> tuple[float, float | None]:
    """The mean over queries and its standard error, drawn without replacement from n."""
    q = len(values)
    if q == 1:
        return float(values[0]), 0.0 if n == 1 else None
    return float(values.mean()), float(values.std(ddof=1) * np.sqrt((1 - q / n) / q))
