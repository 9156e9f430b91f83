"""Semantic IDs judged without training: by what people did, by the items' vectors, by the items' categories."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..data.embeddings import Embeddings, without
from ..data.items import match
from ..data.sequences import Sequences, read_sequences
from ..errors import InputError
from ..progress import Progress
from ..sids.table import SidTable
from .behaviour import prefix_agreement
from .categories import purity
from .counting import counted, counted_by_token, held_out
from .neighbours import neighbour_agreement
from .order import order_of

__all__ = ["judge", "judge_counting", "judge_neighbours"]


def judge(
    table: SidTable,
    sequences: Sequences | str | PathLike[str] | None = None,
    embeddings: Embeddings | None = None,
    categories: Sequence[str] | None = None,
    *,
    sequence_column: str | None = None,
    separator: str = " > ",
    neighbours: int = 10,
    queries: int = 2000,
    seed: int = 0,
    held_out: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """All that the inputs allow: "behaviour", "order", "counting", "neighbours" and "categories", each a dict.

    behaviour     `prefix_agreement`, from sequences or their file: over all their steps or, with held_out, over
                  those into the last two items of each, for SIDs that were made from the others (`sidkit blend`)
    order         `order_of`: whether the order of these sequences is that of a list
    counting      `counted` and `counted_by_token` of the same sequences, in validation; and users, those who have an
                  item to predict (left out if nobody has)
    neighbours    `neighbour_agreement`, from the items' vectors, joined by id; and items_without_vector
    categories    `purity` of whole category paths, one per item of the table
    """
    facts: dict[str, Any] = {"items": len(table), "sizes": list(table.sizes)}
    if sequences is not None:
        visits = (
            sequences if isinstance(sequences, Sequences) else read_sequences(sequences, table.ids, sequence_column)
        )
        judged = visits.known().tail(3) if held_out else visits
        facts["behaviour"] = prefix_agreement(table.codes, table.sizes, judged, categories, separator)
        facts["order"] = order_of(visits.known())
        counting = judge_counting(table, visits, progress)
        facts |= {"counting": counting} if counting["users"] else {}
    if categories is not None:
        facts["categories"] = purity(table.codes, table.sizes, categories, seed)
    if embeddings is not None:
        facts["neighbours"] = judge_neighbours(table, embeddings, neighbours, queries, seed, progress)
    return facts


def judge_counting(table: SidTable, sequences: Sequences, progress: Progress | None = None) -> dict[str, Any]:
    """How well counting finds the last item but one of every sequence: as an item, and as a SID by its first token."""
    known = sequences.known()
    return {
        "users": len(held_out(known, "valid")[0]),
        **counted(known, len(table), "valid"),
        "by_first_token": counted_by_token(table.codes, table.sizes, known, progress=progress),
    }


def judge_neighbours(
    table: SidTable,
    embeddings: Embeddings,
    neighbours: int = 10,
    queries: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """`neighbour_agreement` of the items that have both a SID and a vector, joined by id."""
    rows = match(embeddings.ids, table.ids)
    if (rows < 0).all():
        raise InputError(
            f"none of the {len(rows):,} vectors belongs to an item with a semantic ID (the first is of "
            f"{embeddings.ids[0].as_py()!r}, the SIDs' first item is {table.ids[0].as_py()!r}); are these the same ids?"
        )
    source = without(embeddings, np.flatnonzero(rows < 0)) if (rows < 0).any() else embeddings
    rows = rows[rows >= 0] if source is not embeddings else rows
    figures = neighbour_agreement(table.codes[rows], table.sizes, source, neighbours, queries, seed, progress)
    return figures | {"items_without_vector": len(table) - len(rows)}
