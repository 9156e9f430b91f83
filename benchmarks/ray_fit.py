"""A fit by Ray workers compared with the same fit in one process: time, bytes and memory.

    python benchmarks/ray_fit.py time    --rows 2000000 --output benchmarks/results/ray_fit.json
    python benchmarks/ray_fit.py memory  --output benchmarks/results/ray_memory.json
    python benchmarks/ray_fit.py costs   --output benchmarks/results/ray_costs.json
    python benchmarks/ray_fit.py learned --rows 40960 --output benchmarks/results/ray_learned.json

time     2M x 128, 1024-512-128, top-k 5: two threads of one process, then two workers of one thread each, in turns.
         Start-up (Ray, workers, reading) is measured separately. Tokens must be equal. All passes cost the same,
         so the ratio of a few is that of many.
memory   the driver's peak resident memory for growing numbers of rows, each in a separate process.
costs    what the model in docs/scale.md needs: multiply-adds a second of a core, the cost of a task, of an addition.
learned  RQ-VAE by the paper's schedule, batches of 4,096 x 768: an epoch by one process of two threads, by the driver
         with rows on two workers, and with batches divided among these, one thread each; in turns. And the collisions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

D, SIZES, TOP_K, SEED = 128, (1024, 512, 128), 5, 0


def rows_of(n: int, d: int = D) -> np.ndarray:
    """Rows around 4,096 centres, float32."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(4096, d)).astype(np.float32)
    x = np.empty((n, d), np.float32)
    for start in range(0, n, 1 << 16):
        part = x[start : start + (1 << 16)]
        part[:] = rng.normal(size=part.shape).astype(np.float32) + centres[rng.integers(0, 4096, len(part))]
    return x


def prepared(n: int, folder: str, d: int = D) -> Path:
    """The file of n rows in a folder, written if it is not there."""
    path = Path(folder) / f"rows-{n}-{d}.npy"
    if not path.exists():
        np.save(path, rows_of(n, d))
    return path


def machine() -> dict[str, object]:
    import ray

    import sidkit

    cpu = next((s for s in Path("/proc/cpuinfo").read_text().splitlines() if s.startswith("model name")), ": unknown")
    versions = {"python": platform.python_version(), "numpy": np.__version__, "ray": ray.__version__}
    return {"cpu": cpu.partition(": ")[2], "cores": os.cpu_count(), "sidkit": sidkit.__version__, **versions}


