"""The folder of a trained retriever: what is written, and what is read back.

folder/
  config.json, model.safetensors, generation_config.json   T5, as transformers' from_pretrained reads it
  sids.parquet                                             the items and their semantic IDs
  retriever.json                                           how it was trained, and how well it did
  log.jsonl, tensorboard/                                  epoch by epoch
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from ..errors import StoreError
from ..files.atomic import replace_folder
from ..files.checkpoint import unfinished
from ..sids.table import SidTable
from .data import Vocabulary
from .log import LOG
from .model import Shape, Weights, build_t5, from_state, to_state
from .plan import Plan

if TYPE_CHECKING:
    from .retriever import Retriever

__all__ = ["FACTS", "check_folder", "load", "save"]

FACTS, TABLE, WEIGHTS = "retriever.json", "sids.parquet", "model.safetensors"


def save(retriever: Retriever, folder: Path) -> None:
    """Write a folder that `Retriever.load` and transformers' `from_pretrained` read."""
    shape = retriever.plan.shape
    model = build_t5(shape, len(Vocabulary(retriever.table.sizes)), to_state(retriever.weights, shape))
    with replace_folder(folder) as temporary, _no_bars():
        model.save_pretrained(temporary)
        shutil.copymode(temporary / "config.json", temporary / WEIGHTS)  # safetensors keeps its files to their owner
        retriever.table.to_parquet(temporary / TABLE)
        (temporary / FACTS).write_text(json.dumps(retriever.facts, indent=1) + "\n", encoding="utf-8")


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


def load(folder: Path) -> tuple[SidTable, Plan, Weights, dict[str, Any]]:
    """What `save` wrote: the table, the plan, the weights on the CPU, and the facts."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        plan = plan_from(facts["plan"])
        state = load_file(folder / WEIGHTS)
        weights = from_state(state, plan.shape)
    except FileNotFoundError as error:
        left, seeds = unfinished(folder), sorted(path.parent for path in folder.glob(f"seed-*/{FACTS}"))
        hint = f"; it holds one for each seed, such as {seeds[0]}" if seeds else ""
        hint += f"; {left} can be trained on with --resume" if left.is_dir() else ""
        missing = Path(str(error.filename)).name
        raise StoreError(f"{folder} is no trained retriever: no {missing} in it{hint}") from None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise StoreError(f"cannot read the retriever {folder}: {error}") from error
    return SidTable.from_parquet(folder / TABLE), plan, weights, facts


def plan_from(plain: dict[str, Any]) -> Plan:
    return replace(Plan(**{k: v for k, v in plain.items() if k != "shape"}), shape=Shape(**plain["shape"]))


def check_folder(folder: Path) -> None:
    """Only an empty or new folder, or one of an earlier training, may be written to."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the retriever")
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in (FACTS, LOG)):
        raise StoreError(f"{folder} holds other files; name an empty folder for the retriever")
