"""How well the encoders of `sidkit embed` agree with a sentence-transformers model, and how fast they are.

    python benchmarks/encoders.py DATA

DATA holds folders with items.parquet (text) and embedding.npy (the model's vectors of the same rows). Agreement: of an
item's ten nearest by the model (cosine), how many are among its ten nearest by the encoder; mean over 2,000 items drawn
with seed 0. Results, with machine and versions, go to benchmarks/results/encoders.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from cpu_pass import machine

from sidkit import embed as encoder
from sidkit.geometry import unit

RESULTS = Path(__file__).with_name("results") / "encoders.json"
NEAREST, DRAWN = 10, 2000
ENCODERS = {"wordllama, 256": ("wordllama", 256), "wordllama, 64": ("wordllama", 64), "tfidf, 256": ("tfidf", 256)}


def nearest(x, drawn):
    score = x[drawn] @ x.T
    score[np.arange(len(drawn)), drawn] = -2
    return np.argpartition(-score, NEAREST, axis=1)[:, :NEAREST]


def measure(folder):
    texts = pq.read_table(folder / "items.parquet").column("text").to_pylist()
    drawn = np.random.default_rng(0).choice(len(texts), min(DRAWN, len(texts)), replace=False)
    truth = nearest(unit(np.load(folder / "embedding.npy").astype(np.float32)), drawn)
    figures = {"items": len(texts)}
    for name, (model, d) in ENCODERS.items():
        start = time.process_time()
        rows = encoder.choose(model, texts, d).embed(texts)
        seconds = time.process_time() - start
        shared = [len(np.intersect1d(a, b)) for a, b in zip(nearest(rows, drawn), truth, strict=True)]
        figures[name] = {"agreement": float(np.mean(shared) / NEAREST), "texts per second of cpu": len(texts) / seconds}
    return figures


def main():
    data = Path(sys.argv[1])
    folders = sorted(folder for folder in data.iterdir() if (folder / "embedding.npy").is_file())
    results = {"machine": machine(), "datasets": {folder.name: measure(folder) for folder in folders}}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for name, figures in results["datasets"].items():
        shown = ((key, figures[key]["agreement"], figures[key]["texts per second of cpu"]) for key in ENCODERS)
        print(name, *(f"{key}: {agreement:.3f} ({speed:,.0f}/s)" for key, agreement, speed in shown), sep="   ")


if __name__ == "__main__":
    main()
