"""One pass of k-means on this processor, against the bare matrix product and against the peers.

    python benchmarks/cpu_pass.py                      1,000,000 rows, three repeats, some minutes
    python benchmarks/cpu_pass.py --rows 200000 --repeats 8 --patience 30
                                                       short times, measured while others do not use the machine
    python benchmarks/cpu_pass.py --passes-only        sidkit and the product alone: needs no peer, and no torch

Everything in a repeat runs one after the other, so ratios compare like with like; the yardstick is the best of numpy
and torch on the same product, in the same repeat. The summary compares the least times of all repeats. Peers run in
child processes, because OPENBLAS_CORETYPE must be set before faiss is loaded. Where numpy's OpenBLAS takes an AVX-512
processor for a Haswell (`threadpools` in the results), start this with OPENBLAS_CORETYPE=SKYLAKEX. Results, with
machine and versions, go to benchmarks/results/cpu_pass.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import threadpoolctl

import sidkit
from sidkit.engine import cpu, native
from sidkit.engine.native.build import kernels
from sidkit.engine.native.cache import processor
from sidkit.engine.native.compiler import find_compiler
from sidkit.stages.cluster.kmeans import Centroids, KMeans

if find_spec("torch"):
    import torch
else:
    torch = None

RESULTS = Path(__file__).with_name("results") / "cpu_pass.json"
CHUNK = 1 << 16
LIBRARIES = ("numpy", "scipy", "torch", "faiss-cpu", "scikit-learn", "semantic-id")


def planted(n, d, size, seed=0):
    """Rows of length one around 3 x size directions, as embeddings after Normalize."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((3 * size, d), dtype=np.float32)
    x = rng.standard_normal((n, d), dtype=np.float32)
    x *= 1.5
    for start in range(0, n, CHUNK):
        x[start : start + CHUNK] += centres[rng.integers(0, 3 * size, len(x[start : start + CHUNK]))]
        x[start : start + CHUNK] /= np.linalg.norm(x[start : start + CHUNK], axis=1, keepdims=True)
    return x


def centroids_of(x, size):
    """A codebook a few passes into its fit."""
    rows = x[:200_000]
    c = rows[np.random.default_rng(1).choice(len(rows), size, replace=False)].astype(np.float64)
    for _ in range(3):
        mass, total, _ = native.soft_sums(rows, cpu.book(c, "cosine", rows), 2, 15.0, 0.5)
        c = np.where(mass[:, None] > 0, total / np.maximum(mass, 1e-300)[:, None], c)
    return c


def others_rest(patience, window=0.5):
    """Wait until nobody uses the machine, or only processes with low priority (nice); at most `patience` seconds."""

    def idle_and_all():
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return fields[1] + fields[3] + fields[4], sum(fields)

    end = time.monotonic() + patience
    while time.monotonic() < end:
        idle, total = idle_and_all()
        time.sleep(window)
        now_idle, now_total = idle_and_all()
        if now_idle - idle > 0.94 * (now_total - total):
            return


PATIENCE = 0.0
SPINNING = 0.2  # seconds: after a product the threads of OpenBLAS keep their cores busy for half of that


def seconds(f):
    time.sleep(SPINNING)
    others_rest(PATIENCE)
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def limited(threads, f):
    """f with every library limited to this number of threads."""
    if torch:
        torch.set_num_threads(threads)
    os.environ["SIDKIT_THREADS"] = str(threads)
    with threadpoolctl.threadpool_limits(threads):
        return f()


def sgemm(x, c):
    """The yardstick: seconds of the bare product of all rows and centroids, by the best BLAS and block here."""
    c = c.astype(np.float32)
    out = np.empty((8192, len(c)), np.float32)

    def by(multiply, block):
        for start in range(0, len(x), block):
            multiply(start, min(block, len(x) - start))

    products = {"numpy 8192": lambda: by(lambda s, m: np.matmul(x[s : s + m], c.T, out=out[:m]), 8192)}
    if torch:
        tx, tc, tout = torch.from_numpy(x), torch.from_numpy(c), torch.from_numpy(out)
        for block in (8192, 2048):
            products[f"torch {block}"] = lambda block=block: by(
                lambda s, m: torch.mm(tx[s : s + m], tc.T, out=tout[:m]), block
            )
    return {f"sgemm {name}": seconds(f) for name, f in products.items()}


def native_pass(x, c, k, screen=1):
    """One whole pass: codebook packed, rows scored, weighed and added up."""
    book = cpu.book(c, "cosine", x)
    native.soft_sums(x, book, k, 15.0, 0.5) if screen else float_pass(x, book, k)


