"""The training loop: epochs over a stack of runs, each kept at its best epoch, stopped and replaced on its own."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch

from ..data.sequences import Sequences
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..progress import Progress, Silent
from ..sids.table import SidTable
from .data import Split, Vocabulary, examples, require_known
from .evaluation import Evaluator, Panel
from .metrics import Tally
from .model import Weights, new_weights, one_run
from .network import in_dtype
from .plan import Plan
from .stack import Stack, dtype_of

__all__ = ["Job", "Outcome", "identity", "train_stack"]

CHOSEN_BY = "item_ndcg@20"


@dataclass(frozen=True, eq=False)
class Job:
    """One run: a table of SIDs and a seed. The seed decides first weights and the order of examples."""

    name: str
    table: SidTable
    seed: int


@dataclass(eq=False)
class Outcome:
    """A run as it goes, and when it is done its test figures."""

    job: Job
    epoch: int = 0  # epochs done
    best: float = -1.0
    best_epoch: int = 0
    weights: Weights = field(default_factory=dict)  # of the best epoch, float32
    log: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    test: Tally | None = None
    finished: bool = False  # stopped by itself, not by a deadline

    def consider(self, value: float, weights: Callable[[], Weights]) -> None:
        if value > self.best:
            self.best, self.best_epoch, self.weights = value, self.epoch, weights()

    def is_over(self, plan: Plan) -> bool:
        return self.epoch >= plan.epochs or self.epoch - self.best_epoch >= plan.patience


def train_stack(
    jobs: Sequence[Job],
    sequences: Sequences,
    plan: Plan,
    device: Any,
    at_once: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    told: Callable[[Outcome], None] = lambda outcome: None,
    deadline: float | None = None,
) -> Iterator[Outcome]:
    """Train jobs whose SIDs have the same sizes, `at_once` of them side by side; yields each when it has stopped.

    told is called after every epoch of every run. Past the deadline (time.monotonic) what runs is yielded as it is, not
    `finished`; no job is started that would meet it, going by those that stopped. A checkpoint serves a single job.
    """
    sizes = _check(jobs, sequences, plan)
    progress, waiting = progress or Silent(), list(jobs)
    stack = Stack(sequences, Vocabulary(sizes), plan, min(at_once, len(jobs)), device)
    n, running = len(stack.examples), dict[int, Outcome]()
    judges: dict[int, Evaluator] = {}
    panel: Panel | None = None
    progress.start("train", n * plan.epochs * len(jobs))
    late, lengths, pace = False, list[int](), 0.0  # epochs of the runs that stopped, and seconds of the last one
    while True:
        if lengths and deadline is not None and time.monotonic() + fmean(lengths) * pace > deadline:
            waiting.clear()
        for run in range(stack.runs):
            if waiting and run not in running and not late:
                running[run] = _start(stack, run, waiting.pop(0), plan, checkpoint)
                judges[run] = Evaluator(running[run].job.table, sequences, "valid", plan.history, device)
                progress.advance(running[run].epoch * n)
        over = [run for run, outcome in running.items() if outcome.is_over(plan) or late]
        for run in over:
            outcome = running.pop(run)
            outcome.finished = outcome.is_over(plan)
            lengths.append(outcome.epoch)
            outcome.test = _test(outcome, sequences, plan, device)
            progress.advance((plan.epochs - outcome.epoch) * n)
            yield outcome
        if over and waiting and not late:
            continue  # others take their places
        if not running:
            return
        if stack.too_large(len(running)):
            stack = _smaller(stack, running)
            judges = dict(enumerate(judges[run] for run in running))
            running = dict(enumerate(running.values()))
        began = time.monotonic()
        lead = next(iter(running.values()))  # an empty place repeats it
        state = [running.get(run, lead) for run in range(stack.runs)]
        for steps in stack.epoch([one.job.seed for one in state], [one.epoch for one in state]):
            progress.advance(steps * stack.layout.slots * len(running))
        losses, speed = stack.losses(), n * len(running) / (time.monotonic() - began)
        weights = {name: value.detach()[list(running)] for name, value in stack.copies.items()}
        together = [judges[run] for run in running]
        panel = panel if panel is not None and panel.judges == together else Panel(together)
        tallies = panel(weights, plan.shape, plan.beams, plan.constrained)
        for (run, outcome), tally in zip(running.items(), tallies, strict=True):
            outcome.epoch += 1
            if not math.isfinite(losses[run]):
                raise SpecError(f"the loss became {losses[run]} in epoch {outcome.epoch}; lower learning_rate")
            figures = tally.means()
            outcome.consider(figures[CHOSEN_BY], partial(stack.kept, run))
            outcome.log.append({"epoch": outcome.epoch, "loss": losses[run], "samples_per_s": speed} | figures)
            progress.note(_words(outcome))
        for run, outcome in running.items():
            outcome.seconds += (time.monotonic() - began) / len(running)
            told(outcome)
            if checkpoint is not None and (outcome.is_over(plan) or checkpoint.due()):
                _save(checkpoint, stack, run, outcome)
        pace, late = time.monotonic() - began, deadline is not None and time.monotonic() > deadline


def _check(jobs: Sequence[Job], sequences: Sequences, plan: Plan) -> tuple[int, ...]:
    sizes = {job.table.sizes for job in jobs}
    if len(sizes) != 1:
        raise InputError(f"jobs trained side by side need SIDs of the same sizes, not {sorted(sizes)}")
    require_known(sequences)
    splits: tuple[tuple[Split, int], ...] = (("train", 4), ("valid", 3))
    for split, least in splits:
        if not len(examples(sequences, split, plan.history)):
            raise InputError(f"no sequence has the {least} items that the {split} split needs")
    return next(iter(sizes))


def _smaller(stack: Stack, running: dict[int, Outcome]) -> Stack:
    """A stack of the running runs alone, in their order."""
    small = Stack(stack.sequences, stack.vocabulary, stack.plan, len(running), stack.device)
    for place, (run, outcome) in enumerate(running.items()):
        first, second = (one_run(part, run) for part in stack.moments)
        small.place(place, stack.kept(run), outcome.job.table.codes, (first, second), int(stack.step[run]))
    return small


def _start(stack: Stack, run: int, job: Job, plan: Plan, checkpoint: Checkpoint | None) -> Outcome:
    outcome = Outcome(job)
    found = checkpoint.load("train") if checkpoint is not None else None
    if found is None:
        stack.place(run, new_weights(plan.shape, len(stack.vocabulary), job.seed), job.table.codes)
        return outcome
    arrays, facts = found
    parts: dict[str, Weights] = {part: {} for part in ("now", "first", "second", "best")}
    for name, value in arrays.items():
        part, _, key = name.partition("/")
        parts[part][key] = torch.as_tensor(value)
    stack.place(run, parts["now"], job.table.codes, (parts["first"], parts["second"]), facts["step"])
    outcome.weights = {name: value.to(stack.device) for name, value in parts["best"].items()}
    for name in ("epoch", "best", "best_epoch", "log", "seconds"):
        setattr(outcome, name, facts[name])
    return outcome


def _save(checkpoint: Checkpoint, stack: Stack, run: int, outcome: Outcome) -> None:
    first, second = (one_run(part, run) for part in stack.moments)
    parts = {"now": stack.kept(run), "first": first, "second": second, "best": outcome.weights}
    arrays = {f"{part}/{name}": value.cpu().numpy() for part, held in parts.items() for name, value in held.items()}
    facts = {name: getattr(outcome, name) for name in ("epoch", "best", "best_epoch", "log", "seconds")}
    checkpoint.save("train", arrays, facts | {"step": int(stack.step[run])})


def _test(outcome: Outcome, sequences: Sequences, plan: Plan, device: Any) -> Tally:
    """The test figures of the best epoch's weights."""
    judge = Evaluator(outcome.job.table, sequences, "test", plan.history, device)
    weights = in_dtype(outcome.weights, dtype_of(plan.precision, device))
    return judge(weights, plan.shape, plan.beams, plan.constrained)


def _words(outcome: Outcome) -> str:
    """Two short lines, so that a bar of 80 columns still has room for the speed and the time left."""
    last = outcome.log[-1]
    return (
        f"epoch {outcome.epoch}, loss {last['loss']:.4f},\n"
        f"NDCG@20 {last[CHOSEN_BY]:.4f}, best {outcome.best:.4f} at {outcome.best_epoch}"
    )


def identity(table: SidTable, sequences: Sequences, plan: Plan) -> str:
    """Which training this is; the number of epochs may be raised in between."""
    digest = hashlib.sha256(repr((table.sizes, sorted(asdict(replace(plan, epochs=1)).items()))).encode())
    for array in (table.codes, sequences.rows, sequences.starts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
