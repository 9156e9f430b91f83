"""Mutants in forked processes: a crash, a hang or much memory is noted, and costs one process."""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import shutil
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from artefact import Artefact
from mutations import Trial

from sidkit.errors import MissingExtraError

__all__ = ["Batch", "NotHere", "Prepared", "in_workers"]

LEAST = 128 << 20  # bytes of memory that a mutant may take beyond twice its size
SPACE = 4 << 30  # bytes of address space beyond that of the libraries
STATE, SIZE = "qdd", 24  # the number of a mutant, and when it began: of the clock, and of the process's own time
IDLE = 30  # times as long may a mutant take when other processes have the processor
START = 120  # seconds in which a process is ready
MISSING = 3  # exit status of a process that lacks a library


class NotHere(Exception):
    """A library that an artefact needs is not installed."""


class Batch(NamedTuple):
    """The mutants first .. last - 1 of a kind."""

    kind: str
    seed: int
    first: int
    last: int
    seconds: float

    def name(self, number: int) -> str:
        return f"{self.kind} {self.seed} {number}"


class Prepared:
    """An artefact that was made once, by a process of its own: this one stays without threads, so it can be forked."""

    def __init__(self, artefact: Artefact, folder: Path) -> None:
        self.artefact, self.folder, self.made = artefact, folder, folder / "made"
        child = os.fork()
        if not child:
            _end(self._first)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == MISSING:
            raise NotHere
        if status:
            raise SystemExit("an artefact could not be made")
        for name in (folder / "modules").read_text().split():  # once here, not in every process that is forked
            with suppress(Exception):
                import_module(name)

    def _first(self) -> None:
        """Make it, use it once, and note the modules that this took."""
        before = set(sys.modules)
        Trial(self.artefact, self.folder)
        new = [name for name in sys.modules if name not in before]
        (self.folder / "modules").write_text("\n".join(new))


def in_workers(prepared: Prepared, batch: Batch) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every mutant of a batch with what came of it, in as many processes as they end."""
    first = batch.first
    while first < batch.last:
        current = mmap.mmap(-1, SIZE)
        current.write(struct.pack(STATE, first, time.monotonic() + START, START))
        source, sink = os.pipe()
        child = os.fork()
        if not child:
            os.close(source)
            _end(lambda: _work(prepared, batch, first, sink, current))  # noqa: B023
        os.close(sink)
        hung = False
        with os.fdopen(source, "rb", buffering=0) as stream:
            rest = b""
            while True:
                if select.select([stream], [], [], 1.0)[0]:
                    data = stream.read(1 << 16)
                    if not data:
                        break
                    *lines, rest = (rest + data).split(b"\n")
                    for found in map(json.loads, lines):
                        yield found["number"], found
                        first = found["number"] + 1
                elif _hangs(child, *struct.unpack(STATE, current[:SIZE])[1:], batch.seconds):
                    hung = True
                    os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        shutil.rmtree(prepared.folder / f"at-{first}", ignore_errors=True)
        if first < batch.last:
            result = "hangs" if hung else "deaths"
            yield first, {"result": result, "words": f"{result}, status {status}", "mutant": ""}
            first += 1


def _hangs(child: int, began: float, used: float, seconds: float) -> bool:
    """Whether a mutant has had that many seconds of a processor, or has waited very long: the machine may be busy."""
    *_, times = Path(f"/proc/{child}/stat").read_text().rpartition(")")
    ticks = sum(map(int, times.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return ticks - used > seconds or time.monotonic() - began > IDLE * seconds


def _end(work: Any) -> None:
    """Do the work of a child process, and end it."""
    try:
        work()
        os._exit(0)
    except (ImportError, MissingExtraError):
        traceback.print_exc()
        os._exit(MISSING)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        os._exit(1)


def _work(prepared: Prepared, batch: Batch, first: int, sink: int, current: mmap.mmap) -> None:
    """The mutants from `first` on: a JSON line after each; before each, its number and time in shared memory."""
    folder = prepared.folder / f"worker-{os.getpid()}"
    trial = Trial(prepared.artefact, folder, prepared.made)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + SPACE,) * 2)
    with open("/proc/self/statm") as pages:
        for number in range(first, batch.last):
            current[:SIZE] = struct.pack(STATE, number, time.monotonic(), time.process_time())
            forgotten = _forget_peak()
            pages.seek(0)
            before = int(pages.read().split()[1]) * resource.getpagesize()
            found = trial.run(Random(batch.name(number)))
            took = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, 0) if forgotten else 0
            line = {"number": number, "result": found.result, "mutant": found.mutant[:200], "peak_mb": took >> 20}
            line |= {"words": _words(found), "greedy": took > 2 * trial.size + LEAST, "measured": forgotten}
            os.write(sink, json.dumps(line).encode() + b"\n")
    shutil.rmtree(folder, ignore_errors=True)


def _forget_peak() -> bool:
    """Whether the kernel forgot the peak of resident memory, so that the next one can be read; not all kernels do."""
    try:
        with open("/proc/self/clear_refs", "w") as peaks:
            peaks.write("5")
        return True
    except OSError:
        return False


def _words(found: Any) -> str:
    if found.error is None:
        return str(found.result)
    where = traceback.extract_tb(found.error.__traceback__)[-1]
    return f"{type(found.error).__name__} at {Path(where.filename).name}:{where.lineno}"
