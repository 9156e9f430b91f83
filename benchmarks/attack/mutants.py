"""Mutants of every artefact that sidkit reads: how many are refused, and what goes wrong.

    python benchmarks/attack/mutants.py --number 100000 -o benchmarks/results/mutants.json
    python benchmarks/attack/mutants.py --kinds table encoder --number 5000 --seed 7
    python benchmarks/attack/mutants.py --repeat "table 7 4711"     # one of them, with its traceback

A mutant is an artefact with one change: damaged bytes, or hostile content under digests that are right
(tests/files/mutations.py). Each is loaded and used. Batches run in child processes with a limit on address space
(--memory, above what the libraries take) and a limit of time for one mutant; a mutant that kills or outlasts its
process is counted, and the batch goes on after it. With -o, batches that are in the file are not run again.

Counted for every kind:
refused      an error of sidkit
same         the answer of the undamaged artefact
different    another answer from hostile content, which digests cannot notice
silent       another answer from damaged bytes; an error where the artefact has digests (registries, exports and notes
             beside tables in text have none of themselves)
foreign      any other exception
hangs        mutants that took longer than --seconds
deaths       processes that ended by a signal or without an answer
peak_mb      the largest memory of a batch beyond what the process had before it
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).parents[2] / "tests" / "files"
sys.path.insert(0, str(TESTS))

BATCH = 500
SHOWN = 20  # failures in words, of every kind


def child(kind: str, seed: int, first: int, last: int, memory: int, seconds: int) -> None:
    """Try the mutants first..last-1; a JSON line before and after each, and the peak of memory at the end."""
    from artefacts import KINDS
    from mutations import try_mutant

    artefact = KINDS[kind]
    with tempfile.TemporaryDirectory() as scratch:
        pristine = Path(scratch) / "pristine"
        pristine.mkdir()
        artefact.make(pristine)
        import shutil

        answer = artefact.use(Path(shutil.copytree(pristine, Path(scratch) / "answer")))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (memory << 20),) * 2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(first, last):
            print(json.dumps({"start": number}), flush=True)
            signal.alarm(seconds)  # its usual action ends the process, whatever the process is doing
            found = try_mutant(artefact, pristine, Path(scratch) / "mutant", answer, Random(f"{kind} {seed} {number}"))
            signal.alarm(0)
            result = found.result
            if result == "different" and found.mutant.startswith("bytes"):
                result = "silent"
            bad = result == "foreign" or (result == "silent" and artefact.checked)
            where = traceback.extract_tb(found.error.__traceback__)[-1] if found.error else None
            words = f"{type(found.error).__name__} at {Path(where.filename).name}:{where.lineno}" if where else result
            note = {"note": f"{kind} {seed} {number}: {found.mutant}", "group": words} if bad else {}
            print(json.dumps({"end": number, "result": result, **note}), flush=True)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"peak_mb": (after - before) >> 10}), flush=True)


def run_batch(kind: str, first: int, last: int, options: argparse.Namespace) -> dict[str, Any]:
    """One batch, in as many processes as its mutants end."""
    counts: Counter[str] = Counter()
    groups: dict[str, list[str]] = {}
    peak = 0
    while first < last:
        words = [sys.executable, __file__, "--child", kind, str(options.seed), str(first), str(last)]
        words += ["--memory", str(options.memory), "--seconds", str(options.seconds)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=BATCH * options.seconds + 300, check=False)
        started = None
        for line in map(json.loads, done.stdout.splitlines()):
            started = line.get("start", started)
            peak = max(peak, line.get("peak_mb", 0))
            if "end" in line:
                counts[line["result"]] += 1
                started, first = None, line["end"] + 1
                if "note" in line:
                    groups.setdefault(line["group"], []).append(line["note"])
        if started is None and first < last:
            raise SystemExit(f"a batch of {kind} did not start:\n{done.stderr}")
        if started is not None:
            ending = "hangs" if done.returncode == -signal.SIGALRM else "deaths"
            counts[ending] += 1
            groups.setdefault(ending, []).append(f"{kind} {options.seed} {started} (exit code {done.returncode})")
            first = started + 1
    return {"counts": dict(counts), "groups": groups, "peak_mb": peak}


def repeat(name: str) -> None:
    """One mutant in this process, by its name."""
    import shutil

    from artefacts import KINDS
    from mutations import try_mutant

    artefact = KINDS[name.split()[0]]
    with tempfile.TemporaryDirectory() as scratch:
        pristine = Path(scratch) / "pristine"
        pristine.mkdir()
        artefact.make(pristine)
        answer = artefact.use(Path(shutil.copytree(pristine, Path(scratch) / "answer")))
        found = try_mutant(artefact, pristine, Path(scratch) / "mutant", answer, Random(name))
    print(found.result, "|", found.mutant)
    if found.error is not None:
        traceback.print_exception(found.error)


def totals(batches: dict[str, Any], kind: str) -> dict[str, Any]:
    mine = [one for name, one in batches.items() if name.split()[0] == kind]
    counts: Counter[str] = Counter()
    groups: dict[str, list[str]] = {}
    for one in mine:
        counts.update(one["counts"])
        for name, notes in one["groups"].items():
            groups.setdefault(name, []).extend(notes)
    shown = {name: {"mutants": len(notes), "such as": notes[:2]} for name, notes in groups.items()}
    return {
        "mutants": sum(counts.values()),
        **dict(sorted(counts.items())),
        "peak_mb": max((one["peak_mb"] for one in mine), default=0),
        "wrong": dict(sorted(shown.items(), key=lambda item: -item[1]["mutants"])[:SHOWN]),
    }


def main() -> None:
    from artefacts import KINDS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--number", type=int, default=5000, help="mutants of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10, help="for one mutant")
    parser.add_argument("--memory", type=int, default=1024, help="MB of address space beyond that of the libraries")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--repeat", metavar="NAME")
    parser.add_argument("--child", nargs=4, metavar=("KIND", "SEED", "FIRST", "LAST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, *numbers = options.child
        return child(kind, *map(int, numbers), options.memory, options.seconds)
    if options.repeat:
        return repeat(options.repeat)
    kept: dict[str, Any] = {}
    if options.output is not None and options.output.is_file():
        kept = json.loads(options.output.read_text(encoding="utf-8"))["batches"]
    each, begun = -(-options.number // len(options.kinds)), time.time()
    for kind in options.kinds:
        for first in range(0, each, BATCH):
            last = min(first + BATCH, each)
            name = f"{kind} {options.seed} {first} {last}"
            kept[name] = kept.get(name) or run_batch(kind, first, last, options)
            result = {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
                "versions": {name: version(name) for name in ("sidkit", "numpy", "pyarrow", "safetensors")},
                "limits": {"seconds": options.seconds, "memory_mb": options.memory},
                "kinds": {one: totals(kept, one) for one in KINDS if any(k.split()[0] == one for k in kept)},
                "batches": kept,
            }
            if options.output is not None:
                options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({kind: totals(kept, kind)}, indent=1), flush=True)
    print(f"{time.time() - begun:.0f} s")
    return None


if __name__ == "__main__":
    main()
