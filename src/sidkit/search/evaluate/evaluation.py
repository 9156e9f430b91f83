"""How well a search model finds what users clicked and ordered, beside what they would use instead.

    semantic IDs   the model
    BM25           the words of the query against the texts of the items
    nearest        the aligned vector of the query against those of the items
    counting       what was clicked for this query before, then what is clicked most

All systems answer the same pairs, each with a list of at most 50 items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.items import match
from ...errors import InputError
from ...progress import Progress, Silent
from ..align.pairs import Pairs
from ..model.model import SearchModel
from ..model.ranking import Counters
from ..training.corpus import SearchData, TestPairs
from .baselines import bm25_lists, counted_lists, nearest_lists
from .metrics import by_intent, compare, ranks_of

__all__ = [
    "MODEL",
    "AlignedVectors",
    "Evaluation",
    "data_of",
    "evaluate",
    "evaluate_baselines",
    "evaluate_model",
]

MODEL = "semantic IDs"
KINDS = ("click", "order")
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AlignedVectors:
    """Embeddings with ids, as `open_embeddings` gives them: of the shop's items and queries."""

    items: Any
    queries: Any


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Test pairs of each kind, and for each system the rank of every pair's item, 0 where it is not found."""

    tests: Mapping[str, TestPairs]
    ranks: Mapping[str, Mapping[str, Integers]]  # kind -> system -> (n,)
    cut: int = 50

    def figures(self) -> dict[str, dict[str, dict[str, Any]]]:
        """kind -> system -> class of queries ("all" first) -> sums and rates."""
        return {
            kind: {
                system: {
                    name: total.figures() for name, total in by_intent(each, self.tests[kind].intent, self.cut).items()
                }
                for system, each in systems.items()
            }
            for kind, systems in self.ranks.items()
        }

    def differences(self, seed: int = 0) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
        """kind -> baseline -> metric -> how far the model is ahead of it, on the same pairs; pairs of a query belong
        together."""
        out: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for kind, systems in self.ranks.items():
            groups = self.tests[kind].query
            out[kind] = {
                system: {
                    name: asdict(one)
                    for name, one in compare(each, systems[MODEL], groups, self.cut, seed=seed).items()
                }
                for system, each in systems.items()
                if system != MODEL and len(each)
            }
        return out


def data_of(model: SearchModel, shop: Any, left_out: Any = None) -> SearchData:
    """A shop with the SIDs that a model was trained on; queries that it does not know are encoded."""
    codes = model.query_codes(shop.queries.column("query").to_pylist())
    return SearchData.joined(shop, model.parts.table, codes, left_out)


def evaluate(
    model: SearchModel,
    data: SearchData,
    vectors: AlignedVectors | None = None,
    beams: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank the items of the shop's test pairs by the model and by each baseline; without vectors none by nearness."""
    report, cut = progress or Silent(), model.ranking.cut
    ranks = evaluate_model(model, data, beams, report)
    others = evaluate_baselines(data, vectors, cut, report)
    return replace(others, ranks={kind: {MODEL: ranks[kind], **each} for kind, each in others.ranks.items()})


def evaluate_baselines(
    data: SearchData, vectors: AlignedVectors | None = None, cut: int = 50, progress: Progress | None = None
) -> Evaluation:
    """Rank the items of the shop's test pairs by each baseline; without vectors none by nearness."""
    tests = _tests(data)
    ranks: dict[str, dict[str, Integers]] = {kind: {} for kind in tests}
    for name, lists in _baselines(data, vectors, cut, progress or Silent()).items():
        for kind, test in tests.items():
            ranks[kind][name] = ranks_of(lists(test.query), test.item)
    return Evaluation(tests, ranks, cut)


def evaluate_model(
    model: SearchModel, data: SearchData, beams: int | None = None, progress: Progress | None = None
) -> dict[str, Integers]:
    """By kind of pairs, the rank that the model gives every pair's item; 0 where it is not found."""
    _require_same_items(model, data)
    ranks = {}
    for kind, test in _tests(data).items():
        leaf, _ = model.generate(data.corpus, test.events, beams, progress)
        ranks[kind] = ranks_of(model.ranker.lists(leaf)[test.event], test.item)
    return ranks


def _tests(data: SearchData) -> dict[str, TestPairs]:
    tests = {kind: data.test(kind) for kind in KINDS if data.shop.has(kind)}
    tests = {kind: test for kind, test in tests.items() if len(test)}
    if not tests:
        raise InputError(f"the shop {data.shop.folder} has no test pairs of clicks or orders")
    return tests


def _baselines(
    data: SearchData, vectors: AlignedVectors | None, cut: int, report: Progress
) -> dict[str, Callable[[Integers], Integers]]:
    """By name, what gives the lists (n, cut) of query rows (n,)."""
    texts, queries = data.items.column("text").to_pylist(), data.corpus.queries
    made: dict[str, Callable[[Integers], Integers]] = {
        "BM25": lambda rows: bm25_lists(texts, queries, rows, cut, progress=report)
    }
    if vectors is not None:
        x = _matched(vectors.queries, data.shop.queries.column("query_id"), "query")
        y = _matched(vectors.items, data.table.ids, "item")
        made["nearest"] = lambda rows: nearest_lists(x, y, rows, cut, progress=report)
    clicks = Counters.of(data.shop.counters, data.table.ids).clicked
    counted = _counts(data)
    made["counting"] = lambda rows: counted_lists(counted, rows, clicks, cut)
    return made


def _counts(data: SearchData) -> Pairs:
    """How often every item was clicked for every query in the training part."""
    log = data.log
    row, item = (part[log.train[log.clicked[0]]] for part in log.clicked)
    pairs, counts = np.unique(np.stack([log.query[row], item], 1), axis=0, return_counts=True)
    return Pairs(pairs[:, 0], pairs[:, 1], counts.astype(np.float64))


def _matched(source: Any, ids: Any, noun: str) -> NDArray[np.float32]:
    """The vectors of these ids; zeros for those without one."""
    rows = match(ids, source.ids)
    if (rows < 0).all():
        raise InputError(
            f"none of the shop's {noun} ids is among those of the vectors, such as {source.ids[0].as_py()!r}"
        )
    x = np.concatenate([np.asarray(chunk, np.float32) for chunk in source.chunks(1 << 16)])
    return np.where(rows[:, None] < 0, 0.0, x[rows]).astype(np.float32)


def _require_same_items(model: SearchModel, data: SearchData) -> None:
    if len(model.parts.table) != len(data.table) or not model.parts.table.ids.equals(data.table.ids):
        raise InputError(
            f"the model was trained on {len(model.parts.table):,} items, of which the shop has {len(data.table):,}, "
            "perhaps in another order; evaluate it on the shop that it was trained on"
        )
