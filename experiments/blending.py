"""Whether co-occurrence pays, said before (`sidkit blend --auto`) and found after, on data that were put aside.

    python experiments/blending.py DATA -o experiments/results/blending.jsonl --cache CACHE
    python experiments/blending.py DATA -o experiments/results/blending.jsonl --tables

For every dataset and encoder the advice is made without the last two items of every sequence. The truth is counted
NDCG@20 of those two, with SIDs of embeddings blended with everything before them, spread, two seeds. Of both windows,
so that the choice of the window can be judged too. And what orders the sequences: `agreement`, `agreement_last`, and
how much of the variance of the items' numbers (`raw_id`, ranked) the first token explains. A line of JSON is written
per dataset and encoder; lines already there are not computed again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from blending_tables import tables
from encoders import ENCODERS, rows_of
from made import made
from tables import read_options
from tiger_codes import sequences_of

from sidkit.advice.blending import WEIGHTS, advise_blending, gain_of
from sidkit.embed.co_occurrence import blend, co_occurrence
from sidkit.measure.counting import ranks_by_token
from sidkit.tokenizer.recipes import prq_kmeans
from sidkit.tokenizer.spread import spread

DATASETS = ("lastfm", "toys", "beauty", "sports", "clothing")
SIZES, SEEDS = (256, 256, 256), (0, 1)


def ndcg(codes, sequences, split: str) -> np.ndarray:
    rank, share = ranks_by_token(codes, SIZES, sequences, split=split)
    return np.where(rank < 20, share / np.log2(rank + 2.0), 0.0)


def found(X: np.ndarray, sequences, numbers: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
    """NDCG@20 of every user by counting, spread and as they are; and what L1 explains of the numbers, adjusted R^2."""
    figures: dict[str, list] = {name: [] for name in ("valid", "test", "plain valid", "plain test")}
    explained = []
    for seed in SEEDS:
        fitted = prq_kmeans(SIZES).fit(X, seed=seed, device="cpu")
        codes = {"plain ": fitted.fit_codes, "": spread(fitted, X, fitted.fit_codes)}
        for name in figures:
            how, split = ("plain ", name[6:]) if name.startswith("plain") else ("", name)
            figures[name].append(ndcg(codes[how], sequences, split))
        first = np.unique(fitted.fit_codes[:, 0], return_inverse=True)[1]
        mean = np.bincount(first, numbers) / np.bincount(first)
        left = ((numbers - mean[first]) ** 2).sum() / ((numbers - numbers.mean()) ** 2).sum()
        explained.append(1 - left * (len(X) - 1) / (len(X) - len(mean)))
    return {name: np.mean(values, axis=0) for name, values in figures.items()}, float(np.mean(explained))


def measured(folder: Path, encoder: str, cache: Path) -> dict:
    X, sequences = rows_of(folder, encoder, cache), sequences_of(folder)
    raw = pq.read_table(folder / "items.parquet")["raw_id"].to_pylist()
    order = sorted(range(len(raw)), key=lambda i: (int(raw[i]), "") if folder.name == "lastfm" else (0, raw[i]))
    numbers = np.argsort(order).astype(float)
    advice = advise_blending(X, sequences, sizes=SIZES, seeds=1)
    base, explained = found(X, sequences, numbers)
    rows = [
        {"window": None, "weight": 0.0, "explained": explained, "ndcg": {k: float(v.mean()) for k, v in base.items()}}
    ]
    for window in (5, 0) if advice.window == 0 else (5,):
        vectors = co_occurrence(sequences.training(), len(X), window=window)
        for weight in WEIGHTS:
            here, explained = found(blend(X, vectors, weight), sequences, numbers)
            both = [np.concatenate([part["valid"], part["test"]]) for part in (here, base)]
            gains = {k: vars(gain_of(weight, here[k], base[k])) for k in ("valid", "test")}
            gains["both"] = vars(gain_of(weight, *both))
            rows.append({"window": window, "weight": weight, "explained": explained, "gains": gains})
    apart = {k: vars(gain_of(0.0, base[k], base[f"plain {k}"])) for k in ("valid", "test")}
    return {"dataset": folder.name, "encoder": encoder, "advice": advice.as_dict(), "found": rows, "spread": apart}


def main() -> None:
    options = read_options(
        __doc__, "data", datasets=DATASETS, cache="CACHE", encoders=",".join(ENCODERS), tiger="experiments/results"
    )
    lines = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(line["dataset"], line["encoder"]) for line in lines}
    if not options.tables:
        where = made(f"python experiments/blending.py DATA -o {options.output.name} --cache CACHE")
        for encoder in options.encoders.split(","):
            for name in options.datasets:
                if (name, encoder) in done or not (options.data / name / ENCODERS[encoder]).exists():
                    continue
                lines.append(measured(options.data / name, encoder, Path(options.cache)) | where)
                with options.output.open("a") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
                print(name, encoder, lines[-1]["advice"]["weight"], flush=True)
    tables(lines, Path(options.tiger) / "tiger.jsonl")


if __name__ == "__main__":
    main()
