"""What a recommender over SIDs has to beat on the public datasets: SASRec over item ids, counting, and popularity.

    python experiments/baselines.py DATA -o experiments/results/baselines.jsonl
    python experiments/baselines.py DATA -o experiments/results/baselines.jsonl --datasets lastfm --minutes 10
    python experiments/baselines.py DATA -o experiments/results/baselines.jsonl --settings 3   (a GPU)

The split is that of `sidkit evaluate`: the last item of a sequence is the test, the one before it validation. Settings
are chosen by NDCG@10 on validation alone: SASRec's width, dropout and learning rate with seed 0 among SETTINGS, its
epoch by early stopping, how much of a history counts, and for every method whether items of the history may be
recommended again. Other seeds run the chosen setting. --counting runs what needs no training. A line of JSON is written
per (dataset, method, setting, seed) when it is done; lines already there are not run again. `ranks` are the ranks of
the test items of all users, in the order of the sequences (`stored_ranks.py`).
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from counted_ranks import COUNTED, counted_ranks
from json_lines import append_line, read_lines
from made import made, one_of
from sasrec import Setting, fit
from stored_ranks import pack
from tiger_codes import sequences_of

from sidkit.data.sequences import Sequences
from sidkit.measure.ranking import mean_figures

DATASETS = ("lastfm", "beauty", "toys", "sports", "clothing")
SEEDS = (0, 1, 2)
SPLITS = ("valid", "test")
SETTINGS = (
    Setting(width=64, dropout=0.5, rate=1e-3),
    Setting(width=64, dropout=0.3, rate=1e-3),
    Setting(width=128, dropout=0.5, rate=1e-3),
    Setting(width=64, dropout=0.5, rate=3e-3),
    Setting(width=64, dropout=0.2, rate=3e-4),
    Setting(width=128, dropout=0.3, rate=5e-4),
)
CANDIDATES = {"lastfm": 4, "beauty": 2, "toys": 2, "sports": 2, "clothing": 2}  # of SETTINGS, in their order, on a CPU


def chosen(lines: list[dict], dataset: str, method: str) -> dict | None:
    """The line of seed 0 whose setting is the best in validation."""
    of = [line for line in lines if (line["dataset"], line["method"], line["seed"]) == (dataset, method, 0)]
    return max(of, key=lambda line: line["validation"]["ndcg@10"], default=None)


def best_of(ranks: dict[str, dict[bool, np.ndarray]]) -> dict:
    """Ranks of validation and test by whether items of the history may be recommended again, as validation decides."""
    figures = {repeats: mean_figures(rank)["ndcg@10"] for repeats, rank in ranks["valid"].items()}
    repeats = figures[True] >= figures[False]
    return {split: ranks[split][repeats] for split in SPLITS} | {"repeats": repeats}


def figures_of(found: dict) -> dict:
    """Of a result with ranks of validation and test, what a line has."""
    figures = {split: mean_figures(found[where]) for split, where in (("validation", "valid"), ("test", "test"))}
    return figures | {"users": len(found["test"]), "repeats": bool(found["repeats"]), "ranks": pack(found["test"])}


class Runs:
    """The file of results, and what is still to be run."""

    def __init__(self, data: Path, output: Path, deadline: float, device: str, settings: int = 0) -> None:
        """settings: of SETTINGS, how many are tried; 0: on a GPU all, on a CPU those of CANDIDATES."""
        self.data, self.output, self.deadline, self.device = data, output, deadline, device
        self.settings = settings

    def _read(self, dataset: str) -> tuple[Sequences, int]:
        folder = self.data / dataset
        return sequences_of(folder), pq.read_metadata(folder / "items.parquet").num_rows

    def has(self, dataset: str, method: str, setting: dict, seed: int) -> bool:
        fields = ("dataset", "method", "setting", "seed")
        return any(
            [line[one] for one in fields] == [dataset, method, setting, seed] for line in read_lines(self.output)
        )

    def write(self, dataset: str, method: str, setting: dict, seed: int, facts: dict) -> None:
        command = f"python experiments/baselines.py DATA -o experiments/results/baselines.jsonl --datasets {dataset}"
        line = {"dataset": dataset, "method": method, "seed": seed, "setting": setting, **facts, **made(command)}
        append_line(self.output, line | {"torch": torch.__version__})

    def sasrec(self, dataset: str, sequences: Sequences, items: int, setting: Setting, seed: int) -> None:
        if self.has(dataset, "sasrec", asdict(setting), seed) or time.monotonic() > self.deadline:
            return
        name = f"{dataset} width {setting.width} dropout {setting.dropout} rate {setting.rate} seed {seed}"
        found = fit(
            sequences, items, setting, seed, self.deadline, lambda text: print(name, text, flush=True), self.device
        )
        if found is not None:
            more = {"epochs": len(found["curve"]), "best_epoch": found["epoch"], "curve": found["curve"]}
            facts = figures_of(found) | more | {"seconds": found["seconds"], "device": self.device}
            self.write(dataset, "sasrec", asdict(setting), seed, facts)

    def _candidates(self, dataset: str) -> int:
        return self.settings or (CANDIDATES[dataset] if self.device == "cpu" else len(SETTINGS))

    def counting(self, dataset: str) -> None:
        """Every way of counting, with every setting that it has."""
        sequences, items = self._read(dataset)
        for method, settings in COUNTED.items():
            for setting in settings:
                if not self.has(dataset, method, setting, 0):
                    ranks = {split: counted_ranks(sequences, items, method, split, **setting) for split in SPLITS}
                    self.write(dataset, method, setting, 0, figures_of(best_of(ranks)))

    def dataset(self, dataset: str, seeds: tuple[int, ...]) -> None:
        """The search with seed 0, then the other seeds of the chosen setting."""
        sequences, items = self._read(dataset)
        for setting in SETTINGS[: self._candidates(dataset)]:
            self.sasrec(dataset, sequences, items, setting, 0)
        best = chosen(read_lines(self.output), dataset, "sasrec")
        for seed in seeds[1:]:
            if best is not None:
                self.sasrec(dataset, sequences, items, Setting(**best["setting"]), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", type=one_of(DATASETS), default=DATASETS, help="only these, by commas")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--settings", type=int, default=0, help="of SASRec, how many are tried")
    parser.add_argument("--counting", action="store_true", help="only what needs no training")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: when all are done")
    parser.add_argument("--sasrec", action="store_true", help="only what is trained")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    runs = Runs(options.data, options.output, deadline, device, options.settings)
    for dataset in options.datasets:
        if not options.sasrec:
            runs.counting(dataset)
        if not options.counting:
            runs.dataset(dataset, SEEDS[: options.seeds])


if __name__ == "__main__":
    main()
