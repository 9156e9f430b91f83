"""Mutants of every artefact that sidkit writes or reads: how many are refused, and what goes wrong.

    python benchmarks/attack/mutants.py --number 1000000 --least 3000 -o benchmarks/results/mutants.json
    python benchmarks/attack/mutants.py --kinds table encoder --number 5000 --seed 7
    python benchmarks/attack/mutants.py --repeat "table 7 4711"     # one of them, with its traceback
    python benchmarks/attack/mutants.py --number 1000000 --least 3000 --workers 12 -o FILE

A mutant is an artefact with one change: damaged bytes, or hostile content under digests that are right
(tests/attack/mutations.py). Each is loaded and used. Batches run in processes that are forked from one with everything
imported; a watchdog ends a process that spends over --seconds on one mutant. A mutant that kills or outlasts its
process is counted, and the batch goes on after it. With -o, batches that are in the file are not run again. Kinds whose
libraries are not installed are left out, and named.

Kinds that take long (SLOW) have --least mutants. What is left of --number is shared among the others, of which those
that take under 1.3 ms of a processor (QUICK) have three times as many.

Counted for every kind:
refused      an error of sidkit
same         the answer of the undamaged artefact
different    another answer from hostile content, which digests cannot notice
unnoticed    another answer from damaged bytes, where there are no digests: files of others, and SQLite's
silent       another answer from damaged bytes, where there are digests
foreign      any other exception
hangs        mutants that took longer than --seconds
deaths       processes that ended by a signal or without an answer
greedy       mutants that took over twice the size of the artefact and 128 MB of memory
peak_mb      the most that a mutant took
unmeasured   mutants whose memory the kernel did not tell
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
LOADED = ("torch", "transformers", "tokenizers", "scipy.sparse", "pyarrow.csv", "pyarrow.json", "pyarrow.compute")
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "attack"), str(HERE.parents[1] / "experiments")]

from artefacts import KINDS  # noqa: E402
from made import made  # noqa: E402
from mutations import Trial  # noqa: E402
from workers import Batch, NotHere, Prepared, in_workers  # noqa: E402

BATCH = 1000
WRONG = ("silent", "foreign", "hangs", "deaths", "greedy")
WHERE = made(" ".join(["python", *sys.argv]))
MACHINE = f"{WHERE['machine']}, Python {WHERE['python']}"
PREPARED: dict[str, Prepared] = {}
SLOW = (
    "training",
    "retriever",
    "search",
    "shop",
    "unfinished",
    "checkpoint",
    "spec-rq-opq",
    "spec-opq-kmeans",
    "tokenizer-rq-vae",
    "start",
    "sentence",
    "language-model",
)
QUICK = (
    "alignment",
    "bart",
    "catalogue",
    "encoder",
    "export",
    "import-grid",
    "import-lc-rec",
    "import-recboard",
    "npy",
    "npz",
    "pt",
    "safetensors",
    "spec-prq-kmeans",
    "templates",
)


def run_batch(prepared: Prepared, batch: Batch) -> dict[str, Any]:
    """One batch, in as many processes as its mutants end."""
    counts: Counter[str] = Counter()
    groups: dict[str, list[str]] = {}
    peak, unmeasured = 0, 0
    began = time.monotonic()
    for number, found in in_workers(prepared, batch):
        counts[found["result"]] += 1
        peak = max(peak, found.get("peak_mb", 0))
        unmeasured += not found.get("measured", True)
        if found.get("greedy"):
            counts["greedy"] += 1
            groups.setdefault("greedy", []).append(f"{batch.name(number)}: {found['mutant']}")
        if found["result"] in WRONG:
            groups.setdefault(found["words"], []).append(f"{batch.name(number)}: {found.get('mutant', '')}")
    facts = {"seconds": round(time.monotonic() - began, 1), "commit": WHERE["commit"], "machine": MACHINE}
    facts |= {"unmeasured": unmeasured} if unmeasured else {}
    return {"counts": dict(counts), "groups": groups, "peak_mb": peak, **facts}


def run_all(prepared: dict[str, Prepared], batches: list[Batch], workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every batch with its result, in some order; the workers are forked here, with all that is prepared."""
    PREPARED.update(prepared)
    if workers == 1:
        yield from map(_run_named, batches)
        return
    with get_context("fork").Pool(workers) as pool:
        yield from pool.imap_unordered(_run_named, batches)


