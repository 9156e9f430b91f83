"""The registry at size: append a million items to ten million, look items up, and kill writers.

    python benchmarks/registry.py size DIR [--published 10000000] [--new 1000000] [--ids text] [--policy keep]
    python benchmarks/registry.py kills DIR [--kills 200]

DIR is for scratch files, a few GB; a run that was stopped goes on with the files that are there. With
--store postgresql://user@host/database the registry is on that server, in a schema of its own; without it, in a file.

size: SIDs of 256-256-256, uniform at random, in Parquet files of 2^20 items as `sidkit encode --ray` writes them. Every
append is a process of its own, limited to 2 GiB of private memory by the kernel (RLIMIT_DATA); seconds are from opening
the files to the commit, so they are what publishing adds to encoding. Policies that move items (--policy nearest) need
costs; here every code costs a random number, which is as much work as real ones. Look-ups are of random items, SIDs and
prefixes, 20 items at most, on a connection that has just been opened and then warm.
kills: tests/publish/writers.py, which appends until it is killed at a random moment, and checks the registry.

Results, with machine and versions, are added to benchmarks/results/registry.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

import sidkit
from sidkit.publish.append import append
from sidkit.publish.incoming import ToAppend
from sidkit.publish.registry import create_registry, open_registry
from sidkit.publish.sources import from_sids
from sidkit.sids.policies import Policy, resolve

RESULTS = Path(__file__).with_name("results") / "registry.json"
WRITERS = Path(__file__).parent.parent / "tests" / "publish" / "writers.py"
SIZES, FILE, LIMIT = (256, 256, 256), 1 << 20, 2 << 30


def tokenizer(folder):
    path = folder / "tok"
    if not path.exists():
        x = np.random.default_rng(0).normal(size=(1024, 8)).astype(np.float32)
        sidkit.rq_kmeans(SIZES, iterations=1).fit(x).save(path)
    return path


def shards(folder, name, start, count, ids):
    """Files of SIDs for items start, start + 1, ..., in random order within a file."""
    target = folder / f"{name}-{ids}-{start}-{count}"
    digest = sidkit.load(tokenizer(folder)).digest
    for part, first in enumerate(range(start, start + count, FILE)):
        path = target / f"part-{part:03}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng([start, part])
        numbers = rng.permutation(np.arange(first, min(first + FILE, start + count)))
        codes = np.stack([rng.integers(0, size, len(numbers)) for size in SIZES], axis=1).astype(np.int32)
        named = pa.array(numbers) if ids == "integer" else pa.array([f"B{i * 7919 % (1 << 40):011x}" for i in numbers])
        origin = sidkit.sids.origin.Origin(tokenizer="tok", tokenizer_digest=digest)
        sidkit.SidTable(named, codes, SIZES, origin=origin).to_parquet(path)
    return target


def random_costs(rows):
    return np.random.default_rng(int(rows[0])).random((len(rows), SIZES[-1]))


def append_files(address, path, policy):
    """In a process of its own: seconds and memory of one append."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    with open_registry(address) as registry:
        start, cpu = time.perf_counter(), time.process_time()
        if policy.needs_costs:
            given = from_sids(registry, path, Policy("keep"))

            def resolver(codes, rows, taken):
                return resolve(codes, SIZES, policy, random_costs, taken)

            given = ToAppend(given.batches, policy, resolver)
        else:
            given = from_sids(registry, path, policy)
        done = append(registry, given)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts = {"items": done.given, "published": done.published, "moved": done.moved, "shared": done.shared}
    return facts | {"seconds": seconds, "cpu": cpu, "items a second": done.given / seconds, "peak bytes": peak}


def child(*words):
    command = [sys.executable, __file__, "append", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def look_ups(address, count, start, total, ids):
    """Milliseconds of each kind of look-up, first cold and then warm: median, 99th percentile, most."""
    rng, times = np.random.default_rng(7), {}
    numbers = rng.integers(start, total, count).tolist()
    items = numbers if ids == "integer" else [f"B{i * 7919 % (1 << 40):011x}" for i in numbers]
    codes = rng.integers(0, 256, (count, 3)).tolist()
    with open_registry(address) as registry:
        for state in ("opened", "warm"):
            for name, work in {
                "item": [lambda item=item: registry.find(item) for item in items],
                "SID": [lambda one=one: registry.under(one) for one in codes],
                "prefix of 2": [lambda one=one: registry.under(one[:2]) for one in codes],
                "prefix of 1": [lambda one=one: registry.under(one[:1]) for one in codes],
            }.items():
                took = []
                for one in work:
                    begun = time.perf_counter()
                    one()
                    took.append(1000 * (time.perf_counter() - begun))
                middle, high = np.percentile(took, [50, 99])
                times[f"{name}, {state}"] = {"median": middle, "p99": high, "most": max(took)}
    return times


def schema(store, name):
    """The address of a registry on a server, in a schema of its own."""
    return f"{store}{'&' if '?' in store else '?'}schema=bench_{name.replace('-', '_')}"


def versions():
    names = ("numpy", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": os.cpu_count(), "load": os.getloadavg(), "versions": versions()}


def size(given):
    folder, total = Path(given.folder), given.published
    name = f"{given.ids}-{total}-{given.policy}"
    address = schema(given.store, name) if given.store else str(folder / f"{name}.db")
    log = folder / f"{name}{'-server' if given.store else ''}.json"
    known = json.loads(log.read_text()) if log.exists() else {}
    if not known:
        create_registry(address, tokenizer(folder)).__exit__(None, None, None)
    for step, (start, count, policy) in {
        "published": (0, total, "keep"),
        "new": (total, given.new, given.policy),
        "again": (total + given.new, given.new, given.policy),
    }.items():
        if step not in known:
            known[step] = child(address, shards(folder, step, start, count, given.ids), policy)
            print(step, known[step], flush=True)
            log.write_text(json.dumps(known))
    found = {"appends": known, "look-ups, ms": look_ups(address, 2000, 0, total, given.ids)}
    if not given.store:
        found["bytes an item"] = Path(address).stat().st_size / (total + 2 * given.new)
    return found


def kills(given):
    folder = Path(given.folder)
    if given.store:
        address = schema(given.store, f"kills_{int(time.time())}")
    else:
        shutil.rmtree(folder / "kills", ignore_errors=True)
        (folder / "kills").mkdir(parents=True)
        address = str(folder / "kills" / "registry.db")
    create_registry(address, tokenizer(folder)).__exit__(None, None, None)
    command = [sys.executable, str(WRITERS), "killed", address, "--kills", str(given.kills)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    if sys.argv[1:2] == ["append"]:
        address, path, policy = sys.argv[2:5]
        print(json.dumps(append_files(address, path, Policy(policy))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("size", "kills"))
    parser.add_argument("folder")
    parser.add_argument("--store", help="postgresql://user@host/database")
    parser.add_argument("--published", type=int, default=10_000_000)
    parser.add_argument("--new", type=int, default=1_000_000)
    parser.add_argument("--ids", choices=("text", "integer"), default="text")
    parser.add_argument("--policy", default="keep")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    Path(given.folder).mkdir(parents=True, exist_ok=True)
    found = {"size": size, "kills": kills}[given.what](given)
    store = "PostgreSQL" if given.store else f"SQLite {sqlite3.sqlite_version}"
    options = f"--ids {given.ids} --published {given.published} --new {given.new} --policy {given.policy}"
    options = options if given.what == "size" else f"--kills {given.kills}"
    facts = {"command": f"{given.what} {options}", "store": store, "machine": processor()} | found
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    results[f"{given.what} {options}, {store.split()[0]}"] = facts
    given.results.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
