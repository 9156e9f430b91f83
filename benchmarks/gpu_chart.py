"""The roofline of the GPU kernels, drawn from gpu_fit.json.

    python benchmarks/gpu_chart.py benchmarks/results/gpu_fit.json docs/images/gpu-roofline.svg

A kernel's place is its operations over the bytes it cannot do without, and its operations a second. Under the slanted
roof it waits for memory, under the flat one for the tensor cores; both were measured on the same card in the same run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt


class Point(NamedTuple):
    label: str
    intensity: float  # FLOP a byte
    rate: float  # TFLOP/s
    group: str


COLOURS = {"scores, hard": "#1b6ca8", "scores, top-5": "#d1495b", "sums and residuals": "#5b8c5a"}
ASIDE = {  # where a label stands from its mark, in points, if not right of it
    "K = 512": (-6, 5, "right"),
    "K = 128 + sums": (12, -13, "right"),
    "K = 128 + sums, top-5": (-4, -14, "center"),
    "K = 512, top-5": (6, -11, "left"),
    "K = 1024, top-5": (7, -6, "left"),
    "d = 768, K = 8192": (40, -15, "right"),
    "d = 4096, K = 8192": (40, -26, "right"),
}


def points(found: dict[str, Any]) -> list[Point]:
    marks = []
    for row in found["kernels"]:
        kernel, k = row["kernel"], row.get("top_k")
        place = row["flop"] / row["bytes"] if row["bytes"] else 0.0, row["flop"] / row["ms"] / 1e9
        if kernel in ("fit_kernel", "top_kernel", "dense_kernel"):  # top_kernel: its name in older results
            group = "scores, hard" if k == 1 else "scores, top-5"
            fused = " + sums" if kernel == "dense_kernel" else ""
            marks.append(Point(f"K = {row['K']}{fused}{', top-5' if k > 1 else ''}", *place, group))
        elif kernel == "sum_kernel" and row["K"] == found["sizes"][0]:
            marks.append(Point(f"sums, top-{k}", *place, "sums and residuals"))
        elif kernel == "carry_kernel":
            marks.append(Point("residuals", *place, "sums and residuals"))
    for row in found["wide"]:
        n, K, d = row["rows"], row["K"], row["d"]
        moved = 2 * n * d + 2 * K * d + 44 * n
        marks.append(Point(f"d = {d}, K = {K}", 2.0 * n * K * d / moved, row["score_tflops"], "scores, top-5"))
    return marks


def draw(found: dict[str, Any], target: Path) -> None:
    flat, slope = found["ceilings"]["bf16_tflops_8192"], found["ceilings"]["copy_tb_s"]
    plt.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "sidkit", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(8.4, 4.8))
    knee = flat / slope
    axes.plot([0.5, knee, 2e4], [0.5 * slope, flat, flat], color="#444", linewidth=1.4)
    axes.text(3.2, 3.2 * slope * 1.35, f"memory, {slope:.1f} TB/s", rotation=37, rotation_mode="anchor", color="#444")
    axes.text(1.9e4, flat * 1.1, f"bf16 product, {flat:.0f} TFLOP/s", ha="right", color="#444")
    for group, colour in COLOURS.items():
        own = [mark for mark in points(found) if mark.group == group]
        axes.scatter([m.intensity for m in own], [m.rate for m in own], color=colour, s=34, zorder=3, label=group)
        for mark in own:
            *offset, side = ASIDE.get(mark.label, (7, -3, "left"))
            axes.annotate(
                mark.label,
                (mark.intensity, mark.rate),
                xytext=offset,
                textcoords="offset points",
                ha=side,
                color=colour,
                fontsize=8,
            )
    axes.set(xscale="log", yscale="log", xlim=(0.5, 2e4), ylim=(1, 1500))
    axes.set(xlabel="operations per byte that must move (FLOP/B)", ylabel="TFLOP/s")
    axes.set_title(f"{found['machine']}, {found['rows']:,} rows of d = {found['d']} unless said", loc="left")
    axes.grid(True, which="major", color="#ddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
