"""What fusion and a plan are worth: TIGER alone and fused with counts, beside SASRec and counting.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3 --tokenizers prq-co1-unique,prq-unique
    python experiments/fused_models.py CODES -o experiments/results/fused_models.jsonl --datasets toys   (a GPU)
    python experiments/fused_models.py CODES -o experiments/results/fused_models.jsonl --datasets lastfm --small

A line of JSON per (dataset, plan, tokenizer, seed, list): the model's list alone, the same fused with counts, and by
the same formula the counts without the model; all weights are those of validation. Lines are those of baselines.py,
with the ranks of all users, so that lists are compared user by user. Seeds are trained in one stack; lines already
there are not run again.

--small is what a CPU can train: one layer of width 64, a few epochs. --plan-file takes the plan that tiger_search.py
found instead of a preset's, but for its epochs. --workers fuse and test what is trained in processes of their own,
while the next dataset is trained. With --rate and --minutes the epochs of all datasets are as many as fit; what a
deadline stops is judged by its best epoch so far and marked as not finished, so that the next call trains it again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from json_lines import append_line, read_lines
from made import made
from stored_ranks import pack
from tiger_codes import SIZES
from tiger_search import SMALL, some_users

from sidkit import SidTable
from sidkit.data.sequences import Sequences, read_sequences
from sidkit.measure.counting_tables import CountTables
from sidkit.measure.ranking import CUTS, mean_figures
from sidkit.retriever.candidates import Candidates
from sidkit.retriever.data import examples
from sidkit.retriever.fused import held_out_candidates, validated
from sidkit.retriever.fusion import OFF, Fusion, FusionWeights, fit_fusion, fused_scores, target_ranks
from sidkit.retriever.plan import PLANS, Plan, changed
from sidkit.retriever.retriever import Retriever
from sidkit.retriever.runs import Outcome, TrainingRun
from sidkit.retriever.store import plan_from
from sidkit.retriever.training import train_stack

SHARE, LEAST = 0.9, 8  # of the time left, that training may take; epochs that are trained in any case
RESERVE = 45.0  # seconds left for fusing what a deadline stops, or a quarter of the minutes if that is less
LISTS = {"alone": "", "again": ", the history allowed", "fused": ", fused", "counts": ", its counts alone"}


def plan_for(name: str, options: argparse.Namespace) -> Plan:
    """A preset's plan, or the same for a model of one layer; the paper's rate is raised then, which few steps need."""
    limits = {"epochs": options.epochs, "patience": options.patience, "history": options.history}
    if options.plan_file:
        usual = {field: getattr(PLANS[name], field) for field in ("epochs", "patience")}
        found = json.loads(options.plan_file.read_text())["plan"] | {"fusion": True} | usual
        return changed(plan_from(found), {}, **limits)
    if not options.small:
        return changed(PLANS[name], {}, **limits)
    warmup = 200 if name == "best" else 0
    plan = changed(PLANS[name], SMALL | {"dropout": 0.1}, warmup=warmup, learning_rate=1e-3)
    return changed(plan, {}, **{"epochs": 15, "patience": 4, "history": 10} | {k: v for k, v in limits.items() if v})


def say(outcome: Outcome) -> None:
    last = outcome.log[-1]
    if outcome.epoch % 10 > 1:
        return
    print(
        f"{outcome.run.name} seed {outcome.run.seed} epoch {outcome.epoch} loss {last['loss']:.4f} "
        f"NDCG@20 {last['item_ndcg@20']:.5f} {last['samples_per_s']:,.0f} examples/s",
        flush=True,
    )


def alone(fusion: Fusion) -> FusionWeights:
    """The model alone, with or without the items of the history, as validation decides."""
    facts = fusion.facts
    return FusionWeights(repeats=facts["model_ndcg@10"] >= facts["model_without_history_ndcg@10"])


def counted(candidates: Candidates) -> Candidates:
    """The candidates as counting knows them: all equally likely, and none that a beam alone reached."""
    known = (candidates.followed > 0) | (candidates.flow > 0) | (candidates.together > 0)
    return candidates._replace(model=np.ones(len(candidates.user))).where(known)


def test_ranks(retriever: Retriever, fusion: Fusion, counts: Fusion, sequences: Sequences) -> dict[str, np.ndarray]:
    """(users,) by list, the ranks of the test items; candidates are found once. counts: fitted to `counted`."""
    lists = {"alone": alone(fusion), "again": OFF, "fused": fusion.weights, "counts": counts.weights}
    ranks = {name: np.zeros(len(examples(sequences, "test")), np.int64) for name in lists}
    for users, target, candidates in held_out_candidates(retriever, fusion.tables, sequences, "test"):
        for name, weights in lists.items():
            found = counted(candidates) if name == "counts" else candidates
            score = fused_scores(found, weights)
            ranks[name][users] = target_ranks(found, target, score, max(CUTS) + len(fusion.tables))
    return ranks


def lines_of(outcome: Outcome, sequences: Sequences, plan: Plan, device: str) -> dict[str, dict]:
    """By list, its figures and ranks; with what the training and the fit of the fusion said."""
    import torch

    began = time.monotonic()
    weights = {name: torch.as_tensor(value, device=device) for name, value in outcome.weights.items()}
    retriever = Retriever(outcome.run.table, plan, weights, {}, device)
    tables = CountTables.of(sequences.training(), len(retriever.table))
    candidates, target = validated(retriever, tables, sequences)
    fusion, counts = fit_fusion(candidates, target, tables), fit_fusion(counted(candidates), target, tables)
    facts = {
        "tokenizer": outcome.run.name,
        "epochs": outcome.epoch,
        "best_epoch": outcome.best_epoch,
        "finished": outcome.finished,
        "best_item_ndcg@20": outcome.best,
        "curve": [[round(entry["loss"], 4), round(entry["item_ndcg@20"], 5)] for entry in outcome.log],
        "fusion": {"weights": fusion.weights.plain(), "validation": fusion.facts},
        "device": str(device),
        "seconds": {"training": round(outcome.seconds, 1), "fusion": round(time.monotonic() - began, 1)},
    }
    found = {}
    valid = fusion.facts
    repeats = {"alone": alone(fusion).repeats, "again": True, "fused": fusion.weights.repeats}
    repeats["counts"] = counts.weights.repeats
    figures = {
        "alone": max(valid["model_ndcg@10"], valid["model_without_history_ndcg@10"]),
        "again": valid["model_ndcg@10"],
        "fused": valid["fused_ndcg@10"] if fusion.weights.is_on else valid["model_ndcg@10"],
        "counts": counts.facts["fused_ndcg@10"],
    }
    for name, ranks in test_ranks(retriever, fusion, counts, sequences).items():
        chosen = {"validation": {"ndcg@10": figures[name]}, "repeats": repeats[name]}
        found[name] = facts | chosen | {"test": mean_figures(ranks), "users": len(ranks), "ranks": pack(ranks)}
    return found


def keys_of(options: argparse.Namespace, dataset: str, plan: Plan, tokenizer: str, seed: int) -> dict:
    """What tells a line from others, but for its method."""
    setting = {"plan": asdict(replace(plan, seed=0)), "users": options.users, "tokenizer": tokenizer}
    return {"dataset": dataset, "seed": seed, "setting": json.loads(json.dumps(setting))}


def judge(
    options: argparse.Namespace, dataset: str, plan: Plan, name: str, outcome: Outcome, sequences: Sequences,
    device: str,
) -> None:  # fmt: skip
    """Fuse and test a trained model, and write its lines."""
    run = outcome.run
    limits = {key: value for key in ("epochs", "patience", "history", "users") if (value := getattr(options, key))}
    extra = "".join(f" --{key} {value}" for key, value in limits.items()) + " --small" * options.small
    command = (
        f"python experiments/fused_models.py CODES -o OUT --datasets {dataset} --tokenizers {run.name} "
        f"--plans {name} --seeds {run.seed}{extra}"
    )
    for which, facts in lines_of(outcome, sequences, plan, device).items():
        method = "small " * options.small + name + LISTS[which]
        line = keys_of(options, dataset, plan, run.name, run.seed) | {"method": method} | facts | made(command)
        append_line(options.output, line)
        print(f"{dataset} {run.name} seed {run.seed} {method}: NDCG@10 {facts['test']['ndcg@10']:.4f}", flush=True)


class Models:
    """The file of results, and what is still to be trained."""

    def __init__(self, options: argparse.Namespace, device: str) -> None:
        self.options, self.device = options, device
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
        spawn = multiprocessing.get_context("spawn")  # a process that has used a GPU cannot be forked
        self.pool = ProcessPoolExecutor(options.workers, mp_context=spawn) if options.workers else None
        self.judged: list[Future] = []
        self.rate = options.rate
        self.examples: dict[str, int] = {}

    def missing(self, dataset: str, plan: Plan) -> Iterator[TrainingRun]:
        """The runs whose lines are not there."""
        lines = read_lines(self.options.output)
        for seed in map(int, self.options.seeds.split(",")):
            for tokenizer in self.options.tokenizers.split(","):
                keys = keys_of(self.options, dataset, plan, tokenizer, seed)
                if not any(self.is_same(line, keys) for line in lines):
                    codes = np.load(self.options.codes / dataset / f"{tokenizer}-{seed}.npy").astype(np.int64)
                    yield TrainingRun(tokenizer, SidTable(np.arange(len(codes)), codes, SIZES), seed)

    def is_same(self, line: dict, keys: dict) -> bool:
        """Whether a line has these keys, and its training came to its end; where time decides on the epochs, with any
        number of them."""
        if not line.get("finished", True):
            return False
        free = {"epochs": 0, "patience": 0} if self.options.rate else {}
        plans = [one["setting"]["plan"] | free for one in (line, keys)]
        return plans[0] == plans[1] and all(
            line[key] == value if key != "setting" else line[key] | {"plan": 0} == value | {"plan": 0}
            for key, value in keys.items()
        )

    def train(self, dataset: str, name: str, rest: tuple[str, ...] = ()) -> None:
        """rest: datasets that are trained after it."""
        plan = plan_for(name, self.options)
        runs = list(self.missing(dataset, plan))
        until = self.deadline and self.deadline - min(RESERVE, 15 * self.options.minutes)
        if not runs or (until and time.monotonic() > until):
            return
        sequences = self.sequences(dataset)
        if self.options.rate and self.deadline:
            fitting = self.epochs_in_time(dataset, rest, len(runs))
            plan = replace(plan, epochs=min(plan.epochs, max(fitting, LEAST)))
            plan = replace(plan, patience=plan.epochs)
            print(f"{dataset}: {plan.epochs} epochs, {fitting} would fit at {self.rate:,.0f} examples/s", flush=True)
        began = time.monotonic()
        given = (runs, sequences, plan, self.device, len(runs))
        for outcome in train_stack(*given, report=say, deadline=until, tested=False):
            arrays = {key: value.cpu().numpy() for key, value in outcome.weights.items()}
            work = (self.options, dataset, plan, name, replace(outcome, weights=arrays), sequences, self.device)
            if self.pool is None:
                judge(*work)
            else:
                self.judged.append(self.pool.submit(judge, *work))
            self.rate = self.examples_of(dataset) * outcome.epoch * len(runs) / (time.monotonic() - began)

    def sequences(self, dataset: str) -> Sequences:
        items = len(np.load(next((self.options.codes / dataset).glob("*-*.npy")), mmap_mode="r"))
        found = read_sequences(self.options.codes / dataset / "sequences.parquet", pa.chunked_array([np.arange(items)]))
        return some_users(found, self.options.users)

    def examples_of(self, dataset: str) -> int:
        if dataset not in self.examples:
            self.examples[dataset] = len(examples(self.sequences(dataset), "train"))
        return self.examples[dataset]

    def epochs_in_time(self, dataset: str, rest: tuple[str, ...], runs: int) -> int:
        """How many epochs of this and all later datasets fit before the deadline, at the rate so far."""
        left = (self.deadline or 0.0) - time.monotonic()
        return int(SHARE * left * self.rate / (runs * sum(map(self.examples_of, (dataset, *rest)))))

    def wait(self) -> None:
        for one in self.judged:
            one.result()
        if self.pool is not None:
            self.pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", default="lastfm,beauty,toys,sports,clothing")
    parser.add_argument("--tokenizers", default="prq-co1-unique")
    parser.add_argument("--plans", default="best")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, help="instead of the plan's")
    parser.add_argument("--patience", type=int, help="likewise")
    parser.add_argument("--history", type=int, help="likewise")
    parser.add_argument(
        "--rate", type=float, default=0.0, help="examples a second, as a guess: as many epochs as fit in --minutes"
    )
    parser.add_argument("--users", type=int, default=0, help="only the first so many sequences")
    parser.add_argument("--plan-file", type=Path, help="JSON of the plan to train with, of tiger_search.py --best")
    parser.add_argument("--workers", type=int, default=0, help="processes that fuse and test")
    parser.add_argument("--small", action="store_true", help="one layer of width 64, for a CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: when all is done")
    options = parser.parse_args()
    import torch

    from sidkit.engine.device import find_device

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    models = Models(options, find_device("auto"))
    datasets = options.datasets.split(",")
    for place, dataset in enumerate(datasets):
        for name in options.plans.split(","):
            models.train(dataset, name, tuple(datasets[place + 1 :]))
    models.wait()


if __name__ == "__main__":
    main()
