"""The paper's industrial sizes on real catalogues: the codebook columns of its Table 1, with queries fitted jointly.

    python experiments/paper_sizes.py DATA -o experiments/results/paper_sizes.jsonl --cache CACHE
    python experiments/paper_sizes.py DATA -o experiments/results/paper_sizes.jsonl --tables

DATA holds a folder per catalogue with items.parquet, and queries.parquet where there are any. All items and queries are
embedded as `sidkit embed` does it (WordLlama, 256 dimensions; kept in CACHE) and fitted together; the figures count
items alone. A line of JSON is written per tokenizer and seed; lines already there are not computed again. Tokenizers
that begin with the same stages share them: RQ-OPQ and ResKmeansFSQ those of RQ-KMeans, PRQ-OPQ those of PRQ-KMeans.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from made import made
from tables import comparison, read_options
from wordllama_vectors import vectors

import sidkit
from sidkit.data.inputs import as_rows
from sidkit.rows.seam import Rows
from sidkit.stages.stage import FitContext
from sidkit.tokenizer.recipes import recipe

CATALOGUES = ("beauty", "bestbuy", "clothing", "homedepot", "lastfm", "sports", "toys")
THREE, FIVE = (1024, 512, 128), (1024, 512, 128, 64, 64)
PRQ, VAE = {"top_k": 5}, {"preset": "paper"}
RUNS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {  # tokenizers, most telling first
    "prq-kmeans": (THREE, PRQ),
    "rq-kmeans": (THREE, {}),
    "prq-opq": (FIVE, PRQ),
    "rq-opq": (FIVE, {}),
    "res-kmeans-fsq": (FIVE, {}),
    "pq-kmeans": (THREE, {}),
    "opq-kmeans": (THREE, {}),
    "rq-vae": (THREE, VAE),
    "r3-vae": (THREE, VAE),
    "rq-gmm": (THREE, {}),
}


def union(data: Path, cache: Path) -> tuple[np.ndarray, int]:
    """The vectors of all items, then of all queries, without those of no known word; and the number of items."""
    items = [vectors(data / name / "items.parquet", cache) for name in CATALOGUES]
    files = [data / name / "queries.parquet" for name in CATALOGUES]
    queries = [vectors(file, cache) for file in files if file.exists()]
    items, queries = ([rows[rows.any(axis=1)] for rows in parts] for parts in (items, queries))
    return np.concatenate([*items, *queries]), sum(map(len, items))


class Fits:
    """Fits of one seed. Stages that an earlier tokenizer of the seed began with are not fitted again."""

    def __init__(self, X: np.ndarray, seed: int) -> None:
        self.start, self.run = as_rows(X, "cpu"), FitContext(seed, device="cpu")
        self.known: dict[tuple, tuple[Rows, float]] = {}

    def codes(self, name: str) -> tuple[np.ndarray, tuple[int, ...], float]:
        """The tokens of all rows, the sizes, and the seconds that all its stages took."""
        sizes, options = RUNS[name]
        rows, seconds, stages = self.start, 0.0, recipe(name, sizes=sizes, **options).stages
        for i, stage in enumerate(stages, 1):
            if stages[:i] not in self.known:
                begun = time.perf_counter()
                fitted = rows.map(stage.fit(rows, self.run))
                fitted.codes()
                self.known[stages[:i]] = fitted, seconds + time.perf_counter() - begun
            rows, seconds = self.known[stages[:i]]
        return rows.codes(), sizes, seconds


def work(data: Path, output: Path, cache: Path, names: list[str], seeds: list[int]) -> None:
    done = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    X, items = union(data, cache)
    where = made("python experiments/paper_sizes.py DATA -o paper_sizes.jsonl --cache CACHE")
    facts = {"dataset": "all catalogues", "items": items, "queries": len(X) - items}
    for seed in seeds:
        fits = Fits(X, seed)
        for name in names:
            if any((line["recipe"], line["seed"]) == (name, seed) for line in done):
                continue
            codes, sizes, seconds = fits.codes(name)
            run = {"table": len(sizes), "recipe": name, "sizes": sizes, "options": RUNS[name][1], "seed": seed}
            run |= facts | {"quality": sidkit.quality(codes[:items], sizes), "seconds": round(seconds, 1)}
            with output.open("a") as out:
                out.write(json.dumps(run | where) + "\n")
            print(seed, name, round(seconds, 1), flush=True)


def tables(lines: list[dict]) -> None:
    print(f"{lines[0]['items']:,} items and {lines[0]['queries']:,} queries")
    for table, sizes in ((3, THREE), (5, FIVE)):
        counts = {name: sum(line["recipe"] == name for line in lines) for name in RUNS}
        seeds = ", ".join(f"{name} {counts[name]}" for name, (own, _) in RUNS.items() if own == sizes)
        print(f"\n### {'-'.join(map(str, sizes))} (seeds: {seeds})\n")
        compared = comparison(lines, "all catalogues", table)
        print(compared.markdown() if compared else "nothing yet")


def main() -> None:
    options = read_options(__doc__, "data", datasets=CATALOGUES, seeds="0,1,2,3,4", names=",".join(RUNS), cache="CACHE")
    if not options.tables:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        work(options.data, options.output, Path(options.cache), options.names.split(","), seeds)
    tables([json.loads(line) for line in options.output.read_text().splitlines()])


if __name__ == "__main__":
    main()
