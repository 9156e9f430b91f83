"""The state of a run in a checkpoint: what is saved between and within epochs, and how a run starts from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import StoreError
from ..files.checkpoint import Checkpoint
from ..files.trained import require_weights
from ..sids.table import SidTable
from .model import Weights, new_weights, shapes_of
from .plan import Plan
from .runs import Outcome, TrainingRun
from .stack import Stack

__all__ = ["batch_of", "identity", "save_run", "start_run"]

FIELDS = ("epoch", "best", "best_epoch", "log", "seconds")  # of an Outcome, as plain JSON


def identity(table: SidTable, sequences: Sequences, plan: Plan, others: Iterable[NDArray[Any]] = ()) -> str:
    """What must be unchanged for a training to resume: SIDs, sequences, and the plan but for its number of epochs.

    That number counts as well where the learning rate decays, for it decays over the epochs.
    """
    fixed = plan if plan.decay != "none" else replace(plan, epochs=1)
    digest = hashlib.sha256(repr((table.sizes, sorted(asdict(fixed).items()))).encode())
    for array in (table.codes, sequences.rows, sequences.starts, *others):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def start_run(stack: Stack, index: int, run: TrainingRun, checkpoint: Checkpoint | None) -> Outcome:
    """Put a run into the stack at an index: as the checkpoint holds it, or with fresh weights."""
    outcome = Outcome(run)
    state = checkpoint.load(run.key) if checkpoint is not None else None
    if state is None or checkpoint is None:
        weights = new_weights(stack.plan.shape, len(stack.vocabulary), run.seed)
        stack.put(index, weights, run.table.codes, others=run.others)
        return outcome
    arrays, facts = state
    if facts.get("batch") and not stack.stops_anywhere:
        raise StoreError(f"{checkpoint.folder} was saved within an epoch on a CPU; resume it on a CPU")
    with checkpoint.using(run.key):
        parts: dict[str, Weights] = {part: {} for part in ("now", "first", "second", "average", "best", "within")}
        for name, value in arrays.items():
            part, _, key = name.partition("/")
            parts[part][key] = torch.as_tensor(value)
        shapes = shapes_of(stack.plan.shape, len(stack.vocabulary))
        kept = [*["average"] * bool(stack.plan.average), *["best"] * bool(parts["best"])]
        for part in ("now", "first", "second", *kept):
            require_weights(parts[part], shapes)
        moments = parts["first"], parts["second"]
        stack.put(index, parts["now"], run.table.codes, moments, facts["step"], parts["average"] or None, run.others)
        if facts.get("batch"):
            stack.resume_within(index, parts["within"])
        outcome.weights = {name: value.to(stack.device) for name, value in parts["best"].items()}
        _fill(outcome, facts)
    return outcome


def _fill(outcome: Outcome, facts: dict[str, Any]) -> None:
    """Take over how far a run had come; a ValueError names the fact that cannot be."""
    for name in ("epoch", "best_epoch", "step"):
        if type(facts[name]) is not int or not 0 <= facts[name] < 1 << 31:
            raise ValueError(f"{name} is {facts[name]!r:.60}")
    for name in ("best", "seconds"):
        if type(facts[name]) not in (int, float) or not math.isfinite(facts[name]):
            raise ValueError(f"{name} is {facts[name]!r:.60}")
    if type(facts["log"]) is not list or not all(isinstance(entry, dict) for entry in facts["log"]):
        raise ValueError("log is not a list of entries")
    if facts["epoch"] and not outcome.weights:
        raise ValueError("the weights of the best epoch are missing")
    for name in FIELDS:
        setattr(outcome, name, facts[name])


def batch_of(checkpoint: Checkpoint | None, run: TrainingRun, batches: int) -> int:
    """The batch of its epoch, which has so many, at which a saved run goes on; 0 for the start of one."""
    facts = checkpoint.facts(run.key) if checkpoint is not None else None
    batch = (facts or {}).get("batch", 0)
    if type(batch) is not int or not 0 <= batch <= batches:
        raise StoreError(f"the checkpoint of {run.key} goes on at batch {str(batch)[:60]!r}; start again without it")
    return batch


def save_run(checkpoint: Checkpoint, stack: Stack, index: int, outcome: Outcome, batch: int = 0) -> None:
    """Weights, moments and step of a run, the weights of its best epoch, and its log.

    batch: of the epoch that it is in, where that has begun.
    """
    first, second = stack.moments_of(index)
    parts = {"now": stack.weights_of(index), "first": first, "second": second, "best": outcome.weights}
    parts |= {"average": stack.averages_of(index)} if stack.plan.average else {}
    parts |= {"within": stack.within_epoch(index)} if batch else {}
    arrays = {f"{part}/{name}": value.cpu().numpy() for part, named in parts.items() for name, value in named.items()}
    facts = {name: getattr(outcome, name) for name in FIELDS}
    checkpoint.save(outcome.run.key, arrays, facts | {"step": int(stack.step[index]), "batch": batch})
