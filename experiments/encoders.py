"""Embedding robustness: codebooks, and what SIDs are worth before training, under three encoders of the same texts.

    python experiments/encoders.py DATA -o experiments/results/encoders.jsonl --cache CACHE
    python experiments/encoders.py DATA -o experiments/results/encoders.jsonl --tables --figure docs/images/encoders.svg

DATA holds a folder per dataset with embedding.npy (all-MiniLM-L6-v2), embedding_gte.npy (gte-small) where there is one,
items.parquet and sequences.parquet. WordLlama's vectors are made from the texts and kept in CACHE. With MiniLM's
vectors the tokenizers of SEEDED run too, those of which the recommendation tables have one seed; --tokenizers and
--datasets choose some. A line of JSON is written per run; lines already there are not computed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from encoder_tables import draw, tables
from made import made
from tables import read_options
from tiger_codes import TOKENIZERS, sequences_of
from wordllama_vectors import vectors

import sidkit
from sidkit.geometry import unit
from sidkit.measure.behaviour import prefix_agreement
from sidkit.measure.counting import counted_by_token
from sidkit.measure.neighbours import neighbour_agreement
from sidkit.tokenizer.recipes import recipe

DATASETS = ("lastfm", "toys", "clothing", "sports")
SIZES = (256, 256, 256)
ENCODERS = {"MiniLM": "embedding.npy", "gte": "embedding_gte.npy", "WordLlama": "items.parquet"}
FIVE = ("prq-kmeans", "rq-kmeans", "opq-kmeans", "rq-gmm", "rq-vae")  # as many as in the paper's figure; slowest last
SEEDED = ("without-soft", "prq-k5", "prq-k10", "prq-beta10", "prq-beta20", "prq-beta25", "pq-kmeans", "r3-vae")
OPTIONS = {name: options for name, (_, options) in TOKENIZERS.items()} | {"rq-vae": {"preset": "paper"}}


def plan(names: list[str], datasets: tuple[str, ...], seeds: int, data: Path) -> Iterator[dict]:
    """Every run of these: tokenizers fitted in seconds first, all encoders and seeds of one before the next."""
    quick, slow = FIVE[:2], FIVE[2:]
    pairs = [(name, encoder) for name in quick for encoder in ENCODERS]
    pairs += [(name, "MiniLM") for name in SEEDED[:-1]]
    pairs += [(name, encoder) for name in slow for encoder in ENCODERS] + [(SEEDED[-1], "MiniLM")]
    for name, encoder in (pair for pair in pairs if pair[0] in names):
        for dataset in datasets:
            if (data / dataset / ENCODERS[encoder]).exists():
                for seed in range(seeds):
                    yield {"dataset": dataset, "encoder": encoder, "tokenizer": name, "seed": seed}


def rows_of(folder: Path, encoder: str, cache: Path) -> np.ndarray:
    """Rows of length one, (items, d)."""
    if encoder == "WordLlama":
        return vectors(folder / "items.parquet", cache)
    return unit(np.load(folder / ENCODERS[encoder]).astype(np.float32))


def measured(run: dict, data: Path, cache: Path) -> dict:
    """One fit, and its figures. Behaviour is that of all steps; counting predicts the items of validation."""
    folder, name = data / run["dataset"], run["tokenizer"]
    X, sequences = rows_of(folder, run["encoder"], cache), sequences_of(folder)
    start = time.perf_counter()
    codes = recipe(TOKENIZERS[name][0], sizes=SIZES, **OPTIONS[name]).fit(X, seed=run["seed"], device="cpu").fit_codes
    seconds = round(time.perf_counter() - start, 2)
    behaviour, near = prefix_agreement(codes, SIZES, sequences), neighbour_agreement(codes, SIZES, X)
    return run | {
        "options": OPTIONS[name],
        "seconds": seconds,
        "mean_length": float(np.linalg.norm(X.mean(axis=0))),
        "quality": sidkit.quality(codes, SIZES),
        "behaviour": {key: behaviour[key] for key in ("share", "lift")},
        "neighbours": {key: near[key] for key in ("share", "above_chance", "overlap")},
        "counted": counted_by_token(codes, SIZES, sequences),
    }


def main() -> None:
    names = ",".join((*FIVE, *SEEDED))
    options = read_options(__doc__, "data", datasets=DATASETS, seeds=3, cache="CACHE", figure="", tokenizers=names)
    lines = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    if not options.tables:
        where = made(f"python experiments/encoders.py DATA -o {options.output.name} --cache CACHE")
        for run in plan(options.tokenizers.split(","), options.datasets, options.seeds, options.data):
            if not any(run.items() <= line.items() for line in lines):
                lines.append(measured(run, options.data, Path(options.cache)) | where)
                with options.output.open("a") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
                print(*run.values(), lines[-1]["seconds"], flush=True)
    tables(lines)
    if options.figure:
        draw(lines, Path(options.figure))


if __name__ == "__main__":
    main()
