"""Training as a call: from a shop with SIDs to the folder of a search model."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ... import __version__
from ...engine.device import find_device, product_dtype
from ...errors import InputError
from ...files.checkpoint import Checkpoint
from ...files.unfinished import Unfinished
from ...progress import Progress, Silent
from ...retriever.log import Log
from ...sids.table import SidTable
from ...tokenizer.tokenizer import FittedTokenizer
from ..bart.former import first_former
from ..templates import read_templates, template_file
from ..training.corpus import SearchData
from ..training.loop import Trainer
from ..training.plan import SearchPlan
from ..training.stages import Corpus, training_stages
from ..training.tokens import Tokens, train_bpe
from .model import SearchModel
from .query_clicks import QueryClicks
from .query_sids import QueryEncoder
from .ranking import Counters
from .start import first_weights, plan_of_folder
from .store import SEARCH_MODEL, ModelParts

__all__ = ["stored_parts", "train_search"]

COMPARED = 64  # queries that are encoded again, to see that it gives their SIDs
SHOWN = ("item_id", "title", "brand", "seller", "price")  # what the folder keeps of items


def train_search(
    data: SearchData,
    folder: str | Path,
    plan: SearchPlan | None = None,
    tokenizer: FittedTokenizer | None = None,
    query_encoder: QueryEncoder | None = None,
    start: str | Path | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    resume: bool = False,
) -> SearchModel:
    """Train the three stages on a shop and write the model's folder.

    tokenizer       what made the SIDs; SID tokens start from its centroids
    query_encoder   gives SIDs to queries that come later; its tokenizer is the one above
    start           a local folder of a BART with its tokenizer; fresh weights and a trained BPE without it
    resume          continue from FOLDER.unfinished, where a stopped training left its state
    """
    folder, where, report = Path(folder), find_device(device), progress or Silent()
    begin = None if start is None else Path(start)
    plan = plan or SearchPlan()
    plan = plan if begin is None else plan_of_folder(plan, begin)
    tokenizer = tokenizer if query_encoder is None else query_encoder.tokenizer
    SEARCH_MODEL.check_target(folder)
    _require_same_sizes(data.table, tokenizer)
    if query_encoder is not None:
        _require_same_codes(data.corpus, query_encoder)
    templates = read_templates(plan.templates)
    tokens = _tokens(data.corpus, data.table.sizes, plan, begin, report)
    stages = training_stages(data.corpus, templates, tokens, plan)
    weights = first_weights(plan, tokens, tokenizer, begin)
    if plan.history_vectors and data.corpus.item_vectors is not None:
        width = data.corpus.item_vectors.shape[1]
        weights |= first_former(plan.shape, plan.history_vectors, width, plan.seed)
    with Unfinished(folder, resume) as unfinished, Log(folder) as log:
        checkpoint = Checkpoint(unfinished, _identity(data.corpus, plan, tokens, weights))
        trainer = Trainer(weights, stages, tokens, plan, where, product_dtype(plan.precision, where), checkpoint)
        trainer.log = lambda name, value, step: log.write(trainer.at.losses, {name: value}, step)
        at = trainer.run(report)
        facts = {
            "plan": asdict(plan),
            "sizes": list(data.table.sizes),
            "examples": {name: len(examples) for name, examples in stages.items()},
            "losses": at.losses,
            "seconds": round(at.seconds, 1),
            "device": torch.cuda.get_device_name(where) if "cuda" in where else f"CPU, {os.cpu_count()} cores",
            "items": len(data.table),
            "queries": len(data.corpus.queries),
            "shop": data.shop.facts.get("source"),
            "versions": {"sidkit": __version__, "torch": torch.__version__},
        }
        text = template_file(plan.templates).read_text(encoding="utf-8")
        parts = stored_parts(data, plan, templates, text, query_encoder)
        model = SearchModel(trainer.weights, tokens, plan, parts, facts, where)
        model.save(folder)
    return model.on(where)


def stored_parts(
    data: SearchData, plan: SearchPlan, templates: Any, text: str, encoder: QueryEncoder | None
) -> ModelParts:
    """What a model's folder has besides weights and tokens; text: of the templates' file."""
    counters = Counters.of(data.shop.counters, data.table.ids)
    columns = {name: data.items.column(name) for name in SHOWN}
    items = pa.table({**columns, **{name: pa.array(values) for name, values in vars(counters).items()}})
    known = np.flatnonzero(data.corpus.query_codes[:, 0] >= 0)
    texts = pa.array([data.corpus.queries[i] for i in known.tolist()], pa.string())
    queries = SidTable(texts, data.corpus.query_codes[known], data.table.sizes, data.table.template)
    clicks = None
    if plan.cold_users == "query" and "user_sid" in templates["personal"][0].inputs:
        clicks = QueryClicks.of(*data.clicked_for_queries(max(plan.history, plan.long_history)))
    return ModelParts(data.table, items, queries, templates, text, encoder, data.corpus.item_vectors, clicks)


def _tokens(corpus: Corpus, sizes: tuple[int, ...], plan: SearchPlan, start: Path | None, report: Progress) -> Tokens:
    if start is not None:
        return Tokens.of_folder(start, sizes)
    texts = [*(text for text in corpus.titles if text), *(corpus.queries[i] for i in corpus.training_queries.tolist())]
    report.start("words", 1)
    words = train_bpe(texts, plan.words)
    report.advance(1)
    return Tokens(words, sizes)


def _require_same_sizes(table: SidTable, tokenizer: FittedTokenizer | None) -> None:
    if tokenizer is not None and tuple(tokenizer.sizes) != tuple(table.sizes):
        ours, theirs = ("-".join(map(str, sizes)) for sizes in (table.sizes, tokenizer.sizes))
        raise InputError(f"the SIDs have sizes {ours}, but the tokenizer makes {theirs}: it did not make these SIDs")


def _require_same_codes(corpus: Corpus, encoder: QueryEncoder) -> None:
    """An error if most of some known queries are given other SIDs than they have. The last code does not count: where
    queries were spread, theirs may differ."""
    known = np.flatnonzero(corpus.query_codes[:, 0] >= 0)
    some = known[:: max(1, len(known) // COMPARED)][:COMPARED]
    if not len(some):
        return
    levels = max(1, corpus.query_codes.shape[1] - 1)
    given = encoder.codes([corpus.queries[i] for i in some.tolist()])[:, :levels]
    equal = int((given == corpus.query_codes[some, :levels]).all(1).sum())
    if equal < len(some) / 2:
        raise InputError(
            f"encoder, alignment and tokenizer give {len(some) - equal} of {len(some)} queries other SIDs than they "
            "have: name those with which the SIDs were made"
        )


def _identity(corpus: Corpus, plan: SearchPlan, tokens: Tokens, weights: dict[str, Any]) -> str:
    """What must be unchanged for a training to resume: the corpus, the plan, the tokens and the first weights."""
    plain = asdict(replace(plan, beams=1))
    digest = hashlib.sha256(json.dumps([plain, list(tokens.sizes), tokens.words.to_str()], sort_keys=True).encode())
    for texts in (corpus.queries, corpus.titles, corpus.profiles):
        digest.update("\n".join(text or "" for text in texts).encode())
    events = corpus.events
    arrays = [corpus.query_codes, corpus.item_codes, *corpus.pairs, events.query, events.item, events.user,
              weights["shared"].numpy()]  # fmt: skip
    arrays += [] if corpus.item_vectors is None else [corpus.item_vectors]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
