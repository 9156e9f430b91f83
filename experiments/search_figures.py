"""The figures of docs/results/searching.md from the lines of search.py; search_tables.py --figures draws them."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from search_lines import Line, encoders_of, seeds_of

from search import MAIN, ROBUST

K = {1: "without-soft", 2: "prq-k2", 5: "prq-kmeans", 10: "prq-k10"}
BETA = {10: "prq-beta10", 15: "prq-kmeans", 20: "prq-beta20", 25: "prq-beta25"}
HIT, MRR = "hit_rate@50", "mrr@50"


def draw(lines: list[Line], folder: Path) -> list[str]:
    """search-sensitivity.svg: by k and by beta. search-robustness.svg: five tokenizers under two encoders.

    The names of those that there are runs for.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "search"  # the same runs, the same file
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"sensitivity": sensitivity(lines), "robustness": robustness(lines)}
    drawn = {name: figure for name, figure in figures.items() if figure is not None}
    for name, figure in drawn.items():
        figure.savefig(folder / f"search-{name}.svg", metadata={"Date": None})
    return list(drawn)


def robustness(lines: list[Line]):
    """A panel per dataset and metric: a bar per tokenizer and encoder, runs of the first seed."""
    import matplotlib.pyplot as plt

    size = _size(lines)
    datasets = [dataset for dataset in MAIN if _compares_encoders(lines, size, dataset)]
    if not datasets:
        return None
    figure, axes = plt.subplots(2, len(datasets), figsize=(4 * len(datasets), 5.4), squeeze=False, layout="constrained")
    for column, dataset in enumerate(datasets):
        encoders = encoders_of(lines, ("run",), size, dataset)
        for row, (metric, word) in enumerate(((HIT, "HitRate@50"), (MRR, "MRR@50"))):
            for i, encoder in enumerate(encoders):
                found = {name: _first(lines, size, dataset, name, encoder, metric) for name in ROBUST}
                at = [x + 0.4 * i for x, value in enumerate(found.values()) if value is not None]
                heights = [value for value in found.values() if value is not None]
                axes[row][column].bar(at, heights, 0.4, label=encoder)
            axes[row][column].set(title=dataset, ylabel=f"Click {word}")
            axes[row][column].set_xticks([x + 0.2 for x in range(len(ROBUST))], ROBUST, rotation=30, fontsize=8)
        axes[0][column].margins(y=0.2)  # room for the legend
        axes[0][column].legend(fontsize=8, ncols=2, loc="upper center")
    return figure


def _compares_encoders(lines: list[Line], size: str, dataset: str) -> bool:
    """Whether several tokenizers were run under each of several encoders."""
    encoders = encoders_of(lines, ("run",), size, dataset)
    runs = [[_first(lines, size, dataset, name, one, HIT) for name in ROBUST] for one in encoders]
    return sum(len(values) - values.count(None) > 1 for values in runs) > 1


def sensitivity(lines: list[Line]):
    """Click HitRate by k and by beta; the runs of the first seed joined, the others in grey."""
    import matplotlib.pyplot as plt

    size = _size(lines)
    varied = {line["dataset"] for line in lines if line["kind"] == "run" and line["tokenizer"] in (K[10], BETA[25])}
    datasets = [dataset for dataset in MAIN if dataset in varied]
    if not datasets:
        return None
    figure, axes = plt.subplots(2, len(datasets), figsize=(4 * len(datasets), 5.4), squeeze=False, layout="constrained")
    for column, dataset in enumerate(datasets):
        for axis, (word, series) in zip(axes[:, column], (("k", K), ("beta", BETA)), strict=True):
            first = {x: _first(lines, size, dataset, name, None, HIT) for x, name in series.items()}
            known = {x: value for x, value in first.items() if value is not None}
            axis.plot(list(known), list(known.values()), "o-", label="seed 0")
            for x, name in series.items():
                others = [line for line in seeds_of(lines, "run", size, dataset, name) if line["seed"]]
                values = [line["figures"]["click"]["all"][HIT] for line in others]
                axis.plot([x] * len(values), values, ".", color="grey")
            axis.set(title=dataset, xlabel=word, ylabel="Click HitRate@50", xticks=list(series))
    return figure


def _size(lines: list[Line]) -> str:
    """Full shops where they have been run, else small ones."""
    return "full" if any(line["kind"] == "run" and line["size"] == "full" for line in lines) else "small"


def _first(lines: list[Line], size: str, dataset: str, name: str, encoder: str | None, metric: str) -> float | None:
    found = [line for line in seeds_of(lines, "run", size, dataset, name, encoder) if line["seed"] == 0]
    return mean(line["figures"]["click"]["all"][metric] for line in found) if found else None
