"""The figures of docs/results/recommending.md from the JSON lines of tiger.py; tiger_tables.py --figures draws them."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

from tiger import MAIN
from tiger_codes import BEYOND, DATASETS, TOKENIZERS
from tiger_lines import SEEDS, by_row


def draw(done: list[dict], folder: Path) -> None:
    """tiger-main.svg: test NDCG@20 of every run. tiger-curves.svg: validation NDCG@20 by epoch. tiger-sensitivity.svg:
    Recall@20 and NDCG@20 by top-k and by beta."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tiger"  # the same runs, the same file
    import matplotlib.pyplot as plt

    datasets = [dataset for dataset in DATASETS if any(line["dataset"] == dataset for line in done)]
    if not datasets:
        return
    size = {"figsize": (4 * len(datasets), 3.5), "squeeze": False, "layout": "constrained"}
    curves, panels = plt.subplots(1, len(datasets), **size)
    main, dots = plt.subplots(1, len(datasets), **size | {"figsize": (4 * len(datasets), 4)}, sharey=True)
    shown = [name for name in (*TOKENIZERS, *BEYOND) if any(name == line["tokenizer"] for line in done)]
    for column, dataset in enumerate(datasets):
        rows = by_row(done, dataset)
        for name, runs in by_row(done, dataset, shown).items():
            values, at = [run["test"]["item_ndcg@20"] for run in runs.values()], shown.index(name)
            dots[0][column].plot(values, [at] * len(values), "o", color="C0", ms=4, alpha=0.6)
            dots[0][column].plot(mean(values), at, "|", color="black", ms=12)
        dots[0][column].set(title=dataset, xlabel="test NDCG@20", yticks=range(len(shown)), yticklabels=shown)
        dots[0][column].grid(axis="x", alpha=0.3)
        dots[0][column].locator_params(axis="x", nbins=5)
        for name, runs in rows.items():
            if name in (*MAIN, "random"):
                for seed, run in runs.items():
                    label = name if seed == min(runs) else None
                    colour = f"C{list(TOKENIZERS).index(name)}"
                    panels[0][column].plot([value for _, value in run["curve"]], color=colour, label=label, lw=1)
        panels[0][column].set(title=dataset, xlabel="epoch")
        panels[0][column].grid(alpha=0.3)
    panels[0][0].set_ylabel("validation NDCG@20")
    names = {label: line for panel in panels[0] for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    curves.legend(names.values(), names, loc="outside lower center", ncols=len(names), frameon=False)
    dots[0][0].invert_yaxis()
    folder.mkdir(parents=True, exist_ok=True)
    main.savefig(folder / "tiger-main.svg", metadata={"Date": None})
    curves.savefig(folder / "tiger-curves.svg", metadata={"Date": None})
    sensitivity(done).savefig(folder / "tiger-sensitivity.svg", metadata={"Date": None})


def sensitivity(done: list[dict]):
    """Recall@20 and NDCG@20 by k and by beta, a column per dataset where either was varied: a line through the means of
    the seeds that all settings have, with their standard deviation, and a grey dot for every run."""
    import matplotlib.pyplot as plt

    settings = {1: "without-soft", 2: "prq-kmeans", 5: "prq-k5", 10: "prq-k10"}
    betas = {10: "prq-beta10", 15: "prq-kmeans", 20: "prq-beta20", 25: "prq-beta25"}
    varied = {*settings.values(), *betas.values()} - set(MAIN)
    rows = {dataset: by_row(done, dataset) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if varied & rows[dataset].keys()]
    panels = [
        (word, series, name) for word, series in (("top-k", settings), ("beta", betas)) for name in ("Recall", "NDCG")
    ]
    wide = max(1, len(datasets))
    figure, axes = plt.subplots(len(panels), wide, figsize=(3.5 * wide, 9), squeeze=False, layout="constrained")
    for column, dataset in enumerate(datasets):
        for axis, (word, series, name) in zip(axes[:, column], panels, strict=True):
            key = f"item_{name.lower()}@20"
            runs = {x: rows[dataset][tokenizer] for x, tokenizer in series.items() if tokenizer in rows[dataset]}
            values = {x: {seed: run["test"][key] for seed, run in each.items()} for x, each in runs.items()}
            shared = sorted(set(SEEDS).intersection(*values.values()))
            joined = {x: [each[seed] for seed in shared] for x, each in values.items()}
            spread = [stdev(each) for each in joined.values()] if len(shared) > 1 else None
            dots = [(x, value) for x, each in values.items() for value in each.values()]
            axis.plot([x for x, _ in dots], [value for _, value in dots], ".", color="grey", label="every run")
            label = f"mean of seeds {', '.join(map(str, shared))}" if len(shared) > 1 else f"seed {shared[0]}"
            axis.errorbar(list(joined), list(map(mean, joined.values())), spread, fmt="o-", capsize=3, label=label)
            axis.set(xlabel=word, xticks=list(series))
            axis.margins(y=0.15)
            if column == 0:
                axis.set_ylabel(f"test {name}@20")
            axis.grid(alpha=0.3)
        axes[0][column].set_title(dataset)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure
