"""Commands beside a busy neighbour: threads that sleep while they wait, as sidkit lets them, against threads that spin.

    python benchmarks/shared_cores.py --output benchmarks/results/shared_cores.json

Makes a small shop, then runs `train --preset tiny`, `fit -r opq-kmeans` and `blend` on it, each with the libraries' own
policy (SIDKIT_SPIN=1, as every version before had it) and with sidkit's, one after the other, first on idle cores and
then beside processes that compute all the time, one for every core. Repeats alternate between the two policies, so
that what else the machine does reaches both. Prints and writes the seconds and their ratios. A finished measurement is
in the output and is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

POLICIES = {"spin": {"SIDKIT_SPIN": "1"}, "sleep": {}}
SET = ("SIDKIT_SPIN", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT")
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"  # ends with its parent


def commands(shop: Path, out: Path, epochs: int) -> dict[str, list[str]]:
    items, sequences = str(shop / "items.parquet"), str(shop / "sequences.parquet")
    train = ["train", str(shop / "sids.parquet"), sequences, "--preset", "tiny", "--epochs", str(epochs)]
    return {
        "train --preset tiny": [*train, "--device", "cpu", "-o", str(out / "run")],
        "fit -r opq-kmeans": ["fit", items, "-r", "opq-kmeans", "-o", str(out / "opq"), "--device", "cpu"],
        "blend": ["blend", items, "--sequences", sequences, "-o", str(out / "blended.parquet")],
    }


def seconds_of(words: list[str], policy: str) -> float:
    """Wall-clock seconds of a command under a policy, in a new process."""
    environment = {name: value for name, value in os.environ.items() if name not in SET} | POLICIES[policy]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "sidkit", *words],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


@contextmanager
def neighbours(count: int):
    """So many processes that compute all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def machine() -> dict[str, str | int | None]:
    import numpy
    import scipy
    import torch

    import sidkit

    versions = {module.__name__: module.__version__ for module in (numpy, scipy, torch, sidkit)}
    return {"machine": platform.platform(), "processor": platform.processor(), "cores": os.cpu_count(), **versions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/shared_cores.json"))
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--neighbours", type=int, default=os.cpu_count() or 1, help="busy processes")
    parser.add_argument("--only", default="", help="commands to measure, by their first words, separated by commas")
    options = parser.parse_args()
    result = {"machine": machine(), "options": {**vars(options), "output": str(options.output)}, "seconds": {}}
    if options.output.exists():
        result["seconds"] = json.loads(options.output.read_text())["seconds"]
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder) / "shop"
        made = [sys.executable, "-m", "sidkit", "demo", "-o", str(shop), "--items", str(options.items)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for busy in (0, options.neighbours):
            with neighbours(busy):
                for name, words in commands(shop, Path(folder), options.epochs).items():
                    if options.only and not name.startswith(tuple(options.only.split(","))):
                        continue
                    key = f"{name}, {busy} neighbours"
                    taken = result["seconds"].setdefault(key, {policy: [] for policy in POLICIES})
                    while len(taken["sleep"]) < options.repeats:
                        for policy in POLICIES:
                            taken[policy].append(round(seconds_of(words, policy), 2))
                        options.output.parent.mkdir(parents=True, exist_ok=True)
                        options.output.write_text(json.dumps(result, indent=1) + "\n")
                    spin, sleep = (statistics.median(taken[policy]) for policy in POLICIES)
                    print(f"{key:45} spin {spin:7.1f} s   sleep {sleep:7.1f} s   ratio {spin / sleep:.2f}", flush=True)


if __name__ == "__main__":
    main()
