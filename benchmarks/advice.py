"""Seconds of `sidkit advise` and `sidkit compare` on a catalogue of the public size.

    python benchmarks/advice.py DATA/toys

advise with its defaults; compare of three recipes (PRQ-KMeans, RQ-KMeans, RQ-OPQ) and two seeds; each without and with
sequences of visitors. Commands run whole, as a user types them, start of the interpreter included. `cpu seconds` are
those of all threads of the command: on a machine that others use, its time on idle cores lies between these and, with
two cores, half of them. Results, with machine and versions, go to benchmarks/results/advice.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cpu_pass import machine

RESULTS = Path(__file__).with_name("results") / "advice.json"
RECIPES = "prq-kmeans,rq-kmeans,rq-opq"


def timed(words: list[str], folder: str) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a command, which must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "sidkit", *words], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"sidkit {' '.join(words)} failed")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak resident GiB": round(usage.ru_maxrss / 2**20, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder with embedding.npy, items.parquet and sequences.parquet")
    data = parser.parse_args().data.absolute()
    rows, visits = str(data / "embedding.npy"), ["--sequences", str(data / "sequences.parquet")]
    compare = ["compare", rows, "-r", RECIPES, "--seeds", "x2"]
    commands = {
        "advise": ["advise", rows, "-o", "advise.html"],
        "advise --sequences": ["advise", rows, *visits, "-o", "visits.html"],
        "compare": [*compare, "-o", "compare.html"],
        "compare --sequences": [*compare, *visits, "-o", "compared.html"],
    }
    result: dict[str, object] = {"command": f"python benchmarks/advice.py DATA/{data.name}", "machine": machine()}
    for name, words in commands.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = timed(words, folder)
        print(name, json.dumps(result[name]), flush=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
