"""Semantic IDs judged without training, on public data: behaviour, neighbours, categories.

    python experiments/judging.py DATA -o experiments/results/judging.json
    python experiments/judging.py DATA -o experiments/results/judging.json --tables

DATA holds a folder per dataset with embedding.npy, items.parquet and sequences.parquet. The second command prints the
tables of docs/results/judging.md from the results of the first.
"""

from __future__ import annotations

import json
from pathlib import Path

from made import made, with_others
from tables import mean_std, read_options

DATASETS = ("sports", "toys", "clothing", "lastfm")
TOKENIZERS = ("prq-kmeans", "rq-kmeans", "pq-kmeans", "random codes")
SIZES = (256, 256, 256)


def categories(folder: Path) -> list[str] | None:
    """The category in the items' texts: the path at their end, or an artist's first tag.

    Clothing's texts end in tags without order, of which none is the category.
    """
    import pyarrow.parquet as pq

    texts = pq.read_table(folder / "items.parquet").column("text").to_pylist()
    ends = [text.rpartition("; ")[2] if "; " in text else "" for text in texts]
    if folder.name == "clothing":
        return None
    return [end.split(", ")[0] for end in ends] if folder.name == "lastfm" else ends


def codes_of(name: str, X, seed: int):
    import numpy as np

    from sidkit.tokenizer.recipes import recipe

    if name == "random codes":
        return np.random.default_rng(seed).integers(0, SIZES, size=(len(X), len(SIZES)))
    return recipe(name, sizes=SIZES).fit(X, seed=seed).fit_codes


def work(folder: Path, seeds: int) -> list[dict]:
    import numpy as np
    import pyarrow as pa
    from codebook_quality import load

    from sidkit.data.sequences import read_sequences
    from sidkit.measure.behaviour import prefix_agreement
    from sidkit.measure.categories import purity
    from sidkit.measure.neighbours import neighbour_agreement

    X, labels, runs = load(folder), categories(folder), []
    sequences = read_sequences(folder / "sequences.parquet", pa.array(np.arange(len(X))))
    for name in TOKENIZERS:
        for seed in range(seeds):
            codes = codes_of(name, X, seed)
            run = {"dataset": folder.name, "tokenizer": name, "seed": seed}
            run["behaviour"] = prefix_agreement(codes, SIZES, sequences, labels)
            run["neighbours"] = neighbour_agreement(codes, SIZES, X, queries=len(X))
            if labels is not None:
                run["categories"] = purity(codes, SIZES, labels)
            runs.append(run)
            print(folder.name, name, seed, flush=True)
    return runs


def tables(runs: list[dict]) -> None:
    def cells(dataset: str, name: str, read, digits: int) -> str:
        values = [read(run) for run in runs if (run["dataset"], run["tokenizer"]) == (dataset, name)]
        return mean_std(values, digits)

    print("| data | tokenizer | next item shares L1 % | L2 % | L3 % | lift L1 | L2 | L3 | nearest share L1 % | L2 % |"
          " overlap % |\n|---|---|" + "---:|" * 9)  # fmt: skip
    for dataset in DATASETS:
        for name in TOKENIZERS if any(run["dataset"] == dataset for run in runs) else ():
            row = [cells(dataset, name, lambda r, at=at: 100 * r["behaviour"]["share"][at], 2) for at in range(3)]
            row += [cells(dataset, name, lambda r, at=at: r["behaviour"]["lift"][at] or 0.0, 1) for at in range(3)]
            row += [cells(dataset, name, lambda r, at=at: 100 * r["neighbours"]["share"][at], 1) for at in range(2)]
            row += [cells(dataset, name, lambda r: 100 * r["neighbours"]["overlap"], 1)]
            print(f"| {dataset} | {name} | " + " | ".join(row) + " |")
    print("\n| data | tokenizer | lift over category L1 | L2 | L3 | purity L1 % | shuffled % | adjusted NMI L1 | L2 |"
          "\n|---|---|" + "---:|" * 7)  # fmt: skip
    for dataset in DATASETS:
        first = next((run for run in runs if run["dataset"] == dataset), {})
        if "categories" not in first:
            continue
        for name in TOKENIZERS:
            lifts = [lambda r, at=at: r["behaviour"]["lift_category"][at] or 0.0 for at in range(3)]
            pure = [lambda r, key=key: 100 * r["categories"][key][0] for key in ("purity", "purity_chance")]
            nmi = [lambda r, at=at: r["categories"]["nmi_adjusted"][at] for at in range(2)]
            row = [cells(dataset, name, read, 2) for read in lifts] + [cells(dataset, name, read, 1) for read in pure]
            row += [cells(dataset, name, read, 3) for read in nmi]
            print(f"| {dataset} | {name} | " + " | ".join(row) + " |")
        seen = first["behaviour"]
        shares = ", ".join(f"{100 * share:.1f}" for share in seen["category_share"])
        lifts = ", ".join(f"{lift:.1f}" for lift in seen["category_lift"])
        print(f"| {dataset} | category paths | the next item shares, by depth: {shares} %; lift {lifts} |" + " |" * 6)


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS, seeds=3)
    if not options.tables:
        where = made(f"python experiments/judging.py DATA -o {options.output.name} --seeds {options.seeds}")
        runs = [run for name in options.datasets for run in work(options.data / name, options.seeds)]
        runs = [run | {"commit": where["commit"]} for run in runs]
        results = where | {"runs": with_others(options.output, runs, options.datasets)}
        options.output.write_text(json.dumps(results) + "\n")
    tables(json.loads(options.output.read_text())["runs"])


if __name__ == "__main__":
    main()
