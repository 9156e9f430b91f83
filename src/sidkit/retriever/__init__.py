"""Generative recommendation over semantic IDs: TIGER's encoder-decoder, trained fast, decoded over valid SIDs only.

    data, layout, plan              histories as examples; batches of one shape with hardly any padding; the settings
    model, network, dropout, step   T5 in transformers' sizes and names; its forward pass over stacked runs; Adam
    stack, training                 several runs trained at once; the schedule of epochs, validation and early stopping
    runs, resume, log               a run and its progress; its checkpoint; log files
    beams, search_blocks            beam search over a trie, and its blocks (`decoding` has it for other models)
    metrics, evaluation             item-level and SID-level figures, as sums over users
    retriever, store                `recommend` and `evaluate`; the folder
    recommendations                 from ranked SIDs to items; a file of them
    dataset                         token sequences for a model of one's own, as a Dataset of torch
    trainer, seeds                  the training calls; several seeds, their means and standard deviations
    memory, backend, triton         how many runs fit on a device; kernels or plain torch; the kernels

Needs the 'retriever' extra (torch, transformers, tensorboard).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import need

if TYPE_CHECKING:
    from ..decoding.transformers import SidLogitsProcessor as SidLogitsProcessor
    from .dataset import SidSequences as SidSequences
    from .model import PRESETS as PRESETS
    from .model import Shape as Shape
    from .plan import Plan as Plan
    from .recommendations import Recommendation as Recommendation
    from .retriever import Retriever as Retriever
    from .seeds import SeedSummary as SeedSummary
    from .trainer import train as train
    from .trainer import train_seeds as train_seeds

_HOMES = {
    "PRESETS": "model",
    "Plan": "plan",
    "Recommendation": "recommendations",
    "Retriever": "retriever",
    "SeedSummary": "seeds",
    "Shape": "model",
    "SidLogitsProcessor": "..decoding.transformers",
    "SidSequences": "dataset",
    "train": "trainer",
    "train_seeds": "trainer",
}

__all__ = sorted(_HOMES)

need("torch", "retriever", "generative retrieval")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sidkit.retriever' has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(home if home.startswith(".") else f".{home}", __name__), name)
