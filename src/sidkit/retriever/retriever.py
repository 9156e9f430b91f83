"""A trained retriever: a history in, items with scores out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data.sequences import Sequences
from ..decoding.device_trie import DeviceTrie
from ..engine.device import find_device, product_dtype
from ..errors import InputError, SpecError
from ..files.hub import HubFolder
from ..measure.counting_tables import CountTables
from ..progress import Progress
from ..sids.table import SidTable
from ..sids.trie import Trie
from .beams import beam_search
from .candidates import Searcher
from .card import retriever_card
from .data import Split, Vocabulary, require_known
from .evaluation import Evaluator, users_at_once
from .fused import add_fused, fused_ranks
from .fused_items import fused_items
from .fusion import Fusion
from .metrics import Tally
from .model import Weights
from .network import in_dtype
from .plan import Plan
from .recommendations import Recommendation, Wanted, chosen_items
from .store import load, save

__all__ = ["Recommendation", "Retriever"]


@dataclass(eq=False)
class Retriever(HubFolder):
    """retriever = Retriever.load("run/"); retriever.recommend(["P000017", "P000202"], k=10)"""

    table: SidTable
    plan: Plan
    weights: Weights  # of one run, float32
    facts: dict[str, Any]
    device: Any = "cpu"
    fusion: Fusion | None = None  # with what counting knows

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Retriever:
        """A retriever from the folder that `sidkit train` wrote."""
        where = torch.device(find_device(device))
        table, plan, weights, facts, fusion = load(Path(folder))
        return cls(table, plan, {name: value.to(where) for name, value in weights.items()}, facts, where, fusion)

    def save(self, folder: str | Path) -> Path:
        """Write the folder that `load` and transformers' `from_pretrained` read."""
        save(self, Path(folder))
        return Path(folder)

    @classmethod
    def _read(cls, folder: Path, **options: Any) -> Retriever:
        return cls.load(folder, **options)

    def _card(self, name: str) -> str:
        return retriever_card(self.facts, self.table, name)

    def recommend(
        self,
        history: Sequence[Any],
        k: int = 10,
        within: Any = None,
        beams: int | None = None,
        per_sid: int | None = None,
        exclude_history: bool = False,
        fused: bool | None = None,
    ) -> list[Recommendation]:
        """The k likeliest next items for a history of item ids, oldest first, best first.

        within            item ids to choose from (in stock, fresh ...), or a mask over the table's rows; all items by
                          default
        beams             SIDs that are searched; by default as many as in training, or what k needs if that is more
        per_sid           the most items of one SID, those that come first in the table; None: all of them
        exclude_history   leave out the items of the history
        fused             whether counts join the model's probabilities (`sidkit.retriever.fusion`), so that items which
                          no beam reached can be recommended too; by default where that helped in validation
        """
        return self.recommend_many([history], k, within, beams, per_sid, exclude_history, fused)[0]

    def recommend_many(
        self,
        histories: Sequence[Sequence[Any]],
        k: int = 10,
        within: Any = None,
        beams: int | None = None,
        per_sid: int | None = None,
        exclude_history: bool = False,
        fused: bool | None = None,
    ) -> list[list[Recommendation]]:
        """As `recommend`, for many users."""
        wanted = Wanted(k, per_sid, exclude_history)
        return list(self.recommend_rows(self._histories(histories), wanted, within, beams, fused))

    def recommend_rows(
        self,
        histories: Sequence[Sequence[int]],
        wanted: Wanted,
        within: Any = None,
        beams: int | None = None,
        fused: bool | None = None,
    ) -> Iterator[list[Recommendation]]:
        """As `recommend`, user by user, for histories of table rows, each of at least one."""
        fusion = self._fusion(fused)
        seen = self.plan.history if wanted.exclude_history else 0  # SIDs that may be found and left out
        beams = self._beams(beams, max(wanted.k + seen, self.plan.beams))
        trie = self.trie if within is None else Trie.of(self.table, self._rows(within))
        device_trie = self._device_trie if within is None else self._on_device(trie)
        if fusion is not None:
            yield from fused_items(self, fusion, trie, histories, wanted, beams)
            return
        at_once = users_at_once(self.table.sizes, beams)
        for start in range(0, len(histories), at_once):
            users = histories[start : start + at_once]
            tokens = self._tokens([list(rows[-self.plan.history :]) for rows in users])
            best = beam_search(self._fast_weights, self.plan.shape, device_trie, tokens, beams)
            for rows, leaves, scores in zip(users, best.leaf.tolist(), best.score.tolist(), strict=True):
                yield chosen_items(self.table, trie, leaves, scores, wanted, rows)

    def evaluate(
        self,
        sequences: Sequences,
        split: Split = "test",
        beams: int | None = None,
        constrained: bool | None = None,
        within: Any = None,
        progress: Progress | None = None,
        invalid_consumes_rank: bool = False,
        label: str = "evaluate",
        inference_batch: int | None = None,
        fused: bool | None = None,
    ) -> Tally:
        """How well the held-out items of sequences are ranked; see `sidkit.retriever.metrics` for the figures.

        label is that of the progress bar; inference_batch as in `Plan`, whose it is by default; fused as in
        `recommend`: figures of the model alone come first, those of fused lists (`fused_ndcg@10` ...) next to them.
        """
        require_known(sequences)
        plan = self.plan if inference_batch is None else replace(self.plan, inference_batch=inference_batch)
        beams = self._beams(beams, self.plan.beams)
        constrained = self.plan.constrained if constrained is None else constrained
        trie = Trie.of(self.table, None if within is None else self._rows(within))
        evaluator = Evaluator(
            self.table, sequences, split, plan.history, self.device, trie, invalid_consumes_rank, plan.inference_batch,
            by_seen=True,
        )  # fmt: skip
        if not len(evaluator):
            raise InputError(f"no sequence is long enough for the {split} split")
        if progress is not None:
            progress.start(label, len(evaluator))
        tally = evaluator(self._fast_weights, self.plan.shape, beams, constrained, progress)
        if (fusion := self._fusion(fused)) is not None:
            ranks = fused_ranks(self, fusion, sequences, split, trie=trie, beams=beams)
            add_fused(tally, ranks, sequences, split, len(self.table))
        return tally

    def searcher(self, tables: CountTables, trie: Trie | None = None) -> Searcher:
        """What finds the candidates of fused lists; trie: of a part of the catalogue."""
        trie = self.trie if trie is None else trie
        return Searcher(self._fast_weights, self.plan.shape, trie, self.table.sizes, len(self.table), tables)

    def uses_fusion(self, wanted: bool | None = None) -> bool:
        """Whether lists are fused with counts; by default, where that helped in validation."""
        return self._fusion(wanted) is not None

    def _fusion(self, wanted: bool | None) -> Fusion | None:
        """The fusion to use: by default, one that is on."""
        if wanted and self.fusion is None:
            raise InputError("this retriever was trained without fusion; train it again, or leave fused=True out")
        on = self.fusion is not None and (self.fusion.weights.is_on if wanted is None else wanted)
        return self.fusion if on else None

    @cached_property
    def trie(self) -> Trie:
        return Trie.of(self.table)

    @cached_property
    def _device_trie(self) -> DeviceTrie:
        return self._on_device(self.trie)

    @cached_property
    def _fast_weights(self) -> Weights:
        return in_dtype(self.weights, product_dtype(self.plan.precision, self.device))

    def _on_device(self, trie: Trie) -> DeviceTrie:
        return DeviceTrie(trie, Vocabulary(self.table.sizes), self.device)

    def _rows(self, ids: Any) -> Any:
        """Item ids as table rows; a mask as it is."""
        mask = np.asarray(ids)
        if mask.dtype == bool:
            if mask.shape != (len(self.table),):
                raise InputError(f"a mask needs one value for each of {len(self.table)} items, not {mask.shape}")
            return mask
        return np.array([self._row(item) for item in ids], np.int64)

    def _row(self, item: Any) -> int:
        row = self.table.row_of(item)
        if row is None:
            raise InputError(f"no item {item!r} among the {len(self.table):,} this retriever was trained on")
        return row

    def _beams(self, requested: int | None, default: int) -> int:
        if requested is not None and requested < 1:
            raise SpecError(f"beams must be at least 1, not {requested}")
        return default if requested is None else requested

    def _histories(self, histories: Sequence[Sequence[Any]]) -> list[list[int]]:
        """The table rows of each history."""
        rows = [[self._row(item) for item in history] for history in histories]
        if not rows or not all(rows):
            raise InputError("a history needs at least one item")
        return rows

    def _tokens(self, rows: list[list[int]]) -> Any:
        """(n, W) tokens, padded on the left."""
        vocabulary, levels = Vocabulary(self.table.sizes), len(self.table.sizes)
        padded = np.zeros((len(rows), max(map(len, rows)) * levels), np.int64)
        for user, history in enumerate(rows):
            tokens = vocabulary.tokens(self.table.codes[history])
            padded[user, padded.shape[1] - len(history) * levels :] = tokens.ravel()
        return torch.as_tensor(padded, device=self.device)
