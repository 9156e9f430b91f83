"""How often blending is advised where it cannot pay: the sequences' items shuffled over all sequences.

    python experiments/blending_controls.py DATA -o results/blending_controls.jsonl --datasets lastfm --draws 40

A draw keeps every item's number of events and every sequence's length, and nothing else: items that are together then
say nothing about each other, so that a weight above 0 is a false alarm. A line of JSON is written per dataset and draw;
lines already there are not computed again.
"""

from __future__ import annotations

import json

import numpy as np
from codebook_quality import load
from made import made
from tables import read_options
from tiger_codes import sequences_of

from sidkit.advice.blending import advise_blending
from sidkit.data.sequences import Sequences

DATASETS = ("lastfm", "toys", "beauty", "sports", "clothing")
SIZES = (256, 256, 256)


def tables(lines: list[dict]) -> None:
    print("| data | draws | blending advised | gains of the weights, mean | lowest to highest |")
    print("|---|---:|---:|---:|---:|")
    for dataset in DATASETS:
        if runs := [line for line in lines if line["dataset"] == dataset]:
            gains = [one["gain"] for run in runs for one in run["gains"]]
            wrong, spread = sum(run["weight"] > 0 for run in runs), f"{min(gains):+.1%} to {max(gains):+.1%}"
            print(f"| {dataset} | {len(runs)} | {wrong} | {np.mean(gains):+.1%} | {spread} |")


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS, draws=10)
    lines = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(line["dataset"], line["draw"]) for line in lines}
    where = made(f"python experiments/blending_controls.py DATA -o {options.output.name} --draws {options.draws}")
    for draw in range(0 if options.tables else options.draws):
        for name in options.datasets:
            if (name, draw) in done:
                continue
            X, true = load(options.data / name), sequences_of(options.data / name)
            shuffled = Sequences(np.random.default_rng(draw).permutation(true.rows), true.starts)
            advice = advise_blending(X, shuffled, sizes=SIZES).as_dict()
            kept = {key: advice[key] for key in ("window", "weight", "gains", "order", "users")}
            lines.append({"dataset": name, "draw": draw} | kept | where)
            with options.output.open("a") as out:
                out.write(json.dumps(lines[-1]) + "\n")
            print(name, draw, advice["weight"], flush=True)
    tables(lines)


if __name__ == "__main__":
    main()
