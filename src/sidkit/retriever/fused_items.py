"""Fused lists for recommending: candidates of the beams and of counting, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..sids.trie import Trie
from .candidates import UserHistories
from .data import Vocabulary
from .fusion import Fusion, fused_scores
from .recommendations import Recommendation, Wanted, ranked_rows

if TYPE_CHECKING:
    from .retriever import Retriever

__all__ = ["fused_items"]


def fused_items(
    retriever: Retriever, fusion: Fusion, trie: Trie, histories: Sequence[Sequence[int]], wanted: Wanted, beams: int
) -> Iterator[list[Recommendation]]:
    """The wanted items of every user. histories: table rows, each of at least one."""
    table = retriever.table
    searcher, tokens = retriever.searcher(fusion.tables, trie), Vocabulary(table.sizes).tokens(table.codes)
    at_once = searcher.at_once(beams)
    for first in range(0, len(histories), at_once):
        some = histories[first : first + at_once]
        found = searcher(UserHistories.of(some, retriever.plan.history), tokens, beams)
        score = fused_scores(found, fusion.weights)
        starts = np.searchsorted(found.user, np.arange(len(some) + 1))
        for history, start, stop in zip(some, starts[:-1], starts[1:], strict=True):
            item, own = found.item[start:stop], score[start:stop]
            order = np.lexsort((item, -own))
            order = order[own[order] > 0]
            yield ranked_rows(table, item[order].tolist(), np.log(own[order]).tolist(), wanted, history)
