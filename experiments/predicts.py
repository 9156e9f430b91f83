"""Which figures before training put tokenizers in the order that TIGER puts them in.

    python experiments/predicts.py DATA CODES -o experiments/results/predicts.json
    python experiments/predicts.py DATA CODES -o experiments/results/predicts.json --tables

For every run of experiments/results/tiger.jsonl the figures of beyond.py are computed from its codes; the ranks of
tokenizers (means over seeds) within a dataset are compared.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from beyond import measured
from made import made, with_others
from scipy.stats import spearmanr
from tables import read_options
from tiger_codes import DATASETS, embeddings, sequences_of

RESULTS = Path(__file__).parent / "results" / "tiger.jsonl"
FIGURES = {  # (figure, level or None); more is expected to be better, or less where the sign is -1
    "ICR": ("icr_per_sid", None, 1),
    "items sharing a SID": ("collision_per_item", None, -1),
    "error": ("error", 2, -1),
    "L1 Gini": ("prefix_gini", 0, -1),
    "nearest, L1": ("nearest_share", 0, 1),
    "nearest, L2": ("nearest_share", 1, 1),
    "overlap with neighbours": ("nearest_overlap", None, 1),
    "next, L1": ("next_share", 0, 1),
    "next, L2": ("next_share", 1, 1),
    "lift, L1": ("next_lift", 0, 1),
    "lift, L2": ("next_lift", 1, 1),
    "counted NDCG": ("counted", None, 1),
}


def work(data: Path, codes: Path, datasets: Sequence[str]) -> list[dict]:
    lines, results = [json.loads(line) for line in RESULTS.read_text().splitlines()], []
    for dataset in datasets:
        X, sequences = embeddings(data / dataset), sequences_of(data / dataset)
        for line in lines:
            if line["dataset"] == dataset:
                tokens = np.load(codes / dataset / f"{line['tokenizer']}-{line['seed']}.npy").astype(np.int64)
                run = {name: line[name] for name in ("dataset", "tokenizer", "seed")}
                results.append(run | {"ndcg": line["test"]["item_ndcg@20"]} | measured(tokens, X, sequences))
                print(json.dumps(results[-1]), flush=True)
    return results


def tables(runs: list[dict]) -> str:
    datasets = [dataset for dataset in DATASETS if any(run["dataset"] == dataset for run in runs)]
    groups: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for run in runs:
        groups[run["dataset"], run["tokenizer"]].append(run)
    text = [f"| figure | {' | '.join(datasets)} |", "|---|" + "---:|" * len(datasets)]
    for name, (figure, level, sign) in FIGURES.items():
        cells = []
        for dataset in datasets:
            tokenizers = [group for (where, _), group in groups.items() if where == dataset]
            x = [mean(run[figure] if level is None else run[figure][level] for run in group) for group in tokenizers]
            y = [mean(run["ndcg"] for run in group) for group in tokenizers]
            cells.append(f"{sign * spearmanr(x, y).statistic:+.2f}")
        text.append(f"| {name}{' (less is better)' if sign < 0 else ''} | {' | '.join(cells)} |")
    counts = [sum(where == dataset for where, _ in groups) for dataset in datasets]
    return "\n".join([*text, f"| tokenizers | {' | '.join(map(str, counts))} |"])


def main() -> None:
    options = read_options(__doc__, "data", "codes", datasets=DATASETS)
    if not options.tables:
        where = made("python experiments/predicts.py DATA CODES -o experiments/results/predicts.json")
        runs = [run | {"commit": where["commit"]} for run in work(options.data, options.codes, options.datasets)]
        results = where | {"runs": with_others(options.output, runs, options.datasets)}
        options.output.write_text(json.dumps(results) + "\n")
    print(tables(json.loads(options.output.read_text())["runs"]))


if __name__ == "__main__":
    main()
