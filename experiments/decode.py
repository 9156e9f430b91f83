"""How much of the vectors SIDs tell: the share of their variance that `fitted.decode` leaves, token by token.

    python experiments/decode.py DATA -o experiments/results/decode.json
    python experiments/decode.py DATA -o experiments/results/decode.json --tables

Rows have length one. "added up" is the sum of the chosen centroids and the mean, without the lengths that `decode`
scales them by. The second command prints the table of docs/python.md from the results of the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from made import made, with_others
from tables import DATASETS, read_options
from tiger_codes import embeddings

import sidkit

SPECS = {
    "prq-kmeans": sidkit.prq_kmeans(),
    "rq-kmeans": sidkit.rq_kmeans(),
    "rq-kmeans, not normalised": sidkit.rq_kmeans(normalize=False),
    "pq-kmeans": sidkit.pq_kmeans(),
}


def work(folder: Path, seed: int) -> Iterator[dict]:
    X = np.asarray(embeddings(folder), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    variance = ((X - X.mean(axis=0)) ** 2).sum()
    for name, spec in SPECS.items():
        fitted = spec.fit(X, seed=seed)
        codes = fitted.encode(X)
        counts = (len(fitted.sizes),) if name == "pq-kmeans" else range(1, len(fitted.sizes) + 1)
        left = [float(((X - fitted.decode(codes[:, :count])) ** 2).sum() / variance) for count in counts]
        run = {"dataset": folder.name, "tokenizer": name, "seed": seed, "left": left}
        if name in ("prq-kmeans", "rq-kmeans"):
            added = sum(book[column] for book, column in zip(fitted.codebooks, codes.T, strict=True))
            added = added if fitted.mean is None else added + fitted.mean
            run["added_up"] = float(((X - added) ** 2).sum() / variance)
        print(json.dumps(run), flush=True)
        yield run


def tables(runs: list[dict]) -> str:
    datasets = [name for name in DATASETS if any(run["dataset"] == name for run in runs)]
    text = [f"| variance left, % | {' | '.join(datasets)} |", "|---|" + "---:|" * len(datasets)]
    for name in SPECS:
        mine = {run["dataset"]: run for run in runs if run["tokenizer"] == name}
        cells = [", ".join(f"{100 * share:.0f}" for share in mine[one]["left"]) for one in datasets]
        text.append(f"| {name} | {' | '.join(cells)} |")
        if all("added_up" in mine[one] for one in datasets):
            cells = [f"{100 * mine[one]['added_up']:.0f}" for one in datasets]
            text.append(f"| {name}, added up | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    options = read_options(__doc__, "data", seed=0)
    if not options.tables:
        where = made(f"python experiments/decode.py DATA -o {options.output.name} --seed {options.seed}")
        runs = [run for name in options.datasets for run in work(options.data / name, options.seed)]
        runs = [run | {"commit": where["commit"]} for run in runs]
        results = where | {"runs": with_others(options.output, runs, options.datasets)}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(tables(json.loads(options.output.read_text())["runs"]))


if __name__ == "__main__":
    main()
