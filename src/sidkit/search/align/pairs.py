"""Pairs of queries and items that a search log relates, for the alignment of their vectors.

    query-item     the item was clicked or ordered for the query
    query-query    the queries have clicked items in common
    item-item      the items were clicked in one session, or for one query

Only the training part of a log is read. Every count is bounded by an option, and the same log gives the same pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.items import match
from ...errors import InputError, SpecError
from ..shop.texts import normalise

__all__ = [
    "Clicks",
    "PairOptions",
    "Pairs",
    "TrainingPairs",
    "clicks_of",
    "normal_queries",
    "pairs_of",
]

Integers = NDArray[np.int64]
BLOCK = 1 << 16  # rows of a co-occurrence matrix that are computed at once


class Pairs(NamedTuple):
    """Rows that belong together, each pair once, sorted by left and right.

    left, right    (n,) row numbers of queries or items
    weight         (n,) how strongly, above 0
    """

    left: Integers
    right: Integers
    weight: NDArray[np.float64]

    def part(self, mask: NDArray[np.bool_]) -> Pairs:
        """The pairs where the mask (n,) is true."""
        return Pairs(self.left[mask], self.right[mask], self.weight[mask])


class TrainingPairs(NamedTuple):
    query_item: Pairs  # weight: clicks + order_weight * orders
    query_query: Pairs  # weight: cosine of the queries' clicks, at most 1; left < right
    item_item: Pairs  # weight: cosine of the sessions and queries that clicked the items, at most 1; left < right


@dataclass(frozen=True)
class PairOptions:
    """How many pairs are taken from a log.

    order_weight   an order counts as this many clicks
    per_query      items of a query: those of the largest weight
    per_item       queries of an item that are compared with each other
    per_session    items of a session that are compared with each other
    neighbours     partners of a query among queries, and of an item among items: the nearest
    most           pairs of each kind: the heaviest
    """

    order_weight: float = 2.0
    per_query: int = 20
    per_item: int = 20
    per_session: int = 20
    neighbours: int = 10
    most: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("per_query", "per_item", "per_session", "neighbours", "most"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.order_weight < np.inf:
            raise SpecError(f"order_weight must be at least 0 and finite, not {self.order_weight}")


class Clicks(NamedTuple):
    """The clicks and orders of a log, one entry each.

    query, item    (n,) row numbers
    session        (n,) the session's number; -1 where the log names none
    weight         (n,) 1 for a click, order_weight for an order
    """

    query: Integers
    item: Integers
    session: Integers
    weight: NDArray[np.float64]

    def part(self, mask: NDArray[np.bool_]) -> Clicks:
        """The clicks where the mask (n,) is true."""
        return Clicks(self.query[mask], self.item[mask], self.session[mask], self.weight[mask])


def clicks_of(log: Any, items: Any, queries: Any, order_weight: float = 2.0) -> Clicks:
    """The clicks and orders of the training part of a log.

    log: an Arrow table with query, clicked and, where known, ordered, user, session and split; items: the item ids;
    queries: the texts of the queries. Items and queries that are not among these are left out.
    """
    names = log.column_names
    for name in ("query", "clicked"):
        if name not in names:
            raise InputError(f"the log has no column {name!r} (columns: {', '.join(names)})")
    if "split" in names:
        log = log.filter(pc.equal(log.column("split"), "train"))
    asked = normal_queries(log.column("query"))
    query = np.where(pc.is_null(asked).to_numpy(), -1, match(asked, normal_queries(queries)))
    session = _sessions(log)
    parts = []
    for name, weight in (("clicked", 1.0), ("ordered", order_weight)):
        if name in names and weight:
            lists = log.column(name).combine_chunks()
            lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
            row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
            item = match(pc.list_flatten(lists), items)
            parts.append((query[row], item, session[row], np.full(len(row), weight)))
    joined = Clicks(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return joined.part((joined.query >= 0) & (joined.item >= 0))


def normal_queries(texts: Any) -> Any:
    """Texts of queries with outer blanks removed and inner blanks collapsed, as a shop keeps them."""
    array = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, pa.string())
    return normalise(array)


def _sessions(log: Any) -> Integers:
    """The number of every row's session. The same name used by two users is two sessions."""
    if "session" not in log.column_names or not len(log):
        return np.full(len(log), -1, np.int64)
    session = _numbers(log.column("session"))
    user = _numbers(log.column("user")) if "user" in log.column_names else np.zeros(len(log), np.int64)
    number: Integers = np.unique(np.stack([user, session]), axis=1, return_inverse=True)[1].reshape(-1)
    return np.where(session < 0, -1, number)


