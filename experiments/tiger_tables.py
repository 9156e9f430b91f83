"""The generative recommendation tables of docs/results.md from the JSON lines of tiger.py.

    python experiments/tiger_tables.py experiments/results/tiger.jsonl --into docs/results.md

Tokenizers that the paper does not have are compared with PRQ-KMeans, in tables of their own; so are runs that a time
limit cut short (*.cut.jsonl beside the file), and every cell of the run list that is still missing is named. Without
--into the tables are printed. --figures FOLDER draws the validation curves of finished runs and, where k and beta were
varied, the sensitivity figure.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from tiger import MAIN
from tiger_codes import BEYOND, DATASETS, TOKENIZERS

SEEDS = (0, 1, 2)
PAPER = ("", "rq-kmeans", tuple(TOKENIZERS))  # what a table's heading says, its baseline and its rows
OURS = (", beyond the paper", "prq-kmeans", ("prq-kmeans", *BEYOND))
COLUMNS = {
    "Recall@20": "item_recall@20",
    "NDCG@20": "item_ndcg@20",
    "expected NDCG@20": "expected_ndcg@20",
    "corrected NDCG@20": "corrected_ndcg@20",
    "SID NDCG@20": "sid_ndcg@20",
}
BEGIN, END = "<!-- tiger_tables.py begins -->", "<!-- tiger_tables.py ends -->"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def spread(values: list[float]) -> str:
    return f"{mean(values):.4f}" + (f" ±{stdev(values):.4f}" if len(values) > 1 else "")


def by_row(lines: list[dict], dataset: str, names: Sequence[str] = tuple(TOKENIZERS)) -> dict[str, dict[int, dict]]:
    rows: dict[str, dict[int, dict]] = defaultdict(dict)
    for line in lines:
        if line["dataset"] == dataset:
            rows[line["tokenizer"]][line["seed"]] = line
    return {name: rows[name] for name in names if name in rows}


def against(runs: dict[int, dict], baseline: dict[int, dict], field: str) -> str:
    """The mean paired difference to the baseline over shared seeds, and the p-value of a paired t-test."""
    seeds = sorted(runs.keys() & baseline.keys())
    if runs is baseline or not seeds:
        return ""
    gaps = [runs[seed]["test"][field] - baseline[seed]["test"][field] for seed in seeds]
    if len(gaps) < 2:
        return f"{mean(gaps):+.4f}"
    from scipy.stats import ttest_1samp

    return f"{mean(gaps):+.4f} (p = {ttest_1samp(gaps, 0.0).pvalue:.2f})"


def table(lines: list[dict], dataset: str, baseline: str, names: Sequence[str]) -> str:
    rows = by_row(lines, dataset, names)
    heads = [*COLUMNS, f"NDCG@20 − {baseline}", "epochs (best)", "seeds"]
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name, runs in rows.items():
        cells = [spread([run["test"][field] for run in runs.values()]) for field in COLUMNS.values()]
        cells.append(against(runs, rows.get(baseline, {}), "item_ndcg@20"))
        cells.append(", ".join(f"{run['epochs']} ({run['best_epoch']})" for run in runs.values()))
        cells.append(", ".join(str(seed) for seed in runs))
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text)


def missing(done: list[dict]) -> str:
    """What of the run list is still to be done: three seeds of the main rows, one of all others."""
    have = {(line["dataset"], line["tokenizer"], line["seed"]) for line in done}
    text = []
    for dataset in DATASETS:
        lacking = []
        for name in TOKENIZERS:
            seeds = [seed for seed in (SEEDS if name in MAIN else SEEDS[:1]) if (dataset, name, seed) not in have]
            if seeds:
                lacking.append(name + (f" ({', '.join(map(str, seeds))})" if name in MAIN else ""))
        text.append(f"- {dataset}: " + (", ".join(lacking) if lacking else "nothing"))
    return "\n".join(text)


def section(done: list[dict], cut: list[dict]) -> str:
    parts = []
    for lines, warning in ((done, ""), (cut, ", cut short: not to be read as results")):
        for heading, baseline, names in (PAPER, OURS):
            for dataset in DATASETS:
                if by_row(lines, dataset, names).keys() - {baseline}:
                    parts.append(f"### {dataset}{heading}{warning}\n\n{table(lines, dataset, baseline, names)}")
    parts.append(f"### Still missing (seeds in brackets)\n\n{missing(done)}")
    return "\n\n".join(parts)


def draw(done: list[dict], folder: Path) -> None:
    """tiger-curves.svg: validation NDCG@20 by epoch. tiger-sensitivity.svg: NDCG@20 by top-k and by beta."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    datasets = [dataset for dataset in DATASETS if any(line["dataset"] == dataset for line in done)]
    if not datasets:
        return
    settings = {1: "without-soft", 2: "prq-kmeans", 5: "prq-k5", 10: "prq-k10"}
    betas = {10: "prq-beta10", 15: "prq-kmeans", 20: "prq-beta20", 25: "prq-beta25"}
    size = {"figsize": (4 * len(datasets), 3.2), "squeeze": False, "layout": "constrained"}
    curves, panels = plt.subplots(1, len(datasets), **size)
    sensitivity, pairs = plt.subplots(2, len(datasets), **size | {"figsize": (4 * len(datasets), 6)})
    for place, dataset in enumerate(datasets):
        rows = by_row(done, dataset)
        for name, runs in rows.items():
            if name in (*MAIN, "random"):
                for seed, run in runs.items():
                    label = name if seed == min(runs) else None
                    colour = f"C{list(TOKENIZERS).index(name)}"
                    panels[0][place].plot([value for _, value in run["curve"]], color=colour, label=label, lw=1)
        panels[0][place].set(title=dataset, xlabel="epoch", ylabel="validation NDCG@20")
        panels[0][place].legend(fontsize=7)
        for axis, (word, series) in zip(pairs[:, place], (("top-k", settings), ("beta", betas)), strict=True):
            runs = {x: rows[name].values() for x, name in series.items() if name in rows}
            found = {x: [run["test"]["item_ndcg@20"] for run in some] for x, some in runs.items()}
            axis.plot(list(found), [mean(values) for values in found.values()], "o-")
            for x, values in found.items():
                axis.plot([x] * len(values), values, ".", color="grey", ms=4)
            axis.set(title=dataset, xlabel=word, ylabel="test NDCG@20")
    folder.mkdir(parents=True, exist_ok=True)
    curves.savefig(folder / "tiger-curves.svg")
    sensitivity.savefig(folder / "tiger-sensitivity.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a document with the two marks that the tables go between")
    parser.add_argument("--figures", type=Path, help="a folder for the charts")
    options = parser.parse_args()
    if options.figures:
        draw(read(options.results), options.figures)
    text = section(read(options.results), read(options.results.with_suffix(".cut.jsonl")))
    if options.into is None:
        print(text)
        return
    before, _, rest = options.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    options.into.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
