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

__all__ = ["judge", "judge_counting", "judge_neighbours"]


def judge(
    table: SidTable,
    sequences: str | PathLike[str] | None = None,
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
    """What can be said with what is given: "behaviour", "counting", "neighbours" and "categories", each a dict.

    behaviour     `prefix_agreement`, from a Parquet file of sequences: of all their steps or, held_out, of those into
                  the last two items of each, for SIDs that were made from the others (`sidkit blend`)
    counting      `counted` and `counted_by_token` there, in validation; and users, those who have an item to be found
                  (if anybody has)
    neighbours    `neighbour_agreement`, from the items' vectors, joined by id; and items_without_vector
    categories    `purity` of whole category paths, one per item of the table
    """
    found: dict[str, Any] = {"items": len(table), "sizes": list(table.sizes)}
    if sequences is not None:
        told = read_sequences(sequences, table.ids, sequence_column)
        steps = told.known().tail(3) if held_out else told
        found["behaviour"] = prefix_agreement(table.codes, table.sizes, steps, categories, separator)
        counting = judge_counting(table, told, progress)
        found |= {"counting": counting} if counting["users"] else {}
    if categories is not None:
        found["categories"] = purity(table.codes, table.sizes, categories, seed)
    if embeddings is not None:
        found["neighbours"] = judge_neighbours(table, embeddings, neighbours, queries, seed, progress)
    return found


def judge_counting(table: SidTable, sequences: Sequences, progress: Progress | None = None) -> dict[str, Any]:
    """What counting finds of the last item but one of every sequence: items, and SIDs by their first token."""
    told = sequences.known()
    return {
        "users": len(held_out(told, "valid")[0]),
        **counted(told, len(table), "valid"),
        "by_first_token": counted_by_token(table.codes, table.sizes, told, progress=progress),
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
    rows = rows[rows >= 0]
    found = neighbour_agreement(table.codes[rows], table.sizes, source, neighbours, queries, seed, progress)
    return found | {"items_without_vector": len(table) - len(rows)}
