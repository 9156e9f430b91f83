"""Whole jobs on this processor: fit, encode and one live query, against the matrix products they contain.

    python benchmarks/cpu_fit.py                    1,000,000 x 128, 1024-512-128, top-k 5, 25 iterations, three repeats
    python benchmarks/cpu_fit.py --rows 200000 --repeats 1

Each repeat times, one after the other, the bare products of every level by the best BLAS here (those of one pass; a
fit makes 25 of each), the fit, the encoding of all rows and of single rows. Then, once: peak memory above the input in
a separate process, at the full number of rows and a quarter of it; and how many tokens change with the rows that a row
is encoded with (batches of 1, 7, 256, 4096 and all, one thread and all). Results, with machine and versions, go to
benchmarks/results/cpu_fit.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from cpu_pass import limited, machine, planted, seconds, sgemm

import sidkit
from sidkit.engine import native

RESULTS = Path(__file__).with_name("results") / "cpu_fit.json"
SIZES = (1024, 512, 128)
ITERATIONS = 25
BATCHES = (1, 7, 256, 4096)


def one_round(x):
    """Seconds of everything, once."""
    rng = np.random.default_rng(1)
    books = [x[rng.choice(len(x), size, replace=False)] for size in SIZES]
    products = sum(min(sgemm(x, book).values()) for book in books)
    spec, fits = sidkit.prq_kmeans(sizes=SIZES, top_k=5, beta=15.0, iterations=ITERATIONS), []
    fit = seconds(lambda: fits.append(spec.fit(x)))
    encode = seconds(lambda: fits[0].encode(x))
    again = sum(min(sgemm(x, book).values()) for book in books)
    products = min(products, again)  # before and after, so that a slow moment does not flatter
    return {"products of a pass": products, "fit": fit, "encode": encode, "one row": median_of_one(fits[0], x)}


def median_of_one(fitted, x):
    """Median seconds of the public call on one vector."""
    times = []
    for i in range(3000):
        start = time.perf_counter()
        fitted.encode(x[i : i + 1])
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def memory(rows):
    """Bytes above the input that fit and encode take at most, in a separate process, without the codes."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import re, numpy as np, sidkit\nfrom cpu_pass import planted\nfrom sidkit.engine import native\n"
        f"x = planted({rows}, 128, 1024)\n"
        "native.prepare(float('inf'))\n"
        "status = lambda name: 1024 * int(re.search(name + r':\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"  # forget the highest so far
        "before = status('VmRSS')\n"
        f"fitted = sidkit.prq_kmeans(sizes={SIZES}, top_k=5, beta=15.0, iterations=2).fit(x)\n"
        "codes = fitted.encode(x)\n"
        "print(status('VmHWM') - before - codes.nbytes)"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def company(x, threads):
    """How many tokens of rows differ when they are encoded in other batches, or by other numbers of threads."""
    fitted = sidkit.prq_kmeans(sizes=SIZES, top_k=5, beta=15.0, iterations=3).fit(x)
    expected = limited(threads, lambda: fitted.encode(x))
    changed = {}
    for count in sorted({1, threads}):
        for batch in (*BATCHES, len(x)):
            parts = range(0, len(x), batch)
            codes = limited(count, lambda: np.concatenate([fitted.encode(x[i : i + batch]) for i in parts]))  # noqa: B023
            changed[f"{count} threads, batches of {batch}"] = int((codes != expected).sum())
    return {"tokens": expected.size, "changed": changed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    native.prepare(float("inf"))
    x = planted(options.rows, 128, 1024)
    rounds = []
    for _ in range(options.repeats):
        rounds.append(limited(threads, lambda: one_round(x)))
        print(json.dumps(rounds[-1]), flush=True)
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    result = {
        "command": " ".join(sys.argv),
        "rows": options.rows,
        "threads": threads,
        "machine": machine(),
        "fit over its products": round(best["fit"] / (ITERATIONS * best["products of a pass"]), 3),
        "encode over its products": round(best["encode"] / best["products of a pass"], 3),
        "one row, microseconds": round(1e6 * best["one row"], 1),
        "megabytes above the input": {
            str(n): round(memory(n) / 1e6, 1) for n in (options.rows // 4, options.rows, 2 * options.rows)
        },
        "company": company(x[: -(-options.rows // len(SIZES))], threads),
        "seconds": rounds,
    }
    print(json.dumps({k: v for k, v in result.items() if k not in ("machine", "seconds")}, indent=1))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
