"""The schedule of a training: epochs over a stack of runs. Each run starts, keeps its best epoch and stops
independently of the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from ..data.sequences import Sequences
from ..engine.device import product_dtype
from ..errors import InputError, SpecError
from ..files.checkpoint import Checkpoint
from ..progress import Progress, Silent
from .data import Split, Vocabulary, examples, require_known
from .evaluation import Evaluator, JointEvaluator
from .metrics import Tally
from .network import in_dtype
from .plan import Plan
from .resume import batch_of, save_run, start_run
from .runs import Outcome, TrainingRun, progress_note
from .stack import Stack

__all__ = ["train_stack"]


def train_stack(
    runs: Sequence[TrainingRun],
    sequences: Sequences,
    plan: Plan,
    device: Any,
    at_once: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
    deadline: float | None = None,
    tested: bool = True,
) -> Iterator[Outcome]:
    """Train runs whose SIDs have the same sizes, `at_once` of them in one stack; yields each when it has stopped.

    report is called after every epoch of every run. Past the deadline (time.monotonic) the runs in the stack are
    yielded as they are, not `finished`; a run is not started if it would meet the deadline, judged by the mean length
    of those that stopped. tested: whether runs that have stopped get figures of the test.
    """
    schedule = Schedule(
        runs, sequences, plan, device, at_once, progress or Silent(), checkpoint, report, deadline, tested
    )
    while schedule.admit():
        yield from schedule.retire()
        if schedule.is_ready():
            schedule.shrink()
            schedule.train_epoch()


class Schedule:
    """Which runs wait, which are in the stack, and what happens between two epochs."""

    def __init__(
        self,
        runs: Sequence[TrainingRun],
        sequences: Sequences,
        plan: Plan,
        device: Any,
        at_once: int,
        progress: Progress,
        checkpoint: Checkpoint | None,
        report: Callable[[Outcome], None],
        deadline: float | None,
        tested: bool,
    ) -> None:
        sizes = _check(runs, sequences, plan)
        self.sequences, self.plan, self.device = sequences, plan, device
        self.progress, self.checkpoint, self.report, self.deadline = progress, checkpoint, report, deadline
        self.tested = tested
        self.waiting = list(runs)
        self.running: dict[int, Outcome] = {}  # by index in the stack
        self.evaluators: dict[int, Evaluator] = {}
        self.together: JointEvaluator | None = None
        self.lengths: list[int] = []  # epochs of the runs that stopped
        self.pace = 0.0  # seconds of the last epoch
        self.late = False
        self.batch = 0  # of its epoch, at which the stack goes on
        self.counted = time.monotonic()  # until when the seconds of the runs are counted
        self.stack = Stack(sequences, Vocabulary(sizes), plan, min(at_once, len(runs)), device)
        self.examples = len(self.stack.examples)
        progress.start("train", self.examples * plan.epochs * len(runs))

    def admit(self) -> bool:
        """Start waiting runs at the free indices of the stack; False if nothing is left to train."""
        if self._would_be_late():
            self.waiting.clear()
        for index in range(self.stack.runs):
            run = None if index in self.running else self._next()
            if run is not None:
                self.waiting.remove(run)
                outcome = start_run(self.stack, index, run, self.checkpoint)
                self.running[index] = outcome
                self.evaluators[index] = self._evaluator(run, "valid")
                self.progress.advance(outcome.epoch * self.examples + min(self._trained(self.batch), self.examples))
        return bool(self.running)

    def _next(self) -> TrainingRun | None:
        """The first waiting run that is as far in its epoch as those in the stack are."""
        batches = self.stack.layout.batches
        if not self.running and self.waiting:
            self.batch = batch_of(self.checkpoint, self.waiting[0], batches) if self.stack.stops_anywhere else 0
            return self.waiting[0]
        return next((run for run in self.waiting if batch_of(self.checkpoint, run, batches) == self.batch), None)

    def _trained(self, batches: int) -> int:
        """Examples of so many batches, at most."""
        return batches * self.stack.layout.slots

    def retire(self) -> Iterator[Outcome]:
        """Take the runs that are over out of the stack, and test them."""
        for index in [index for index, outcome in self.running.items() if self.late or outcome.is_over(self.plan)]:
            outcome = self.running.pop(index)
            outcome.finished = outcome.is_over(self.plan)
            outcome.test = self._test(outcome) if self.tested else None
            self.lengths.append(outcome.epoch)
            self.progress.advance((self.plan.epochs - outcome.epoch) * self.examples)
            yield outcome

    def is_ready(self) -> bool:
        """Whether runs are in the stack, and none could be admitted beside them."""
        return bool(self.running) and not (len(self.running) < self.stack.runs and self._next() is not None)

    def shrink(self) -> None:
        """Move the runs that are left, in their order, to a stack of their number if that pays."""
        if self.batch or not self.stack.too_large(len(self.running)):
            return
        large, small = self.stack, self.stack.resized(len(self.running))
        for index, (old, outcome) in enumerate(self.running.items()):
            run, step = outcome.run, int(large.step[old])
            moments, averages = large.moments_of(old), large.averages_of(old)
            small.put(index, large.weights_of(old), run.table.codes, moments, step, averages, run.others)
        self.stack = small
        self.evaluators = dict(enumerate(self.evaluators[index] for index in self.running))
        self.running = dict(enumerate(self.running.values()))

    def train_epoch(self) -> None:
        """One epoch of every run in the stack: train, validate, record, save."""
        began, before = time.monotonic(), self._trained(self.batch)
        self.counted = began
        losses = self._train()
        speed = max(self.examples - before, 0) * len(self.running) / max(time.monotonic() - began, 1e-9)
        for (index, outcome), tally in zip(self.running.items(), self._validate(), strict=True):
            outcome.record(losses[index], speed, tally.means(), partial(self.stack.averages_of, index))
        self.progress.note(progress_note(list(self.running.values()), len(self.lengths)))
        self._save()
        self.pace = time.monotonic() - began
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.late = True
            self.waiting.clear()

    def _train(self) -> list[float]:
        """Every example once; the mean training loss by index in the stack."""
        lead = next(iter(self.running.values()))  # an index without a run repeats it
        state = [self.running.get(index, lead) for index in range(self.stack.runs)]
        seeds, epochs = [one.run.seed for one in state], [one.epoch for one in state]
        for steps in self.stack.epoch(seeds, epochs, first=self.batch):
            self.batch += steps
            self.progress.advance(self._trained(steps) * len(self.running))
            self._save_within(self.batch == self.stack.layout.batches)
        self.batch = 0
        losses = self.stack.losses()
        for index, outcome in self.running.items():
            if not math.isfinite(losses[index]):
                raise SpecError(f"the loss became {losses[index]} in epoch {outcome.epoch + 1}; lower learning_rate")
        return losses

    def _validate(self) -> list[Tally]:
        """The validation figures of all runs, in one sweep over the users."""
        evaluators = [self.evaluators[index] for index in self.running]
        if self.together is None or self.together.evaluators != evaluators:
            self.together = JointEvaluator(evaluators)
        weights = self.stack.judged(list(self.running))
        return self.together(weights, self.plan.shape, self.plan.beams, self.plan.constrained)

    def _save_within(self, validating: bool) -> None:
        """Save every run in the middle of an epoch if a save is due; before a validation, sooner."""
        if self.checkpoint is None or not self.stack.stops_anywhere:
            return
        due = self.checkpoint.due() or (validating and self.checkpoint.age() > self.checkpoint.every / 2)
        if due and all(map(math.isfinite, self.stack.losses())):
            self._count_seconds()
            for index, outcome in self.running.items():
                save_run(self.checkpoint, self.stack, index, outcome, self.batch)

    def _count_seconds(self) -> None:
        """Share the seconds since the last call among the runs."""
        now = time.monotonic()
        for outcome in self.running.values():
            outcome.seconds += (now - self.counted) / len(self.running)
        self.counted = now

    def _save(self) -> None:
        """Report every run, and save those that are over, or all if a save is due."""
        due = self.checkpoint is not None and self.checkpoint.due()
        self._count_seconds()
        for index, outcome in self.running.items():
            self.report(outcome)
            if self.checkpoint is not None and (due or outcome.is_over(self.plan)):
                save_run(self.checkpoint, self.stack, index, outcome)

    def _test(self, outcome: Outcome) -> Tally:
        """The test figures of the best epoch's weights."""
        weights = in_dtype(outcome.weights, product_dtype(self.plan.precision, self.device))
        evaluator = self._evaluator(outcome.run, "test")
        return evaluator(weights, self.plan.shape, self.plan.beams, self.plan.constrained)

    def _evaluator(self, run: TrainingRun, split: Split) -> Evaluator:
        most = self.plan.inference_batch
        return Evaluator(
            run.table, self.sequences, split, self.plan.history, self.device, users_at_once=most,
            by_seen=split == "test",
        )  # fmt: skip

    def _would_be_late(self) -> bool:
        """Whether a run that starts now would meet the deadline."""
        if self.deadline is None or not self.lengths:
            return False
        return time.monotonic() + fmean(self.lengths) * self.pace > self.deadline


def _check(runs: Sequence[TrainingRun], sequences: Sequences, plan: Plan) -> tuple[int, ...]:
    """The sizes that the SIDs of all runs have, if they and the sequences can be trained on."""
    sizes = {run.table.sizes for run in runs}
    if len(sizes) != 1:
        raise InputError(f"runs trained at once need SIDs of the same sizes, not {sorted(sizes)}")
    require_known(sequences)
    if plan.swap and not any(run.others for run in runs):
        raise SpecError(
            f"swap {plan.swap} needs other SIDs of the items, which no run has; give them, or set swap to 0"
        )
    splits: tuple[tuple[Split, int], ...] = (("train", 4), ("valid", 3))
    for split, least in splits:
        if not len(examples(sequences, split, plan.history)):
            raise InputError(f"no sequence has the {least} items that the {split} split needs")
    return next(iter(sizes))
