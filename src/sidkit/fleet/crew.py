"""All workers: jobs are handed out, and those of a lost worker are done again by whoever takes its place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SidkitError, StoreError
from ..progress import Progress
from .session import Session
from .worker import Contents, Job, Worker

__all__ = ["ATTEMPTS", "PATIENCE", "Crew", "Lost"]

POLL = 0.5  # seconds between looks at how far jobs are
PATIENCE = 30.0  # seconds a worker has to come up before others do its jobs
GIVE_UP = 10  # times as long without a single worker, and the run ends
ATTEMPTS = 12  # workers that one job may lose in a row before it is to blame


class Lost(StoreError):
    """A result went down with the machine that held it."""


@dataclass(eq=False)
class Slot:
    """A worker, or the one that is on its way to replace it."""

    actor: Any
    coming: Any  # resolves to `Worker.hello` once the process is there
    since: float
    facts: tuple[int, str] | None = None  # of `Worker.hello`
    task: Task | None = None
    seen: Any = None  # an answer to `Worker.done` on its way


@dataclass(eq=False)
class Task:
    """A job on its way to being done."""

    job: Job
    value: Any = None  # refers to what it will give
    mark: Any = None  # and to a mark that it came, which is small
    told: int = 0  # rows that the progress bar has counted
    lost: int = 0  # workers that died of it
    done: bool = False


class Crew:
    """Workers of a Ray cluster, each with so many CPUs and GPUs."""

    def __init__(
        self, session: Session, contents: Contents, workers: int, cpus: int, gpus: int, patience: float = PATIENCE
    ) -> None:
        self.session, self.ray = session, session.ray
        self.patience, self.cpus = patience, cpus
        self.work = 0.0  # what workers must be ready for, those to come included
        self.retries = 0
        self.slots: list[Slot] = []
        self.closed = False
        self._stillborn = 0  # workers in a row that died before they were of use
        self._kind = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0, concurrency_groups={"watch": 1})(
            Worker
        )
        self._contents = self.ray.put(contents)
        self.slots += [self._hired() for _ in range(workers)]
        self._welcome(wait=GIVE_UP * patience)

    def dismiss(self) -> None:
        """Let the workers go."""
        self.closed = True
        if self.ray.is_initialized():
            for slot in self.slots:
                self.ray.kill(slot.actor)

    def close(self) -> None:
        """Let the workers go, and Ray too if it is ours."""
        self.dismiss()
        self.session.close()

    def run(self, jobs: Sequence[Job], shared: Any, progress: Progress) -> list[Any]:
        """References to what the jobs give, in their order. An error in a job stops all of them."""
        if self.closed:
            raise StoreError("the Ray workers that hold these rows were let go; call on_ray again")
        tasks, given = [Task(job) for job in jobs], self.ray.put(shared)
        try:
            while not all(task.done for task in tasks):
                self._hand_out(tasks, given)
                self._say(tasks, progress)
                for slot in self._finished():
                    self._settle(slot, progress)
                self._watch(progress)
        finally:
            for slot in self.slots:
                if slot.task is not None:  # stopped in the middle: a job cannot be called back, its worker can
                    self._replace(slot)
        return [task.value for task in tasks]

    def get(self, references: Any) -> Any:
        """The values behind references; `Lost` if a machine took them with it."""
        try:
            return self.ray.get(references)
        except self.ray.exceptions.RayError as error:
            self._mend()
            raise Lost(f"the cluster lost what workers had found: {_last_line(error)}") from None

    def add(self, a: Any, b: Any) -> Any:
        """A reference to the sum behind two others, added up by some worker."""
        there = [slot for slot in self.slots if slot.facts is not None] or self.slots
        return there[hash(a) % len(there)].actor.add.remote(a, b)

    def _hired(self) -> Slot:
        actor = self._kind.remote(self._contents, self.cpus)
        return Slot(actor, actor.hello.remote(self.work), time.monotonic())

    def _replace(self, slot: Slot) -> None:
        self.retries += 1
        self.ray.kill(slot.actor)
        slot.__dict__.update(self._hired().__dict__)

    def _mend(self) -> None:
        """Replace every worker that does not answer."""
        for slot in self.slots:
            try:
                self.ray.get(self._asked(slot), timeout=self.patience)
            except self.ray.exceptions.RayError:
                self._replace(slot)

    def _welcome(self, wait: float = 0.0) -> None:
        """Take note of workers that have come up, and replace those that died on the way."""
        waiting = {slot.coming: slot for slot in self.slots if slot.facts is None}
        if not waiting:
            return
        found, _ = self.ray.wait(list(waiting), num_returns=1 if wait else len(waiting), timeout=wait)
        for coming in found:
            slot = waiting[coming]
            try:
                slot.facts = self.ray.get(coming)
            except self.ray.exceptions.RayError as error:
                if "ImportError" in str(error) or "ModuleNotFoundError" in str(error):
                    raise StoreError(f"the workers cannot import sidkit: {_last_line(error)}") from None
                self._stillborn += 1
                if self._stillborn == ATTEMPTS:
                    raise StoreError(f"workers die as they start: {_last_line(error)}") from None
                self._replace(slot)
            else:
                self._stillborn = 0
        longest = time.monotonic() - min(slot.since for slot in waiting.values())
        if all(slot.facts is None for slot in self.slots) and longest > GIVE_UP * self.patience:
            raise StoreError(
                f"the Ray cluster gave no worker with {self.cpus} CPUs within {longest:.0f} s; "
                "ask for fewer CPUs a worker, or look at `ray status`"
            )

    def _hand_out(self, tasks: Sequence[Task], given: Any) -> None:
        self._welcome()
        idle = [slot for slot in self.slots if slot.task is None and slot.facts is not None]
        running = {slot.task for slot in self.slots}
        waiting = [task for task in tasks if not task.done and task not in running]
        for task in sorted(waiting, key=lambda task: task.lost):  # those that cost workers come last
            slot = self._taker(task.job, idle) if idle else None
            if slot is not None:
                idle.remove(slot)
                slot.task = task
                task.value, task.mark = slot.actor.work.options(num_returns=2).remote(task.job, given)

    def _taker(self, job: Job, idle: list[Slot]) -> Slot | None:
        """The job's home; anyone, for a job without one or if its home has been down for long."""
        if job.home is not None:
            home = self.slots[job.home]
            if home.facts is not None or time.monotonic() - home.since < self.patience:
                return home if home in idle else None
        return idle[0]

    def _finished(self) -> list[Slot]:
        """Those whose job has come to an end, good or bad."""
        running = {slot.task.mark: slot for slot in self.slots if slot.task is not None}
        coming = [slot.coming for slot in self.slots if slot.facts is None]
        self.ray.wait([*running, *coming], num_returns=1, timeout=POLL)
        found, _ = self.ray.wait(list(running), num_returns=len(running), timeout=0) if running else ([], [])
        return [running[mark] for mark in found]

    def _settle(self, slot: Slot, progress: Progress) -> None:
        """A job that has ended is done, or must be done again, or ends everything."""
        task = slot.task
        if task is None:
            return
        try:
            self.ray.get(task.mark)
        except self.ray.exceptions.RayTaskError as error:
            slot.task = None
            raise self._cause(error, task.job) from None
        except self.ray.exceptions.RayError as error:
            self._replace(slot)
            task.lost += 1
            if task.lost == ATTEMPTS:
                what = task.job.label or task.job.verb
                raise StoreError(f"{what}: {ATTEMPTS} workers in a row died of it; {_last_line(error)}") from error
            return
        slot.task, task.done = None, True
        progress.advance(task.job.rows - task.told)

    def _cause(self, error: Any, job: Job) -> SidkitError:
        """What went wrong in a worker, as if it had gone wrong here."""
        if isinstance(error.cause, SidkitError):
            return error.cause
        if isinstance(error.cause, self.ray.exceptions.RayError):
            return Lost(f"the cluster lost what workers had found: {_last_line(error.cause)}")
        return StoreError(f"{job.label or job.verb} failed in a worker: {_last_line(error)}")

    def _watch(self, progress: Progress) -> None:
        """Tell how far running jobs are, by answers that came since the last look."""
        for slot in self.slots:
            if slot.task is None or not slot.task.job.rows:
                continue
            if slot.seen is None:
                slot.seen = self._asked(slot)
            elif self.ray.wait([slot.seen], timeout=0)[0]:
                rows = self._answer(slot)
                if rows > slot.task.told:
                    progress.advance(rows - slot.task.told)
                    slot.task.told = rows

    def _asked(self, slot: Slot) -> Any:
        return slot.actor.done.options(concurrency_group="watch").remote()

    def _answer(self, slot: Slot) -> int:
        seen, slot.seen = slot.seen, None
        try:
            return min(int(self.ray.get(seen)), slot.task.job.rows if slot.task else 0)
        except self.ray.exceptions.RayError:
            return 0

    def _say(self, tasks: Sequence[Task], progress: Progress) -> None:
        there = sum(slot.facts is not None for slot in self.slots)
        retries = f", {self.retries} retries" if self.retries else ""
        progress.workers(f"{sum(task.done for task in tasks)}/{len(tasks)} shards, {there} workers{retries}")


def _last_line(error: Any) -> str:
    return str(str(error).strip().splitlines()[-1])
