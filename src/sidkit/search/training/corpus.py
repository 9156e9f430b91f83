"""A shop with the SIDs of its items and queries, as what a model is trained on and tested with.

    data = SearchData.of(Shop.open("shop"), item_sids, query_sids)
    data.corpus              texts, codes, pairs and events of the training part
    data.test("click")       test pairs as events, with what each user did before

Items without a SID cannot be generated: they are refused, or left out and listed. Queries without one keep an empty
SID. What came before an event of the training part is taken from that part alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.items import match
from ...errors import InputError, SpecError
from ...sids.table import SidTable
from ..align.pairs import normal_queries
from ..read.left_out import LeftOut
from ..shop import Shop
from ..shop.lists import flat
from .context import COUNTED, by_count, past_of
from .stages import Corpus, Events

__all__ = ["SearchData", "TestPairs", "profiles_of"]

Integers = NDArray[np.int64]
POSITIVES = ("both", "clicks", "orders")
AT_ONCE = 1 << 14  # queries whose clicks are counted at once


class _Log(NamedTuple):
    """The searches of a shop as numbers: (n,) each; user and query are rows, -1 for none."""

    user: Integers
    time: Integers
    query: Integers
    train: NDArray[np.bool_]
    clicked: tuple[Integers, Integers]  # of every click the search and the item row
    ordered: tuple[Integers, Integers]


@dataclass(frozen=True, eq=False)
class TestPairs:
    """Test pairs of one kind. Searches with the same query, user and time are one event.

    events    the different searches
    event     (n,) which of them every pair belongs to
    item      (n,) the item row of every pair, -1 where that item has no SID
    query     (n,) the query row
    intent    (n,) class of the query, or None
    """

    __test__ = False  # pytest: this is no test
    events: Events
    event: Integers
    item: Integers
    query: Integers
    intent: list[str | None]

    def __len__(self) -> int:
        return len(self.item)


@dataclass(frozen=True, eq=False)
class SearchData:
    shop: Shop
    items: Any  # Arrow table: the rows of the shop's items that have a SID
    table: SidTable  # of the same rows
    corpus: Corpus
    log: _Log
    users: Any  # the users of the log, different ones

    @classmethod
    def of(
        cls,
        shop: Shop,
        item_sids: SidTable,
        query_sids: SidTable,
        left_out: LeftOut | None = None,
        positives: str = "both",
    ) -> SearchData:
        """Join a shop with the SIDs of its items, by item_id, and of its queries, by query_id."""
        if item_sids.sizes != query_sids.sizes:
            raise InputError(
                f"items have SIDs of sizes {_sizes(item_sids)}, queries of {_sizes(query_sids)}; encode both with the "
                "same tokenizer"
            )
        made_by = {one.origin.tokenizer_digest for one in (item_sids, query_sids)} - {""}
        if len(made_by) > 1:
            raise InputError(
                f"items have SIDs of the tokenizer {_maker(item_sids)}, queries of {_maker(query_sids)}; encode both "
                "with the same tokenizer"
            )
        return cls.joined(shop, item_sids, _query_codes(shop.queries, query_sids), left_out, positives)

    @classmethod
    def joined(
        cls,
        shop: Shop,
        item_sids: SidTable,
        query_codes: NDArray[np.int32],
        left_out: LeftOut | None = None,
        positives: str = "both",
    ) -> SearchData:
        """The same with the codes of the shop's queries, -1 for those without a SID.

        left_out    what takes items without a SID; without it they are an error
        positives   which items the last stage learns to answer with: clicks, orders or both (inferred)
        """
        if positives not in POSITIVES:
            raise SpecError(f"positives must be {', '.join(POSITIVES)}, not {positives!r}")
        items, table = _items_with_sids(shop, item_sids, left_out)
        log, users = _read_log(shop, table.ids)
        corpus = Corpus(
            queries=shop.queries.column("query").to_pylist(),
            query_codes=query_codes,
            titles=items.column("title").to_pylist(),
            item_codes=table.codes,
            categories=_categories(items),
            profiles=profiles_of(shop.users, users),
            training_queries=np.flatnonzero(shop.queries.column("train_records").to_numpy() > 0),
            pairs=_pairs(log),
            events=_training_events(log, positives),
        )
        return cls(shop, items, table, corpus, log, users)

    def with_item_vectors(self, source: Any) -> SearchData:
        """The same with embeddings of its items, as `open_embeddings` gives them, of length one; zeros for none."""
        rows = match(self.table.ids, source.ids)
        if (rows < 0).all():
            raise InputError(
                f"no item with a SID has a vector: the first is {self.table.ids[0].as_py()!r} among the SIDs, "
                f"{source.ids[0].as_py()!r} among the vectors"
            )
        x = np.concatenate([np.asarray(chunk, np.float32) for chunk in source.chunks(1 << 16)])
        x = np.where(rows[:, None] < 0, 0.0, x[rows]).astype(np.float32)
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        return replace(self, corpus=replace(self.corpus, item_vectors=x))

    def clicked_for_queries(self, count: int) -> tuple[list[str], list[Integers]]:
        """The queries with clicks in the training part, and the rows of at most `count` items clicked for each, those
        of most clicks last: what a user without clicks is known by once that part is over."""
        row, clicked = (part[self.log.train[self.log.clicked[0]]] for part in self.log.clicked)
        asked = np.unique(self.log.query[row])
        after = np.full(len(asked), np.iinfo(np.int64).max)
        past = past_of(asked, after, self.log.query[row], self.log.time[row], clicked)
        lists = []
        for start in range(0, len(asked), AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, len(asked)))
            ranked = by_count(past.latest(some, max(count, COUNTED))[0])
            lists += [one[one >= 0] for one in ranked[:, ranked.shape[1] - count :]]
        return [self.corpus.queries[i] for i in asked.tolist()], lists

    def test(self, kind: str) -> TestPairs:
        """The test pairs of clicks or orders."""
        pairs = self.shop.pairs(kind)
        query = match(pairs.column("query_id"), self.shop.queries.column("query_id"))
        user = _rows_of(pairs.column("user"), self.users)
        time = pc.fill_null(pairs.column("time"), 0).to_numpy().astype(np.int64)
        searches, event = np.unique(np.stack([query, user, time], 1), axis=0, return_inverse=True)
        asked, who, when = searches.T
        events = _events(self.log, asked, who, when, np.full(len(searches), -1), None)
        item = match(pairs.column("item_id"), self.table.ids)
        return TestPairs(events, event.reshape(-1), item, query, pairs.column("intent").to_pylist())


def profiles_of(table: Any, users: Any) -> list[str]:
    """The profile of every user as a text: "gender F, age_bucket 31-40"."""
    names = [name for name in table.column_names if name != "user"]
    rows = match(users, table.column("user"))
    known = table.select(names).take(pa.array(rows, mask=rows < 0)).to_pylist() if names else []
    texts = [", ".join(f"{name} {value}" for name, value in row.items() if value is not None) for row in known]
    return texts or [""] * len(users)


def _items_with_sids(shop: Shop, sids: SidTable, left_out: LeftOut | None) -> tuple[Any, SidTable]:
    ids = shop.items.column("item_id")
    rows = match(ids, sids.ids)
    missing = np.flatnonzero(rows < 0)
    if len(missing) == len(rows):
        raise InputError(
            f"none of the shop's items has a SID: the first is {ids[0].as_py()!r} in the shop, "
            f"{sids.ids[0].as_py()!r} among the SIDs; encode the embeddings of the shop's items"
        )
    if len(missing):
        refused = left_out or LeftOut(shop.folder / "left-out.tsv", drop=False)
        refused.add("items.parquet", "have no SID", missing.tolist(), ids.take(pa.array(missing)).to_pylist())
        refused.settle(len(rows), "items")
    kept = np.flatnonzero(rows >= 0)
    items = shop.items.take(pa.array(kept))
    return items, SidTable(items.column("item_id"), sids.codes[rows[kept]], sids.sizes, sids.template)


def _query_codes(queries: Any, sids: SidTable) -> NDArray[np.int32]:
    """(queries, levels), -1 for a query without a SID."""
    rows = match(queries.column("query_id"), sids.ids)
    if (rows < 0).all():
        raise InputError(
            f"none of the shop's queries has a SID: the first of the SIDs is of {sids.ids[0].as_py()!r}; encode the "
            "embeddings of the shop's queries.parquet, whose ids are in query_id"
        )
    return np.where(rows[:, None] < 0, -1, sids.codes[rows]).astype(np.int32)


def _read_log(shop: Shop, ids: Any) -> tuple[_Log, Any]:
    log = shop.log(columns=("user", "time", "query", "clicked", "ordered", "split"))
    users = pc.drop_null(pc.unique(log.column("user").combine_chunks()))
    query = match(normal_queries(log.column("query")), shop.queries.column("query"))
    read = _Log(
        _rows_of(log.column("user"), users),
        pc.fill_null(log.column("time"), 0).to_numpy().astype(np.int64),
        query,
        pc.equal(log.column("split"), "train").to_numpy(),
        *(_listed(log.column(name), ids, query) for name in ("clicked", "ordered")),
    )
    if not len(read.clicked[0][read.train[read.clicked[0]]]):
        raise InputError(f"no search in the training part of {shop.folder} has a click on an item with a SID")
    return read, users


def _listed(column: Any, ids: Any, query: Integers) -> tuple[Integers, Integers]:
    """Of every item in a column of lists the row of the list and of the item, where both query and item are known."""
    values, lengths = flat(column)
    row, item = np.repeat(np.arange(len(lengths)), lengths), match(values.cast(ids.type), ids)
    known = (item >= 0) & (query[row] >= 0)
    return row[known], item[known]


def _training_events(log: _Log, positives: str) -> Events:
    """Every item clicked or ordered in a search of the training part, once."""
    lists = {"clicks": [log.clicked], "orders": [log.ordered], "both": [log.clicked, log.ordered]}[positives]
    row, item = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    searches = np.unique(np.stack([row, item], 1)[log.train[row]], axis=0)
    if not len(searches):
        raise InputError(f"the training part of the log has no {positives} to learn from")
    row, item = searches.T
    return _events(log, log.query[row], log.user[row], log.time[row], item, log.train)


def _events(
    log: _Log, query: Integers, user: Integers, time: Integers, item: Integers, within: NDArray[np.bool_] | None
) -> Events:
    """within: which searches of the log may be known; None for all."""
    row, clicked = log.clicked
    used = np.ones(len(row), bool) if within is None else within[row]
    row, clicked = row[used], clicked[used]
    asked = np.flatnonzero((log.query >= 0) & (True if within is None else within))
    clicks = past_of(user, time, log.user[row], log.time[row], clicked)
    queries = past_of(user, time, log.user[asked], log.time[asked], log.query[asked])
    others = past_of(query, time, log.query[row], log.time[row], clicked)
    return Events(query, item, user, clicks, queries, others)


def _pairs(log: _Log) -> tuple[Integers, Integers]:
    """The different pairs of query and item of the training part."""
    row, item = (np.concatenate([a, b]) for a, b in zip(log.clicked, log.ordered, strict=True))
    pairs = np.unique(np.stack([log.query[row], item], 1)[log.train[row]], axis=0)
    return pairs[:, 0], pairs[:, 1]


def _categories(items: Any) -> list[str | None]:
    """The path of the first two levels, as the published examples have it: "Sports & Outdoors/Cycling"."""
    first, second = items.column("category_1"), items.column("category_2")
    joined = pc.binary_join_element_wise(first, second, "/")
    path: list[str | None] = pc.coalesce(joined, first).to_pylist()
    return path


def _rows_of(values: Any, known: Any) -> Integers:
    """The row of every value, -1 for null and for values that are not known."""
    return np.where(pc.is_null(values).to_numpy(zero_copy_only=False), -1, match(values, known))


def _maker(table: SidTable) -> str:
    return f"{table.origin.tokenizer} ({table.origin.tokenizer_digest})"


def _sizes(table: SidTable) -> str:
    return "-".join(map(str, table.sizes))
