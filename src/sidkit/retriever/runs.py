"""A training run: what it is given, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from numpy.typing import NDArray

from ..sids.table import SidTable
from .metrics import Tally
from .model import Weights
from .plan import Plan

__all__ = ["CHOSEN_BY", "Outcome", "TrainingRun", "progress_note"]

CHOSEN_BY = "item_ndcg@20"  # the validation figure whose best epoch is kept


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A table of SIDs and a seed. The seed decides first weights, the order of examples and dropout.

    name   of the run, in logs
    key    under which a checkpoint holds its state
    others further codes of all items of the table, (items, levels) each, which histories may be read by
    """

    name: str
    table: SidTable
    seed: int
    key: str = "train"
    others: tuple[NDArray[Any], ...] = ()


@dataclass(eq=False)
class Outcome:
    """How far a run has come; once it has stopped, its test figures."""

    run: TrainingRun
    epoch: int = 0  # epochs trained
    best: float = -1.0
    best_epoch: int = 0
    weights: Weights = field(default_factory=dict)  # of the best epoch, float32
    log: list[dict[str, Any]] = field(default_factory=list)  # an entry per epoch
    seconds: float = 0.0
    test: Tally | None = None
    finished: bool = False  # stopped by early stopping or after the last epoch, not by a deadline

    def record(self, loss: float, speed: float, figures: dict[str, float], weights: Callable[[], Weights]) -> None:
        """One more epoch: its training loss, samples per second and validation figures."""
        self.epoch += 1
        self.consider(figures[CHOSEN_BY], weights)
        self.log.append({"epoch": self.epoch, "loss": loss, "samples_per_s": speed} | figures)

    def consider(self, value: float, weights: Callable[[], Weights]) -> None:
        """Keep the weights if value is the best so far."""
        if value > self.best:
            self.best, self.best_epoch, self.weights = value, self.epoch, weights()

    def is_over(self, plan: Plan) -> bool:
        return self.epoch >= plan.epochs or self.epoch - self.best_epoch >= plan.patience


def progress_note(running: Sequence[Outcome], stopped: int = 0) -> str:
    """How training goes, of several runs their means: short lines, so that a progress bar of 80 columns still has room
    for the speed and the time left."""
    loss, figure, best = (
        fmean(values)
        for values in zip(*((one.log[-1]["loss"], one.log[-1][CHOSEN_BY], one.best) for one in running), strict=True)
    )
    alone = len(running) == 1
    at = f" at {running[0].best_epoch}" if alone else ""
    runs = f"{len(running)} runs, {stopped} done,\n" if stopped or not alone else ""
    epoch = max(one.epoch for one in running)
    return f"{runs}epoch {epoch}, loss {loss:.4f},\nNDCG@20 {figure:.4f}, best {best:.4f}{at}"
