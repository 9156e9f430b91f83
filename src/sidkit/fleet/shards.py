"""Rows cut into shards whose sums add up to the bits of one machine.

`rows.seam.add_in_tree` adds the chunks of all rows in a binary tree whose shape depends on their number alone. A shard
is a node of that tree: the sum that a worker computes for it is the sum that one machine would have at that node, and
the rest of the tree is added from the shards, in the same shape. How the rows are divided among files and workers does
not change a bit of the result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

__all__ = ["Shard", "add_shards", "plan"]

T = TypeVar("T")

EVEN = 1.1  # the largest share of the rows that a worker should have, relative to an even share
FINER = 4  # levels of the tree, below one node per worker, that are tried to reach it


class Shard(NamedTuple):
    """Chunks first .. last - 1 of all rows, a node of the tree."""

    first: int
    last: int

    @property
    def halves(self) -> tuple[Shard, Shard]:
        middle = self.first + (self.last - self.first) // 2
        return Shard(self.first, middle), Shard(middle, self.last)


def plan(chunks: int, workers: int) -> list[list[Shard]]:
    """The shards of every worker: adjacent ones, with about the same number of chunks for each worker.

    With 2, 4, 8 ... workers that is one shard each; with other numbers it is a few, and as many sums to send.
    """
    root = Shard(0, chunks)
    depth, best = (workers - 1).bit_length(), [(0, chunks)]
    for finer in range(depth, depth + FINER + 1):
        cuts = _cuts(_edges(root, finer), chunks, workers)
        best = cuts if finer == depth or _most(cuts) < _most(best) else best
        if _most(best) * workers <= EVEN * chunks:
            break
    return [_cover(root, first, last) for first, last in best]


def add_shards(node: Shard, sums: dict[Shard, T], add: Callable[[T, T], T]) -> T:
    """The sum over a node of the tree, from the sums of the shards below it."""
    if node in sums:
        return sums[node]
    left, right = (add_shards(half, sums, add) for half in node.halves)
    return add(left, right)


def _edges(node: Shard, depth: int) -> list[int]:
    """The first chunks of the nodes of this depth."""
    if depth == 0 or node.last - node.first < 2:
        return [node.first]
    return [edge for half in node.halves for edge in _edges(half, depth - 1)]


def _cuts(edges: Sequence[int], chunks: int, workers: int) -> list[tuple[int, int]]:
    """Consecutive ranges, one per worker, cut at the edges that are nearest to even shares."""
    starts = [_nearest(edges, worker * chunks / workers) for worker in range(workers)]
    return list(zip(starts, [*starts[1:], chunks], strict=True))


def _most(cuts: Sequence[tuple[int, int]]) -> int:
    return max(last - first for first, last in cuts)


def _nearest(edges: Sequence[int], chunk: float) -> int:
    after = bisect_left(edges, chunk)
    return min(edges[max(after - 1, 0) : after + 1], key=lambda edge: abs(edge - chunk))


def _cover(node: Shard, first: int, last: int) -> list[Shard]:
    """The smallest set of nodes that make up the chunks first .. last - 1."""
    if node.last <= first or last <= node.first or first == last:
        return []
    if first <= node.first and node.last <= last:
        return [node]
    return [shard for half in node.halves for shard in _cover(half, first, last)]