def float_pass(x, book, k):
    """The same without bytes, as on a processor that has no dot products of them."""
    sums = {"mass": np.zeros(len(book)), "total": np.zeros((len(book), x.shape[1])), "objective": np.zeros(1)}
    native._run(x, native.pack(book), k, screen=0, beta=15.0, scale=-1.0, **sums)


def numpy_pass(x, c, k):
    """The path without compiled kernels: the functions of the engine, chunk by chunk."""
    spec, clusters, total = KMeans(len(c), "cosine", k), Centroids(c, "cosine"), None
    chosen, native.ready = native.ready, lambda *_: False  # whatever the engine would choose
    try:
        for start in range(0, len(x), 1 << 14):
            part = spec.statistics(clusters, x[start : start + (1 << 14)], None)
            total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    finally:
        native.ready = chosen


def rescored(x):
    """How many of 1,024 scores a row needs again in full, after the screen in bytes."""
    book, out = cpu.book(centroids_of(x, 1024), "cosine", x), {}
    for k in (1, 2, 5):
        sums = {"mass": np.zeros(1024), "total": np.zeros((1024, x.shape[1])), "objective": np.zeros(1)}
        job = native._run(x, native.pack(book), k, beta=15.0, scale=-1.0, **sums)
        out[f"k={k}"] = round(job.rescored / job.n, 2)
    return out


def torch_pass(x, c):
    """The loop people write: mm, max, index_add_."""
    tx, tc = torch.from_numpy(x), torch.from_numpy(c.astype(np.float32))
    total, mass = torch.zeros(c.shape), torch.zeros(len(c))
    for start in range(0, len(x), 2048):
        rows = tx[start : start + 2048]
        best = (rows @ tc.T).max(dim=1).indices
        total.index_add_(0, best, rows)
        mass.index_add_(0, best, torch.ones(len(rows)))


PEER = """
import sys, time, numpy as np
name, path, size, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
x = np.load(path, mmap_mode="r")
x = np.ascontiguousarray(x)
start = x[np.random.default_rng(1).choice(len(x), size, replace=False)]
def run(iterations):
    t = time.perf_counter()
    if name == "faiss":
        import faiss
        faiss.omp_set_num_threads(threads)
        k = faiss.Kmeans(x.shape[1], size, niter=iterations, spherical=True, max_points_per_centroid=10**9)
        k.train(x, init_centroids=start)
    else:
        from sklearn.cluster import KMeans
        KMeans(size, init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(x)
    return time.perf_counter() - t
import warnings; warnings.simplefilter("ignore")
run(1)
a, b = run(1), run(3)
print((b - a) / 2)
"""


def peer(name, path, size, threads, **environment):
    """Seconds of one more iteration of a peer: three less one, halved."""
    command = [sys.executable, "-c", PEER, name, str(path), str(size), str(threads)]
    given = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    settings = given | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)} | environment
    others_rest(PATIENCE)
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return float(done.stdout)


def passes(x, threads, path, peers):
    """Seconds of everything at d = 128, K = 1024."""
    c = centroids_of(x, 1024)
    out = sgemm(x, c)
    out |= {f"native k={k}": seconds(lambda k=k: native_pass(x, c, k)) for k in (1, 2, 5)}
    out |= {f"native float32 k={k}": seconds(lambda k=k: native_pass(x, c, k, 0)) for k in (1, 5)}
    out |= {f"numpy engine k={k}": seconds(lambda k=k: numpy_pass(x, c, k)) for k in (1, 2, 5)}
    out["torch loop k=1"] = seconds(lambda: torch_pass(x, c))
    return out | (peer_passes(path, threads) if peers else {})


def peer_passes(path, threads):
    tuned = {"as installed": {}, "SKYLAKEX": {"OPENBLAS_CORETYPE": "SKYLAKEX"}, "ZEN": {"OPENBLAS_CORETYPE": "ZEN"}}
    out = {f"faiss {name} k=1": peer("faiss", path, 1024, threads, **setting) for name, setting in tuned.items()}
    return out | {"sklearn k=1": peer("sklearn", path, 1024, threads)}


def wide(n):
    """d = 768, K = 256, the public setting."""
    x = planted(n, 768, 256)
    return few_passes(x, centroids_of(x, 256))


