"""How to combine co-occurrence with the text: window, dimensions, weight, or texts smoothed over neighbours instead.

    python experiments/co_occurrence.py DATA -o experiments/results/co_occurrence.json
    python experiments/co_occurrence.py DATA -o experiments/results/co_occurrence.json --tables

Every setting is fitted by PRQ-KMeans (256-256-256, seed 0), its items are spread, and it is judged by counted NDCG@20
of steps into the items of validation (docs/judging.md), which nothing was counted on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from made import made, write_datasets
from tables import read_options
from tiger_codes import DATASETS, SIZES, embeddings, sequences_of

from sidkit import prq_kmeans
from sidkit.data.sequences import Sequences
from sidkit.embed.co_occurrence import blend, co_occurrence, pair_counts
from sidkit.geometry import unit
from sidkit.measure.counting import counted_by_token
from sidkit.tokenizer.spread import spread

PLAIN = {"weight": 1.0, "d": 128, "window": 5}
VARIED = (
    [{"weight": weight} for weight in (0.5, 0.7, 2.0, 10.0)]
    + [{"d": d} for d in (64, 256)]
    + [{"window": window} for window in (1, 2, 10)]
)


def rows_of(X: np.ndarray, seen: Sequences) -> Iterator[tuple[str, np.ndarray]]:
    """Every setting by name, and what is tokenized."""
    vectors = co_occurrence(seen, len(X))
    yield "text alone", X
    yield "weight 1, 128 dimensions, window 5", blend(X, vectors)
    for change in VARIED:
        weight, d, window = (PLAIN | change).values()
        other = vectors if "weight" in change else co_occurrence(seen, len(X), d, window)
        ((name, value),) = change.items()
        yield f"{'dimensions' if name == 'd' else name} {value:g}", blend(X, other, weight)
    smooth = unit(X + unit(pair_counts(seen, len(X)) @ X)).astype(np.float32)
    yield "text smoothed", smooth
    yield "text smoothed, and weight 1", blend(smooth, vectors)


def work(data: Path, datasets: Sequence[str]) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}
    for dataset in datasets:
        X, sequences = embeddings(data / dataset), sequences_of(data / dataset)
        results[dataset] = {}
        for name, rows in rows_of(X, sequences.training()):
            fitted = prq_kmeans(SIZES).fit(rows, seed=0)
            codes = spread(fitted, rows, fitted.fit_codes, policy="least-cost")
            results[dataset][name] = counted_by_token(codes, SIZES, sequences)["ndcg@20"]
            print(f"{dataset} {name}: {results[dataset][name]:.4f}", flush=True)
    return results


def tables(results: dict[str, dict[str, float]]) -> str:
    text = [f"| what is tokenized | {' | '.join(results)} |", "|---|" + "---:|" * len(results)]
    for name in next(iter(results.values())):
        text.append(f"| {name} | {' | '.join(f'{100 * figures[name]:.2f}' for figures in results.values())} |")
    return "\n".join(text)


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS)
    if not options.tables:
        where = made("python experiments/co_occurrence.py DATA -o experiments/results/co_occurrence.json")
        write_datasets(options.output, where, work(options.data, options.datasets))
    print(tables(json.loads(options.output.read_text())["datasets"]))


if __name__ == "__main__":
    main()
