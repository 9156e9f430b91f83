"""Rows cut into shards whose sums add up to the bits of one machine.

`rows.add_in_tree` adds the chunks of all rows in a binary tree whose shape depends on their number alone. A shard is a
node of that tree: what a worker adds up for it is what one machine would have there, and the rest of the tree is added
up from the shards, in the same shape. How the rows are spread over files and workers then changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

__all__ = ["Shard", "add_shards", "plan"]

T = TypeVar("T")

EVEN = 1.1  # the largest share of the rows a worker may have, in even shares
FINER = 4  # levels of the tree below one node a worker that are tried for it


class Shard(NamedTuple):
    """Chunks first .. last - 1 of all rows, a node of the tree."""

    first: int
    last: int

    @property
    def halves(self) -> tuple[Shard, Shard]:
        middle = self.first + (self.last - self.first) // 2
        return Shard(self.first, middle), Shard(middle, self.last)


def plan(chunks: int, workers: int) -> list[list[Shard]]:
    """For every worker its shards: neighbours, of about as many chunks as others have.

    With 2, 4, 8 ... workers that is one shard each; with other numbers a few, and as many sums to send.
    """
    whole = Shard(0, chunks)
    depth, best = (workers - 1).bit_length(), [(0, chunks)]
    for finer in range(depth, depth + FINER + 1):
        cuts = _cuts(_edges(whole, finer), chunks, workers)
        best = cuts if finer == depth or _most(cuts) < _most(best) else best
        if _most(best) * workers <= EVEN * chunks:
            break
    return [_cover(whole, first, last) for first, last in best]


def add_shards(whole: Shard, found: dict[Shard, T], add: Callable[[T, T], T]) -> T:
    """The sum over the whole tree from those of its shards."""
    if whole in found:
        return found[whole]
    left, right = (add_shards(half, found, add) for half in whole.halves)
    return add(left, right)


def _edges(node: Shard, depth: int) -> list[int]:
    """Where nodes of this depth begin."""
    if depth == 0 or node.last - node.first < 2:
        return [node.first]
    return [edge for half in node.halves for edge in _edges(half, depth - 1)]


def _cuts(edges: Sequence[int], chunks: int, workers: int) -> list[tuple[int, int]]:
    """Consecutive ranges, one a worker, cut at those edges that are nearest to even shares."""
    places = [_nearest(edges, worker * chunks / workers) for worker in range(workers)]
    return list(zip(places, [*places[1:], chunks], strict=True))


def _most(cuts: Sequence[tuple[int, int]]) -> int:
    return max(last - first for first, last in cuts)


def _nearest(edges: Sequence[int], place: float) -> int:
    after = bisect_left(edges, place)
    return min(edges[max(after - 1, 0) : after + 1], key=lambda edge: abs(edge - place))


def _cover(node: Shard, first: int, last: int) -> list[Shard]:
    """The fewest nodes that make up the chunks first .. last - 1."""
    if node.last <= first or last <= node.first or first == last:
        return []
    if first <= node.first and node.last <= last:
        return [node]
    return [shard for half in node.halves for shard in _cover(half, first, last)]
