"""Every command that writes, on a disk that fills up, and beside a second writer of the same output.

    python benchmarks/attack/limits.py -o benchmarks/results/limits.json        as root: it mounts small disks
    python benchmarks/attack/limits.py --writers embed export

Full disks: a command replaces its old output on a disk that has room for 0, 1, 50 and 99 % of the new one, rounded up
to pages of 4 KB, so that the small outputs of some commands fit at 1 % already.
wrong is a command that ends well with another output than the new one, that ends badly without a word ("error:"), or
whose old output is not there any more; and one that does not write the new output once there is room again.

Two writers: two variants start together. wrong is an output that is neither of the one nor of the other, no writer
that ends well, or a writer that ends badly without saying that another one is writing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "experiments")]

from kills import PRELUDE, START, Attack, Place, changed, is_left  # noqa: E402
from made import commit, made  # noqa: E402
from writers import WRITERS, as_read, state_of  # noqa: E402

from warm import Warm  # noqa: E402

SHARES = (0.0, 0.01, 0.5, 0.99)
PAGE = 4096


@contextmanager
def disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of this many bytes at a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def used(folder: Path) -> int:
    """Bytes that a file system has in use."""
    total, free = shutil.disk_usage(folder)[0], shutil.disk_usage(folder)[2]
    return total - free


def needed(attack: Attack) -> int:
    """The bytes of the new output on a disk."""
    attack._reset()
    attack.place.run(attack.words)
    files = [file for file in attack.place.out.rglob("*") if file.is_file()]
    return sum(-(-file.stat().st_size // PAGE) * PAGE for file in files)


def on_disk(attack: Attack, room: int) -> dict[str, Any]:
    """One run with this much room, and one with enough after it."""
    out, place, wrong = attack.place.out, attack.place, []
    shutil.rmtree(out)
    out.mkdir()
    with disk(out, 256 << 20):
        shutil.copytree(attack.before, out, dirs_exist_ok=True)
        full = used(out) + room
        subprocess.run(["mount", "-o", f"remount,size={max(full, PAGE)}", str(out)], check=True)
        ended = place.start(attack.words).wait()
        subprocess.run(["mount", "-o", f"remount,size={256 << 20}", str(out)], check=True)
        told, state = place.warm.errors.read_text(), as_read(attack.writer, out)  # SQLite needs room to read
        if ended == 0 and state != attack.new:
            wrong.append(f"ended well, but wrote {changed(attack.new, state)}")
        if ended and ("error:" not in told or "Traceback" in told or ended < 0):
            wrong.append(f"ended with {ended} without a clear word: {told[-300:]}")
        parts = attack.writer.parts  # each is written as a whole: some may be new
        if ended and (attack._judge(state) if parts else state != attack.old):
            wrong.append(f"the old output has changed: {changed(attack.old, state)}")
        if ended:
            again = place.start(attack.words).wait()
            if again or state_of(out) != attack.new:
                wrong.append(f"the next run ended with {again}: {place.warm.errors.read_text()[-300:]}")
        wrong += [f"left: {one.name}" for one in out.rglob("*") if is_left(one.name)]
    return {"ended": ended, "wrong": wrong, "told": told.strip().splitlines()[-1:] if ended else []}


def fill_disks(attack: Attack) -> dict[str, Any]:
    most, found = needed(attack), {}
    for share in SHARES:
        one = on_disk(attack, int(most * share))
        found[f"{share:.0%}"] = {name: one[name] for name in ("ended", "told", "wrong")}
    return {"bytes": most, **found}


def race(attack: Attack, other: Warm, rounds: int) -> dict[str, Any]:
    """Two variants at once, several times."""
    place, counts, wrong = attack.place, {"both wrote": 0, "one was refused": 0}, []
    rival = attack.writer.words(0)
    for _ in range(rounds):
        attack._reset()
        first = place.start(attack.words)
        second = other.start(START, place.folder, "", *rival)
        ends = first.wait(), second.wait()
        told = [warm.errors.read_text() for warm in (place.warm, other)]
        words = ("another sidkit process", attack.writer.second)
        refused = [end and any(one in text for one in words) for end, text in zip(ends, told, strict=True)]
        counts["one was refused"] += any(refused)
        counts["both wrote"] += ends == (0, 0)
        if all(ends):
            wrong.append(f"nobody wrote: {told}")
        for end, text, said in zip(ends, told, refused, strict=True):
            if end and not said and not attack.writer.appends:
                wrong.append(f"ended with {end}: {text[-300:]}")
        if not attack.writer.appends and (mistakes := attack._judge(as_read(attack.writer, place.out))):
            wrong.append(f"neither: {mistakes}")
    return {"rounds": rounds, **counts, "wrong": wrong}


def summary(kept: dict[str, Any]) -> dict[str, int]:
    disks = [one["disks"][f"{share:.0%}"] for one in kept.values() for share in SHARES]
    races = [one["writers"] for one in kept.values()]
    return {
        "full disks": len(disks),
        "ended with an error": sum(one["ended"] != 0 for one in disks),
        "wrong on disks": sum(len(one["wrong"]) for one in disks),
        "two writers": sum(one["rounds"] for one in races),
        "one was refused": sum(one["one was refused"] for one in races),
        "both wrote": sum(one["both wrote"] for one in races),
        "wrong of two writers": sum(len(one["wrong"]) for one in races),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--rounds", type=int, default=5, help="of two writers")
    parser.add_argument("--place", type=Path, help="folder of the inputs, which are kept for the next time")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    where, kept = made(" ".join(["python", *sys.argv])), dict[str, Any]()
    with suppress(FileNotFoundError, AttributeError):
        kept = json.loads(options.output.read_text(encoding="utf-8"))["writers"]
    with TemporaryDirectory() as scratch:
        (Path(scratch) / "other").mkdir()
        with Warm(PRELUDE, Path(scratch)) as warm, Warm(PRELUDE, Path(scratch) / "other") as other:
            place = Place(options.place or Path(scratch) / "place", warm)
            for name in options.writers:
                if name in kept:
                    continue
                attack = Attack(name, place)
                both = {"disks": fill_disks(attack), "writers": race(attack, other, options.rounds)}
                kept[name] = both | {"commit": commit()}
                print(name, json.dumps(kept[name])[:2500], flush=True)
                if options.output is not None:
                    text = json.dumps({**where, "all": summary(kept), "writers": kept}, indent=1)
                    options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
