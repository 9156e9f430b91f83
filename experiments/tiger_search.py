"""The search for `sidkit train --preset best`: plans by successive halving, on validation figures alone.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3 --tokenizers prq-co1-unique
    python experiments/tiger_search.py CODES -o experiments/results/tiger_search.jsonl --minutes 8
    python experiments/tiger_search.py CODES -o experiments/results/tiger_search.jsonl --best

Candidates are the paper's plan, the present `best`, and plans drawn at random from SPACE. Each is trained with every
seed at once, in one stack, for the epochs of the first rung; the better third goes on to the next, and is trained from
the start, because a decaying rate depends on the number of epochs. A plan's figure is the mean over seeds and datasets
of its validation NDCG@20 relative to the paper's plan on the same data in the same rung. The test is never looked at:
no line has its figures. A line of JSON is written per (rung, candidate, dataset); lines already there are not run
again, so the search can be made of calls of a few minutes (--minutes). --best prints the ranking, and the best plan as
options of `sidkit train`.

A CPU proves that it runs, with a small model and few examples:

    python experiments/tiger_search.py CODES -o small.jsonl --datasets lastfm --tokenizer prq-unique --small \\
        --users 300 --rungs 2,4 --candidates 3 --seeds 1
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from made import made
from tiger_codes import DATASETS, SIZES

SPACE = {  # of plans; each value is as likely as the others of its line
    "learning_rate": (5e-4, 1e-3, 2e-3, 3e-3),
    "warmup": (200, 1000),
    "decay": ("linear", "cosine"),
    "smoothing": (0.0, 0.1, 0.2),
    "weight_decay": (0.0, 0.05, 0.2),
    "average": (0.0, 0.999),
    "crop": (0.0, 0.2, 0.5),
    "batch": (256, 512),
}
SHAPES = {"dropout": (0.1, 0.2, 0.3), "layers": (2, 4, 4), "d_model": (128,), "d_ff": (512, 1024)}
SMALL = {"layers": 1, "d_model": 64, "d_ff": 128, "heads": 2, "d_kv": 32}
FIGURE = "item_ndcg@20"


def plans(candidates: int, small: bool) -> list:
    """The paper's plan, the present best, and draws from SPACE; always the same for the same number."""
    from sidkit.retriever.plan import PLANS, changed

    rng, found = np.random.default_rng(0), [PLANS["paper"], PLANS["best"]]
    while len(found) < candidates:
        drawn = {name: values[rng.integers(len(values))] for name, values in SPACE.items()}
        shape = {name: values[rng.integers(len(values))] for name, values in SHAPES.items()}
        plan = changed(PLANS["paper"], shape, **drawn)
        if plan not in found:
            found.append(plan)
    if small:  # steps are few, so the paper's rate would learn nothing
        found = [changed(plan, SMALL, learning_rate=max(plan.learning_rate, 1e-3)) for plan in found]
    return found


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def standing(lines: list[dict], rung: int, members: list[int], datasets: list[str]) -> dict[int, float] | None:
    """The figure of every candidate of a rung, best first; None unless all were trained on all datasets."""
    figures = {
        (line["candidate"], line["dataset"]): fmean(line["validation"]) for line in lines if line["rung"] == rung
    }
    if any((one, dataset) not in figures for one in members for dataset in datasets):
        return None
    base = {dataset: figures[0, dataset] or 1.0 for dataset in datasets}
    means = {one: fmean(figures[one, dataset] / base[dataset] for dataset in datasets) for one in members}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def survivors(ranked: dict[int, float]) -> list[int]:
    """The better third, and the paper's plan, by which the others are measured."""
    return sorted({0, *list(ranked)[: max(1, -(-len(ranked) // 3))]})


def some_users(sequences, users: int):
    """The first so many sequences; 0 for all."""
    from sidkit.data.sequences import Sequences

    stop = sequences.starts[users] if 0 < users < len(sequences) else sequences.starts[-1]
    return Sequences(
        sequences.rows[:stop], sequences.starts[: users + 1] if stop < len(sequences.rows) else sequences.starts
    )


class Search:
    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from sidkit.engine.device import find_device

        self.options, self.device = options, torch.device(find_device(options.device))
        self.plans = plans(options.candidates, options.small)
        self.rungs = [int(epochs) for epochs in options.rungs.split(",")]
        self.datasets = options.datasets.split(",")
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
        self.longest = 0.0  # seconds that a candidate of this rung took, on one dataset

    def __call__(self) -> bool:
        """Run what is missing; whether all of it is done."""
        members = list(range(len(self.plans)))
        for rung, epochs in enumerate(self.rungs):
            self.longest = 0.0
            for candidate in members:
                for dataset in self.datasets:
                    if not self.train(rung, epochs, candidate, dataset):
                        return False
            ranked = standing(read(self.options.output), rung, members, self.datasets)
            members = survivors(ranked or {})
        return True

    def train(self, rung: int, epochs: int, candidate: int, dataset: str) -> bool:
        """One candidate on one dataset with all seeds; False if there was no time for it."""
        key = (rung, candidate, dataset)
        if any((line["rung"], line["candidate"], line["dataset"]) == key for line in read(self.options.output)):
            return True
        if self.deadline is not None and time.monotonic() + self.longest > self.deadline:
            return False
        from sidkit.retriever.training import train_stack

        plan, began = replace(self.plans[candidate], epochs=epochs, fusion=False), time.monotonic()
        runs, sequences = self.runs(dataset)
        given = (runs, sequences, plan, self.device, len(runs))
        outcomes = list(train_stack(*given, report=self.say(key), deadline=self.deadline))
        if not all(outcome.finished for outcome in outcomes):
            return False
        self.longest = max(self.longest, time.monotonic() - began)
        self.write(key, plan, outcomes, time.monotonic() - began)
        return True

    def runs(self, dataset: str) -> tuple[list, object]:
        from sidkit import SidTable
        from sidkit.data.sequences import read_sequences
        from sidkit.retriever.runs import TrainingRun

        folder, name = self.options.codes / dataset, self.options.tokenizer
        runs = []
        for seed in range(self.options.seeds):
            codes = np.load(folder / f"{name}-{seed}.npy").astype(np.int64)
            runs.append(TrainingRun(name, SidTable(np.arange(len(codes)), codes, SIZES), seed))
        return runs, some_users(read_sequences(folder / "sequences.parquet", runs[0].table.ids), self.options.users)

    def say(self, key: tuple):
        def report(outcome) -> None:
            last = outcome.log[-1]
            print(
                f"rung {key[0]} candidate {key[1]} {key[2]} seed {outcome.run.seed} epoch {outcome.epoch} "
                f"loss {last['loss']:.4f} NDCG@20 {last[FIGURE]:.5f} {last['samples_per_s']:,.0f} examples/s",
                flush=True,
            )

        return report

    def write(self, key: tuple, plan, outcomes: list, seconds: float) -> None:
        line = {
            **dict(zip(("rung", "candidate", "dataset"), key, strict=True)),
            "tokenizer": self.options.tokenizer,
            "users": self.options.users,
            "plan": asdict(plan),
            "validation": [outcome.best for outcome in outcomes],
            "best_epochs": [outcome.best_epoch for outcome in outcomes],
            "curves": [[round(entry[FIGURE], 5) for entry in outcome.log] for outcome in outcomes],
            "seconds": round(seconds, 1),
            "device": str(self.device),
            **made(self.command()),
        }
        self.options.output.parent.mkdir(parents=True, exist_ok=True)
        with self.options.output.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def command(self) -> str:
        o = self.options
        extra = f" --users {o.users}" * bool(o.users) + " --small" * o.small
        return (
            f"python experiments/tiger_search.py CODES -o OUT --datasets {o.datasets} --tokenizer {o.tokenizer} "
            f"--candidates {o.candidates} --rungs {o.rungs} --seeds {o.seeds}{extra}"
        )

    def show(self) -> None:
        """The ranking of every rung that is complete, and the best plan of the last."""
        from sidkit.retriever.plan import PLANS

        members, lines, best = list(range(len(self.plans))), read(self.options.output), None
        for rung, epochs in enumerate(self.rungs):
            ranked = standing(lines, rung, members, self.datasets)
            if ranked is None:
                print(f"rung {rung} ({epochs} epochs): not complete")
                break
            print(f"rung {rung} ({epochs} epochs), validation NDCG@20 relative to the paper's plan:")
            for candidate, figure in ranked.items():
                print(f"  {figure:.3f}  {differences(self.plans[candidate], PLANS['paper'])}")
            best, members = next(iter(ranked)), survivors(ranked)
        if best is not None:
            print(f"best: candidate {best}: {differences(self.plans[best], PLANS['paper'])}")


def differences(plan, base) -> str:
    """What a plan has that another has not, as words."""
    ours, theirs = asdict(plan), asdict(base)
    ours |= ours.pop("shape")
    theirs |= theirs.pop("shape")
    return ", ".join(f"{name} {value}" for name, value in ours.items() if value != theirs[name]) or "the paper's"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--tokenizer", default="prq-co1-unique")
    parser.add_argument("--candidates", type=int, default=18, help="plans of the first rung, the paper's and best too")
    parser.add_argument("--rungs", default="15,40,120", help="epochs of each rung, by commas")
    parser.add_argument("--seeds", type=int, default=3, help="trained at once")
    parser.add_argument("--users", type=int, default=0, help="only the first so many sequences")
    parser.add_argument("--small", action="store_true", help="one layer of width 64, for a CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: when all is done")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--best", action="store_true", help="print the ranking so far")
    options = parser.parse_args()
    if options.candidates < 2:
        parser.error("--candidates must be at least 2: the paper's plan and the present best are always there")
    search = Search(options)
    if options.best:
        search.show()
    else:
        print("all done" if search() else "stopped in time; the same command goes on", flush=True)


if __name__ == "__main__":
    main()