def _numbers(column: Any) -> Integers:
    """Equal values as equal numbers, in the order they first occur; -1 for null."""
    column = column.combine_chunks()
    codes = (column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)).indices
    numbers: Integers = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def pairs_of(clicks: Clicks, shape: tuple[int, int], options: PairOptions) -> TrainingPairs:
    """The pairs of clicks and orders; shape: how many queries and items there are."""
    from scipy.sparse import vstack

    clicked = _strongest(_counted(clicks.query, clicks.item, clicks.weight, shape), options.per_query)
    inside = clicks.session >= 0
    sessions = _counted(clicks.session[inside], clicks.item[inside], clicks.weight[inside], (None, shape[1]))
    sessions.data[:] = 1.0
    together = vstack([_strongest(sessions, options.per_session), clicked], format="csr")
    return TrainingPairs(
        _heaviest(clicked, options.most),
        _heaviest(_alike(clicked, options.per_item, options.neighbours), options.most),
        _heaviest(_alike(together.T.tocsr(), None, options.neighbours), options.most),
    )


def _counted(row: Integers, column: Integers, weight: NDArray[np.float64], shape: tuple[int | None, int]) -> Any:
    """The weights added up by row and column, as a sparse matrix; without a shape, as many rows as there are."""
    from scipy.sparse import coo_array

    rows = int(row.max(initial=-1)) + 1 if shape[0] is None else shape[0]
    return coo_array((weight, (row, column)), (rows, shape[1])).tocsr()


def _strongest(matrix: Any, k: int) -> Any:
    """The matrix with the k largest entries of every row, ties to the lowest column."""
    from scipy.sparse import coo_array

    row, column, weight = _entries(matrix)
    order = np.lexsort((column, -weight, row))
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    strongest = order[rank < k]
    return coo_array((weight[strongest], (row[strongest], column[strongest])), matrix.shape).tocsr()


def _alike(matrix: Any, per_column: int | None, neighbours: int) -> Any:
    """The cosines of rows that share columns, the largest of every row: an upper triangle (n, n).

    per_column bounds how many rows of a column are compared: those of the largest weight.
    """
    from scipy.sparse import diags_array, triu, vstack

    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1))
    unit = (diags_array(1.0 / np.maximum(length, 1e-300)) @ matrix).tocsr()
    if per_column is not None:
        unit = _strongest(unit.T.tocsr(), per_column).T.tocsr()
    parts = []
    for start in range(0, unit.shape[0], BLOCK):
        part = (unit[start : start + BLOCK] @ unit.T).tocoo()
        part.data[part.row + start == part.col] = 0.0
        part.eliminate_zeros()
        parts.append(_strongest(part, neighbours))
    near = vstack(parts, format="csr")
    return triu(near.maximum(near.T), k=1)


def _heaviest(matrix: Any, most: int) -> Pairs:
    """The entries of a sparse matrix as pairs, at most this many."""
    left, right, weight = _entries(matrix)
    order = np.lexsort((right, left, -weight))[:most]
    order = order[np.lexsort((right[order], left[order]))]
    return Pairs(left[order], right[order], weight[order])


def _entries(matrix: Any) -> tuple[Integers, Integers, NDArray[np.float64]]:
    entries = matrix.tocoo()
    return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data.astype(np.float64)
