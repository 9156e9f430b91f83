"""Retention over eta with its spread over seeds, a panel per dataset: docs/images/retention.svg.

python experiments/retention_figure.py experiments/results/codebook_quality.jsonl -o docs/images/retention.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev

from tables import DATASETS


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "retention"
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    lines = [line for line in lines if line["table"] == "retention"]
    figure, axes = plt.subplots(1, len(DATASETS), figsize=(14, 3.6), layout="constrained")
    for axis, dataset in zip(axes, DATASETS, strict=True):
        runs: dict[int, dict[float, float]] = {}
        for line in lines:
            if line["dataset"] == dataset:
                figures = runs.setdefault(line["seed"], {})
                figures[line["options"]["keep"]] = 100 * line["quality"]["utilisation"][1]
        etas = sorted({eta for values in runs.values() for eta in values})
        for values in runs.values():
            (one,) = axis.plot(etas, [values[eta] for eta in etas], color="grey", lw=0.7, alpha=0.6)
        columns = [[values[eta] for values in runs.values()] for eta in etas]
        bars = axis.errorbar(etas, list(map(mean, columns)), list(map(stdev, columns)), fmt="o-", capsize=3)
        axis.set(title=f"{dataset}, {len(runs)} seeds", xlabel="share of the carryover that is kept, η", xticks=etas)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("L2 utilisation, %")
    words = ("mean and standard deviation", "a seed")
    figure.legend((bars, one), words, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(options.output, metadata={"Date": None})


if __name__ == "__main__":
    main()
