"""What rows with nothing left do to normalised RQ-KMeans: the trap described in docs/results/codebooks.md.

python experiments/zero_rows.py DATA/lastfm -o experiments/results/zero_rows.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from made import made

import sidkit
from sidkit.stages.level import Level


def plain_draw(n: int, seed: int) -> list[np.ndarray]:
    """Initial rows of every level drawn from all rows alike, as k-means implementations do."""
    rng = np.random.default_rng(seed)
    return [rng.choice(n, 256, replace=False) for _ in range(3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    X = np.load(options.dataset / "embedding.npy").astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    results = made(f"python experiments/zero_rows.py DATA/{options.dataset.name} -o {options.output.name}")
    for plain, protected in product((True, False), (False, True)):
        spec = sidkit.rq_kmeans()
        stages = tuple(
            replace(stage, cluster=replace(stage.cluster, skip_zero=protected)) if isinstance(stage, Level) else stage
            for stage in spec.stages
        )
        runs = [
            sidkit.Tokenizer(stages).fit(X, seed=seed, init=plain_draw(len(X), seed) if plain else None)
            for seed in range(options.seeds)
        ]
        figures = [sidkit.quality(run.fit_codes, run.sizes) for run in runs]
        for name, values in {
            "icr_per_sid": [figure["icr_per_sid"] for figure in figures],
            "utilisation_l2": [figure["utilisation"][1] for figure in figures],
            "largest_bucket": [figure["largest_bucket"] for figure in figures],
        }.items():
            drawn = "any rows" if plain else "rows that are not zero"
            results[f"{name}; start from {drawn}; skip_zero {protected}"] = {
                "mean": mean(values),
                "spread": stdev(values),
                "seeds": values,
            }
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
