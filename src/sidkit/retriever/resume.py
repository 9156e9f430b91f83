"""The state of a run in a checkpoint: what is saved between and within epochs, and how a run starts from it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace

import numpy as np
import torch

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


def identity(table: SidTable, sequences: Sequences, plan: Plan) -> str:
    """What must be unchanged for a training to resume: SIDs, sequences, and the plan but for its number of epochs."""
    digest = hashlib.sha256(repr((table.sizes, sorted(asdict(replace(plan, epochs=1)).items()))).encode())
    for array in (table.codes, sequences.rows, sequences.starts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def start_run(stack: Stack, index: int, run: TrainingRun, checkpoint: Checkpoint | None) -> Outcome:
    """Put a run into the stack at an index: as the checkpoint holds it, or with fresh weights."""
    outcome = Outcome(run)
    state = checkpoint.load(run.key) if checkpoint is not None else None
    if state is None or checkpoint is None:
        stack.put(index, new_weights(stack.plan.shape, len(stack.vocabulary), run.seed), run.table.codes)
        return outcome
    arrays, facts = state
    if facts.get("batch") and not stack.stops_anywhere:
        raise StoreError(f"{checkpoint.folder} was saved within an epoch on a CPU; resume it on a CPU")
    with checkpoint.using(run.key):
        parts: dict[str, Weights] = {part: {} for part in ("now", "first", "second", "best", "within")}
        for name, value in arrays.items():
            part, _, key = name.partition("/")
            parts[part][key] = torch.as_tensor(value)
        shapes = shapes_of(stack.plan.shape, len(stack.vocabulary))
        for part in ("now", "first", "second"):
            require_weights(parts[part], shapes)
        stack.put(index, parts["now"], run.table.codes, (parts["first"], parts["second"]), facts["step"])
        if facts.get("batch"):
            stack.resume_within(index, parts["within"])
        outcome.weights = {name: value.to(stack.device) for name, value in parts["best"].items()}
        for name in FIELDS:
            setattr(outcome, name, facts[name])
    return outcome


def batch_of(checkpoint: Checkpoint | None, run: TrainingRun) -> int:
    """The batch of its epoch at which a saved run goes on; 0 for the start of one."""
    facts = checkpoint.facts(run.key) if checkpoint is not None else None
    return int((facts or {}).get("batch", 0))


def save_run(checkpoint: Checkpoint, stack: Stack, index: int, outcome: Outcome, batch: int = 0) -> None:
    """Weights, moments and step of a run, the weights of its best epoch, and its log.

    batch: of the epoch that it is in, where that has begun.
    """
    first, second = stack.moments_of(index)
    parts = {"now": stack.weights_of(index), "first": first, "second": second, "best": outcome.weights}
    parts |= {"within": stack.within_epoch(index)} if batch else {}
    arrays = {f"{part}/{name}": value.cpu().numpy() for part, named in parts.items() for name, value in named.items()}
    facts = {name: getattr(outcome, name) for name in FIELDS}
    checkpoint.save(outcome.run.key, arrays, facts | {"step": int(stack.step[index]), "batch": batch})
