"""SearchModel: a trained model that answers queries with items.

model = SearchModel.load("run")
model.ask([Request("rain jacket kids")])[0]     items with their SIDs and probabilities, best first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...data.items import match
from ...decoding.device_trie import DeviceTrie
from ...engine.device import find_device, product_dtype
from ...errors import InputError
from ...progress import Progress, Silent
from ...retriever.data import Vocabulary
from ...sids.trie import Trie
from ..align.pairs import normal_queries
from ..bart.beams import beam_search
from ..bart.blocks import blocks_for
from ..bart.packing import on_device
from ..bart.weights import Weights
from ..training.context import Past
from ..training.examples import Filled
from ..training.plan import SearchPlan
from ..training.stages import Corpus, Events, event_inputs
from ..training.tokens import Tokens
from .ranking import Counters, ItemRanker, Ranking
from .store import ModelParts, load, save

__all__ = ["Answer", "Request", "SearchModel"]

Integers = NDArray[np.int64]
ROWS = {"cpu": 1 << 10, "cuda": 1 << 15}  # beams computed at once


class Request(NamedTuple):
    """A query, and what is known of who asks: ids of items clicked before and queries, oldest first."""

    query: str
    history: tuple[Any, ...] = ()
    recent: tuple[str, ...] = ()
    profile: str = ""


class Answer(NamedTuple):
    """An item of an answer: its row and id, its SID, and the probability of that SID."""

    row: int
    item: Any
    sid: str
    probability: float


@dataclass(frozen=True, eq=False)
class SearchModel:
    """weights on a device, and all that is needed to turn a query into items."""

    weights: Weights
    tokens: Tokens
    plan: SearchPlan
    parts: ModelParts
    facts: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    ranking: Ranking = field(default_factory=Ranking)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> SearchModel:
        """Read the folder of a trained model."""
        return cls(*load(Path(folder))).on(find_device(device))

    def save(self, folder: str | Path) -> None:
        """Write the folder that `load` and transformers' `from_pretrained` read."""
        save(Path(folder), self.weights, self.tokens, self.plan, self.parts, self.facts)

    def on(self, device: str) -> SearchModel:
        """The same model on a device, in the precision that it computes in there."""
        precision = product_dtype(self.plan.precision, device)
        weights = {name: value.detach().to(device, precision) for name, value in self.weights.items()}
        return replace(self, weights=weights, device=device)

    @cached_property
    def trie(self) -> Trie:
        return Trie.of(self.parts.table)

    @cached_property
    def ranker(self) -> ItemRanker:
        items = self.parts.items
        counters = Counters(*(items.column(name).to_numpy() for name in ("shown", "clicked", "ordered")))
        return ItemRanker(self.trie, counters, items.column("item_id"), self.ranking)

    def generate(
        self, corpus: Corpus, events: Events, beams: int | None = None, progress: Progress | None = None
    ) -> tuple[Integers, NDArray[np.float32]]:
        """The best SIDs of every event: leaves of the trie (n, beams), -1 for none, and their log-probabilities."""
        plan = self.plan if beams is None else replace(self.plan, beams=beams)
        (task,) = self.parts.templates["personal"][:1]
        inputs = event_inputs(corpus, events, task, self.tokens, plan, self.parts.item_vectors)
        return self._beams(inputs, plan.beams, progress or Silent())

    def ask(self, requests: Sequence[Request], beams: int | None = None) -> list[list[Answer]]:
        """The items for each request, best first: at most `ranking.per_sid` of a SID and `ranking.cut` in all."""
        leaf, score = self.generate(*self._corpus(requests), beams)
        lists = self.ranker.lists(leaf)
        sids = self.parts.table.strings()
        probability = np.zeros((len(leaf), len(self.trie) + 1))
        np.put_along_axis(probability, leaf, np.exp(score), 1)
        leaf_of = np.empty(len(self.parts.table), np.int64)
        leaf_of[self.trie.rows] = np.repeat(np.arange(len(self.trie)), self.trie.counts)
        ids = self.parts.table.ids
        return [
            [
                Answer(int(row), ids[row].as_py(), sids[row].as_py(), float(probability[line, leaf_of[row]]))
                for row in rows[rows >= 0]
            ]
            for line, rows in enumerate(lists)
        ]

    def query_codes(self, queries: Sequence[str]) -> NDArray[np.int32]:
        """SIDs of queries: as they were in training, or encoded now; -1 where neither is possible."""
        known = self.parts.queries
        rows = match(normal_queries(list(queries)), known.ids)
        codes = np.where(rows[:, None] < 0, -1, known.codes[rows]).astype(np.int32)
        new = np.flatnonzero(rows < 0)
        if len(new) and self.parts.query_encoder is not None:
            codes[new] = self.parts.query_encoder.codes([queries[i] for i in new.tolist()])
        return codes

    def _corpus(self, requests: Sequence[Request]) -> tuple[Corpus, Events]:
        """Requests as a corpus of their own."""
        for one in requests:
            if not one.query.strip():
                raise InputError("an empty query has no answer; type what you look for")
        texts = list(dict.fromkeys(text for one in requests for text in (one.query, *one.recent)))
        row = {text: i for i, text in enumerate(texts)}
        n, none = len(requests), np.zeros(0, np.int64)
        corpus = Corpus(
            texts, self.query_codes(texts), [], self.parts.table.codes, [], [one.profile for one in requests],
            none, (none, none), None,  # type: ignore[arg-type]
        )  # fmt: skip
        history = [self._rows_of(one.history) for one in requests]
        recent = [np.array([row[text] for text in one.recent], np.int64) for one in requests]
        asked = np.array([row[one.query] for one in requests], np.int64)
        clicks = self.parts.query_clicks
        others = [none] * n if clicks is None else clicks.rows([one.query for one in requests])
        return corpus, Events(asked, np.full(n, -1), np.arange(n), _past(history), _past(recent), _past(others))

    def _rows_of(self, history: Sequence[Any]) -> Integers:
        rows = [self.parts.table.row_of(item) for item in history]
        unknown = [item for item, row in zip(history, rows, strict=True) if row is None]
        if unknown:
            raise InputError(f"the history names {unknown[0]!r}, which is not an item of this model")
        return np.array(rows, np.int64)

    def _beams(self, inputs: Filled, beams: int, report: Progress) -> tuple[Integers, NDArray[np.float32]]:
        heads, tokens = self.plan.shape.heads, self.tokens
        blocks = blocks_for(self.plan.shape, self.weights["shared"].dtype, self.device)
        trie = DeviceTrie(self.trie, Vocabulary(self.parts.table.sizes), self.device)
        at_once = max(1, ROWS[torch.device(self.device).type] // beams)
        report.start("answer", len(inputs))
        leaves, scores = [np.zeros((0, beams), np.int64)], [np.zeros((0, beams), np.float32)]
        for first in range(0, len(inputs), at_once):
            some = np.arange(first, min(first + at_once, len(inputs)))
            source = on_device(self.device, inputs.inputs(some), tokens.pad, inputs.histories(some))
            found = beam_search(self.weights, heads, trie, source, beams, tokens.eos, tokens.first, blocks)
            leaf, score = (part[: len(some)].cpu().numpy() for part in found)  # without the row of padding
            leaves.append(_widened(leaf, beams, -1))
            scores.append(_widened(score.astype(np.float32), beams, -np.inf))
            report.advance(len(some))
        return np.concatenate(leaves), np.concatenate(scores)


def _past(lists: Sequence[Integers]) -> Past:
    ends = np.cumsum([0, *(len(one) for one in lists)])
    return Past(np.concatenate([np.zeros(0, np.int64), *lists]), ends[:-1], ends[1:])


def _widened(part: Any, beams: int, fill: float) -> Any:
    """(n, k) -> (n, beams): a trie may have fewer SIDs than there are beams."""
    return np.pad(part, ((0, 0), (0, beams - part.shape[1])), constant_values=fill)
