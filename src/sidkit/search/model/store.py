"""The folder of a trained search model: what is written, and what is read back.

folder/
  config.json, model.safetensors, generation_config.json   BART, as transformers' from_pretrained reads it
  tokenizer.json, tokens.json                              tokens of texts, and the sizes of SIDs behind them
  sids.parquet, queries.parquet                            semantic IDs of the items, and of the known queries by text
  items.parquet                                            titles and counters of the items
  query-clicks.parquet                                     what was clicked for known queries, for users without clicks
  history.safetensors                                      only with history_vectors: their weights, and item vectors
  templates.toml                                           what the model reads and writes
  search.json                                              how it was trained
  sidkit.json                                              the SHA-256 of each of these files
  query-encoder/                                           encoder, alignment and tokenizer, for new queries
  log.jsonl, tensorboard/                                  the training
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...data.ids import is_id_type, require_utf8
from ...data.listing import readable
from ...errors import InputError, SpecError, StoreError
from ...files.folder import require_short_header
from ...files.trained import WEIGHTS, TrainedFolder, require_weights, typed_values, write_pretrained
from ...sids.table import SidTable
from ..bart.former import former_weights
from ..bart.shape import BartShape, build_bart
from ..bart.weights import Weights, from_state, shapes_of, to_state
from ..templates import TemplateTask, read_templates
from ..training.plan import SearchPlan
from ..training.tokens import Tokens
from .query_clicks import QueryClicks
from .query_sids import QueryEncoder
from .ranking import Counters

__all__ = ["SEARCH_MODEL", "ModelParts", "load", "save"]

ITEMS, SIDS, QUERIES = "items.parquet", "sids.parquet", "queries.parquet"
TEMPLATES, ENCODER, HISTORY = "templates.toml", "query-encoder", "history.safetensors"
QUERY_CLICKS = "query-clicks.parquet"
ITEM_VECTORS = "item_vectors"
SEARCH_MODEL = TrainedFolder("sidkit-search", "search model", "search.json", (ITEMS, SIDS, QUERIES, TEMPLATES))
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError)


@dataclass(frozen=True, eq=False)
class ModelParts:
    """The content of a model's folder besides weights and tokens.

    table      SIDs of the items
    items      Arrow table of the same rows: item_id, title, brand, seller, price, and the counters
    queries    SIDs of known queries, by their text
    item_vectors   (items, v) for models that read vectors of a history
    query_clicks   what was clicked for known queries, for models that read it where a user has no clicks
    """

    table: SidTable
    items: Any
    queries: SidTable
    templates: Mapping[str, tuple[TemplateTask, ...]]
    templates_text: str
    query_encoder: QueryEncoder | None = None
    item_vectors: NDArray[np.float32] | None = None
    query_clicks: QueryClicks | None = None


def save(
    folder: Path, weights: Weights, tokens: Tokens, plan: SearchPlan, parts: ModelParts, facts: Mapping[str, Any]
) -> None:
    """Write a folder that `load` and transformers' `from_pretrained` read."""
    bart = build_bart(plan.shape, tokens.size, {"pad": tokens.pad, "bos": tokens.bos, "eos": tokens.eos})
    bart.load_state_dict(to_state(weights, plan.shape))
    notes = {"query_encoder": parts.query_encoder is not None, **facts}
    with SEARCH_MODEL.writing(folder, notes) as temporary:
        write_pretrained(bart, temporary)
        tokens.save(temporary)
        parts.table.to_parquet(temporary / SIDS)
        parts.queries.to_parquet(temporary / QUERIES)
        pq.write_table(parts.items, temporary / ITEMS, compression="zstd")
        (temporary / TEMPLATES).write_text(parts.templates_text, encoding="utf-8")
        if plan.history_vectors:
            tensors = former_weights(weights) | {ITEM_VECTORS: torch.as_tensor(parts.item_vectors)}
            save_file(tensors, temporary / HISTORY)
            shutil.copymode(temporary / "config.json", temporary / HISTORY)
        if parts.query_clicks is not None:
            parts.query_clicks.save(temporary / QUERY_CLICKS)
        if parts.query_encoder is not None:
            parts.query_encoder.save(temporary / ENCODER)


def load(folder: Path) -> tuple[Weights, Tokens, SearchPlan, ModelParts, dict[str, Any]]:
    """What `save` wrote; weights on the CPU."""
    facts = SEARCH_MODEL.read_facts(folder)
    try:
        has_encoder = facts.pop("query_encoder")
        plan = plan_from(facts["plan"])
        weights = from_state(load_file(folder / WEIGHTS), plan.shape)
        vectors = None
        if plan.history_vectors:
            require_short_header(folder / HISTORY, SEARCH_MODEL.advice)
            history = load_file(folder / HISTORY)
            vectors = history.pop(ITEM_VECTORS).numpy()
            weights |= history
        templates = read_templates(str(folder / TEMPLATES))
        tokens = Tokens.load(folder)
        require_weights(weights, shapes_of(plan.shape, tokens.size))
    except (*UNREADABLE, SpecError, StoreError, InputError) as error:
        raise StoreError(f"cannot read the search model {folder}: {error}; {SEARCH_MODEL.advice}") from error
    items = _read_items(folder / ITEMS)
    encoder = QueryEncoder.load(folder / ENCODER) if has_encoder else None
    text = (folder / TEMPLATES).read_text(encoding="utf-8")
    tables = SidTable.from_parquet(folder / SIDS), SidTable.from_parquet(folder / QUERIES)
    known = folder / QUERY_CLICKS
    clicks = QueryClicks.load(known, len(items), SEARCH_MODEL.advice) if known.is_file() else None
    parts = ModelParts(tables[0], items, tables[1], templates, text, encoder, vectors, clicks)
    if parts.table.sizes != tokens.sizes or len(parts.table) != len(items):
        raise StoreError(f"{folder} has other SIDs than tokens and items; {SEARCH_MODEL.advice}")
    return weights, tokens, plan, parts, facts


def _read_items(file: Path) -> Any:
    """The items, if what is ranked by are numbers and what is shown is text."""
    with readable(file):
        items = pq.read_table(file)
    numbers = [field.name for field in fields(Counters)]
    for name in ("item_id", *numbers):
        if name not in items.column_names:
            raise StoreError(f"{file} has no column {name!r}; {SEARCH_MODEL.advice}")
    if not is_id_type(items.schema.field("item_id").type):
        raise StoreError(
            f"{file}: 'item_id' holds {items.schema.field('item_id').type}, not ids; {SEARCH_MODEL.advice}"
        )
    for column in items.schema:
        require_utf8(items.column(column.name), column.name, file)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if column.name in numbers and (not number or items.column(column.name).null_count):
            raise StoreError(f"{file}: {column.name!r} holds {column.type}, not numbers; {SEARCH_MODEL.advice}")
    return items


def plan_from(plain: dict[str, Any]) -> SearchPlan:
    rest = {name: value for name, value in plain.items() if name != "shape"}
    shape = BartShape(**typed_values(BartShape, plain["shape"]))
    return SearchPlan(shape=shape, **typed_values(SearchPlan, rest))
