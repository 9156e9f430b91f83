"""Kills of every command that writes: by time, and at system calls that write.

    python benchmarks/attack/kills.py --number 1000 -o benchmarks/results/kills.json
    python benchmarks/attack/kills.py --writers embed train --number 60

A command (benchmarks/attack/writers.py) has written its output once. Another variant of it then replaces that output,
and is killed: after a random time, or at the n-th call of one system call (strace must be installed; every call that
writes, creates, renames, removes or flushes is possible). A reader must then find the old output or the new one:

torn         a file that is neither of the old output nor of the new one
mixed        files of both
lost         the command, run again (with --resume where it has that), fails or ends with other bits than without a kill
left         files of the killed process that are still there after that
refused      sidkit finds no encoder for the embeddings, and says so

paired, which is not wrong: the new encoder is not beside the new embeddings yet, and sidkit finds it where it is.
Logs (log.jsonl, tensorboard/) and noted times are not compared. With -o, kills that are in the file are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small jobs, whose threads would wait for each other
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "experiments")]

from made import commit, made  # noqa: E402
from writers import WRITERS, Writer, as_read, prepare, state_of  # noqa: E402

from sidkit.errors import SidkitError  # noqa: E402
from warm import Child, Warm  # noqa: E402

CALLS = (
    "write,pwrite64,writev,copy_file_range,sendfile,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,chmod,fchmod,utimensat"
)
PRELUDE = """
import sys, torch, pyarrow.parquet, pyarrow.csv, scipy.sparse, sidkit.cli, sidkit.cli.commands
from importlib import import_module
import sidkit.report.centroids
sidkit.report.centroids.MOST = 60  # points of a map, which takes seconds for more
for name in ("tokenizer.recipes", "retriever.trainer", "search.training.loop", "embed.job", "report.page", "export.job",
             "publish.registry", "search.simulate.make", "demo.build", "search.align.job",
             "search.evaluate.evaluation", "cli.terminal", "cli.printing", "progress.bars", "data.json_lines"):
    import_module("sidkit." + name)
for name in ("transformers.models.t5.modeling_t5", "transformers.models.bart.modeling_bart", "transformers.generation",
             "torch._dynamo", "torch.optim", "typer._adapters", "pydantic", "pydantic.plugin._loader", "bm25s",
             "orjson", "rich.console", "typer.rich_utils", "pyarrow.dataset", "tensorboard",
             "torch.utils.tensorboard", "sklearn.manifold"):
    try:
        import_module(name)
    except ImportError:
        pass
"""
ROUND = 10  # kills of a writer before it is the next one's turn
START = """
import os, sys, time
os.chdir(sys.argv.pop(1))
gate = sys.argv.pop(1)
while gate and not os.path.exists(gate):
    time.sleep(0.002)
import sidkit.cli
sidkit.cli.main()
"""


class Place:
    """A folder with the inputs of all writers, in which one writer after the other is killed."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm, self.out = folder, warm, folder / "out"
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            prepare(folder, lambda text: self.run(text.split()))
            (folder / "ready").touch()

    def start(self, words: list[str], gate: Path | str = "") -> Child:
        return self.warm.start(START, self.folder, gate, *words)

    def run(self, words: list[str]) -> None:
        status = self.start(words).wait()
        if status:
            raise RuntimeError(f"{' '.join(words)} ended with {status}: {self.warm.errors.read_text()[-600:]}")

    def clear(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()


class Attack:
    """One writer: its old output, its new one, and how long and with which calls it is written."""

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place, self.writer = name, place, WRITERS[name]
        self.before = place.folder / "before"
        shutil.rmtree(self.before, ignore_errors=True)
        place.clear()
        self._make_old()
        shutil.copytree(place.out, self.before)
        self.old = state_of(place.out)
        began = time.monotonic()
        place.run(self.words)
        self.seconds = time.monotonic() - began
        self.new = state_of(place.out)
        if self.old == self.new:
            raise RuntimeError(f"the variants of {name} write the same")
        self._reset()
        self.calls = self._count()
        if state_of(place.out) != self.new:
            raise RuntimeError(f"{name} does not write the same twice: {changed(self.new, state_of(place.out))}")

    @property
    def words(self) -> list[str]:
        return self.writer.words(1)

    def _make_old(self) -> None:
        for words in earlier(self.name, self.writer):
            self.place.run(words)

    def _reset(self) -> None:
        shutil.rmtree(self.place.out)
        shutil.copytree(self.before, self.place.out)

    def _count(self) -> Counter[str]:
        """How often each call is made; a traced run."""
        log = self.place.folder / "calls.txt"
        self._traced("-e", f"trace={CALLS}", "-o", str(log)).wait()
        return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.M))

    def _traced(self, *options: str) -> Child:
        gate = self.place.folder / "gate"
        gate.unlink(missing_ok=True)
        child = self.place.start(self.words, gate)
        tracer = subprocess.Popen(
            ["strace", "-f", *options, "-p", str(child.process)], stderr=subprocess.PIPE, text=True
        )
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        if "attached" not in line:
            raise RuntimeError(f"strace: {line}")
        gate.touch()
        tracer.communicate()
        return child

    def kill(self, rng: Random) -> dict[str, Any]:
        """One kill, and what a reader and the next run find."""
        self._reset()
        if rng.random() < 0.4:
            moment = rng.uniform(0, 1.1 * self.seconds)
            how = f"after {moment:.3f} s"
            child = self.place.start(self.words)
            time.sleep(moment)
            hit = child.kill()
        else:
            call = rng.choice(sorted(self.calls))  # rare calls, such as a rename, as often as frequent ones
            number = rng.randint(1, self.calls[call])
            how = f"at {call} {number} of {self.calls[call]}"
            inject = f"inject={call}:signal=KILL:when={number}"
            hit = self._traced("-e", f"trace={call}", "-e", inject, "-o", "/dev/null").wait() != 0
        found: dict[str, Any] = {"how": how, "hit": hit, "wrong": []}
        try:
            found["wrong"] += self._judge(as_read(self.writer, self.place.out))
        except SidkitError as error:
            found["wrong"].append(f"refused: {error}")
        except (OSError, ValueError) as error:
            found["wrong"].append(f"torn: {error}")
        with suppress(OSError, ValueError):
            found["paired"] = not found["wrong"] and bool(self._judge(state_of(self.place.out)))
        done = self.place.start([*self.words, *self.writer.again.split()]).wait()
        if done and not self._is_done(self.place.warm.errors.read_text()):
            found["wrong"].append(f"lost: {self.place.warm.errors.read_text()[-300:]}")
        elif (other := changed(self.new, state_of(self.place.out))) and not self.writer.appends:
            found["wrong"].append(f"lost: other bits in {other}")
        left = [str(one.relative_to(self.place.out)) for one in self.place.out.rglob("*") if is_left(one.name)]
        found["wrong"] += [f"left: {one}" for one in left]
        return found

    def _is_done(self, errors: str) -> bool:
        """Whether the next run was refused because the killed one had done everything."""
        return self.writer.appends and state_of(self.place.out) == self.new and "error:" in errors

    def _judge(self, state: dict[str, str]) -> list[str]:
        """What is wrong with a state, in words."""
        wrong = [f"torn: {name}" for name, one in state.items() if one not in (self.old.get(name), self.new.get(name))]
        groups: dict[str, set[str]] = {}
        for name in sorted({*self.old, *self.new}):
            one, sides = state.get(name), set()
            sides |= {"old"} if one == self.old.get(name) else set()
            sides |= {"new"} if one == self.new.get(name) else set()
            group = self.writer.part_of(name)
            groups[group] = groups.get(group, {"old", "new"}) & sides
        return wrong + [f"mixed: {group}" for group, sides in groups.items() if not sides and not wrong]


