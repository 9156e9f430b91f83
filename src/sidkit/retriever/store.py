"""The folder of a trained retriever: what is written, and what is read back.

folder/
  config.json, model.safetensors, generation_config.json   T5, as transformers' from_pretrained reads it
  sids.parquet                                             the items and their semantic IDs
  retriever.json                                           how it was trained, and how well it did
  counts.safetensors                                       where a fusion was fitted: what it counted in training
  sidkit.json                                              the SHA-256 of each of these files
  README.md, seen.svg                                      for people: its card, and how well it finds rare items
  log.jsonl, tensorboard/                                  epoch by epoch
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from safetensors import SafetensorError
from safetensors.torch import load_file

from ..errors import SpecError, StoreError
from ..files.trained import WEIGHTS, TrainedFolder, require_weights, typed_values, write_pretrained
from ..report.draw.svg import figure_svg
from ..sids.table import SidTable
from .card import SEEN_PICTURE, retriever_card
from .counts_file import COUNTS, read_counts, write_counts
from .data import Vocabulary
from .fusion import Fusion, weights_from
from .model import Shape, Weights, build_t5, from_state, shapes_of, to_state
from .page import seen_figure
from .plan import Plan

if TYPE_CHECKING:
    from .retriever import Retriever

__all__ = ["RETRIEVER", "load", "save"]

TABLE = "sids.parquet"
RETRIEVER = TrainedFolder("sidkit-retriever", "retriever", "retriever.json", (TABLE,), digests=False)
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)  # what wrong contents end in


def save(retriever: Retriever, folder: Path) -> None:
    """Write a folder that `Retriever.load` and transformers' `from_pretrained` read."""
    shape = retriever.plan.shape
    model = build_t5(shape, len(Vocabulary(retriever.table.sizes)), to_state(retriever.weights, shape))
    notes = {"README.md": retriever_card(retriever.facts, retriever.table, folder.name)}
    if seen := retriever.facts.get("seen"):
        notes[SEEN_PICTURE] = figure_svg(seen_figure(seen))
    with RETRIEVER.writing(folder, retriever.facts, notes) as temporary:
        write_pretrained(model, temporary)
        retriever.table.to_parquet(temporary / TABLE)
        if retriever.fusion is not None:
            write_counts(retriever.fusion.tables, temporary / COUNTS)


def load(folder: Path) -> tuple[SidTable, Plan, Weights, dict[str, Any], Fusion | None]:
    """What `save` wrote: the table, the plan, the weights on the CPU, the facts, and the fusion."""
    facts = RETRIEVER.read_facts(folder)
    table = SidTable.from_parquet(folder / TABLE)
    try:
        plan = plan_from(facts["plan"])
        weights = from_state(load_file(folder / WEIGHTS), plan.shape)
        require_weights(weights, shapes_of(plan.shape, len(Vocabulary(table.sizes))))
        fusion = _fusion_from(folder, facts, len(table))
    except (*UNREADABLE, SafetensorError, SpecError, StoreError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise StoreError(f"cannot read the retriever {folder}: {what}; {RETRIEVER.advice}") from error
    return table, plan, weights, facts, fusion


def _fusion_from(folder: Path, facts: dict[str, Any], items: int) -> Fusion | None:
    """The fusion that the facts describe, with its counts; None where none was fitted, or by a formula of before."""
    if "fusion" not in facts:
        return None
    if "sharpness" in facts["fusion"]["weights"]:
        warn(
            f"{folder} fuses counts by a formula of an earlier version, and is used without; train it again",
            stacklevel=4,
        )
        facts.pop("fusion")
        return None
    chosen = weights_from(facts["fusion"]["weights"])
    return Fusion(chosen, read_counts(folder / COUNTS, items), facts["fusion"]["validation"])


def plan_from(plain: dict[str, Any]) -> Plan:
    shape = Shape(**typed_values(Shape, plain["shape"]))
    return Plan(shape=shape, **typed_values(Plan, {name: value for name, value in plain.items() if name != "shape"}))