class Passes:
    """Notes when every pass ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def start(self, label: str, rows: int) -> None: ...

    def advance(self, rows: int) -> None: ...

    def workers(self, text: str) -> None: ...

    def note(self, text: str) -> None:
        self.ends.append(time.perf_counter())


def serialized(value: object) -> int:
    """Bytes of a value as Ray writes it."""
    import ray

    return int(ray._private.worker.global_worker.get_serialization_context().serialize(value).total_bytes)


def measure_time(args: argparse.Namespace) -> dict[str, object]:
    import sidkit
    from sidkit.rows.local import LocalRows
    from sidkit.rows.sources import ArraySource

    spec = sidkit.prq_kmeans(sizes=SIZES, top_k=TOP_K, iterations=args.iterations)
    path = prepared(args.rows, args.folder)
    x = np.load(path)
    LocalRows(ArraySource(x[:1])).prepare(1e12)  # compile the kernels before the clock starts
    began = time.perf_counter()
    with sidkit.on_ray(path, address="local", workers=2) as rows:
        startup = time.perf_counter() - began
        sent: list[int] = []
        back: list[int] = []
        run = rows.pool.run

        def watched(tasks, shared, progress):  # type: ignore[no-untyped-def]
            references = run(tasks, shared, progress)
            if tasks and tasks[0].verb == "reduce":
                sent.append(serialized(shared))
                back.append(max(serialized(value) for value in rows.pool.get(references)))
            return references

        rows.pool.run = watched
        here, there = [], []
        for _ in range(args.turns):
            os.environ["SIDKIT_THREADS"] = "2"
            began = time.perf_counter()
            one = spec.fit(LocalRows(ArraySource(x)), seed=SEED)
            here.append(time.perf_counter() - began)
            passes = Passes()
            began = time.perf_counter()
            two = spec.fit(rows, seed=SEED, progress=passes)
            there.append(time.perf_counter() - began)
            print(here[-1], there[-1], file=sys.stderr, flush=True)
        equal = bool(np.array_equal(one.fit_codes, two.fit_codes))
    back = back[-len(passes.ends) :]
    expected = [size * (D + 1) * 8 for size in SIZES for _ in range(args.iterations)]
    return {
        "rows": args.rows, "d": D, "sizes": SIZES, "top_k": TOP_K, "iterations": args.iterations, "workers": 2,
        "in_process_two_threads_s": here, "ray_two_workers_s": there,
        "ratio_of_best": min(there) / min(here), "ratios": [b / a for a, b in zip(here, there, strict=True)],
        "start_up_s": startup, "equal_codes": equal,
        "bytes_back_per_pass_and_worker": back, "bytes_expected": expected,
        "most_bytes_over_expected": max(b / e for b, e in zip(back, expected, strict=True)),
        "bytes_to_workers_per_pass": sent[-len(back):],
    }  # fmt: skip


def measure_memory(args: argparse.Namespace) -> dict[str, object]:
    peaks = {}
    for n in (125_000, 500_000, 2_000_000):
        command = [
            sys.executable,
            __file__,
            "driver",
            "--output",
            str(prepared(n, args.folder)),
            "--folder",
            args.folder,
        ]
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks[n] = json.loads(ended.stdout)
    return {"d": D, "sizes": (256, 128), "driver": peaks}


def driver(args: argparse.Namespace) -> dict[str, object]:
    """A fit, saved, in a new process: its peak resident memory, and how much of that the rows added."""
    import sidkit

    with sidkit.on_ray(args.output, address="local", workers=2) as rows:
        before = _peak()
        sidkit.prq_kmeans(sizes=(256, 128), top_k=TOP_K, iterations=1).fit(rows).save(
            Path(args.folder) / "ray-memory-tok"
        )
        return {"peak_MB": _peak(), "before_the_fit_MB": before}


def _peak() -> float:
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure_costs(args: argparse.Namespace) -> dict[str, object]:
    """Seconds of one pass of one and of two workers, of a task without work, and of an addition."""
    import sidkit

    n = args.rows
    result: dict[str, object] = {"rows": n, "d": D, "K": 1024}
    path = prepared(n, args.folder)
    book = np.load(path, mmap_mode="r")[:1024].astype(np.float64)
    for workers in (1, 2):
        with sidkit.on_ray(path, address="local", workers=workers) as rows:
            rows.prepare(1e12)
            result |= {f"{name}_{workers}": value for name, value in _passes(rows, book).items()}
            if workers == 2:
                result |= _calls(rows.pool)
    result["multiply_adds_per_core_s"] = n * 1024 * D / result["pass_s_1"]
    return result


def _passes(rows, book):  # type: ignore[no-untyped-def]
    from sidkit.stages.cluster.kmeans import Centroids, KMeans

    f = partial(KMeans(1024, "cosine", TOP_K).statistics, Centroids(book, "cosine"))
    return {
        "pass_s": _best(lambda: rows.reduce(f), 3),
        "pass_without_work_s": _best(lambda: rows.reduce(partial(_zeros, book)), 5),
    }


def _zeros(book, x, codes):  # type: ignore[no-untyped-def]
    """Sums of the size of a pass, without the work; the codebook is sent as in a pass."""
    return np.zeros(len(book)), np.zeros(book.shape), np.zeros(1)


def _calls(pool):  # type: ignore[no-untyped-def]
    """Seconds of the addition of two sums of K = 1024, of a call, and of each of many calls."""
    ray, calls = pool.ray, 1000
    part = (np.zeros(1024), np.zeros((1024, D)), np.zeros(1))
    a, b = ray.put(part), ray.put(part)
    actors = [slot.actor for slot in pool.slots]
    return {
        "add_s": _best(lambda: ray.get(pool.add(a, b)), 20),
        "no_op_call_s": _best(lambda: ray.get(actors[0].done.remote()), 100),
        "calls_in_a_row_s": _best(lambda: ray.get([actors[i % 2].done.remote() for i in range(calls)]), 3) / calls,
    }


def measure_learned(args: argparse.Namespace) -> dict[str, object]:
    """Seconds of an epoch of RQ-VAE, the first and the last left out, and what it costs to exchange a gradient."""
    from dataclasses import replace

    import sidkit
    from sidkit.tokenizer.recipes import recipe

    path = prepared(args.rows, args.folder, 768)
    plan = {"epochs": 4, "batch": 4096, "learning_rate": 5e-4, "schedule": "constant", "warmup_epochs": 0}
    spec = recipe("rq-vae", sizes=(256, 256, 256), evaluate_every=9, hidden=(512, 256, 128), **plan)
    times: dict[str, list[float]] = {"one process": [], "driver": [], "divided": []}
    figures = {}
    with sidkit.on_ray(path, address="local", workers=2) as rows:
        given = {"one process": path, "driver": rows, "divided": replace(rows, divides_batches=True)}
        for _ in range(args.turns):
            for name, where in given.items():
                passes = Passes()
                fitted = spec.fit(where, seed=SEED, device="cpu", progress=passes)
                times[name] += np.diff(passes.ends)[:-1].tolist()
                figures[name] = {"surplus_per_item": sidkit.quality(fitted.fit_codes, fitted.sizes)["surplus_per_item"]}
                print(name, times[name], figures[name], file=sys.stderr, flush=True)
        exchange = rows.together(_exchange)
    seconds = {name: float(np.median(each)) for name, each in times.items()}
    return {
        "rows": args.rows, "d": 768, "schedule": plan, "steps_per_epoch": -(-args.rows // 4096), "workers": 2,
        "epoch_s": times, "median_s": seconds, "divided_over_one_process": seconds["divided"] / seconds["one process"],
        "figures": figures, "exchange_of_a_gradient_s": exchange, "load": os.getloadavg(),
    }  # fmt: skip


def _exchange(member):  # type: ignore[no-untyped-def]
    """The least seconds of adding 1.1 million numbers up among the workers."""
    array = np.ones(1_100_000, np.float32)
    return _best(lambda: member.exchange.add(array), 20)


def _best(call, times: int) -> float:  # type: ignore[no-untyped-def]
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "memory", "costs", "learned", "driver"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the rows are written")
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    if args.what == "driver":
        return print(json.dumps(driver(args)))
    measures = {"time": measure_time, "memory": measure_memory, "costs": measure_costs, "learned": measure_learned}
    result = measures[args.what](args)
    text = json.dumps({"what": args.what, "machine": machine(), "seed": SEED, **result}, indent=2)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
