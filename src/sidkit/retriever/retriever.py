"""A trained retriever: a folder, a history in, items with scores out.

folder/
  config.json, model.safetensors, generation_config.json   T5, as transformers' from_pretrained reads it
  sids.parquet                                             the items and their semantic IDs
  retriever.json                                           how it was trained, and how well it did
  sidkit.json                                              the SHA-256 of each of these files
  log.jsonl, tensorboard/                                  epoch by epoch
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from .. import __version__
from ..data.sequences import Sequences
from ..errors import InputError, SpecError, StoreError
from ..files.atomic import replace_folder
from ..files.checkpoint import Checkpoint
from ..files.unfinished import Unfinished
from ..progress import Progress
from ..sids.table import SidTable
from ..sids.trie import Trie
from .beams import DeviceTrie, beam_search
from .data import Split, Vocabulary, require_known
from .evaluation import Evaluator, users_at_once
from .log import LOG, Log
from .metrics import Tally
from .model import Shape, Weights, build_t5, from_state, to_state
from .network import in_dtype
from .plan import Plan
from .stack import dtype_of
from .store import FACTS, TABLE, WEIGHTS, finish_folder, read_facts
from .training import CHOSEN_BY, Job, Outcome, identity, train_stack

__all__ = ["Recommendation", "Retriever", "find_device", "train"]

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)  # what wrong contents end in


class Recommendation(NamedTuple):
    """An item, its SID, and the log-probability of that SID; items that share a SID share it."""

    item: Any
    sid: tuple[int, ...]
    score: float


@dataclass(eq=False)
class Retriever:
    """retriever = Retriever.load("run/"); retriever.recommend(["P000017", "P000202"], k=10)"""

    table: SidTable
    plan: Plan
    weights: Weights  # of one run, float32
    facts: dict[str, Any]
    device: Any = "cpu"

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Retriever:
        """A retriever from the folder that `sidkit train` wrote."""
        folder, place = Path(folder), find_device(device)
        facts = read_facts(folder)
        try:
            plan = plan_from(facts["plan"])
            weights = from_state(load_file(folder / WEIGHTS), plan.shape)
        except (*UNREADABLE, SafetensorError, SpecError) as error:
            raise StoreError(f"cannot read the retriever {folder}: {error}") from error
        table = SidTable.from_parquet(folder / TABLE)
        return cls(table, plan, {name: value.to(place) for name, value in weights.items()}, facts, place)

    def recommend(
        self, history: Sequence[Any], k: int = 10, within: Any = None, beams: int | None = None
    ) -> list[Recommendation]:
        """The k likeliest next items for a history of item ids, oldest first, best first.

        within   item ids to choose from (in stock, fresh ...), or a mask over the table's rows; all items by default
        beams    SIDs that are looked at: those of the training, or k if that is more
        """
        return self.recommend_many([history], k, within, beams)[0]

    def recommend_many(
        self, histories: Sequence[Sequence[Any]], k: int = 10, within: Any = None, beams: int | None = None
    ) -> list[list[Recommendation]]:
        """As `recommend`, for many users."""
        if k < 1:
            raise SpecError(f"k must be at least 1, not {k}")
        rows, beams = self._histories(histories), self._beams(beams, max(k, self.plan.beams))
        trie = self.trie if within is None else Trie.of(self.table, self._rows(within))
        device_trie = self._device_trie if within is None else self._on_device(trie)
        found, at_once = list[list[Recommendation]](), users_at_once(self.table.sizes, beams)
        for start in range(0, len(rows), at_once):
            tokens = self._tokens(rows[start : start + at_once])
            best = beam_search(self._fast, self.plan.shape, device_trie, tokens, beams)
            ranked = zip(best.leaf.tolist(), best.score.tolist(), strict=True)
            found += [self._items(trie, leaves, scores, k) for leaves, scores in ranked]
        return found

    def evaluate(
        self,
        sequences: Sequences,
        split: Split = "test",
        beams: int | None = None,
        constrained: bool | None = None,
        within: Any = None,
        progress: Progress | None = None,
        invalid_consumes_rank: bool = False,
    ) -> Tally:
        """How well the held-out items of sequences are ranked; see `sidkit.retriever.metrics` for the figures."""
        require_known(sequences)
        beams = self._beams(beams, self.plan.beams)
        constrained = self.plan.constrained if constrained is None else constrained
        trie = Trie.of(self.table, None if within is None else self._rows(within))
        judge = Evaluator(self.table, sequences, split, self.plan.history, self.device, trie, invalid_consumes_rank)
        if not len(judge):
            raise InputError(f"no sequence is long enough for the {split} split")
        if progress is not None:
            progress.start("evaluate", len(judge))
        return judge(self._fast, self.plan.shape, beams, constrained, progress)

    @cached_property
    def trie(self) -> Trie:
        return Trie.of(self.table)

    @cached_property
    def _device_trie(self) -> DeviceTrie:
        return self._on_device(self.trie)

    @cached_property
    def _fast(self) -> Weights:
        return in_dtype(self.weights, dtype_of(self.plan.precision, self.device))

    def _on_device(self, trie: Trie) -> DeviceTrie:
        return DeviceTrie(trie, Vocabulary(self.table.sizes), self.device)

    def _rows(self, ids: Any) -> Any:
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

    def _beams(self, asked: int | None, default: int) -> int:
        if asked is not None and asked < 1:
            raise SpecError(f"beams must be at least 1, not {asked}")
        return default if asked is None else asked

    def _histories(self, histories: Sequence[Sequence[Any]]) -> list[list[int]]:
        """The rows of the latest items of each."""
        rows = [[self._row(item) for item in history][-self.plan.history :] for history in histories]
        if not rows or not all(rows):
            raise InputError("a history needs at least one item")
        return rows

    def _tokens(self, rows: list[list[int]]) -> Any:
        """(n, W) tokens, padded on the left."""
        vocabulary, levels = Vocabulary(self.table.sizes), len(self.table.sizes)
        padded = np.zeros((len(rows), max(map(len, rows)) * levels), np.int64)
        for place, history in enumerate(rows):
            tokens = vocabulary.tokens(self.table.codes[history])
            padded[place, padded.shape[1] - len(history) * levels :] = tokens.ravel()
        return torch.as_tensor(padded, device=self.device)

    def _items(self, trie: Trie, leaves: list[int], scores: list[float], k: int) -> list[Recommendation]:
        found: list[Recommendation] = []
        for leaf, score in zip(leaves, scores, strict=True):
            for row in trie.items(leaf) if leaf >= 0 else ():
                sid = tuple(int(code) for code in self.table.codes[row])
                found.append(Recommendation(self.table.ids[int(row)].as_py(), sid, score))
            if len(found) >= k:
                break
        return found[:k]


def train(
    table: SidTable,
    sequences: Sequences,
    folder: str | Path,
    plan: Plan | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    resume: bool = False,
) -> Retriever:
    """Train a retriever on a table of SIDs and sequences of its items, and write it as a folder.

    A training that is stopped leaves what it had done as FOLDER.unfinished; resume goes on from there and ends with the
    same bits on a CPU.
    """
    plan, folder, place = plan or Plan(), Path(folder), find_device(device)
    check_folder(folder)
    with Unfinished(folder, resume) as unfinished:
        kept = Checkpoint(unfinished, identity(table, sequences, plan))
        told = Log(folder)
        job = Job(folder.name, table, plan.seed)
        (outcome,) = train_stack([job], sequences, plan, place, 1, progress, kept, told)
        told.close()
        retriever = Retriever(table, plan, outcome.weights, facts_of(outcome, plan, place), place)
        save(retriever, folder)
    return retriever


def save(retriever: Retriever, folder: Path) -> None:
    """Write a folder that `Retriever.load` and transformers' `from_pretrained` read."""
    shape = retriever.plan.shape
    model = build_t5(shape, len(Vocabulary(retriever.table.sizes)), to_state(retriever.weights, shape))
    with replace_folder(folder) as temporary, _no_bars():
        model.save_pretrained(temporary)
        shutil.copymode(temporary / "config.json", temporary / WEIGHTS)  # safetensors keeps its files to their owner
        retriever.table.to_parquet(temporary / TABLE)
        finish_folder(temporary, retriever.facts)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without transformers' own progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def facts_of(outcome: Outcome, plan: Plan, device: Any) -> dict[str, Any]:
    """What is to be known about a finished run."""
    test = outcome.test or Tally()
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else f"CPU, {os.cpu_count()} cores"
    return {
        "plan": asdict(plan),
        "epochs": outcome.epoch,
        "best_epoch": outcome.best_epoch,
        "validation": {CHOSEN_BY: outcome.best},
        "test": test.means(),
        "users": test.count,
        "seconds": round(outcome.seconds, 2),
        "versions": {
            "sidkit": __version__,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "device": name,
        },
    }


def plan_from(plain: dict[str, Any]) -> Plan:
    return replace(Plan(**{k: v for k, v in plain.items() if k != "shape"}), shape=Shape(**plain["shape"]))


def find_device(asked: str) -> Any:
    """A torch device; "auto" is a GPU if there is one."""
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"device {asked!r} was asked for, and torch finds no GPU; use 'auto' or 'cpu'")
    try:
        return torch.device(asked)
    except RuntimeError:
        raise SpecError(f"no device {asked!r}; use 'auto', 'cpu', 'cuda' or 'cuda:0'") from None


def check_folder(folder: Path) -> None:
    """Only an empty or new folder, or one of an earlier training, may be written to."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the retriever")
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in (FACTS, LOG)):
        raise StoreError(f"{folder} holds other files; name an empty folder for the retriever")