def _run_named(batch: Batch) -> tuple[str, dict[str, Any]]:
    return name_of(batch), run_batch(PREPARED[batch.kind], batch)


def name_of(batch: Batch) -> str:
    return f"{batch.kind} {batch.seed} {batch.first} {batch.last}"


def repeat(name: str) -> None:
    """One mutant in this process, by its name."""
    with TemporaryDirectory() as scratch:
        found = Trial(KINDS[name.split()[0]], Path(scratch)).run(Random(name))
    print(found.result, "|", found.mutant)
    if found.error is not None:
        traceback.print_exception(found.error)


def shares(kinds: list[str], number: int, least: int) -> dict[str, int]:
    """Mutants of each kind: `least` of those that take long, the others as many as all together need."""
    parts = {kind: 3 if kind in QUICK else 1 for kind in kinds if not kind.startswith(SLOW)}
    part = -(-max(number - least * (len(kinds) - len(parts)), 0) // max(sum(parts.values()), 1))
    return {kind: max(part * parts.get(kind, 0), least) for kind in kinds}


def in_turn(numbers: dict[str, int]) -> list[tuple[str, int, int]]:
    """The batches of all kinds, (kind, first, last), in an order by which all kinds are done in equal shares."""
    spans = [
        (first / number, kind, first, min(first + BATCH, number))
        for kind, number in numbers.items()
        for first in range(0, number, BATCH)
    ]
    return [(kind, first, last) for _, kind, first, last in sorted(spans)]


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
        "mutants": sum(count for name, count in counts.items() if name != "greedy"),
        **dict(sorted(counts.items())),
        "peak_mb": max((one["peak_mb"] for one in mine), default=0),
        "unmeasured": sum(one.get("unmeasured", 0) for one in mine),
        "seconds": round(sum(one["seconds"] for one in mine)),
        "has_digests": KINDS[kind].checked,
        "wrong": shown,
    }


def summary(batches: dict[str, Any]) -> dict[str, Any]:
    kinds = {kind: totals(batches, kind) for kind in KINDS if any(name.split()[0] == kind for name in batches)}
    names = ("mutants", "refused", "same", "different", "unnoticed", *WRONG, "unmeasured")
    whole = {name: sum(one.get(name, 0) for one in kinds.values()) for name in names}
    return {"all": whole | {"peak_mb": max(one["peak_mb"] for one in kinds.values())}, "kinds": kinds}


def write(output: Path | None, result: dict[str, Any]) -> None:
    if output is not None:
        fresh = output.with_suffix(".fresh")
        fresh.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        fresh.replace(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--number", type=int, default=5000, help="mutants of all kinds together")
    parser.add_argument("--least", type=int, default=0, help="mutants of every kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10, help="for one mutant")
    parser.add_argument("--workers", type=int, default=1, help="batches at a time")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--repeat", metavar="NAME")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # tests/command.py fails a command that shows one
    if options.repeat:
        return repeat(options.repeat)
    for name in LOADED:  # once, not in every process
        with suppress(ImportError):
            import_module(name)
    kept: dict[str, Any] = {}
    if options.output is not None and options.output.is_file():
        kept = json.loads(options.output.read_text(encoding="utf-8"))["batches"]
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        numbers = shares(options.kinds, options.number, options.least)
        todo = [Batch(kind, options.seed, first, last, options.seconds) for kind, first, last in in_turn(numbers)]
        todo = [batch for batch in todo if name_of(batch) not in kept]
        prepared: dict[str, Prepared] = {}
        for kind in dict.fromkeys(batch.kind for batch in todo):
            with suppress(NotHere):
                prepared[kind] = Prepared(KINDS[kind], Path(scratch) / kind)
        left_out = sorted({batch.kind for batch in todo} - set(prepared))
        print("left out, without their libraries:", *left_out or ["none"], flush=True)
        ready = [batch for batch in todo if batch.kind in prepared]
        for name, found in run_all(prepared, ready, options.workers):
            kept[name] = found
            facts = {**WHERE, "limits": {"seconds": options.seconds}, "left_out": left_out}
            write(options.output, {**facts, **summary(kept), "batches": kept})
            print(name, json.dumps(found["counts"]), json.dumps(found["groups"])[:2000], flush=True)
    return None


if __name__ == "__main__":
    main()
