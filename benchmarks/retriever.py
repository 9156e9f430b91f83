"""Training and decoding speed of the paper's model, and of transformers' model in a plain loop, on one machine.

    python benchmarks/retriever.py CODES -o benchmarks/results/retriever.json

CODES is the output of experiments/tiger_codes.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

import sidkit
from sidkit import SidTable
from sidkit.data.sequences import read_sequences
from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.evaluation import Evaluator, JointEvaluator
from sidkit.retriever.model import build_t5, new_weights
from sidkit.retriever.plan import Plan, plan_of
from sidkit.retriever.stack import Stack
from sidkit.retriever.store import plan_from

SIZES = (256, 256, 256)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def open_data(codes: Path, dataset: str, tokenizer: str):
    sids = np.load(codes / dataset / f"{tokenizer}-0.npy").astype(int)
    table = SidTable(np.arange(len(sids)), sids, SIZES)
    return table, read_sequences(codes / dataset / "sequences.parquet", table.ids)


def speed(samples: float, steps: int, seconds: float) -> dict:
    """What is reported of a loop over steps."""
    return {"samples_per_s": round(samples / seconds), "ms_per_step": round(1e3 * seconds / steps, 3)}


def stacked(table, sequences, plan: Plan, runs: int, device: str, seconds: float):
    """Samples per second over all runs, and the stack."""
    began = time.perf_counter()
    stack = Stack(sequences, Vocabulary(SIZES), plan, runs, device)
    fresh = new_weights(plan.shape, len(stack.vocabulary), 0)
    for run in range(runs):
        stack.put(run, fresh, table.codes)
    epoch = stack.epoch(range(runs), [0] * runs, every=8)
    next(epoch)
    ready, steps, start = time.perf_counter() - began, 0, time.perf_counter()
    for done in epoch:
        steps += done
        if time.perf_counter() - start > seconds:
            break
    taken = time.perf_counter() - start
    samples = steps * runs * len(stack.examples) / stack.layout.batches
    return speed(samples, steps, taken) | {"ready_s": round(ready, 1)}, stack


def eager(sequences, table, plan: Plan, device: str, seconds: float):
    """transformers' model as it comes, in float32, every history padded to 20 items, torch's Adam."""
    split, vocabulary = examples(sequences, "train", plan.history), Vocabulary(SIZES)
    tokens, rng = vocabulary.tokens(table.codes), np.random.default_rng(0)
    model = build_t5(plan.shape, len(vocabulary)).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=plan.learning_rate)
    order, next_one = rng.permutation(len(split)), 0
    steps, start = 0, time.perf_counter()
    while steps < 3 or time.perf_counter() - start < seconds:
        batch = order[next_one : next_one + plan.batch]
        next_one = (next_one + plan.batch) % (len(order) - plan.batch)
        history = np.zeros((len(batch), plan.history * 3), np.int64)
        for row, example in enumerate(batch):
            at, length = split.position[example], split.length[example]
            history[row, (plan.history - length) * 3 :] = tokens[sequences.rows[at - length : at]].ravel()
        inputs = torch.as_tensor(history, device=device)
        labels = torch.as_tensor(tokens[sequences.rows[split.position[batch]]], device=device)
        optimizer.zero_grad()
        model(input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels).loss.backward()
        optimizer.step()
        steps += 1
        if steps == 3:  # warm
            wait(device)
            start = time.perf_counter()
    wait(device)
    return speed((steps - 3) * plan.batch, steps - 3, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--dataset", default="sports")
    parser.add_argument("--tokenizer", default="prq-kmeans")
    parser.add_argument("--preset", default="paper", help="the plan: paper, best")
    parser.add_argument("--plan-file", type=Path, help="JSON of a plan instead (experiments/tiger_search.py --best)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each is measured")
    parser.add_argument("--runs", default="1,8", help="models trained at once")
    parser.add_argument("--batches", default="256,1024")
    parser.add_argument("--parts", default="train,transformers,decode", help="what to measure")
    parser.add_argument("--profile", action="store_true", help="where the time of a step goes")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU"
    report = {"machine": machine, "torch": torch.__version__, "sidkit": sidkit.__version__, "dataset": options.dataset}
    report["command"] = f"python benchmarks/retriever.py CODES --dataset {options.dataset} --runs {options.runs}" + (
        f" --preset {options.preset}" if options.preset != "paper" else ""
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    table, sequences = open_data(options.codes, options.dataset, options.tokenizer)

    def keep(name: str, value) -> None:
        report[name] = value
        print(name, json.dumps(value), flush=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n")

    chosen = plan_of(options.preset)
    if options.plan_file:
        chosen = plan_from(json.loads(options.plan_file.read_text())["plan"])
    report["plan"] = asdict(chosen)
    for batch in map(int, options.batches.split(",")):
        for runs in map(int, options.runs.split(",")):
            plan = replace(chosen, batch=batch)
            figures, stack = stacked(table, sequences, plan, runs, device, options.seconds)
            keep(f"train, batch {batch}, {runs} at once", figures)
            if options.profile:
                profile(stack)
            del stack.__dict__["_graph"]
    for batch in map(int, options.batches.split(",") if "transformers" in options.parts else []):
        keep(f"transformers, batch {batch}", eager(sequences, table, Plan(batch=batch), device, options.seconds))
    if "decode" not in options.parts:
        return
    evaluator, copies = Evaluator(table, sequences, "test", 20, device), stack.copies
    for runs, constrained in sorted({(1, True), (1, False), (stack.runs, True)}):
        weights = {name: value.detach()[:runs] for name, value in copies.items()}
        together = JointEvaluator([evaluator] * runs)
        for _ in range(2):  # the first warms up
            start = time.perf_counter()
            together(weights, plan.shape, 30, constrained)
            wait(device)
        seconds, kind = time.perf_counter() - start, "constrained" if constrained else "unconstrained"
        keep(f"beam 30, {len(evaluator)} users, {kind}, {runs} at once", {"seconds a run": round(seconds / runs, 3)})


def profile(stack: Stack) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as trace:
        for _ in range(4):
            stack._graph.replay()
        torch.cuda.synchronize()
    print(trace.key_averages().table(sort_by="self_cuda_time_total", row_limit=28, max_name_column_width=60))


if __name__ == "__main__":
    main()
