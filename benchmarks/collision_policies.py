"""How long collision policies take for a large catalogue, how much memory, and what they cost.

    python benchmarks/collision_policies.py [--items 10000000] [--folder scratch/] [--policies nearest,least-cost]

Made up: rows around 20,000 centres in 32 dimensions, written to FOLDER/rows-N.npy (128 bytes a row) and encoded by
PRQ-KMeans, 256-256-256, fitted on 200,000 of them. Half of the items are published, spread by `nearest`; the other half
are new and are placed beside them. Every policy runs in a process of its own, which reports wall seconds, processor
seconds and its peak resident memory, of which pages of the mapped rows are a part. Results, with machine and versions,
go to benchmarks/results/collision_policies.json after every policy; what is there for the same number of items is not
measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

import sidkit
from sidkit.rows.sources import ArraySource
from sidkit.sids.policies import POLICIES, Occupied, Policy
from sidkit.tokenizer.spread import resolve_rows

RESULTS = Path(__file__).with_name("results") / "collision_policies.json"
SIZES, D, CENTRES, FITTED = (256, 256, 256), 32, 20_000, 200_000
STEP = 1 << 18


def machine():
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "versions": {name: version(name) for name in ("numpy", "scipy", "sidkit")},
    }


def peak_mib():
    """The largest resident memory of this process so far; unlike getrusage's, not inherited from its parent."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def prepare(folder, n):
    """The rows, the tokenizer, the codes of all rows and the published half after `nearest`."""
    rows, codes, published = folder / f"rows-{n}.npy", folder / f"codes-{n}.npy", folder / f"published-{n}.npy"
    tok = folder / f"tok-{n}"
    if not rows.exists():
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((CENTRES, D), np.float32)
        out = np.lib.format.open_memmap(folder / "rows.part", "w+", np.float32, (n, D))
        for start in range(0, n, STEP):
            count = min(STEP, n - start)
            out[start : start + count] = centres[rng.integers(0, CENTRES, count)]
            out[start : start + count] += 0.35 * rng.standard_normal((count, D), np.float32)
        out.flush()
        (folder / "rows.part").rename(rows)
    x = np.load(rows, mmap_mode="r")
    if not tok.exists():
        sidkit.prq_kmeans(SIZES, iterations=10).fit(np.asarray(x[:FITTED])).save(tok)
    fitted = sidkit.load(tok)
    if not codes.exists():
        np.save(codes, fitted.encode(ArraySource(x)))
    if not published.exists():
        half = n // 2
        made = resolve_rows(fitted, ArraySource(x[:half]), np.load(codes)[:half], "nearest")
        np.save(published, np.column_stack([made.codes, made.slots.astype(np.int32)]))


def measure(folder, n, name):
    """One policy on the new half, beside the published one; in this process."""
    x, codes = np.load(folder / f"rows-{n}.npy", mmap_mode="r"), np.load(folder / f"codes-{n}.npy", mmap_mode="r")
    published = np.load(folder / f"published-{n}.npy")
    half = n // 2
    fitted = sidkit.load(folder / f"tok-{n}")
    taken = Occupied(published[:, :-1], published[:, -1].astype(np.int64))
    weights = np.random.default_rng(1).random(n - half)
    new = np.array(codes[half:])
    before = peak_mib()
    wall, cpu = time.perf_counter(), time.process_time()
    policy = Policy(name, 2 if name == "capacity" else 1)
    made = resolve_rows(fitted, ArraySource(x[half:]), new, policy, taken, weights)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    together = np.concatenate([published, np.column_stack([made.codes, made.slots])])
    return {
        "items": n,
        "policy": name,
        **took,
        "new_items_a_second": (n - half) / took["wall"],
        "peak_mib": peak_mib(),
        "peak_mib_before": before,
        "moved": int(made.moved.sum()),
        "sharing": made.shared,
        "added_cost": made.cost,
        "greedy_added_cost": made.greedy_cost,
        "places_given_twice": int(len(together) - len(np.unique(_numbers(together)))),
    }


def _numbers(places):
    """(SID, slot) as one number each."""
    number = np.zeros(len(places), np.int64)
    for column, size in zip(places.T, (*SIZES, 1 << 20), strict=True):
        number = number * size + column
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path("scratch"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.one:
        print(json.dumps(measure(options.folder, options.items, options.one)))
        return
    prepare(options.folder, options.items)
    known = json.loads(options.output.read_text()) if options.output.exists() else {"runs": []}
    for name in options.policies.split(","):
        if any(run["items"] == options.items and run["policy"] == name for run in known["runs"]):
            continue
        words = [sys.executable, __file__, "--items", str(options.items), "--folder", str(options.folder)]
        done = subprocess.run([*words, "--one", name], stdout=subprocess.PIPE, text=True, check=True)
        run = json.loads(done.stdout) | {"machine": machine()}
        known["runs"].append(run)
        options.output.parent.mkdir(exist_ok=True)
        options.output.write_text(json.dumps(known, indent=1) + "\n")
        print(f"{name:<11} {run['wall']:8.1f} s  {run['peak_mib']:8.0f} MiB  moved {run['moved']:,}", flush=True)


if __name__ == "__main__":
    main()
