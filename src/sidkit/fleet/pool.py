"""Tasks handed out to workers. Those of a lost worker are done again by the one that replaces it, or by others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ..errors import SidkitError, StoreError
from ..progress import Progress
from .session import Session
from .slots import ATTEMPTS, PATIENCE, TaskState, WorkerSlot, WorkerSlots, last_line
from .task import LostResult, Task, WorkerInput

__all__ = ["PATIENCE", "WorkerPool"]

POLL = 0.5  # seconds between questions how far tasks are

T = TypeVar("T")


class WorkerPool:
    """Workers of a Ray cluster, each with this number of CPUs and GPUs."""

    def __init__(
        self, session: Session, given: WorkerInput, workers: int, cpus: int, gpus: int, patience: float = PATIENCE
    ) -> None:
        self.session, self.ray = session, session.ray
        self.cpus = cpus
        self.slots = WorkerSlots(session, given, workers, cpus, gpus, patience)
        self.closed = False

    def stop_workers(self) -> None:
        self.closed = True
        if self.ray.is_initialized():
            self.slots.stop()

    def close(self) -> None:
        """Stop the workers, and Ray too if we started it."""
        self.stop_workers()
        self.session.close()

    def run(self, tasks: Sequence[Task], shared: Any, progress: Progress) -> list[Any]:
        """References to the results of tasks, in their order. An error in a task stops all of them."""
        if self.closed:
            raise StoreError("the Ray workers that held these rows were stopped; call on_ray again")
        states, given = [TaskState(task) for task in tasks], self.ray.put(shared)
        try:
            while not all(state.done for state in states):
                self._hand_out(states, given)
                self._report_workers(states, progress)
                for slot in self._ended():
                    self._settle(slot, progress)
                self._report_rows(progress)
        finally:
            for slot in self.slots:
                if slot.state is not None:  # the run was stopped: a task cannot be cancelled, its worker can
                    self.slots.replace(slot)
        return [state.value for state in states]

    def get(self, references: Any) -> Any:
        """The values of references; `LostResult` if they were lost with a machine."""
        try:
            return self.ray.get(references)
        except self.ray.exceptions.RayError as error:
            self.slots.replace_silent()
            raise LostResult(f"the cluster lost results of workers: {last_line(error)}") from None

    def retry(self, attempt: Callable[[], T]) -> T:
        """The result of an attempt, which is made again where a machine was lost with results."""
        for _ in range(ATTEMPTS - 1):
            with suppress(LostResult):
                return attempt()
        return attempt()

    def values(self, tasks: Sequence[Task], shared: Any, progress: Progress) -> list[Any]:
        """The results of tasks, brought here."""
        return self.retry(lambda: self.get(self.run(tasks, shared, progress)))

    def add(self, a: Any, b: Any) -> Any:
        """A reference to the sum of two referenced sums, added by a worker."""
        slots = self.slots.ready or list(self.slots)
        return slots[hash(a) % len(slots)].actor.add.remote(a, b)

    def _hand_out(self, states: Sequence[TaskState], given: Any) -> None:
        self.slots.welcome()
        idle = [slot for slot in self.slots.ready if slot.state is None]
        running = {slot.state for slot in self.slots}
        waiting = [state for state in states if not state.done and state not in running]
        for state in sorted(waiting, key=lambda state: state.lost):  # those that cost workers come last
            slot = self._choose(state.task, idle) if idle else None
            if slot is not None:
                idle.remove(slot)
                slot.state = state
                state.value, state.ended = slot.actor.work.options(num_returns=2).remote(state.task, given)

    def _choose(self, task: Task, idle: list[WorkerSlot]) -> WorkerSlot | None:
        """The task's home; any idle worker if it has none, or if its home takes too long to start."""
        if task.home is not None:
            home = self.slots[task.home]
            if home.process is not None or time.monotonic() - home.since < self.slots.patience:
                return home if home in idle else None
        return idle[0]

    def _ended(self) -> list[WorkerSlot]:
        """Wait for an event; those whose task has ended, well or not."""
        running = {slot.state.ended: slot for slot in self.slots if slot.state is not None}
        starting = [slot.starting for slot in self.slots if slot.process is None]
        self.ray.wait([*running, *starting], num_returns=1, timeout=POLL)
        ended, _ = self.ray.wait(list(running), num_returns=len(running), timeout=0) if running else ([], [])
        return [running[reference] for reference in ended]

    def _settle(self, slot: WorkerSlot, progress: Progress) -> None:
        """A task that has ended is done, or must be done again, or stops the run."""
        state = slot.state
        if state is None:
            return
        try:
            self.ray.get(state.ended)
        except self.ray.exceptions.RayTaskError as error:
            slot.state = None
            raise self._cause(error, state.task) from None
        except self.ray.exceptions.RayError as error:
            self.slots.replace(slot)
            state.lost += 1
            if state.lost == ATTEMPTS:
                name = state.task.label or state.task.verb
                raise StoreError(f"{name}: {ATTEMPTS} workers in a row died of it; {last_line(error)}") from error
            return
        slot.state, state.done = None, True
        progress.advance(state.task.rows - state.counted)

    def _cause(self, error: Any, task: Task) -> SidkitError:
        """An error in a worker, as if it had been raised here."""
        if isinstance(error.cause, SidkitError):
            return error.cause
        if isinstance(error.cause, self.ray.exceptions.RayError):
            return LostResult(f"the cluster lost results of workers: {last_line(error.cause)}")
        return StoreError(f"{task.label or task.verb} failed in a worker: {last_line(error)}")

    def _report_rows(self, progress: Progress) -> None:
        """Count the rows that running tasks have done, by answers that came since the last call."""
        for slot in self.slots:
            state = slot.state
            if state is None or not state.task.rows:
                continue
            if slot.answer is None:
                slot.answer = self.slots.ask_done(slot)
            elif self.ray.wait([slot.answer], timeout=0)[0]:
                rows = min(self._rows_done(slot), state.task.rows)
                if rows > state.counted:
                    progress.advance(rows - state.counted)
                    state.counted = rows

    def _rows_done(self, slot: WorkerSlot) -> int:
        answer, slot.answer = slot.answer, None
        try:
            return int(self.ray.get(answer))
        except self.ray.exceptions.RayError:
            return 0

    def _report_workers(self, states: Sequence[TaskState], progress: Progress) -> None:
        retries = f", {self.slots.retries} retries" if self.slots.retries else ""
        done, workers = sum(state.done for state in states), len(self.slots.ready)
        progress.workers(f"{done}/{len(states)} shards, {workers} workers{retries}")
