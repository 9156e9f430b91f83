"""More rows than memory: fit and encode from Parquet under a limit, streaming against memory, and growth with N.

    python benchmarks/out_of_core.py make DIR               16,843,945 x 128 float32 in 17 Parquet files, 8.6 GB
    python benchmarks/out_of_core.py run DIR                sidkit fit and encode under 3 GiB, 2 passes a level
    python benchmarks/out_of_core.py full DIR               the same with 25 passes a level, which resumes if stopped
    python benchmarks/out_of_core.py streaming DIR          the first million rows from the file and from memory
    python benchmarks/out_of_core.py growth DIR             seconds of a pass against N

The limit is RLIMIT_DATA, which the kernel enforces on all private memory of the process; the peak of resident memory is
read from the kernel at its end. A fit with more passes costs as many times the seconds of a pass as it has passes.
A fit of `full` that was stopped, by SIGINT or a kill, resumes from the last pass that `sidkit fit` saved; the seconds
of all its runs are added, and each is in the results.
Results, with machine and versions, are added to benchmarks/results/out_of_core.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cpu_pass import machine, planted

import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.engine import native
from sidkit.progress import Silent
from sidkit.rows.sources import Window

RESULTS = Path(__file__).with_name("results") / "out_of_core.json"
ROWS, D, FILE = 16_843_945, 128, 1_000_000
LIMIT = 3 << 30
SIZES, ITERATIONS = (1024, 512, 128), 2


def make(folder):
    """Files of a million rows in row groups of 2^16, ids as strings. Each is written whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, start in enumerate(range(0, ROWS, FILE)):
        path = folder / f"items-{part:02}.parquet"
        if path.exists():
            continue
        n = min(FILE, ROWS - start)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(planted(n, D, 1024, seed=part).ravel()), D)
        ids = pa.array([f"item{i:09}" for i in range(start, start + n)])
        table = pa.table({"item_id": ids, "embedding": vectors})
        pq.write_table(
            table, path.with_suffix(".tmp"), row_group_size=1 << 16, compression="none", use_dictionary=False
        )
        os.replace(path.with_suffix(".tmp"), path)
        print(path, flush=True)


def limited(*words):
    """Seconds and peak resident bytes of a sidkit command whose private memory is limited to LIMIT."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sidkit", *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)),
    )
    _, status, usage = os.wait4(process.pid, 0)
    took = {"seconds": round(time.perf_counter() - start, 1), "cpu seconds": round(usage.ru_utime + usage.ru_stime, 1)}
    took |= {"peak resident GiB": round(usage.ru_maxrss / 2**20, 3), "load": round(os.getloadavg()[0], 1)}
    return took | ({"stopped": status} if status else {})


def run(folder):
    out = folder.parent / "out_of_core"
    out.mkdir(exist_ok=True)
    options = ["--sizes", "-".join(map(str, SIZES)), "--top-k", "5", "--iterations", str(ITERATIONS)]
    took = {
        "fit": limited("fit", str(folder), "-o", str(out / "tok"), *options),
        "encode": limited("encode", str(out / "tok"), str(folder), "-o", str(out / "sids.parquet")),
    }
    if any("stopped" in one for one in took.values()):
        raise SystemExit(f"a command failed under the limit: {took}")
    return {"rows": ROWS, "passes a level": ITERATIONS, "limit GiB": LIMIT / 2**30, **took}


def full(folder):
    """The paper's 25 passes. What was done before is in full.json beside the output."""
    out = folder.parent / "out_of_core"
    out.mkdir(exist_ok=True)
    notes, tok = out / "full.json", out / "tok-full"
    done = json.loads(notes.read_text()) if notes.exists() else {"fits": []}
    options = ["--sizes", "-".join(map(str, SIZES)), "--top-k", "5", "--iterations", "25", "--resume"]
    if "encode" not in done:
        if not done["fits"] or "stopped" in done["fits"][-1]:
            done["fits"].append(limited("fit", str(folder), "-o", str(tok), *options))
            notes.write_text(json.dumps(done))
        if "stopped" not in done["fits"][-1]:
            done["encode"] = limited("encode", str(tok), str(folder), "-o", str(out / "sids-full.parquet"))
            notes.write_text(json.dumps(done))
    total = {name: round(sum(one[name] for one in done["fits"]), 1) for name in ("seconds", "cpu seconds")}
    peak = max(one["peak resident GiB"] for one in done["fits"])
    facts = {"rows": ROWS, "passes a level": 25, "limit GiB": LIMIT / 2**30, "finished": "encode" in done}
    return facts | {"fit": total | {"peak resident GiB": peak}, **done}


class Passes(Silent):
    """The moments at which passes ended."""

    def __init__(self):
        self.times = []

    def note(self, text):
        self.times.append(time.perf_counter())


def seconds_of_a_pass(source, size, iterations=4):
    """The least seconds between two passes of one level with top-k 5."""
    passes = Passes()
    sidkit.prq_kmeans(sizes=(size,), top_k=5, beta=15.0, iterations=iterations).fit(source, progress=passes)
    return float(np.diff(passes.times).min())


def whole_fit(source):
    """Seconds of a fit, and the least of three encodings."""
    start = time.perf_counter()
    fitted = sidkit.prq_kmeans(sizes=SIZES, top_k=5, beta=15.0, iterations=8).fit(source)
    fit = time.perf_counter() - start
    encode = []
    for _ in range(3):
        start = time.perf_counter()
        fitted.encode(source)
        encode.append(time.perf_counter() - start)
    return {"fit": fit, "encode": min(encode)}


def streaming(folder, repeats=3):
    """A fit and an encoding of a file in the page cache, over the same of its rows in memory."""
    file = open_embeddings(folder / "items-00.parquet")
    x = np.concatenate(list(file.chunks(1 << 16)))
    rounds = [{"file": whole_fit(file), "memory": whole_fit(x)} for _ in range(repeats)]
    least = {where: {job: min(one[where][job] for one in rounds) for job in ("fit", "encode")} for where in rounds[0]}
    ratio = {job: round(least["file"][job] / least["memory"][job], 3) for job in ("fit", "encode")}
    return {"rows": len(x), "file over memory": ratio, "seconds": rounds}


def growth(folder):
    """Seconds of a pass from Parquet at K = 1024 for N from 10^5 to all rows, and the straight line through them."""
    source = open_embeddings(folder)
    counts = [100_000, 300_000, 1_000_000, 3_000_000, 8_000_000, ROWS]
    times = [seconds_of_a_pass(Window(source, 0, n), 1024, 6 if n < 10**6 else 3) for n in counts]
    slope, offset = np.polyfit(counts, times, 1, w=1 / np.array(times))
    predicted = slope * np.array(counts) + offset
    return {
        "rows": counts,
        "seconds of a pass": [round(t, 4) for t in times],
        "microseconds a row": round(1e6 * slope, 4),
        "seconds at no rows": round(float(offset), 4),
        "r squared of the logarithms": round(float(np.corrcoef(np.log(times), np.log(predicted))[0, 1] ** 2), 5),
        "largest deviation": round(float(np.abs(np.array(times) / predicted - 1).max()), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run", "full", "streaming", "growth"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.what == "make":
        return make(options.folder)
    native.prepare(float("inf"))
    result = {"run": run, "full": full, "streaming": streaming, "growth": growth}[options.what](options.folder)
    result["command"] = re.sub(r"\S+$", "DIR", " ".join(sys.argv))
    print(json.dumps(result, indent=1))
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(results | {options.what: result, "machine": machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
