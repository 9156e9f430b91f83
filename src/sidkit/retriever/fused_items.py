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
    given = UserHistories.of(histories, retriever.plan.history)
    found = retriever.searcher(fusion.tables, trie)(given, Vocabulary(table.sizes).tokens(table.codes), beams)
    score = fused_scores(found, fusion.weights)
    starts = np.searchsorted(found.user, np.arange(len(histories) + 1))
    for user, history in enumerate(histories):
        part = slice(starts[user], starts[user + 1])
        item, own = found.item[part], score[part]
        order = np.lexsort((item, -own))
        order = order[own[order] > 0]
        yield ranked_rows(table, item[order].tolist(), np.log(own[order]).tolist(), wanted, history)
