"""From a request to an answer. Each endpoint knows nothing of HTTP but the body, its type and a status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import InputError, SidkitError
from ..sids.table import SidTable
from .batching import Batcher, Calls
from .bodies import ARROW, JSON, Refused, arrow_table, arrow_vectors, codes_as_arrow, fields_of, good_vectors, to_json
from .options import ServeOptions
from .published import Published, prefix_of
from .snapshot import Snapshot

__all__ = ["Endpoints"]

Body = tuple[bytes | memoryview, str]  # of an answer: its content and type


class Endpoints:
    """One method per path; snapshot is the one that is current when a request arrives."""

    def __init__(self, options: ServeOptions, batcher: Batcher, calls: Calls) -> None:
        self.options, self.batcher, self.calls = options, batcher, calls

    async def encode(self, snapshot: Snapshot, body: bytes | memoryview, kind: str) -> Body:
        """Vectors or texts to SIDs."""
        if kind == ARROW:
            table = arrow_table(body, self.options.batch_rows, self.options.body_bytes)
            codes = await self.batcher.encode(snapshot, arrow_vectors(table, snapshot))
            return codes_as_arrow(codes, table, snapshot), ARROW
        given = fields_of(body, {"vectors": list, "texts": list})
        if len(given) != 1:
            raise Refused(422, "give vectors, or texts")
        if "texts" in given:
            x = await self._embedded(snapshot, self._within(given["texts"], "texts"))
        else:
            x = good_vectors(self._within(given["vectors"], "vectors"), snapshot)
        codes = await self.batcher.encode(snapshot, x)
        return self._answer(snapshot, codes=codes, sids=snapshot.written(codes)), JSON

    async def lookup(self, snapshot: Snapshot, body: bytes | memoryview, kind: str) -> Body:
        """Items to their SIDs; null for items that are not known."""
        published, given = _published(snapshot), fields_of(body, {"items": list})
        items = self._within(given.get("items"), "items")
        if not all(isinstance(item, str) or type(item) is int for item in items):
            raise Refused(422, "items are ids: texts or whole numbers")
        codes = published.codes_of(items)
        sids = [None if one is None else published.template.write(one) for one in codes]
        return self._answer(snapshot, codes=codes, sids=sids), JSON

    async def prefix(self, snapshot: Snapshot, body: bytes | memoryview, kind: str) -> Body:
        """The items of a SID, or of its first tokens."""
        published = _published(snapshot)
        given = fields_of(body, {"prefix": (str, list), "limit": int, "offset": int})
        limit, offset = given.get("limit", 20), given.get("offset", 0)
        if "prefix" not in given or not 0 <= limit <= self.options.batch_rows or not 0 <= offset < 1 << 40:
            raise Refused(422, f"give a prefix; limit is 0 to {self.options.batch_rows}, offset at least 0")
        try:
            prefix = prefix_of(given["prefix"], published)
            listed = published.items_of(prefix, limit, offset)
        except (InputError, OverflowError) as error:
            raise Refused(422, str(error)[:300]) from None
        items = [{"item": item, "codes": codes, "sid": published.template.write(codes)} for item, codes in listed.items]
        return self._answer(snapshot, count=listed.total, items=items), JSON

    async def recommend(self, snapshot: Snapshot, body: bytes | memoryview, kind: str) -> Body:
        """Histories to the items that may come next."""
        model = snapshot.retriever
        given = fields_of(body, {"histories": list, "k": int, "per_sid": int, "exclude_history": bool})
        histories = self._within(given.get("histories"), "histories")
        k, per_sid = given.get("k", 10), given.get("per_sid", 1)
        if not 1 <= k <= 1000 or not 1 <= per_sid <= 1000:
            raise Refused(422, "k and per_sid are 1 to 1000")
        if not all(isinstance(one, list) and all(_is_id(item) for item in one) for one in histories):
            raise Refused(422, "a history is a list of item ids, oldest first")
        known = [[item for item in one if model.table.row_of(item) is not None] for one in histories]
        if not all(known):
            raise Refused(422, f"history {next(i for i, one in enumerate(known) if not one)} has no known item")
        answers = await self._call(
            model.recommend_many, known, k, None, None, per_sid, given.get("exclude_history", False)
        )
        items = [[_recommended(one, model.table) for one in answer] for answer in answers]
        unknown = sum(map(len, histories)) - sum(map(len, known))
        return self._answer(snapshot, recommendations=items, unknown_items=unknown), JSON

    async def search(self, snapshot: Snapshot, body: bytes | memoryview, kind: str) -> Body:
        """Queries to items."""
        from ..search.model.model import Request

        model, given = snapshot.search, fields_of(body, {"queries": list, "k": int})
        queries, k = self._within(given.get("queries"), "queries"), given.get("k", 10)
        if not all(isinstance(one, str) and one.strip() and len(one) <= 1000 for one in queries) or not 1 <= k <= 1000:
            raise Refused(422, "queries are texts of 1 to 1,000 characters, k is 1 to 1000")
        answers = await self._call(model.ask, [Request(query) for query in queries])
        items = [
            [{"item": one.item, "sid": one.sid, "probability": one.probability} for one in answer[:k]]
            for answer in answers
        ]
        return self._answer(snapshot, answers=items), JSON

    async def _embedded(self, snapshot: Snapshot, texts: Sequence[Any]) -> NDArray[Any]:
        if snapshot.encoder is None:
            raise Refused(422, "this service has no encoder for texts; send vectors")
        if not all(isinstance(text, str) and len(text) <= 100_000 for text in texts):
            raise Refused(422, "texts are strings of at most 100,000 characters")
        vectors = await self._call(snapshot.encoder.embed, list(texts), True)
        return good_vectors(vectors, snapshot)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return await self.calls(function, *arguments)
        except SidkitError as error:
            raise Refused(422, str(error)) from None

    def _within(self, given: Any, name: str) -> list[Any]:
        if not given or len(given) > self.options.batch_rows:
            raise Refused(422, f"{name} must be a list of 1 to {self.options.batch_rows:,}")
        return list(given)

    @staticmethod
    def _answer(snapshot: Snapshot, **fields: Any) -> bytes:
        return to_json({"tokenizer": snapshot.fitted.digest, **fields})


def _published(snapshot: Snapshot) -> Published:
    if snapshot.published is None:
        raise Refused(404, "this service has no SIDs to look up; start it with --sids")
    return snapshot.published


def _is_id(item: Any) -> bool:
    return isinstance(item, str) or type(item) is int


def _recommended(one: Any, table: SidTable) -> dict[str, Any]:
    return {"item": one.item, "sid": table.write(one.sid), "probability": one.probability}
