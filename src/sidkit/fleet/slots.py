"""The worker processes of a pool. A lost one is replaced in its slot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import StoreError
from .session import Session
from .task import Task, WorkerInput
from .worker import Worker

__all__ = ["ATTEMPTS", "PATIENCE", "TaskState", "WorkerSlot", "WorkerSlots", "last_line"]

PATIENCE = 30.0  # seconds a worker has to start before others do its tasks
GIVE_UP = 10  # the run ends after this many times the patience without a single worker
ATTEMPTS = 12  # workers that may die in a row, as they start or of one task, before the run ends


@dataclass(eq=False)
class TaskState:
    """A task, and how far it is."""

    task: Task
    value: Any = None  # reference to its result
    ended: Any = None  # reference to a small value that comes with the result
    counted: int = 0  # rows of it that the progress bar has counted
    lost: int = 0  # workers that died of it
    done: bool = False


@dataclass(eq=False)
class WorkerSlot:
    """A worker, or the one that is starting to replace it."""

    actor: Any
    starting: Any  # resolves to `Worker.hello` once the process runs
    since: float  # when it was started
    process: tuple[int, str] | None = None  # `Worker.hello`: ids of the process and its node; None until it runs
    state: TaskState | None = None  # of the task it does
    answer: Any = None  # reference to an answer of `Worker.done`


class WorkerSlots:
    """Slots for workers of a Ray cluster, each with this number of CPUs and GPUs."""

    def __init__(
        self, session: Session, given: WorkerInput, workers: int, cpus: int, gpus: int, patience: float
    ) -> None:
        self.ray = session.ray
        self.patience, self.cpus = patience, cpus
        self.work = 0.0  # what a worker must be prepared for (`native.prepare`), later ones included
        self.retries = 0
        self._deaths_at_start = 0  # in a row
        self._actor_class = self.ray.remote(
            num_cpus=cpus, num_gpus=gpus, max_restarts=0, concurrency_groups={"watch": 1}
        )(Worker)
        self._given = self.ray.put(given)
        self._slots = [self._start() for _ in range(workers)]
        self.welcome(wait=GIVE_UP * patience)

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[WorkerSlot]:
        return iter(self._slots)

    def __getitem__(self, index: int) -> WorkerSlot:
        return self._slots[index]

    def index(self, slot: WorkerSlot) -> int:
        return self._slots.index(slot)

    @property
    def ready(self) -> list[WorkerSlot]:
        """Those whose worker has started."""
        return [slot for slot in self._slots if slot.process is not None]

    def stop(self) -> None:
        for slot in self._slots:
            self.ray.kill(slot.actor)

    def replace(self, slot: WorkerSlot) -> None:
        """Stop the worker of a slot and start another one."""
        self.retries += 1
        self.ray.kill(slot.actor)
        slot.__dict__.update(self._start().__dict__)

    def replace_silent(self) -> None:
        """Replace every worker that does not answer."""
        for slot in self._slots:
            try:
                self.ray.get(self.ask_done(slot), timeout=self.patience)
            except self.ray.exceptions.RayError:
                self.replace(slot)

    def ask_done(self, slot: WorkerSlot) -> Any:
        """A reference to how many rows of its task a worker has done; answered while the task runs."""
        return slot.actor.done.options(concurrency_group="watch").remote()

    def welcome(self, wait: float = 0.0) -> None:
        """Take note of workers that have started, and replace those that died as they did."""
        starting = {slot.starting: slot for slot in self._slots if slot.process is None}
        if not starting:
            return
        ended, _ = self.ray.wait(list(starting), num_returns=1 if wait else len(starting), timeout=wait)
        for reference in ended:
            slot = starting[reference]
            try:
                slot.process = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                self._replace_stillborn(slot, error)
            else:
                self._deaths_at_start = 0
        longest = time.monotonic() - min(slot.since for slot in starting.values())
        if not self.ready and longest > GIVE_UP * self.patience:
            raise StoreError(
                f"the Ray cluster gave no worker with {self.cpus} CPUs within {longest:.0f} s; "
                "ask for fewer CPUs per worker, or look at `ray status`"
            )

    def gathered(self) -> list[WorkerSlot]:
        """Those whose worker runs, once all do or the others have had their time to start."""
        end = time.monotonic() + self.patience
        while len(self.ready) < len(self) and (not self.ready or time.monotonic() < end):
            self.welcome(wait=0.2)
        return self.ready

    def _start(self) -> WorkerSlot:
        actor = self._actor_class.remote(self._given, self.cpus)
        return WorkerSlot(actor, actor.hello.remote(self.work), time.monotonic())

    def _replace_stillborn(self, slot: WorkerSlot, error: Any) -> None:
        if "ImportError" in str(error) or "ModuleNotFoundError" in str(error):
            raise StoreError(f"the workers cannot import sidkit: {last_line(error)}") from None
        self._deaths_at_start += 1
        if self._deaths_at_start == ATTEMPTS:
            raise StoreError(f"workers die as they start: {last_line(error)}") from None
        self.replace(slot)


def last_line(error: Any) -> str:
    return str(str(error).strip().splitlines()[-1])
