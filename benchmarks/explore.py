"""How long the explorer takes with a million items: to read and index them, and to answer.

    python benchmarks/explore.py [--items 1000000]

Made up: 256-256-256 codes with geometric frequencies, titles of four words, 128-dimensional vectors, a second table.
Wall and processor seconds, the fastest of five (of one for reading). Results, with machine and versions, go to
benchmarks/results/explore.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cpu_pass import machine

from sidkit.data.json_lines import Lines
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Pages
from sidkit.sids.table import SidTable

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "explore"))
from explored import large_shop

RESULTS = Path(__file__).with_name("results") / "explore.json"


def timed(work, repeats=5):
    best = None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        best = took if best is None or took["wall"] < best["wall"] else best
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    n, catalogues = parser.parse_args().items, []
    with TemporaryDirectory() as name:
        folder = Path(name)
        large_shop(folder, n)
        table = SidTable.from_parquet(folder / "sids.parquet")
        SidTable(table.ids, table.codes[:, ::-1].copy(), table.sizes[::-1]).to_parquet(folder / "other.parquet")
        vectors = Lines(np.random.default_rng(1).standard_normal((n, 128), np.float32), table.ids)
        tables = folder / "sids.parquet", folder / "other.parquet"
        items = folder / "items.parquet"
        times = {"read and index": timed(lambda: catalogues.append(read(*tables, items, "title", vectors)), 1)}
    item = "P7"

    def fresh():
        return Pages(catalogues[0])  # nothing remembered

    for name, work in {
        "first token": lambda: fresh().node("a", ()),
        "one token deep": lambda: fresh().node("a", (0,)),
        "last page of items": lambda: fresh().members("a", (), (n - 1) // 25),
        "an item": lambda: fresh().item(item),
        "surprises of an item": lambda: fresh().near(item, "a"),
        "the other table, all items": lambda: fresh().counterpart("a", ()),
        "the other table, one token deep": lambda: fresh().counterpart("a", (0,)),
        **{f"search {query!r}": (lambda q=query: fresh().search(q)) for query in ("s", "brand77 st", "P99", "nothing")},
    }.items():
        times[name] = timed(work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    RESULTS.write_text(
        json.dumps({"machine": machine(), "items": n, "seconds": times, "peak bytes": peak}, indent=2) + "\n"
    )
    for name, took in times.items():
        print(f"{name:32} {1000 * took['wall']:10.1f} ms wall {1000 * took['cpu']:10.1f} ms cpu")
    print(f"peak memory {peak / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
