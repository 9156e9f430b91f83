"""The CPU chart of docs/performance.md, drawn from benchmarks/results.

python benchmarks/cpu_chart.py     writes docs/images/cpu.svg
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
OURS, OTHERS, FLOOR = "#2a6f97", "#b8bdc4", "#c0392b"


def read(name):
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def cpu():
    """Left: one pass over a million rows, ours and the peers', as multiples of the bare product. Right: growth."""
    figures = read("cpu_pass")["best of all repeats"]["d=128 K=1024, over sgemm"]
    bars = {
        "sidkit, hard": figures["native k=1"],
        "sidkit, top-2": figures["native k=2"],
        "sidkit, top-5": figures["native k=5"],
        "sidkit without kernels, hard": figures["numpy engine k=1"],
        "faiss, best BLAS setting": min(v for name, v in figures.items() if name.startswith("faiss")),
        "faiss as installed": figures["faiss as installed k=1"],
        "torch loop": figures["torch loop k=1"],
        "scikit-learn": figures["sklearn k=1"],
    }
    growth = read("out_of_core")["growth"]
    plt.rcParams |= {"font.size": 9, "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.4), width_ratios=(1.45, 1), layout="constrained")
    names = list(bars)[::-1]
    colours = [OURS if name.startswith("sidkit") else OTHERS for name in names]
    drawn = left.barh(names, [bars[name] for name in names], color=colours, height=0.7)
    left.axvline(1, color=FLOOR, linewidth=1)
    left.bar_label(drawn, fmt="%.2f", padding=3, bbox={"color": "white", "pad": 1})
    left.margins(x=0.1)
    left.text(1.02, len(names) - 0.35, "bare matrix product", color=FLOOR, va="bottom", fontsize=8)
    left.set_xlabel("time of one pass, 1,000,000 x 128, K = 1,024, over the bare product")
    right.loglog(growth["rows"], growth["seconds of a pass"], "o", color=OURS)
    line = [growth["microseconds a row"] * 1e-6 * n + growth["seconds at no rows"] for n in growth["rows"]]
    right.loglog(growth["rows"], line, color=OURS, linewidth=1)
    right.set_xlabel("rows, from Parquet")
    right.set_ylabel("seconds of a top-5 pass, K = 1,024")
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / "cpu.svg", metadata={"Date": None})


if __name__ == "__main__":
    cpu()
