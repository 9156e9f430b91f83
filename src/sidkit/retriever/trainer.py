"""Training as a call: one retriever, or one for each of several seeds, from a table of SIDs to a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..data.sequences import Sequences
from ..engine.device import find_device
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..files.unfinished import Unfinished
from ..progress import Progress
from ..sids.table import SidTable
from .log import Log
from .memory import runs_at_once
from .metrics import Tally
from .plan import Plan
from .resume import identity
from .retriever import Retriever
from .runs import CHOSEN_BY, Outcome, TrainingRun
from .seeds import SEEDS, SeedSummary, check_seeds_folder, seed_folder
from .store import RETRIEVER, save
from .training import train_stack

__all__ = ["facts_of", "train", "train_seeds"]


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

    A training that is stopped leaves its state in FOLDER.unfinished; resume continues from there and ends with the same
    bits on a CPU.
    """
    plan, folder, where = plan or Plan(), Path(folder), torch.device(find_device(device))
    RETRIEVER.check_target(folder)
    run = TrainingRun(folder.name, table, plan.seed)
    with Unfinished(folder, resume) as unfinished:
        checkpoint = Checkpoint(unfinished, identity(table, sequences, plan))
        with Log(folder) as log:
            (outcome,) = train_stack([run], sequences, plan, where, 1, progress, checkpoint, log)
        retriever = _retriever(outcome, plan, where)
        save(retriever, folder)
    return retriever


def train_seeds(
    table: SidTable,
    sequences: Sequences,
    folder: str | Path,
    seeds: Sequence[int],
    plan: Plan | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    resume: bool = False,
    at_once: int | None = None,
) -> SeedSummary:
    """Train a retriever for each seed, `at_once` of them in one stack, and write FOLDER/seed-0 ... and their summary.

    A run learns what `train` with its seed alone learns; the plan's own seed is not used. A stopped training resumes as
    one of `train` does, each run from its own state.
    """
    plan, folder, where = plan or Plan(), Path(folder), torch.device(find_device(device))
    if not seeds or len(set(seeds)) < len(seeds):
        raise SpecError(f"seeds must be different, and at least one, not {list(seeds)}")
    plans = {seed: replace(plan, seed=seed) for seed in seeds}
    if at_once is not None and at_once < 1:
        raise SpecError(f"at_once must be at least 1, not {at_once}")
    check_seeds_folder(folder, seeds)
    at_once = runs_at_once(len(seeds), plan, table.sizes, sequences, where) if at_once is None else at_once
    if not resume:
        (folder / SEEDS).unlink(missing_ok=True)  # it would describe what is about to be replaced
    runs = [TrainingRun(f"seed-{seed}", table, seed, key=f"seed-{seed}") for seed in seeds]
    facts: dict[int, dict[str, Any]] = {}
    with Unfinished(folder, resume) as unfinished, ExitStack() as closing:
        checkpoint = Checkpoint(unfinished, identity(table, sequences, replace(plan, seed=0)))
        logs = {seed: closing.enter_context(Log(seed_folder(folder, seed))) for seed in seeds}

        def report(outcome: Outcome) -> None:
            logs[outcome.run.seed](outcome)

        try:
            for outcome in train_stack(runs, sequences, plan, where, at_once, progress, checkpoint, report):
                retriever = _retriever(outcome, plans[outcome.run.seed], where)
                save(retriever, seed_folder(folder, outcome.run.seed))
                facts[outcome.run.seed] = retriever.facts
        except torch.cuda.OutOfMemoryError as error:
            raise InputError(f"the GPU's memory does not hold {at_once} runs at once; resume with fewer") from error
        summary = SeedSummary({seed: facts[seed] for seed in seeds}, at_once)
        summary.save(folder)
    return summary


def _retriever(outcome: Outcome, plan: Plan, device: Any) -> Retriever:
    return Retriever(outcome.run.table, plan, outcome.weights, facts_of(outcome, plan, device), device)


def facts_of(outcome: Outcome, plan: Plan, device: Any) -> dict[str, Any]:
    """The content of retriever.json, for a run that has stopped."""
    test = outcome.test or Tally()
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else f"CPU, {os.cpu_count()} cores"
    return {
        "plan": asdict(replace(plan, seed=outcome.run.seed)),
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
