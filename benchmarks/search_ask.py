"""Milliseconds for one query on a CPU: the small model, 128 beams over the SIDs of a simulated shop.

    python benchmarks/search_ask.py -o benchmarks/results/search_ask.json

The model is trained for a few steps only: an answer takes as long as a good one. Its vocabulary is what the titles have
(16,000 words at most) and the SIDs of 256-128-64. The first call, which builds the trie, is not counted. `load` is
that of the machine in the minute before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

import sidkit
from sidkit.search.bart.shape import preset
from sidkit.search.model.model import Request, SearchModel
from sidkit.search.model.trainer import train_search
from sidkit.search.shop import Shop
from sidkit.search.simulate import ShopPlan, simulate_shop
from sidkit.search.training.corpus import SearchData
from sidkit.search.training.plan import SearchPlan

SIZES = (256, 128, 64)


def model_of(folder: Path, items: int, plan: SearchPlan) -> SearchModel:
    """A model trained for a few steps on a simulated shop whose SIDs are drawn at random."""
    simulate_shop(folder / "shop", ShopPlan.of(items, 200))
    shop, rng = Shop.open(folder / "shop"), np.random.default_rng(0)
    sids = [
        sidkit.SidTable(ids, np.stack([rng.integers(0, size, len(ids)) for size in SIZES], 1), SIZES)
        for ids in (shop.items.column("item_id"), shop.queries.column("query_id"))
    ]
    return train_search(SearchData.of(shop, *sids), folder / "run", plan, device="cpu")


def _summary(times: list[float]) -> dict[str, float]:
    """Of milliseconds."""
    return {
        name: round(float(of(times)), 1) for name, of in (("fastest", min), ("median", np.median), ("slowest", max))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--times", type=int, default=20)
    asked = parser.parse_args()
    plan = SearchPlan(preset(asked.preset), epochs=(0, 0, 1), batch=64)
    with TemporaryDirectory() as folder:
        model = model_of(Path(folder), asked.items, plan)
    load = os.getloadavg()[0]  # above the number of cores, others had a part of them: then the fastest tells most
    walls, cpus = [], []
    for i in range(asked.times + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        model.ask([Request(f"rain jacket kids {i}")])
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.process_time() - cpu))
    found = {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sidkit": sidkit.__version__,
        "command": f"python benchmarks/search_ask.py --items {asked.items} --preset {asked.preset}",
        "vocabulary": model.tokens.size,
        "items": asked.items,
        "beams": plan.beams,
        "load": round(load, 1),
        "ms": _summary(walls[1:]),
        "cpu_ms": _summary(cpus[1:]),
    }
    print(json.dumps(found, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
