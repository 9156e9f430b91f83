"""Tokenizers beyond the paper before any training: collisions, reconstruction, neighbours, behaviour.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3 --tokenizers NAMES
    python experiments/beyond.py DATA CODES -o experiments/results/beyond.json
    python experiments/beyond.py DATA CODES -o experiments/results/beyond.json --tables

NAMES are prq-kmeans, rq-kmeans and those of BEYOND in `tiger_codes.py`. The last command prints the table of
docs/results/beyond.md from the results of the second.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from made import made, with_others
from tables import mean_std, read_options
from tiger_codes import BEYOND, DATASETS, SIZES, embeddings, sequences_of

from sidkit.data.sequences import Sequences

NAMES = ("prq-kmeans", "rq-kmeans", *BEYOND)
IN_WORDS = ("rq-unique", "prq-long-unique", "prq-anneal-unique", "prq-beam-unique", "prq-64")  # not in the table
COLUMNS = {  # heading: (figure, level or None, factor, digits)
    "ICR %": ("icr_per_sid", None, 100, 2),
    "items sharing a SID %": ("collision_per_item", None, 100, 2),
    "error %": ("error", 2, 100, 2),
    "nearest L1 %": ("nearest_share", 0, 100, 1),
    "nearest L2 %": ("nearest_share", 1, 100, 1),
    "overlap %": ("nearest_overlap", None, 100, 1),
    "next L1 %": ("next_share", 0, 100, 2),
    "next L2 %": ("next_share", 1, 100, 2),
    "lift L1": ("next_lift", 0, 1, 1),
    "counted NDCG %": ("counted", None, 100, 2),
}


def reconstruction_errors(codes: np.ndarray, X: np.ndarray) -> list[float]:
    """Per level, the share of the variance of X (n, d) that the best sum of one vector per token so far leaves.

    The vectors are the least-squares solution from the codes alone, the same for all tokenizers; each uses
    a degree of freedom, as in adjusted R^2: codes without meaning have an error of 1.
    """
    from scipy.sparse import csr_matrix, hstack

    n, centred, errors = len(X), X - X.mean(axis=0, dtype=np.float64), []
    ones = [csr_matrix((np.ones(n), (np.arange(n), column)), (n, SIZES[0])) for column in codes.T]
    for level in range(1, len(ones) + 1):
        design = hstack(ones[:level]).tocsr()
        values, vectors = np.linalg.eigh((design.T @ design).toarray())
        free = values > 1e-9 * values.max()
        half = vectors[:, free] / np.sqrt(values[free])
        explained = ((half.T @ (design.T @ centred)) ** 2).sum()
        errors.append(float((1 - explained / (centred**2).sum()) * (n - 1) / (n - free.sum())))
    return errors


def measured(codes: np.ndarray, X: np.ndarray, sequences: Sequences) -> dict:
    """Behaviour is that of steps into the item of validation only, which no tokenizer has seen."""
    from sidkit import quality
    from sidkit.measure.behaviour import prefix_agreement
    from sidkit.measure.counting import counted_by_token, held_out
    from sidkit.measure.neighbours import neighbour_agreement

    figures, near, seen = (
        quality(codes, SIZES),
        neighbour_agreement(codes, SIZES, X),
        prefix_agreement(codes, SIZES, np.stack(held_out(sequences, "valid"), 1).tolist()),
    )
    names = ("icr_per_sid", "collision_per_item", "surplus_per_item", "largest_bucket", "utilisation", "prefix_gini")
    return {name: figures[name] for name in names} | {
        "error": reconstruction_errors(codes, X),
        "nearest_share": near["share"],
        "nearest_overlap": near["overlap"],
        "next_share": seen["share"],
        "next_lift": seen["lift"],
        "counted": counted_by_token(codes, SIZES, sequences)["ndcg@20"],
    }


def work(data: Path, codes: Path, datasets: Sequence[str]) -> list[dict]:
    runs = []
    for dataset in datasets:
        X, sequences = embeddings(data / dataset), sequences_of(data / dataset)
        for name in NAMES:
            for path in sorted((codes / dataset).glob(f"{name}-[0-9].npy")):
                run = {"dataset": dataset, "tokenizer": name, "seed": int(path.stem[-1])}
                runs.append(run | measured(np.load(path).astype(np.int64), X, sequences))
                print(json.dumps(runs[-1]), flush=True)
    return runs


def tables(runs: list[dict]) -> str:
    rows = defaultdict(list)
    for run in runs:
        if run["tokenizer"] not in IN_WORDS:
            rows[run["dataset"], run["tokenizer"]].append(run)
    heads = [*COLUMNS, "seeds"]
    text = [f"| data | tokenizer | {' | '.join(heads)} |", "|---|---|" + "---:|" * len(heads)]
    for (dataset, name), group in rows.items():
        cells = []
        for figure, level, factor, digits in COLUMNS.values():
            values = [factor * (run[figure] if level is None else run[figure][level]) for run in group]
            cells.append(mean_std(values, digits))
        text.append(f"| {dataset} | {name} | {' | '.join(cells)} | {len(group)} |")
    return "\n".join(text)


def main() -> None:
    options = read_options(__doc__, "data", "codes", datasets=DATASETS)
    if not options.tables:
        where = made(f"python experiments/beyond.py DATA CODES -o {options.output.name}")
        chosen = {name: {"recipe": recipe, **chosen} for name, (recipe, chosen) in BEYOND.items()}
        runs = [run | {"commit": where["commit"]} for run in work(options.data, options.codes, options.datasets)]
        results = where | {"options": chosen, "runs": with_others(options.output, runs, options.datasets)}
        options.output.write_text(json.dumps(results) + "\n")
    print(tables(json.loads(options.output.read_text())["runs"]))


if __name__ == "__main__":
    main()
