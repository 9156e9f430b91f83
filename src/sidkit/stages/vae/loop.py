"""The training loop, for any network with weights, a loss and codes, and any number of runs. Imported by fits only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.device import find_device
from ...errors import SpecError
from ...rows.seam import Rows
from ...rows.together import WorksTogether
from ..stage import FitContext
from .collisions import collision_rates
from .divided import epoch_together
from .feed import BatchFeed, ResidentFeed, StreamedFeed, all_rows, fits
from .initial_codebooks import start_codebooks
from .network import Network
from .settings import Training
from .stack import RunStack
from .training_state import TrainingState

__all__ = ["train"]


def train(
    build: Callable[[Any], Network], plan: Training, rows: Rows, runs: Sequence[FitContext], label: str
) -> list[dict[str, NDArray[Any]]]:
    """Per run, the weights of its best epoch, as arrays.

    The runs have the same rows and differ in their seeds, on which alone their results depend. A seed is set before the
    network is built, and no global state. build: makes a network from a generator.
    """
    run, n = runs[0], rows.shape[0]
    stacks = _stacks(build, plan, rows, runs)
    state = TrainingState(stacks)
    checkpoint, key = run.checkpoint, f"level-{rows.width + 1}"
    counted = [epoch for epoch in range(plan.epochs) if _is_counted(epoch, plan)]
    run.progress.start(label, len(runs) * n * (plan.epochs + len(counted)))
    if checkpoint is not None and state.load(checkpoint, key):
        run.progress.note(f"resumed after epoch {state.epoch}")
        run.progress.advance(len(runs) * n * (state.epoch + sum(epoch < state.epoch for epoch in counted)))
    else:
        networks = [stack.network_of(index) for stack in stacks for index in range(stack.runs)]
        for network, one in zip(networks, runs, strict=True):
            start_codebooks(network, plan, rows, one)

    while state.epoch < plan.epochs:
        note = _epoch(stacks, state.epoch, plan, rows, runs)
        if _is_counted(state.epoch, plan):
            rates = collision_rates(stacks, rows, run.progress)
            state.consider(rates, plan.keep)
            note += f", collisions {fmean(rates):.2%}"
        state.epoch += 1
        run.progress.note(f"{_of(runs)}epoch {state.epoch}, {note}")
        if checkpoint is not None and (checkpoint.due() or state.epoch == plan.epochs):
            state.save(checkpoint, key)
    return state.results()


def _stacks(build: Callable[[Any], Network], plan: Training, rows: Rows, runs: Sequence[FitContext]) -> list[RunStack]:
    """One stack of all runs on a GPU; one for each run on a CPU. A GPU is taken wherever the rows are.

    Where others take the steps, a stack is what they are given and what comes back.
    """
    device = torch.device("cpu" if _is_divided(rows) else find_device(runs[0].device))
    seeds = [run.seed_of(rows.width) for run in runs]
    networks = [build(_generator(seed)) for seed in seeds]
    steps = -(-rows.shape[0] // plan.batch)
    x = all_rows(rows, device) if fits(rows, device) and not _is_divided(rows) else None
    together = len(runs) if device.type == "cuda" else 1
    stacks = []
    for first in range(0, len(runs), together):
        part = slice(first, first + together)
        feed: BatchFeed | None
        if _is_divided(rows):
            feed = None
        elif x is None:
            feed = StreamedFeed(rows, plan.batch, seeds[part], device)
        else:
            feed = ResidentFeed(x, plan.batch, seeds[part])
        stacks.append(RunStack(networks[part], plan, feed, steps, device))
    return stacks


def _epoch(stacks: Sequence[RunStack], epoch: int, plan: Training, rows: Rows, runs: Sequence[FitContext]) -> str:
    """One pass over all rows for every run; a note for the progress bar."""
    n, first = rows.shape[0], 0
    terms: dict[str, list[float]] = {}
    shares: list[list[float]] = []
    for stack in stacks:
        seeds = [run.seed_of(rows.width) for run in runs[first : first + stack.runs]]
        if _is_divided(rows):
            epoch_together(stack, epoch, rows, seeds[0])
        else:
            for size in stack.epoch(epoch):
                runs[0].progress.advance(size * stack.runs)
            if plan.reset_dead:
                stack.move_dead([(*seed, epoch, 1) for seed in seeds])
        means, used = stack.report(n)
        for name, values in means.items():
            terms.setdefault(name, []).extend(values)
        shares = [[*a, *b] for a, b in zip(shares or [[]] * len(used), used, strict=True)]
        first += stack.runs
    for run, loss in zip(runs, terms["loss"], strict=True):
        if not np.isfinite(loss):
            which = f" of seed {run.seed}" if len(runs) > 1 else ""
            raise SpecError(f"the loss{which} became {loss} in epoch {epoch + 1}; lower learning_rate")
    means_of = ", ".join(f"{name} {fmean(values):.5f}" for name, values in terms.items())
    return f"{means_of}, codes used {' '.join(f'{fmean(share):.0%}' for share in shares)}"


def _is_divided(rows: Rows) -> bool:
    """Whether the processes that hold the rows take the steps."""
    return isinstance(rows, WorksTogether) and rows.divides_batches


def _of(runs: Sequence[FitContext]) -> str:
    return f"{len(runs)} runs, " if len(runs) > 1 else ""


def _generator(seed: tuple[int, ...]) -> Any:
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))


def _is_counted(epoch: int, plan: Training) -> bool:
    return (epoch + 1) % plan.evaluate_every == 0 or epoch + 1 == plan.epochs
