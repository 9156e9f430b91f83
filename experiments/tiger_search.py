"""The search for `sidkit train --preset best`, on validation figures alone.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3 --tokenizers prq-co1-unique
    python experiments/near_codes.py DATA -o CODES --datasets toys,sports
    python experiments/tiger_search.py CODES -o experiments/results/tiger_search.jsonl --minutes 8
    python experiments/tiger_search.py CODES -o experiments/results/tiger_search.jsonl --best plan.json

Candidates are CENTRE and plans with one change of it each (CHANGES). All are trained for the epochs of the first rung,
every seed at once in one stack. The next rung has the best of them, and first the plan with every change that
helped; each is trained from the start, because a decaying rate depends on the number of epochs. A plan's figure is the
mean over datasets of its validation NDCG@20, the mean over seeds, relative to the best of the rung on the same data.
The test is never looked at, nor computed. Without the files of near_codes.py the change of `swap` is left out.

A line of JSON is written per (epochs, candidate, dataset); lines already there are not run again, so that the search
can be made of calls of a few minutes (--minutes), and several processes with the same command share it. --best prints
the ranking, and the best plan as what it changes of the paper's; a file after it gets the plan.

A CPU proves that it runs, with a small model and few examples:

    python experiments/tiger_search.py CODES -o small.jsonl --datasets lastfm --tokenizer prq-unique --small \\
        --users 300 --rungs 2,4 --candidates 3 --seeds 1
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from json_lines import append_line, read_lines
from made import made
from tiger_codes import SIZES

from sidkit.data.sequences import Sequences, read_sequences
from sidkit.retriever.data import examples

CENTRE = {
    "learning_rate": 1e-3,
    "warmup": 500,
    "decay": "cosine",
    "dropout": 0.2,
    "smoothing": 0.1,
    "weight_decay": 0.1,
    "average": 0.999,
    "crop": 0.2,
    "batch": 512,
}
CHANGES: tuple[dict, ...] = (  # one field each, most telling first
    {"learning_rate": 2e-3},
    {"dropout": 0.1},
    {"dropout": 0.3},
    {"smoothing": 0.0},
    {"weight_decay": 0.0},
    {"weight_decay": 0.3},
    {"learning_rate": 5e-4},
    {"crop": 0.0},
    {"crop": 0.5},
    {"layers": 2},
    {"swap": 0.2},
    {"batch": 256},
    {"average": 0.0},
    {"history": 10},
    {"learning_rate": 3e-3},
    {"smoothing": 0.2},
    {"layers": 6},
    {"decay": "linear"},
    {"warmup": 2000},
    {"d_model": 64},
)
JOINED: tuple[dict, ...] = (  # of what helped in the first trainings, several at once; run by name (--only)
    {"dropout": 0.1, "learning_rate": 2e-3},
    {"dropout": 0.1, "learning_rate": 2e-3, "crop": 0.0, "smoothing": 0.0},
    {"dropout": 0.1, "learning_rate": 3e-3},
    {"dropout": 0.05},
    {"dropout": 0.1, "batch": 256},
    {"dropout": 0.1, "smoothing": 0.0},
    {"dropout": 0.1, "weight_decay": 0.3},
    {"dropout": 0.1, "learning_rate": 2e-3, "weight_decay": 0.3},
    {"dropout": 0.0},
)
SHAPE = ("dropout", "layers", "d_model")  # fields of the model; the others are of the plan
SMALL = {"layers": 1, "d_model": 64, "d_ff": 128, "heads": 2, "d_kv": 32}
NO_PRESET = ("swap",)  # needs further SIDs of the items, which a preset cannot count on; tried to be known
FIGURE = "item_ndcg@20"
TOGETHER = "every change that helped"


def candidate_plans(candidates: int, small: bool) -> dict:
    """By name, the centre and plans with one change of it."""
    from sidkit.retriever.plan import PLANS

    centre = with_fields(PLANS["paper"], CENTRE)
    if small:
        centre = with_shape(centre, SMALL)
    found = {"centre": centre}
    for change in (*CHANGES[: candidates - 1], *JOINED):
        found[", ".join(f"{name} {value}" for name, value in change.items())] = with_fields(centre, change)
    return found


def with_fields(plan, fields: dict):
    """The plan with other fields, of itself or of its shape."""
    shape = {name: value for name, value in fields.items() if name in SHAPE}
    return with_shape(replace(plan, **{name: value for name, value in fields.items() if name not in SHAPE}), shape)


def with_shape(plan, shape: dict):
    return replace(plan, shape=replace(plan.shape, **shape))


def all_that_helped(plans: dict, figures: dict[str, float]):
    """The centre with, of every field, the change with the best figure, if that is better than the centre's."""
    best: dict[str, tuple[float, object]] = {}
    for field, value in ((field, value) for change in CHANGES for field, value in change.items()):
        name = f"{field} {value}"
        if field in NO_PRESET or name not in figures:
            continue
        if figures[name] > max(figures["centre"], best.get(field, (0.0, None))[0]):
            best[field] = (figures[name], value)
    return with_fields(plans["centre"], {field: value for field, (_, value) in best.items()})