def semantic_id(x, threads):
    """A whole RQ-KMeans fit by the semantic-id package, one start, over the same by sidkit: 256-256-256, 25 passes."""
    from semantic_id import RQKMeans

    theirs = limited(threads, lambda: seconds(lambda: RQKMeans(3, 256, max_iter=25, tol=0, n_init=1).fit(x)))
    ours = limited(threads, lambda: seconds(lambda: sidkit.rq_kmeans(sizes=(256, 256, 256), iterations=25).fit(x)))
    return {"rows": len(x), "seconds": theirs, "over sidkit": round(theirs / ours, 2)}


def ratios(times):
    """Every time over the best bare product of the same repeat."""
    bare = min(value for name, value in times.items() if name.startswith("sgemm"))
    return {name: round(value / bare, 3) for name, value in times.items()}


def summary(seconds, threads):
    """The figures of one repeat, or of the best times of several."""
    passes, both = seconds["d=128 K=1024"], seconds["threads"]
    return {
        "d=128 K=1024, over sgemm": ratios(passes),
        "d=768 K=256, over sgemm": ratios(seconds["d=768 K=256"]),
        f"1 thread over {threads}": {name: round(both["1"][name] / both[str(threads)][name], 2) for name in both["1"]},
    }


def best_of(rounds):
    """The least of every time."""
    if not isinstance(rounds[0], dict):
        return min(rounds)
    return {name: best_of([one[name] for one in rounds]) for name in rounds[0]}


def machine():
    def installed(name):
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    libraries = [{k: v for k, v in one.items() if k != "filepath"} for one in threadpoolctl.threadpool_info()]
    names = [line.split(":")[1].strip() for line in processor().splitlines() if line.startswith("model name")]
    return {
        "processor": (names or [platform.processor()])[0],
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "vector unit": kernels().sidkit_unit(),
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in LIBRARIES},
        "library": Path(kernels()._name).name,
        "compiler": bool(find_compiler()),
        "threadpools": libraries,
    }


def few_passes(x, c):
    """Seconds of the product and of sidkit's passes, once."""
    return sgemm(x, c) | {f"native k={k}": seconds(lambda k=k: native_pass(x, c, k)) for k in (1, 2, 5)}


def passes_only(rows, repeats):
    """sidkit's passes and the product, the least of all repeats, over the product."""
    out = {}
    for d, size, n in ((128, 1024, rows), (768, 256, rows // 4)):
        x = planted(n, d, size)
        c = centroids_of(x, size)
        rounds = [few_passes(x, c) for _ in range(repeats)]
        name = f"d={d} K={size}"
        out |= {f"{name}, over sgemm": ratios(best_of(rounds)), f"{name}, seconds": best_of(rounds)}
    return out


def one_round(x, threads, path, peers):
    """Seconds of everything, once."""

    c = limited(threads, lambda: centroids_of(x, 1024))
    return {
        "threads": {str(t): limited(t, lambda: few_passes(x, c)) for t in (1, threads)},
        "d=128 K=1024": limited(threads, lambda: passes(x, threads, path, peers)),
        "d=768 K=256": limited(threads, lambda: wide(max(len(x) // 4, 20_000))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--passes-only", action="store_true")
    parser.add_argument(
        "--patience", type=float, default=0.0, help="seconds to wait for an idle machine before each measurement"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    globals()["PATIENCE"] = options.patience
    if not native.prepare(float("inf")):
        raise SystemExit(f"no compiled kernels: {native.reason()}")
    if options.passes_only:
        result = {"command": " ".join(sys.argv), "rows": options.rows, "threads": options.threads, "machine": machine()}
        result |= limited(options.threads, lambda: passes_only(options.rows, options.repeats))
        write(options.out, result)
        print(json.dumps(result, indent=1))
        return
    x = planted(options.rows, 128, 1024)
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"cpu_pass_{os.getpid()}.npy"
    np.save(path, x)
    result = {"command": " ".join(sys.argv), "rows": options.rows, "threads": options.threads, "machine": machine()}
    result["scores computed again per row"] = rescored(x)
    rounds = []
    try:
        for _ in range(options.repeats):
            rounds.append(one_round(x, options.threads, path, not options.no_peers))
            result |= {"best of all repeats": summary(best_of(rounds), options.threads)}
            result |= {"repeats": [summary(one, options.threads) for one in rounds], "seconds": rounds}
            write(options.out, result)
        if not options.no_peers:
            if find_spec("semantic_id"):
                result["semantic-id, a whole fit"] = semantic_id(x[: len(x) // 10], options.threads)
            write(options.out, result)
    finally:
        path.unlink()
    print(json.dumps(result["best of all repeats"], indent=1))


def write(path, result):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
