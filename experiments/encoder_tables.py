"""The tables and the figure of experiments/encoders.py."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

from tables import mean_std

DATASETS = ("sports", "toys", "clothing", "lastfm")
ENCODERS = ("MiniLM", "gte", "WordLlama")
NAMES = (
    "prq-kmeans", "rq-kmeans", "rq-gmm", "opq-kmeans", "rq-vae", "pq-kmeans", "r3-vae",
    "without-soft", "prq-k5", "prq-k10", "prq-beta10", "prq-beta20", "prq-beta25",
)  # fmt: skip
FIGURE = NAMES[:5]
CODEBOOK = {  # heading -> (figure of a run, factor, digits)
    "ICR %": (lambda run: run["quality"]["icr_per_sid"], 100, 2),
    "Util L1 %": (lambda run: run["quality"]["utilisation"][0], 100, 2),
    "Util L2 %": (lambda run: run["quality"]["utilisation"][1], 100, 2),
    "Gini L1": (lambda run: run["quality"]["prefix_gini"][0], 1, 3),
    "Gini L2": (lambda run: run["quality"]["prefix_gini"][1], 1, 3),
    "Gini L3": (lambda run: run["quality"]["prefix_gini"][2], 1, 3),
}
JUDGED = {
    "next item shares L1 %": (lambda run: run["behaviour"]["share"][0], 100, 2),
    "lift L1": (lambda run: run["behaviour"]["lift"][0], 1, 1),
    "lift L2": (lambda run: run["behaviour"]["lift"][1], 1, 1),
    "nearest above chance L1 %": (lambda run: run["neighbours"]["above_chance"][0], 100, 1),
    "overlap %": (lambda run: run["neighbours"]["overlap"], 100, 1),
    "counted NDCG@20 %": (lambda run: run["counted"]["ndcg@20"], 100, 2),
}


def by_cell(lines: list[dict]) -> dict[tuple[str, str, str], list[dict]]:
    """(dataset, encoder, tokenizer) -> its runs."""
    cells = defaultdict(list)
    for line in lines:
        cells[line["dataset"], line["encoder"], line["tokenizer"]].append(line)
    return cells


def tables(lines: list[dict]) -> None:
    cells = by_cell(lines)
    for title, columns in (("Codebooks", CODEBOOK), ("Judged", JUDGED)):
        print(f"\n### {title}\n\n| data | encoder | tokenizer | {' | '.join(columns)} | seeds |")
        print("|---|---|---|" + "---:|" * (len(columns) + 1))
        for key in ((data, encoder, name) for data in DATASETS for encoder in ENCODERS for name in NAMES):
            if runs := cells.get(key):
                values = [
                    mean_std([factor * (read(run) or 0.0) for run in runs], digits)
                    for read, factor, digits in columns.values()
                ]
                print(f"| {' | '.join((*key, *values))} | {len(runs)} |")


def draw(lines: list[dict], path: Path) -> None:
    """A panel per dataset, a row per figure: bars of the five tokenizers under every encoder, with their spread."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "encoders"
    import matplotlib.pyplot as plt

    cells = by_cell(lines)
    datasets = [dataset for dataset in DATASETS if any(line["dataset"] == dataset for line in lines)]
    shown = {
        "ICR, %": CODEBOOK["ICR %"],
        "lift of the next item, L1": JUDGED["lift L1"],
        "counted NDCG@20, %": JUDGED["counted NDCG@20 %"],
    }
    figure, axes = plt.subplots(
        len(shown), len(datasets), figsize=(3.6 * len(datasets), 7.5), layout="constrained", squeeze=False
    )
    for row, (label, (read, factor, _)) in enumerate(shown.items()):
        for column, dataset in enumerate(datasets):
            axis = axes[row][column]
            here = [encoder for encoder in ENCODERS if (dataset, encoder, FIGURE[0]) in cells]
            for at, name in enumerate(FIGURE):
                for place, encoder in enumerate(here):
                    if values := [factor * (read(run) or 0.0) for run in cells.get((dataset, encoder, name), [])]:
                        spread = stdev(values) if len(values) > 1 else 0.0
                        at_x, style = place + (at - 2) * 0.16, {"color": f"C{at}", "error_kw": {"lw": 0.8}}
                        axis.bar(at_x, mean(values), 0.15, yerr=spread, **style)
            axis.set(xlim=(-0.5, len(here) - 0.5), xticks=range(len(here)), xticklabels=here)
            axis.grid(axis="y", alpha=0.3)
            axis.set_axisbelow(True)
            if row == 0:
                axis.set(title=dataset, ylim=(0, 101))
            if column == 0:
                axis.set_ylabel(label)
    handles = [plt.Rectangle((0, 0), 1, 1, color=f"C{at}") for at in range(len(FIGURE))]
    figure.legend(handles, FIGURE, loc="outside lower center", ncols=len(FIGURE), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
