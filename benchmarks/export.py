"""Exports at scale: seconds, bytes and the largest memory of every target, and ONNX graphs against the library.

    python benchmarks/export.py targets [--items 10000000] [--only lc-rec,csv]
    python benchmarks/export.py imports [--items 10000000]
    python benchmarks/export.py onnx [--rows 1000000] [--d 128] [--only prq-kmeans] [--scores float32]

targets: made-up SIDs with integer ids, codes with geometric frequencies; some text targets get titles, OpenOneRec
counts. Each target is written in a process of its own, whose largest memory is compared with that of a process that
only reads the table. imports: what was written is read again, likewise. onnx: every recipe, fitted on 20,000 rows,
encodes all rows in the library and in onnxruntime; rows that differ are counted, and those at near-ties among them.

Results, with machine and versions, go to benchmarks/results/export.json, of graphs to onnx.json, after every line; what
is there already for the same size is not run again (--again runs it).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import sidkit
from sidkit import SidTable
from sidkit.export.imports import Foreign
from sidkit.export.job import export
from sidkit.export.onnx import encoder_graph
from sidkit.export.onnx_check import agreement
from sidkit.export.registry import target_named
from sidkit.export.target import ExportJob
from sidkit.tokenizer.recipes import RECIPES

RESULTS = Path(__file__).with_name("results")
OPTIONS = {"xllm": {"base": 1000}, "nvidia-sid-gr": {"base": 1000, "shared": True}}
TITLED = ("minionerec", "lc-rec", "llama-factory")
TARGETS = (
    *("read", "csv", "lc-rec", "minionerec", "llama-factory", "recboard", "openonerec", "grid", "torcheasyrec"),
    *("flashrec", "nvidia-sid-gr", "xllm", "rectokens", "static"),
)
IMPORTS = {
    "lc-rec": "items.index.json",
    "recboard": "sid_vocab.json",
    "openonerec": "codes.parquet",
    "grid": "merged_predictions_tensor.pt",
    "torcheasyrec": "0",
}
HYBRIDS = {
    "rq-opq": (256, 128, 64, 32, 32),
    "prq-opq": (256, 128, 64, 32, 32),
    "res-kmeans-fsq": (256, 256, 256, 64, 64),
}


def machine():
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    packages = ("numpy", "pyarrow", "onnx", "onnxruntime")
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def commit():
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def made_up(path, n):
    """n items with SIDs of 256-256-256."""
    rng = np.random.default_rng(0)
    codes = np.stack([np.minimum(rng.geometric(0.02, n) - 1, 255) for _ in range(3)], axis=1).astype(np.int32)
    SidTable(np.arange(1, n + 1), codes, (256, 256, 256)).to_parquet(path)


def write_one(name, sids, output):
    """In a process of its own: read the table, write one target; seconds and the largest memory."""
    start = time.perf_counter()
    table = SidTable.from_parquet(sids)
    took = {"read": time.perf_counter() - start}
    if name != "read":
        titles = pa.array([f"thing {i}" for i in range(len(table))], pa.large_string()) if name in TITLED else None
        counts = np.arange(len(table)) if name == "openonerec" else None
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        record = export(name, ExportJob(table, titles=titles, counts=counts, options=OPTIONS.get(name, {})), output)
        took |= {"write": time.perf_counter() - start, "peak before": before * 1024}
        took["bytes"] = sum(facts["bytes"] for facts in record["files"].values())
    print(json.dumps(took | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def read_one(name, path):
    """In a process of its own: import what was written."""
    start = time.perf_counter()
    table = target_named(name).read(Path(path), Foreign())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"items": len(table), "seconds": time.perf_counter() - start, "peak": peak}))


def child(*words):
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class Results:
    """A file of benchmarks/results, written after every figure."""

    def __init__(self, path, again):
        self.path, self.again = path, again
        self.all = json.loads(path.read_text()) if path.exists() else {}

    def get(self, kind, key):
        return None if self.again else self.all.get(kind, {}).get(key)

    def put(self, kind, key, figures):
        self.all["machine"] = machine()
        self.all.setdefault(kind, {})[key] = figures
        self.path.write_text(json.dumps(self.all, indent=2) + "\n")


def targets(args, results):
    names = args.only.split(",") if args.only else TARGETS
    with TemporaryDirectory(dir=args.scratch) as folder:
        sids = Path(folder) / "sids.parquet"
        made_up(sids, args.items)
        for name in names:
            key = f"{name} {args.items}"
            figures = results.get("targets", key)
            if figures is None:
                figures = child("write-one", name, sids, Path(folder) / name)
                results.put("targets", key, figures)
            print(f"{name:16} {figures.get('write', figures['read']):8.1f} s {figures.get('bytes', 0) / 1e6:10.1f} MB "
                  f"peak {figures['peak'] / 1e6:8.0f} MB", flush=True)  # fmt: skip


def imports(args, results):
    names = args.only.split(",") if args.only else IMPORTS
    with TemporaryDirectory(dir=args.scratch) as folder:
        sids = Path(folder) / "sids.parquet"
        made_up(sids, args.items)
        for name in names:
            key = f"{name} {args.items}"
            figures = results.get("imports", key)
            if figures is None:
                child("write-one", name, sids, Path(folder) / name)
                figures = child("read-one", name, Path(folder) / name / IMPORTS[name])
                assert figures["items"] == args.items
                results.put("imports", key, figures)
            print(f"{name:16} {figures['seconds']:8.1f} s peak {figures['peak'] / 1e6:8.0f} MB", flush=True)


def onnx(args, results):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2000, args.d)).astype(np.float32)
    X = centres[rng.integers(0, len(centres), args.rows)]
    X += 0.5 * rng.standard_normal(X.shape, np.float32) + 0.1
    for name in args.only.split(",") if args.only else RECIPES:
        key = f"{name} {args.rows}x{args.d} {args.scores}"
        figures = results.get("onnx", key)
        if figures is None:
            options = {"epochs": 20} if "vae" in name else {}
            spec = RECIPES[name](sizes=HYBRIDS.get(name, (256, 256, 256)), **options)
            fitted = spec.fit(X[:20_000], seed=0)
            with TemporaryDirectory(dir=args.scratch) as folder:
                path = Path(folder) / "encoder.onnx"
                path.write_bytes(encoder_graph(fitted, exact=args.scores == "float64").SerializeToString())
                start = time.perf_counter()
                figures = agreement(fitted, path, X) | {"bytes": path.stat().st_size}
                figures["seconds both ways"] = round(time.perf_counter() - start, 1)
            figures |= {"sizes": fitted.sizes, "seed": 0, "sidkit": sidkit.__version__, "commit": commit()}
            results.put("onnx", key, figures)
        print(f"{name:20} {figures['rows']:,} rows: {figures['differ']} differ, {figures['near_ties']} of them at "
              f"near-ties; {figures['seconds both ways']:.1f} s for both", flush=True)  # fmt: skip


def main():
    if sys.argv[1:2] == ["write-one"]:
        return write_one(*sys.argv[2:])
    if sys.argv[1:2] == ["read-one"]:
        return read_one(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["targets", "imports", "onnx"])
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--scores", default="float64", choices=["float32", "float64"])
    parser.add_argument("--only", default="")
    parser.add_argument("--scratch", default=None, help="folder for temporary files")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    path = RESULTS / ("onnx.json" if args.what == "onnx" else "export.json")
    print(f"sidkit {sidkit.__version__}, {machine()}")
    {"targets": targets, "imports": imports, "onnx": onnx}[args.what](args, Results(path, args.again))
    return None


if __name__ == "__main__":
    main()