def earlier(name: str, writer: Writer) -> list[list[str]]:
    """The commands that write the old output."""
    append = ["publish", "append", "out/registry.db", "in/sids0.parquet"]
    init = WRITERS["publish-init"].words(0)
    known = {"publish-init": [], "publish-export": [], "publish-append": [init], "publish-withdraw": [init, append]}
    return known.get(name, [writer.words(0)])


def changed(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def is_left(name: str) -> bool:
    return name.endswith(".unfinished") or (".sidkit-" in name and name.startswith("."))


def run(options: argparse.Namespace, kept: dict[str, Any], write: Any) -> None:
    """All writers in turn, ROUND kills of each, until every one has had its share."""
    each = -(-options.number // len(options.writers))
    with TemporaryDirectory() as scratch, Warm(PRELUDE, Path(scratch)) as warm:
        place = Place(options.place or Path(scratch) / "place", warm)
        for upto in [*range(ROUND, each, ROUND), each]:
            for name in options.writers:
                before = kept.setdefault(name, {"kills": 0, "wrong": []})
                if before["kills"] < upto:
                    found = some_kills(Attack(name, place), before, upto, options.seed)
                    kept[name] = found | {"commit": commit()}
                    write(kept)
                    print(name, json.dumps(kept[name])[:1500], flush=True)


def some_kills(attack: Attack, before: dict[str, Any], upto: int, seed: int) -> dict[str, Any]:
    """The counts of a writer after further kills, up to a number of them."""
    counts, wrong = Counter({name: count for name, count in before.items() if type(count) is int}), before["wrong"]
    for number in range(before["kills"], upto):
        found = attack.kill(Random(f"{attack.name} {seed} {number}"))
        counts["kills"] += 1
        counts["in time"] += found["hit"]
        counts["paired"] += found.get("paired", False)
        counts["by time" if found["how"].startswith("after") else "by call"] += 1
        for one in found["wrong"]:
            counts[one.partition(":")[0]] += 1
            wrong.append(f"{found['how']}: {one}")
    return {**counts, "took": round(attack.seconds, 3), "calls": dict(attack.calls), "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--number", type=int, default=100, help="kills of all writers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=Path, help="folder of the inputs, which are kept for the next time")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    where = made(" ".join(["python", *sys.argv]))
    kept: dict[str, Any] = {}
    with suppress(FileNotFoundError, AttributeError):
        kept = json.loads(options.output.read_text(encoding="utf-8"))["writers"]

    def write(kept: dict[str, Any]) -> None:
        names = ("kills", "in time", "by time", "by call", "paired", "torn", "mixed", "refused", "lost", "left")
        whole = {name: sum(one.get(name, 0) for one in kept.values()) for name in names}
        if options.output is not None:
            text = json.dumps({**where, "all": whole, "writers": kept}, indent=1)
            options.output.write_text(text + "\n", encoding="utf-8")

    run(options, kept, write)


if __name__ == "__main__":
    main()
