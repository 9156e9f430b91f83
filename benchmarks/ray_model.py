"""Time of a pass and a fit by the number of workers: a model from measured constants, its check, a table, a chart.

    python benchmarks/ray_model.py benchmarks/results/ray_costs.json docs/images/scale.svg

    pass = rows K d / (workers cores rate)                 the work
         + pass without work + 3 call (jobs - 1)           handing out, which the driver does one by one
         + log2(workers) (add + 2 K (d + 1) 8 / network + 2 latency)     codebooks out, sums back, each in a tree

`rate`, `call`, `add` and the pass without work come from ray_costs.json; network and latency are assumed, and named in
the output. For GPUs the rate is that of an H200 in gpu_fit.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

D, SIZES, ITERATIONS = 128, (1024, 512, 128), 25
CALLS = 3  # of the driver for a job: hand it out, ask how far it is, take note of its end
NETWORK, LATENCY = 1.25e9, 2e-4  # assumed: 10 Gbit/s, 0.2 ms
SHARDS = 3.2  # of a worker, where their number is no power of two
GPU = Path(__file__).with_name("results") / "gpu_fit.json"


@dataclass(frozen=True)
class Model:
    rate: float  # multiply-adds a second of a core, or of a GPU
    call: float  # seconds the driver spends on a job
    add: float  # seconds to add up two sums of K = 1024
    fixed: float  # seconds of a pass of one worker without work

    def of_pass(self, rows: float, K: int, workers: int, cores: int = 1) -> float:
        jobs = workers * (1 if workers & (workers - 1) == 0 else SHARDS)
        size = K * (D + 1) * 8
        rounds = log2(workers) if workers > 1 else 0.0
        tree = rounds * (self.add * K / 1024 + 2 * size / NETWORK + 2 * LATENCY)
        return rows * K * D / (workers * cores * self.rate) + self.fixed + CALLS * self.call * (jobs - 1) + tree

    def of_fit(self, rows: float, workers: int, cores: int = 1) -> float:
        """All passes and one more a level, which decides the tokens."""
        return sum((ITERATIONS + 1) * self.of_pass(rows, K, workers, cores) for K in SIZES)


def models(costs: dict[str, Any]) -> tuple[Model, Model]:
    """For a core of the machine measured, and for a GPU."""
    common = {"call": costs["calls_in_a_row_s"], "add": costs["add_s"], "fixed": costs["pass_without_work_s_1"]}
    gpu = json.loads(GPU.read_text())
    first = next(row for row in gpu["passes_ms"] if row["K"] == 1024)
    work = costs["rows"] * costs["K"] * D / (costs["pass_s_1"] - costs["pass_without_work_s_1"])
    return Model(work, **common), Model(gpu["rows"] * 1024 * D / (first["sidkit_top5"] / 1e3), **common)


def in_words(seconds: float) -> str:
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.1f} {unit}" if seconds / size < 10 else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def table(cpu: Model, gpu: Model) -> str:
    columns = [(1, "1 x 16 cores"), (8, "8 x 16"), (64, "64 x 16"), (256, "256 x 16"), (1024, "1,024 x 16")]
    cards = [(1, "1 H200"), (8, "8 H200"), (64, "64 H200")]
    lines = ["| rows | " + " | ".join(name for _, name in columns + cards) + " |"]
    lines.append("|---" * (1 + len(columns) + len(cards)) + "|")
    for power in (7, 8, 9, 10):
        cells = [in_words(cpu.of_fit(10.0**power, workers, 16)) for workers, _ in columns]
        cells += [in_words(gpu.of_fit(10.0**power, workers)) for workers, _ in cards]
        lines.append(f"| 10^{power} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def check(cpu: Model, costs: dict[str, Any]) -> str:
    lines = []
    for workers in (1, 2):
        modelled, measured = cpu.of_pass(costs["rows"], costs["K"], workers), costs[f"pass_s_{workers}"]
        error = modelled / measured - 1
        lines.append(f"{workers} workers: model {modelled:.3f} s, measured {measured:.3f} s ({error:+.0%})")
    return "\n".join(lines)


def draw(cpu: Model, gpu: Model, costs: dict[str, Any], target: Path) -> None:
    plt.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "sidkit", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(7.6, 4.4))
    workers = [2**i for i in range(11)]
    for power, colour in zip((7, 8, 9, 10), ("#5b8c5a", "#1b6ca8", "#d1495b", "#7d5ba6"), strict=True):
        cores = [cpu.of_pass(10.0**power, 1024, w) for w in workers]
        card = [gpu.of_pass(10.0**power, 1024, w) for w in workers]
        axes.plot(workers, cores, color=colour, label=f"$10^{{{power}}}$ rows")
        axes.plot(workers, card, color=colour, linestyle=":", linewidth=1.2)
    scale = 1e7 / costs["rows"]
    measured = [costs[f"pass_s_{w}"] * scale for w in (1, 2)]
    axes.scatter([1, 2], measured, color="black", s=18, zorder=4, label="measured, scaled to $10^7$ rows")
    axes.set(xscale="log", yscale="log", xlabel="workers (solid: one core each, dotted: one H200 each)")
    axes.set_ylabel("seconds a pass, K = 1024, d = 128, top-k 5")
    axes.grid(alpha=0.25, which="major")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    costs = json.loads(Path(sys.argv[1]).read_text())
    cpu, gpu = models(costs)
    print(f"a core: {cpu.rate / 1e9:.1f} G multiply-adds/s; an H200: {gpu.rate / 1e12:.0f} T")
    print(f"a call {cpu.call * 1e3:.2f} ms, adding up {cpu.add * 1e3:.1f} ms", end=", ")
    print(f"a pass without work {cpu.fixed * 1e3:.0f} ms")
    print(f"assumed: network {NETWORK * 8 / 1e9:.0f} Gbit/s, latency {LATENCY * 1e3:.1f} ms")
    print(check(cpu, costs), table(cpu, gpu), sep="\n\n")
    draw(cpu, gpu, costs, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
