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
from numpy.typing import NDArray

from .. import __version__
from ..data.ids import match
from ..data.sequences import Sequences
from ..engine.device import find_device
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..files.unfinished import Unfinished
from ..progress import Progress
from ..sids.table import SidTable
from .fused import add_fused, fitted, fused_ranks
from .log import Log
from .memory import runs_at_once
from .metrics import Tally
from .plan import Plan
from .resume import identity
from .retriever import Retriever
from .runs import CHOSEN_BY, Outcome, TrainingRun
from .seeds import SeedSummary, check_seeds_folder, seed_folder
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
    others: Sequence[SidTable] = (),
) -> Retriever:
    """Train a retriever on a table of SIDs and sequences of its items, and write it as a folder.

    others are tables with other SIDs of the same items, which histories may be read by (`Plan.swap`). A training
    that is stopped leaves its state in FOLDER.unfinished; resume continues from there and ends with the same bits on a
    CPU.
    """
    plan, folder, where = plan or Plan(), Path(folder), torch.device(find_device(device))
    RETRIEVER.check_target(folder)
    codes = _codes_of(others, table)
    run = TrainingRun(folder.name, table, plan.seed, others=codes)
    with Unfinished(folder, resume) as unfinished:
        checkpoint = Checkpoint(unfinished, identity(table, sequences, plan, codes))
        with Log(folder) as log:
            (outcome,) = train_stack([run], sequences, plan, where, 1, progress, checkpoint, log)
        retriever = _retriever(outcome, sequences, plan, where, progress)
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
    others: Sequence[SidTable] = (),
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
    codes = _codes_of(others, table)
    runs = [TrainingRun(f"seed-{seed}", table, seed, f"seed-{seed}", codes) for seed in seeds]
    facts: dict[int, dict[str, Any]] = {}
    with Unfinished(folder, resume) as unfinished, ExitStack() as closing:
        checkpoint = Checkpoint(unfinished, identity(table, sequences, replace(plan, seed=0), codes))
        logs = {seed: closing.enter_context(Log(seed_folder(folder, seed))) for seed in seeds}

        def report(outcome: Outcome) -> None:
            logs[outcome.run.seed](outcome)

        try:
            for outcome in train_stack(runs, sequences, plan, where, at_once, progress, checkpoint, report):
                retriever = _retriever(outcome, sequences, plans[outcome.run.seed], where, None)
                save(retriever, seed_folder(folder, outcome.run.seed))
                facts[outcome.run.seed] = retriever.facts
        except torch.cuda.OutOfMemoryError as error:
            raise InputError(f"the GPU's memory does not hold {at_once} runs at once; resume with fewer") from error
        summary = SeedSummary({seed: facts[seed] for seed in seeds}, at_once)
        summary.save(folder)
    return summary


def _codes_of(others: Sequence[SidTable], table: SidTable) -> tuple[NDArray[Any], ...]:
    """The codes of other tables, (items, levels) each, in the order of the table's items."""
    codes = []
    for other in others:
        if other.sizes != table.sizes:
            raise InputError(f"other SIDs of the items need the same sizes, {table.sizes}, not {other.sizes}")
        rows = match(table.ids, other.ids)
        if missing := int((rows < 0).sum()):
            raise InputError(f"{missing:,} of {len(table):,} items have no SID in another table; encode all of them")
        codes.append(other.codes[rows])
    return tuple(codes)


def _retriever(outcome: Outcome, sequences: Sequences, plan: Plan, device: Any, progress: Progress | None) -> Retriever:
    """The retriever of a run that has stopped; where the plan says so, fused with counts."""
    retriever = Retriever(outcome.run.table, plan, outcome.weights, facts_of(outcome, plan, device), device)
    if plan.fusion and plan.constrained:
        retriever.fusion = fitted(retriever, sequences, progress)
        weights, test = retriever.fusion.weights, outcome.test or Tally()
        if weights.is_on:
            ranks = fused_ranks(retriever, retriever.fusion, sequences, "test")
            add_fused(test, ranks, sequences, "test", len(retriever.table))
        retriever.facts |= {"test": test.means(), "seen": test.seen}
        retriever.facts["fusion"] = {"weights": weights.plain(), "validation": retriever.fusion.facts}
    return retriever


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
        "seen": test.seen,
        "users": test.count,
        "seconds": round(outcome.seconds, 2),
        "versions": {
            "sidkit": __version__,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "device": name,
        },
    }
