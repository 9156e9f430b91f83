"""The folder of a trained retriever: what is written, and what is read back.

folder/
  config.json, model.safetensors, generation_config.json   T5, as transformers' from_pretrained reads it
  sids.parquet                                             the items and their semantic IDs
  retriever.json                                           how it was trained, and how well it did
  sidkit.json                                              the SHA-256 of each of these files
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

from ..errors import SpecError, StoreError
from ..files.atomic import replace_folder
from ..files.folder import file_inside, read_json, require_short_header
from ..files.manifest import MANIFEST, check_manifest, write_manifest
from ..files.unfinished import unfinished_folder
from ..sids.table import SidTable
from .data import Vocabulary
from .log import LOG
from .model import Shape, Weights, build_t5, from_state, to_state
from .plan import Plan

if TYPE_CHECKING:
    from .retriever import Retriever

__all__ = ["FACTS", "check_folder", "load", "no_bars", "save"]

FORMAT = "sidkit-retriever"
FACTS, TABLE, WEIGHTS = "retriever.json", "sids.parquet", "model.safetensors"
ADVICE = "train it again, or fetch an undamaged copy"
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)  # what wrong contents end in


def save(retriever: Retriever, folder: Path) -> None:
    """Write a folder that `Retriever.load` and transformers' `from_pretrained` read."""
    shape = retriever.plan.shape
    model = build_t5(shape, len(Vocabulary(retriever.table.sizes)), to_state(retriever.weights, shape))
    with replace_folder(folder) as temporary, no_bars():
        model.save_pretrained(temporary)
        shutil.copymode(temporary / "config.json", temporary / WEIGHTS)  # safetensors keeps its files to their owner
        retriever.table.to_parquet(temporary / TABLE)
        facts = {"format": FORMAT, **retriever.facts}
        (temporary / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        write_manifest(temporary, FORMAT)


@contextmanager
def no_bars() -> Iterator[None]:
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
    facts = read_facts(folder)
    try:
        plan = plan_from(facts["plan"])
        weights = from_state(load_file(folder / WEIGHTS), plan.shape)
    except (*UNREADABLE, SafetensorError, SpecError) as error:
        raise StoreError(f"cannot read the retriever {folder}: {error}") from error
    return SidTable.from_parquet(folder / TABLE), plan, weights, facts


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a folder whose files are all as they were written. Folders of older versions have no digests."""
    for name in (FACTS, TABLE, WEIGHTS):
        if not (folder / name).is_file():
            unfinished, seeds = unfinished_folder(folder), sorted(one.parent for one in folder.glob(f"seed-*/{FACTS}"))
            hint = f"; it holds one for each seed, such as {seeds[0]}" if seeds else ""
            hint += f"; {unfinished} can be trained on with --resume" if unfinished.is_dir() else ""
            raise StoreError(f"{folder} is no trained retriever: no {name} in it{hint}")
        file_inside(folder, name, ADVICE)
    if (folder / MANIFEST).exists():
        check_manifest(folder, FORMAT, ADVICE)
    require_short_header(folder / WEIGHTS, ADVICE)
    facts = read_json(folder / FACTS, ADVICE)
    if not isinstance(facts, dict):
        raise StoreError(f"{folder / FACTS} does not describe a retriever; {ADVICE}")
    if facts.pop("format", None) is not None and not (folder / MANIFEST).exists():
        raise StoreError(f"{folder} holds no {MANIFEST}, so its files cannot be checked; {ADVICE}")
    return facts


def plan_from(plain: dict[str, Any]) -> Plan:
    return replace(Plan(**{k: v for k, v in plain.items() if k != "shape"}), shape=Shape(**plain["shape"]))


def check_folder(folder: Path) -> None:
    """Only an empty or new folder, or one of an earlier training, may be written to."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the retriever")
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in (FACTS, LOG)):
        raise StoreError(f"{folder} holds other files; name an empty folder for the retriever")
