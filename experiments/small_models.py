"""What fusion and a plan are worth with a model that a CPU can train: small TIGER beside SASRec and counting.

    python experiments/small_models.py CODES -o experiments/results/small_models.jsonl --datasets lastfm

A line of JSON per (dataset, plan, seed, list): the model's list alone, and the same fused with counts whose weights
validation chose. Lines are those of baselines.py, with the ranks of all users, so that lists are compared user by user.
Lines already there are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from made import made
from stored_ranks import pack
from tiger_codes import SIZES
from tiger_search import SMALL, read, some_users

from sidkit import SidTable
from sidkit.data.sequences import read_sequences
from sidkit.measure.ranking import mean_figures
from sidkit.retriever.fused import fitted, fused_ranks
from sidkit.retriever.fusion import OFF
from sidkit.retriever.plan import PLANS, Plan, changed
from sidkit.retriever.retriever import Retriever
from sidkit.retriever.runs import TrainingRun
from sidkit.retriever.training import train_stack


def plan_for(name: str, epochs: int, history: int) -> Plan:
    """A preset's plan for a model of one layer; the paper's rate is raised, which few steps need."""
    plan = changed(PLANS[name], SMALL, epochs=epochs, history=history, patience=4, warmup=200 if name == "best" else 0)
    return replace(plan, learning_rate=1e-3, shape=replace(plan.shape, dropout=0.1))


def lines_of(table: SidTable, sequences, plan: Plan, seed: int) -> dict[str, dict]:
    """By list, its figures and ranks; with what the training and the fit of the fusion said."""
    began = time.monotonic()

    def say(outcome) -> None:
        last = outcome.log[-1]
        print(f"epoch {outcome.epoch} loss {last['loss']:.4f} NDCG@20 {last['item_ndcg@20']:.5f}", flush=True)

    (outcome,) = train_stack([TrainingRun("small", table, seed)], sequences, plan, "cpu", report=say)
    retriever = Retriever(table, plan, outcome.weights, {})
    fusion = fitted(retriever, sequences)
    facts = {
        "epochs": outcome.epoch,
        "best_epoch": outcome.best_epoch,
        "curve": [[round(entry["loss"], 4), round(entry["item_ndcg@20"], 5)] for entry in outcome.log],
        "fusion": {"weights": asdict(fusion.weights), "validation": fusion.facts},
        "seconds": round(time.monotonic() - began, 1),
    }
    lists = {"alone": OFF, "fused": fusion.weights}
    found = {}
    for name, weights in lists.items():
        ranks = fused_ranks(retriever, fusion, sequences, "test", weights)
        value = fusion.facts["model_ndcg@10"] if name == "alone" or not weights.is_on else fusion.facts["fused_ndcg@10"]
        chosen = {"validation": {"ndcg@10": value}, "repeats": weights.repeats}
        found[name] = facts | chosen | {"test": mean_figures(ranks), "users": len(ranks), "ranks": pack(ranks)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", default="lastfm")
    parser.add_argument("--tokenizer", default="prq-unique")
    parser.add_argument("--plans", default="paper,best")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--history", type=int, default=10)
    parser.add_argument("--users", type=int, default=0, help="only the first so many sequences")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    command = (
        f"python experiments/small_models.py CODES -o OUT --tokenizer {options.tokenizer} --epochs {options.epochs} "
        f"--history {options.history}" + f" --users {options.users}" * bool(options.users)
    )
    for dataset in options.datasets.split(","):
        for seed in map(int, options.seeds.split(",")):
            for name in options.plans.split(","):
                plan = plan_for(name, options.epochs, options.history)
                setting = json.loads(json.dumps({"plan": asdict(plan), "users": options.users}))
                keys = {"dataset": dataset, "seed": seed, "setting": setting}
                if any(all(line[key] == value for key, value in keys.items()) for line in read(options.output)):
                    continue
                codes = np.load(options.codes / dataset / f"{options.tokenizer}-{seed}.npy").astype(np.int64)
                table = SidTable(np.arange(len(codes)), codes, SIZES)
                sequences = read_sequences(options.codes / dataset / "sequences.parquet", table.ids)
                found = lines_of(table, some_users(sequences, options.users), replace(plan, seed=seed), seed)
                with options.output.open("a") as out:
                    for which, facts in found.items():
                        method = f"small {name}" + ", fused" * (which == "fused")
                        line = keys | {"method": method, "tokenizer": options.tokenizer} | facts
                        out.write(json.dumps(line | made(f"{command} --datasets {dataset} --seeds {seed}")) + "\n")


if __name__ == "__main__":
    main()
