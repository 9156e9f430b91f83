"""What "meaning" of the verdict is for good, weak and meaningless SIDs: where its limits come from.

    python experiments/verdict_limits.py DATA -o experiments/results/verdict_limits.json
    python experiments/verdict_limits.py DATA -o experiments/results/verdict_limits.json --tables

DATA holds folders sports, toys, clothing and lastfm with embedding.npy, items.parquet and sequences.parquet; the demo's
catalogue (20,000 items) is made here. Every set of SIDs is judged as `sidkit report` judges it: 500 items and
their 10 nearest. Next to it is the lift of behaviour at the first level, which does not depend on vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from made import made, with_others
from tables import read_options
from tiger_codes import embeddings, sequences_of

from sidkit.data.sequences import Sequences
from sidkit.embed.co_occurrence import blend, co_occurrence
from sidkit.embed.text import embed_texts
from sidkit.measure.behaviour import prefix_agreement
from sidkit.measure.neighbours import neighbour_agreement
from sidkit.report.evidence import QUERIES
from sidkit.search.grammar.catalogue import catalogue
from sidkit.tokenizer.recipes import recipe

DATASETS = ("sports", "toys", "clothing", "lastfm", "demo")
SIZES, SEED = (256, 256, 256), 0
GOOD = ("prq-kmeans", "rq-kmeans", "rq-gmm", "pq-kmeans", "opq-kmeans")
OTHER_SIZES = ((16, 16, 16, 16), (64, 64, 64), (1024, 256, 256))


def read(data: Path, dataset: str) -> tuple[np.ndarray, list[str], Sequences | None]:
    """Vectors, texts and, where there are any, sequences."""
    if dataset == "demo":
        texts = catalogue(20_000, SEED).column("title").to_pylist()
        return embed_texts(texts, 128, SEED), texts, None
    folder = data / dataset
    return embeddings(folder), pq.read_table(folder / "items.parquet")["text"].to_pylist(), sequences_of(folder)


def sids_of(
    X: np.ndarray, texts: list[str], sequences: Sequences | None
) -> Iterator[tuple[str, str, np.ndarray, tuple]]:
    """(kind, name, codes, sizes): kind is what the SIDs are known to be."""

    def fit(rows: np.ndarray, name: str = "prq-kmeans", sizes: tuple = SIZES, **options: object) -> np.ndarray:
        return recipe(name, sizes=sizes, **options).fit(rows, seed=SEED).fit_codes

    n, rng = len(X), np.random.default_rng(1)
    good = {name: fit(X, name) for name in GOOD}
    for name, codes in good.items():
        yield "good", name, codes, SIZES
    for name in ("prq-kmeans", "pq-kmeans"):
        for sizes in OTHER_SIZES:
            yield "good", f"{name} {'-'.join(map(str, sizes))}", fit(X, name, sizes), sizes
    yield "weak", "rq-vae, 20 epochs", fit(X, "rq-vae", preset="paper"), SIZES
    if sequences is not None:
        vectors = co_occurrence(sequences.training(), n)
        yield "other vectors", "words of the texts (tf-idf)", fit(embed_texts(texts, 128, SEED)), SIZES
        yield "other vectors", "blended, weight 1", fit(blend(X, vectors)), SIZES
        yield "other vectors", "co-occurrence alone", fit(blend(X, vectors, 1000.0)), SIZES
    for length in (1, 2, 4):
        noise = rng.normal(size=X.shape)
        noise *= length / np.linalg.norm(noise, axis=1, keepdims=True)
        yield "weak", f"noise of {length} times the length", fit((X + noise).astype(np.float32)), SIZES
    for share in (0.25, 0.5, 0.75, 0.9):
        codes, moved = good["prq-kmeans"].copy(), rng.choice(n, round(share * n), replace=False)
        codes[moved] = codes[rng.permutation(moved)]
        yield "weak", f"{share:.0%} of the items shuffled", codes, SIZES
    for name in ("prq-kmeans", "pq-kmeans"):
        yield "none", f"{name}, shuffled", rng.permutation(good[name]), SIZES
    yield "none", "prq-kmeans, one row too far", np.roll(good["prq-kmeans"], 1, axis=0), SIZES
    for sizes in (SIZES, *OTHER_SIZES):
        yield "none", f"random {'-'.join(map(str, sizes))}", rng.integers(0, sizes, (n, len(sizes))), sizes


def work(data: Path, datasets: Sequence[str]) -> list[dict]:
    results = []
    for dataset in datasets:
        X, texts, sequences = read(data, dataset)
        for kind, name, codes, sizes in sids_of(X, texts, sequences):
            near = neighbour_agreement(codes, sizes, X, queries=QUERIES)
            run = {"dataset": dataset, "kind": kind, "sids": name}
            run |= {key: near[key][0] for key in ("share", "chance", "most", "lift", "above_chance")}
            lift = None if sequences is None else prefix_agreement(codes, sizes, sequences)["lift"][0]
            run["behaviour_lift"] = lift
            results.append(run)
            print(dataset, kind, name, f"{run['above_chance']:.3f} {run['behaviour_lift'] or 0:.1f}", flush=True)
    return results


def tables(runs: list[dict]) -> str:
    """Percent above chance, and in brackets the lift of behaviour."""
    text = [f"| kind | SIDs | {' | '.join(DATASETS)} |", "|---|---|" + "---:|" * len(DATASETS)]
    for kind, name in dict.fromkeys((run["kind"], run["sids"]) for run in runs):
        by_dataset = {run["dataset"]: run for run in runs if run["sids"] == name}
        text.append(f"| {kind} | {name} | {' | '.join(_cell(by_dataset.get(dataset)) for dataset in DATASETS)} |")
    return "\n".join(text)


def _cell(run: dict | None) -> str:
    if run is None:
        return ""
    behaviour = f" ({run['behaviour_lift']:.1f})" if run["behaviour_lift"] is not None else ""
    return f"{100 * run['above_chance']:.1f}{behaviour}"


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS)
    if not options.tables:
        where = made("python experiments/verdict_limits.py DATA -o experiments/results/verdict_limits.json")
        runs = [run | {"commit": where["commit"]} for run in work(options.data, options.datasets)]
        runs = with_others(options.output, runs, options.datasets)
        results = where | {"seed": SEED, "queries": QUERIES, "runs": runs}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(tables(json.loads(options.output.read_text())["runs"]))


if __name__ == "__main__":
    main()