def standing(lines: list[dict], epochs: int, datasets: list[str], known: Collection[str] | None = None) -> dict:
    """The figures of the candidates that were trained for so many epochs on all datasets, best first; of those known
    alone."""
    figures = {(line["candidate"], line["dataset"]): fmean(line["validation"]) for line in lines if at(line) == epochs}
    names = [name for name, _ in figures if known is None or name in known]
    names = [name for name in dict.fromkeys(names) if all((name, one) in figures for one in datasets)]
    base = {one: max((figures[name, one] for name in names), default=0.0) or 1.0 for one in datasets}
    means = {name: fmean(figures[name, one] / base[one] for one in datasets) for name in names}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def at(line: dict) -> int:
    """The epochs of a line's plan, which are those of its rung."""
    return line["plan"]["epochs"]


def some_users(sequences, users: int):
    """The first so many sequences; 0 for all."""
    stop = sequences.starts[users] if 0 < users < len(sequences) else sequences.starts[-1]
    return Sequences(
        sequences.rows[:stop], sequences.starts[: users + 1] if stop < len(sequences.rows) else sequences.starts
    )


class Search:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        every = candidate_plans(options.candidates, options.small)
        wanted = options.only.split("; ") if options.only else list(every)[: options.candidates]
        self.plans = {name: every[name] for name in wanted if not every[name].swap or self.has_others()}
        self.examples: dict[str, int] = {}
        self.rungs = [int(epochs) for epochs in options.rungs.split(",")]
        names = options.datasets.split("/")
        self.datasets = [names[min(rung, len(names) - 1)].split(",") for rung in range(len(self.rungs))]
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else None

    def __call__(self) -> bool:
        """Run what is missing; whether all of it is done."""
        for rung in range(len(self.rungs)):
            while left := self.missing(rung):
                trained = [self.train(rung, *one) for one in left]
                if self.is_late(rung, left[0][1]):
                    return False
                if not any(trained):
                    time.sleep(1.0)  # others train them
        return True

    def missing(self, rung: int) -> list[tuple[str, str]]:
        """(candidate, dataset) without a line."""
        lines = read_lines(self.options.output)
        done = {(at(line), line["candidate"], line["dataset"]) for line in lines}
        wanted = [(name, dataset) for name in self.members(rung, lines) for dataset in self.datasets[rung]]
        return [one for one in wanted if (self.rungs[rung], *one) not in done]

    def members(self, rung: int, lines: list[dict]) -> dict:
        """The plans of a rung by name, in the order in which they are trained: of a later one what all changes that
        helped make together, then the best of the rung before."""
        if not rung:
            return self.plans
        known = self.members(rung - 1, lines)
        before = standing(lines, self.rungs[rung - 1], self.datasets[rung - 1], known)
        if rung == 1 and len(before) == len(known) and "centre" in known:
            known = {TOGETHER: all_that_helped(known, before)} | known
        best = [name for name in before if rung > 1 or known[name] != known.get(TOGETHER)]
        best = [name for name in best if name.split()[0] not in NO_PRESET]
        kept = [TOGETHER] * (rung == 1) + best[: self.options.keep]
        return {name: known[name] for name in kept if name in known}

    def is_late(self, rung: int, dataset: str) -> bool:
        """Whether a training would not end before the deadline, as far as the trainings so far tell."""
        if self.deadline is None:
            return False
        lines = read_lines(self.options.output)
        lines = [line for line in lines if line["dataset"] == dataset] or lines
        paces = [one["seconds"] / (one["plan"]["epochs"] * one["examples"]) for one in lines if one.get("examples")]
        work = self.rungs[rung] * self.examples_of(dataset)
        return time.monotonic() + (paces[-1] if paces else 0.0) * work > self.deadline

    def examples_of(self, dataset: str) -> int:
        """The training examples of a dataset."""
        if dataset not in self.examples:
            self.examples[dataset] = len(examples(self.runs(dataset, False)[1], "train"))
        return self.examples[dataset]

    def has_others(self) -> bool:
        """Whether there are further SIDs of the items, in every dataset."""
        folders = [self.options.codes / one for part in self.options.datasets.split("/") for one in part.split(",")]
        return all((folder / f"near-{seed}.npy").exists() for folder in folders for seed in range(self.options.seeds))

    def train(self, rung: int, candidate: str, dataset: str) -> bool:
        """One candidate on one dataset with all seeds; whether it was trained here."""
        if self.is_late(rung, dataset):
            return False
        with self.claimed(rung, candidate, dataset) as mine:
            return mine and self._train(rung, candidate, dataset)

    @contextmanager
    def claimed(self, rung: int, candidate: str, dataset: str) -> Iterator[bool]:
        """Whether no other process trains it, nor has done so since."""
        name = f"{self.options.output.name}.{rung}.{candidate.replace(' ', '-')}.{dataset}.lock"
        self.options.output.parent.mkdir(parents=True, exist_ok=True)
        path = self.options.output.with_name(name)
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield (candidate, dataset) in self.missing(rung)
            path.unlink(missing_ok=True)

    def _train(self, rung: int, candidate: str, dataset: str) -> bool:
        import torch

        from sidkit.engine.device import find_device
        from sidkit.retriever.training import train_stack

        epochs, began = self.rungs[rung], time.monotonic()
        device = torch.device(find_device(self.options.device))
        known = self.members(rung, read_lines(self.options.output))
        plan = replace(known[candidate], epochs=epochs, patience=epochs, fusion=False)
        runs, sequences = self.runs(dataset, bool(plan.swap))
        given = (runs, sequences, plan, device, len(runs))
        label = f"rung {rung}, {candidate}, {dataset}"
        limits = {"report": self.say(label, epochs), "deadline": self.deadline, "tested": False}
        outcomes = list(train_stack(*given, **limits))
        finished = all(outcome.finished for outcome in outcomes)
        if finished:
            facts = {"rung": rung, "candidate": candidate, "dataset": dataset, "plan": asdict(plan)}
            self.write(facts, outcomes, time.monotonic() - began, str(device))
        return finished

    def runs(self, dataset: str, swap: bool) -> tuple[list, object]:
        from sidkit import SidTable
        from sidkit.retriever.runs import TrainingRun

        folder, name = self.options.codes / dataset, self.options.tokenizer
        runs = []
        for seed in range(self.options.seeds):
            codes = np.load(folder / f"{name}-{seed}.npy").astype(np.int64)
            others = (np.load(folder / f"near-{seed}.npy").astype(np.int64),) if swap else ()
            runs.append(TrainingRun(name, SidTable(np.arange(len(codes)), codes, SIZES), seed, others=others))
        return runs, some_users(read_sequences(folder / "sequences.parquet", runs[0].table.ids), self.options.users)

    def say(self, label: str, epochs: int):
        def report(outcome) -> None:
            last = outcome.log[-1]
            if outcome.epoch == epochs or outcome.epoch % 10 == 0:
                print(
                    f"{label}, seed {outcome.run.seed} epoch {outcome.epoch} loss {last['loss']:.4f} "
                    f"NDCG@20 {last[FIGURE]:.5f} best {outcome.best:.5f} at {outcome.best_epoch} "
                    f"{last['samples_per_s']:,.0f} examples/s",
                    flush=True,
                )

        return report

    def write(self, facts: dict, outcomes: list, seconds: float, device: str) -> None:
        line = facts | {
            "tokenizer": self.options.tokenizer,
            "users": self.options.users,
            "examples": self.examples_of(facts["dataset"]),
            "validation": [outcome.best for outcome in outcomes],
            "best_epochs": [outcome.best_epoch for outcome in outcomes],
            "curves": [[round(entry[FIGURE], 5) for entry in outcome.log] for outcome in outcomes],
            "losses": [[round(entry["loss"], 4) for entry in outcome.log] for outcome in outcomes],
            "seconds": round(seconds, 1),
            "device": device,
            **made(self.command()),
        }
        append_line(self.options.output, line)

    def command(self) -> str:
        o = self.options
        extra = f" --users {o.users}" * bool(o.users) + " --small" * o.small + f" --only '{o.only}'" * bool(o.only)
        return (
            f"python experiments/tiger_search.py CODES -o OUT --datasets {o.datasets} --tokenizer {o.tokenizer} "
            f"--candidates {o.candidates} --rungs {o.rungs} --keep {o.keep} --seeds {o.seeds}{extra}"
        )

    def show(self, into: Path | None) -> None:
        """The ranking of every rung so far, and the best plan of the last that compares several."""
        from sidkit.retriever.plan import PLANS

        lines, best = read_lines(self.options.output), next(iter(self.plans.values()))
        for rung, epochs in enumerate(self.rungs):
            known = self.members(rung, lines)
            ranked = standing(lines, epochs, self.datasets[rung], known)
            missing = self.missing(rung)
            print(f"rung {rung} ({epochs} epochs){f': {len(missing)} trainings are missing' if missing else ''}")
            for name, figure in ranked.items():
                print(f"  {figure:.3f}  {name}: {differences(known[name], PLANS['paper'])}")
            if len(ranked) > 1:
                best = replace(known[next(iter(ranked))], epochs=epochs)
            if missing:
                break
        print(f"best: {differences(best, PLANS['paper'])}")
        if into is not None:
            into.write_text(json.dumps({"plan": asdict(best), **made(self.command())}, indent=1) + "\n")


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
    parser.add_argument("--datasets", default="toys/toys,sports", help="of every rung: of the first, / of the next")
    parser.add_argument("--tokenizer", default="prq-co1-unique")
    parser.add_argument("--candidates", type=int, default=1 + len(CHANGES), help="plans of the first rung")
    parser.add_argument("--only", help='candidates of the first rung by name, by "; "')
    parser.add_argument("--rungs", default="20,40", help="epochs of each rung, by commas")
    parser.add_argument("--keep", type=int, default=3, help="plans of a rung that are in the next")
    parser.add_argument("--seeds", type=int, default=2, help="trained at once")
    parser.add_argument("--users", type=int, default=0, help="only the first so many sequences")
    parser.add_argument("--small", action="store_true", help="one layer of width 64, for a CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: when all is done")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--best", nargs="?", type=Path, const=Path("/dev/null"), help="print the ranking so far; write the plan there"
    )
    options = parser.parse_args()
    if options.candidates < 2:
        parser.error("--candidates must be at least 2: the centre and a change of it")
    search = Search(options)
    if options.best:
        search.show(options.best)
    else:
        print("all done" if search() else "stopped in time; the same command goes on", flush=True)


if __name__ == "__main__":
    main()
