"""The paper's public tables: every tokenizer's SIDs trained with TIGER and scored item by item.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3
    python experiments/tiger.py CODES -o experiments/results/tiger.jsonl
    python experiments/tiger_tables.py experiments/results/tiger.jsonl

One line of JSON is written per (dataset, tokenizer, seed) as it is done; lines already there are not run again, so the
list can be run in pieces: --minutes stops in time (runs that it cuts short go to *.cut.jsonl), and several processes
can share a card, a dataset each. One cell alone, its codes made first:

    python experiments/tiger.py CODES -o cell.jsonl --data DATA --datasets toys --tokenizers prq-kmeans --seeds 0

(minutes on a GPU; on two CPU cores an epoch on Last.fm takes half an hour, and runs stop after 14 to 170 epochs).

Of another encoder, in a file of its own, whose lines say so:

    python experiments/tiger.py CODES-GTE -o tiger.gte.jsonl --vectors embedding_gte.npy --datasets toys

--free decodes the test once more without the constraint, with the same weights, into *.free.jsonl. Weights are not
kept: a run that is there already is trained again, and its line stays.

What bfloat16 changes (the tables compare it with the runs above if this file is in the same folder):

    python experiments/tiger.py CODES -o experiments/results/tiger.float32.jsonl --precision float32 --datasets lastfm
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from made import commit
from tiger_codes import BEYOND, DATASETS, SIZES, TOKENIZERS, make
from tiger_lines import read

MAIN = ("prq-kmeans", "rq-kmeans", "rq-vae", "without-global", "without-soft", "without-projection")
OTHERS = ("opq-kmeans", "pq-kmeans", "rq-gmm", "r3-vae", "r3-vae-top1")
CONTROLS = ("random", "category")
VECTORS = "embedding.npy"


def run_list(datasets: list[str], tokenizers: list[str], seeds: list[int]) -> list[tuple[str, str, int]]:
    """Every run, most telling first: the main rows, the paper's others, the controls, the sensitivity settings, what
    goes beyond the paper; of each of these, seed after seed.
    """

    def rank(name: str) -> int:
        groups = (MAIN, OTHERS, CONTROLS, TOKENIZERS, BEYOND)
        return next(index for index, names in enumerate(groups) if name in names)

    runs = [(rank(name), seed, index, name) for index, name in enumerate(tokenizers) for seed in seeds]
    return [(dataset, name, seed) for dataset in datasets for _, seed, _, name in sorted(runs)]


def training_runs(codes: Path, runs: list[tuple[str, str, int]]) -> list:
    """The runs whose codes exist, ready to be trained."""
    from sidkit import SidTable
    from sidkit.retriever.runs import TrainingRun

    ready = []
    for dataset, name, seed in runs:
        path = codes / dataset / f"{name}-{seed}.npy"
        if not path.exists():
            print(f"no codes for {name}, seed {seed} on {dataset} yet", flush=True)
            continue
        table = np.load(path).astype(np.int64)
        ready.append(TrainingRun(name, SidTable(np.arange(len(table)), table, SIZES), seed))
    return ready


def line_of(dataset: str, outcome, plan, device, vectors: str) -> dict:
    from sidkit import quality
    from sidkit.retriever.trainer import facts_of

    run, facts = outcome.run, facts_of(outcome, plan, device)
    recipe, options = (TOKENIZERS | BEYOND)[run.name]
    if find_spec("transformers"):
        facts["versions"]["transformers"] = version("transformers")
    return {
        "dataset": dataset,
        "tokenizer": run.name,
        "seed": run.seed,
        "vectors": vectors,
        "recipe": recipe,
        "options": options,
        "finished": outcome.finished,
        "commit": commit(),
        **facts,
        "icr_per_sid": quality(run.table.codes, SIZES)["icr_per_sid"],
        "curve": [[round(entry["loss"], 4), round(entry["item_ndcg@20"], 5)] for entry in outcome.log],
        "command": f"python experiments/tiger.py CODES -o OUT --data DATA --datasets {dataset} "
        f"--tokenizers {run.name} --seeds {run.seed}" + ("" if vectors == VECTORS else f" --vectors {vectors}"),
    }


def free_line(line: dict, outcome, sequences, plan, device) -> dict:
    """The test of the same weights where any tokens may be generated; what is no SID is skipped, or takes a rank."""
    from sidkit.engine.device import product_dtype
    from sidkit.retriever.evaluation import Evaluator
    from sidkit.retriever.network import in_dtype

    weights, tests = in_dtype(outcome.weights, product_dtype(plan.precision, device)), {}
    for name, takes_rank in (("free", False), ("free_ranked", True)):
        given = (outcome.run.table, sequences, "test", plan.history, device)
        evaluator = Evaluator(*given, users_at_once=plan.inference_batch, invalid_consumes_rank=takes_rank)
        tests[name] = evaluator(weights, plan.shape, plan.beams, constrained=False).means()
    kept = ("dataset", "tokenizer", "seed", "vectors", "finished", "epochs", "test", "versions", "commit")
    return {name: line[name] for name in kept} | tests | {"command": f"{line['command']} --free"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="make codes that are not there yet, as tiger_codes.py does")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--tokenizers", default=",".join(TOKENIZERS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--at-once", type=int, default=8, help="runs trained at once")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: when all are done")
    parser.add_argument("--room", type=float, default=0.0, help="begin no dataset with fewer minutes left")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--precision", default="auto", help="of matrix products: auto, bfloat16, float32")
    parser.add_argument("--vectors", default=VECTORS, help="of which the codes are; what tiger_codes.py was given")
    parser.add_argument("--free", action="store_true", help="test once more without the constraint")
    options = parser.parse_args()

    import torch

    from sidkit.cli.terminal import Terminal
    from sidkit.data.sequences import read_sequences
    from sidkit.engine.device import find_device
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.training import train_stack

    datasets, tokenizers = options.datasets.split(","), options.tokenizers.split(",")
    for name in {*datasets, *tokenizers} - {*DATASETS, *TOKENIZERS, *BEYOND}:
        known = DATASETS if name in datasets else (*TOKENIZERS, *BEYOND)
        parser.error(f"no {name!r} (known: {', '.join(known)})")
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
    plan = Plan(epochs=options.epochs, precision=options.precision)
    device = torch.device(find_device(options.device))
    freely = options.output.with_suffix(".free.jsonl")
    there = runs_in(options.output)
    done = runs_in(freely) if options.free else there
    seeds = [int(seed) for seed in options.seeds.split(",")]
    wanted = run_list(datasets, tokenizers, seeds)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.data:
        for run in wanted:
            if run not in done:
                dataset, name, seed = run
                make(options.data, options.codes, dataset, name, [seed], options.vectors)
    for dataset in datasets:
        ready = training_runs(options.codes, [run for run in wanted if run[0] == dataset and run not in done])
        if not ready or (deadline is not None and time.monotonic() + 60 * options.room > deadline):
            continue
        sequences = read_sequences(options.codes / dataset / "sequences.parquet", ready[0].table.ids)
        print(f"{dataset}: {len(ready)} runs with {asdict(plan)}", flush=True)
        outcomes = []
        with Terminal() as progress:
            given = (ready, sequences, plan, device, options.at_once, progress)
            for outcome in train_stack(*given, report=print_epoch(dataset), deadline=deadline):
                outcomes.append((line_of(dataset, outcome, plan, device, options.vectors), outcome))
                ending = ".jsonl" if outcome.finished else ".cut.jsonl"
                if (dataset, outcome.run.name, outcome.run.seed) not in there:
                    append(options.output.with_suffix(ending), outcomes[-1][0])
        for line, outcome in outcomes if options.free else []:
            append(freely, free_line(line, outcome, sequences, plan, device))


def runs_in(path: Path) -> set[tuple[str, str, int]]:
    """(dataset, tokenizer, seed) of every line of a file that may not exist yet."""
    return {(line["dataset"], line["tokenizer"], line["seed"]) for line in read(path)}


def append(path: Path, line: dict) -> None:
    with path.open("a") as out:
        out.write(json.dumps(line) + "\n")


def print_epoch(dataset: str):
    """A function that prints a line for every epoch of a run."""
    start = time.monotonic()

    def report(outcome) -> None:
        last = outcome.log[-1]
        print(
            f"{time.monotonic() - start:7.1f} s {dataset} {outcome.run.name}-{outcome.run.seed} epoch {outcome.epoch} "
            f"loss {last['loss']:.4f} NDCG@20 {last['item_ndcg@20']:.5f} best {outcome.best:.5f} "
            f"@{outcome.best_epoch} {last['samples_per_s']:,.0f} samples/s",
            flush=True,
        )

    return report


if __name__ == "__main__":
    main()
