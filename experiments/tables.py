"""Tables of docs/results/codebooks.md from the JSON lines of codebook_quality.py.

    python experiments/tables.py experiments/results/codebook_quality.jsonl --into docs/results/codebooks.md

Without --into they are printed.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from made import one_of

from sidkit.report.comparison import Comparison

DATASETS = ("sports", "toys", "clothing", "lastfm")
BEGIN, END = "<!-- tables.py begins -->", "<!-- tables.py ends -->"


def read_options(doc: str, *folders: str, datasets: Sequence[str] = DATASETS, **numbers: Any) -> argparse.Namespace:
    """The options of an experiment: folders to read, -o, --datasets, --tables, and numbers with their defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for folder in folders:
        parser.add_argument(folder, type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--datasets", type=one_of(datasets), default=tuple(datasets), help="only these, by commas")
    parser.add_argument("--tables", action="store_true", help="print tables from the output of an earlier run")
    return parser.parse_args()


def mean_std(values: list[float], digits: int = 2) -> str:
    """The mean, and the standard deviation if there are several values."""
    tail = f" ±{stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{tail}"


def comparison(lines: list[dict], dataset: str, table: str) -> Comparison | None:
    figures = defaultdict(dict)
    for line in lines:
        if line["dataset"] == dataset and line["table"] == table:
            options = ", ".join(f"{name} {value}" for name, value in line["options"].items())
            label = line["recipe"] + (f" ({options})" if options else "")
            three = {name: value[:3] if isinstance(value, list) else value for name, value in line["quality"].items()}
            figures[label][line["seed"]] = three  # levels, as in the paper's table
    if not figures:
        return None
    seeds = sorted({seed for runs in figures.values() for seed in runs})
    return Comparison({label: [runs[seed] for seed in sorted(runs)] for label, runs in figures.items()}, seeds)


def codebooks(lines: list[dict]) -> str:
    text = []
    for table in ("three", "five", "five-tight"):
        for dataset in DATASETS:
            compared = comparison(lines, dataset, table)
            if compared:
                seeds = ", ".join(map(str, compared.seeds))
                text.append(f"### {dataset}, {table}, seeds {seeds}\n\n{compared.markdown()}")
    return "\n\n".join(text)


def carryover(lines: list[dict]) -> str:
    text = ["### Residual carryover, percent\n", "| dataset | tokenizer | L1 | L2 | L3 | isotropic |"]
    text.append("|---|---|---:|---:|---:|---:|")
    for dataset in DATASETS:
        for name in ("rq-kmeans", "rq-gmm", "prq-kmeans"):
            runs = [r for r in lines if (r["dataset"], r["table"], r["recipe"]) == (dataset, "three", name)]
            if runs:
                field = "passed_on" if name == "prq-kmeans" else "per_level"
                cells = [mean_std([100 * r["carryover"][field][level] for r in runs]) for level in range(3)]
                isotropic = f"{100 * runs[0]['carryover']['isotropic']:.2f}"
                text.append(f"| {dataset} | {name} | {' | '.join(cells)} | {isotropic} |")
    return "\n".join(text)


def retention(lines: list[dict]) -> str:
    etas = sorted({r["options"]["keep"] for r in lines if r["table"] == "retention"})
    text = ["### Retention: L2 prefix utilisation, percent\n"]
    text.append("| dataset | " + " | ".join(f"η = {eta}" for eta in etas) + " |\n|---|" + "---:|" * len(etas))
    for dataset in DATASETS:
        cells = []
        for eta in etas:
            runs = [
                r for r in lines
                if (r["dataset"], r["table"]) == (dataset, "retention") and r["options"]["keep"] == eta
            ]  # fmt: skip
            cells.append(mean_std([100 * r["quality"]["utilisation"][1] for r in runs], 3) if runs else "")
        text.append(f"| {dataset} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a document with the two markers that the tables go between")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    text = "\n\n".join((codebooks(lines), carryover(lines), retention(lines)))
    if options.into is None:
        print(text)
        return
    before, _, rest = options.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    options.into.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
