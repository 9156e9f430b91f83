"""The whole journey of a large catalogue on one machine: processor time and the most memory of every command.

    python benchmarks/journey.py make DIR --items 10000000       SIDs, titles, sequences and vectors, 2.3 GB at 10^7
    python benchmarks/journey.py run DIR --items 10000000        every step that is not measured yet
    python benchmarks/journey.py run DIR --items 1000000 --only report,judge-sequences --again
    python benchmarks/journey.py table DIR                       the table of docs/scale.md, with 10^8 reckoned

Every step is a `sidkit` command in a process of its own. Its largest resident memory is read from the kernel at its
end; --limit sets RLIMIT_DATA, in GB, which the kernel enforces on private memory. SIDs are in files of 2^20 items with
string ids, as `sidkit encode --ray` writes them; files of titles and vectors have their items in another order. A step
that is done is noted in benchmarks/results/journey.json, and is not run again unless --again is given.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sidkit
from sidkit.sids.origin import Origin

RESULTS = Path(__file__).with_name("results") / "journey.json"
SIZES, FILE, D = (1024, 512, 128), 1 << 20, 16
TEXT = "red blue green small large light heavy steel wooden cotton mug shoe lamp chair shirt table phone case"
WORDS = TEXT.split()


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    versions = {name: version(name) for name in ("numpy", "pyarrow", "sidkit")}
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version(), "versions": versions}


def tokenizer(folder):
    path = folder / "tok"
    if not path.exists():
        x = np.random.default_rng(0).normal(size=(2048, D)).astype(np.float32)
        sidkit.rq_kmeans(SIZES, iterations=1).fit(x).save(path)
    return path


def named(numbers):
    """Ids of twelve letters, in no order."""
    return pa.array([f"B{i * 7919 % (1 << 40):011x}" for i in numbers.tolist()])


def codes_of(numbers, rng):
    """Codes with geometric frequencies, so that some prefixes are crowded."""
    columns = [np.minimum(rng.geometric(6 / size, len(numbers)) - 1, size - 1) for size in SIZES]
    return np.stack(columns, axis=1).astype(np.int32)


def parts_of(items, shuffled):
    """Numbers of the items of each file; shuffled: every file has items of the whole catalogue."""
    count = -(-items // FILE)
    for part in range(count):
        rng = np.random.default_rng([items, part])
        numbers = np.arange(part, items, count) if shuffled else np.arange(part * FILE, min((part + 1) * FILE, items))
        yield part, rng.permutation(numbers), rng


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path.with_suffix(".tmp"), row_group_size=1 << 16)
    os.replace(path.with_suffix(".tmp"), path)
    print(path, flush=True)


def make(folder, items):
    base, digest = folder / str(items), sidkit.load(tokenizer(folder)).digest
    for part, numbers, rng in parts_of(items, shuffled=False):
        path = base / "sids" / f"part-{part:03}.parquet"
        if not path.exists():
            origin = Origin(tokenizer="tok", tokenizer_digest=digest)
            sidkit.SidTable(named(numbers), codes_of(numbers, rng), SIZES, origin=origin).to_parquet(path)
            print(path, flush=True)
    for part, numbers, rng in parts_of(items, shuffled=True):
        path = base / "items" / f"part-{part:03}.parquet"
        if not path.exists():
            picks = rng.integers(0, len(WORDS), (len(numbers), 4))
            titles = [" ".join(WORDS[i] for i in row) + f" {n}" for row, n in zip(picks, numbers, strict=True)]
            kinds = pa.array([f"{WORDS[a]} > {WORDS[b]}" for a, b in picks[:, :2]])
            write(path, pa.table({"item_id": named(numbers), "title": titles, "category": kinds}))
        path = base / "vectors" / f"part-{part:03}.parquet"
        if not path.exists():
            x = rng.standard_normal((len(numbers), D), dtype=np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), D)
            write(path, pa.table({"item_id": named(numbers), "embedding": vectors}))
    path = base / "sequences.parquet"
    if not path.exists():
        rng = np.random.default_rng([items, 1])
        visits = rng.geometric(20 / items, (items // 20, 8)) % items
        lists = pa.FixedSizeListArray.from_arrays(named(visits.ravel()), 8).cast(pa.list_(pa.string()))
        write(path, pa.table({"user": np.arange(len(visits)), "items": lists}))


def steps(base, out):
    """Name of a step -> the words of its command."""
    sids, items, tok = base / "sids", base / "items", base.parent / "tok"
    registry = out / "registry.db"
    return {
        "report": ("report", sids, "-o", out / "report.html"),
        "report-items": ("report", sids, "--items", items, "--text", "title", "-o", out / "titled.html"),
        "judge-sequences": ("judge", sids, "--sequences", base / "sequences.parquet", "--json"),
        "judge-items": ("judge", sids, "--items", items, "--category", "category", "--json"),
        "judge-embeddings": ("judge", sids, "--embeddings", base / "vectors", "--queries", "200", "--json"),
        "export-csv": ("export", sids, "--to", "csv", "-o", out / "csv"),
        "export-titles": ("export", sids, "--to", "lc-rec", "--items", items, "-o", out / "lc-rec"),
        "publish-init": ("publish", "init", registry, "--tokenizer", tok),
        "publish-append": ("publish", "append", registry, sids),
        "publish-export": ("publish", "export", registry, "-o", out / "published"),
        "embed": ("embed", items, "--text", "title", "--dimensions", "32", "-o", out / "embedded.parquet"),
        "embed-ray": ("embed", items, "--text", "title", "--dimensions", "32", "-o", out / "embedded-ray.parquet",
                      "--ray", "--workers", "1"),
    }  # fmt: skip


def measured(words, limit):
    """What a command took. The driver alone is measured where it starts other processes."""
    start = time.perf_counter()
    most = (int(limit * 10**9),) * 2
    process = subprocess.Popen(
        [sys.executable, "-m", "sidkit", *map(str, words)],
        stdout=subprocess.PIPE,
        preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_DATA, most)) if limit else None,
    )
    printed = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    took = {"seconds": round(time.perf_counter() - start, 1), "cpu seconds": round(usage.ru_utime + usage.ru_stime, 1)}
    took |= {"peak GB": round(usage.ru_maxrss * 1024 / 1e9, 3), "load": round(os.getloadavg()[0], 1)}
    return took | ({"failed": status} if status else {}), printed


def size_of(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def run(given):
    base = given.folder / str(given.items)
    out = base / "out"
    out.mkdir(exist_ok=True)
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    known = results.setdefault(given.label, {}).setdefault(str(given.items), {})
    for name, words in steps(base, out).items():
        if (given.only and name not in given.only.split(",")) or (name in known and not given.again):
            continue
        target = next((Path(words[i + 1]) for i, word in enumerate(words) if word == "-o"), None)
        target = Path(words[2]) if name == "publish-init" else target
        for path in out.glob(f"{target.stem}*") if target else []:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        took, _ = measured(words, given.limit)
        if target is not None and target.exists():
            took["output GB"] = round(size_of(target) / 1e9, 3)
        took["limit GB"] = given.limit
        known[name] = took
        print(f"{given.items:>10} {name:18}", took, flush=True)
        results["machine"] = machine()
        given.results.write_text(json.dumps(results, indent=1) + "\n")


def table(results):
    """Memory and processor time at 10^6 and 10^7, and the straight line through both at 10^8."""
    small, large = (results["journey"].get(str(n), {}) for n in (10**6, 10**7))
    print("| command | 10^6 | 10^7 | 10^8, reckoned | before, 10^7 |\n|---|---|---|---|---|")
    for name in (name for name in small if name in large and name != "publish-init"):
        a, b = small[name], large[name]
        memory = b["peak GB"] + 10 * (b["peak GB"] - a["peak GB"])
        seconds = b["cpu seconds"] + 10 * (b["cpu seconds"] - a["cpu seconds"])
        cells = [f"{one['peak GB']:.2f} GB, {one['cpu seconds']:.0f} s" for one in (a, b)]
        old = results.get("before", {}).get(str(10**7), {}).get(name)
        earlier = f"{old['peak GB']:.2f} GB, {old['cpu seconds']:.0f} s" if old else ""
        print(f"| {name} | {' | '.join(cells)} | {memory:.1f} GB, {seconds / 60:.0f} min | {earlier} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--only", help="steps, separated by commas")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=float, default=0, help="GB of private memory; 0: none")
    parser.add_argument("--label", default="journey", help="name of the set of figures in the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.items)
    elif given.what == "table":
        table(json.loads(given.results.read_text()))
    else:
        run(given)


if __name__ == "__main__":
    main()
