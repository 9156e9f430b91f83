"""The paper's search tables: every tokenizer's SIDs trained with BART in three stages and scored on the same pairs.

Whole shops on one GPU, all models of a shop at once, are `search_stack.py`; the baselines beside them are made here:
    python experiments/search_data.py DATA -o SHOPS --encoders minilm wordllama
    python experiments/search_codes.py SHOPS -o OUT --seeds 3 --keep SHOPS
    python experiments/search_stack.py SHOPS -o OUT --preset tiny ...             as in docs/results/searching.md
    python experiments/search.py SHOPS -o OUT --seeds 3
    python experiments/search_tables.py OUT --sizes full --into docs/results/searching.md --figures docs/images
With BART-base, one model after the other, by the paper's tasks and epochs, on the same SIDs:
    python experiments/search.py SHOPS -o BASE --minutes 6 --tokenizers prq-kmeans rq-kmeans prq-opq rq-opq
The training command is given again until it says that all runs are done; --minutes is when no further run is begun. OUT
and BASE have the same cells, so only one of them is put in a results file: --results names another.

On a CPU, small shops and a model of 2 layers and 64 dimensions; one thread and two processes suit two cores:
    python experiments/search_data.py DATA -o SMALL --encoders minilm wordllama --small
    python experiments/search_codes.py SMALL -o OUT --small --seeds 3 --keep SMALL
    python experiments/search.py SMALL -o OUT --small --seeds 3 --part 1/2          and --part 2/2
    python experiments/search_tables.py OUT --sizes small --into docs/results/searching-small.md

One line of JSON is appended to OUT/runs.jsonl per (dataset, encoder, tokenizer, seed) as it is done, and the ranks of
all pairs to OUT/ranks/; lines already there are not run again, so the list can be run in pieces (--minutes) and by
several processes (--part 1/2, --part 2/2). The baselines come first: BM25, nearest neighbours and counting on the same
pairs. Small models learn with the tasks of search_small.toml: those whose output is a SID.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from search_codes import CONTROLS, FIVE, TOKENIZERS, Key, encoders_of, facts_of, kept_or_made, key_of, lines_of

from sidkit.data.embeddings import open_embeddings
from sidkit.search.bart.shape import BartShape, preset
from sidkit.search.evaluate.evaluation import AlignedVectors, evaluate_baselines, evaluate_model
from sidkit.search.evaluate.metrics import by_intent
from sidkit.search.model.trainer import train_search
from sidkit.search.read.left_out import LeftOut
from sidkit.search.shop import Shop
from sidkit.search.training.corpus import SearchData
from sidkit.search.training.plan import SearchPlan

HERE = Path(__file__).parent
MAIN = {"homedepot": "minilm", "bestbuy": "minilm", "simulated": "wordllama"}  # the encoder of the tables
ROBUST = ("prq-kmeans", "rq-kmeans", "rq-gmm", "rq-vae", "opq-kmeans")  # also under the other encoder
BASELINES = ("BM25", "nearest", "counting")
ABLATIONS = ("without-global", "without-soft", "without-projection")
OTHERS = ("rq-gmm", "opq-kmeans", "pq-kmeans", "rq-vae", "r3-vae")
SENSITIVITY = tuple(name for name in TOKENIZERS if name.startswith(("prq-k", "prq-beta")) and name != "prq-kmeans")


class Setting(NamedTuple):
    """How models are trained: epochs by dataset, all others by the plan; all tasks, or those whose output is a SID."""

    size: str
    plan: SearchPlan
    epochs: dict[str, tuple[int, int, int]]
    all_tasks: bool = False

    def plan_of(self, dataset: str, seed: int) -> SearchPlan:
        plan = replace(self.plan, epochs=self.epochs.get(dataset, self.plan.epochs), seed=seed)
        if self.all_tasks:
            return plan
        users = "search_small_users.toml" if dataset == "simulated" else "search_small.toml"
        return replace(plan, templates=str(HERE / users))


FULL = SearchPlan(preset("base"), learning_rate=2e-4, decay="linear", warmup=100)
SMALL = SearchPlan(
    BartShape(layers=2, d_model=64, d_ff=256, heads=2, positions=256, dropout=0.0),
    batch=64, learning_rate=1e-3, decay="linear", warmup=20, words=2000, longest=64,
)  # fmt: skip
SMALL_EPOCHS = {"homedepot": (1, 3, 8), "bestbuy": (1, 3, 8), "simulated": (1, 1, 3)}


def run(shops: Path, out: Path, key: Key, device: str, setting: Setting) -> dict[str, Any]:
    dataset, _, _, seed = key
    made = kept_or_made(shops, key, setting.size, device)
    data = _data(shops, out, dataset, made)
    with TemporaryDirectory(dir=out) as folder:
        plan = setting.plan_of(dataset, seed)
        model = train_search(data, Path(folder) / "run", plan, tokenizer=made.tokenizer, device=device)
        began = time.perf_counter()
        ranks = evaluate_model(model, data)
        answering = time.perf_counter() - began
    save_ranks(out, key, {kind: each for kind, each in ranks.items()})
    facts = {name: model.facts[name] for name in ("examples", "losses")}
    facts["plan"] = model.facts["plan"] | {"templates": Path(plan.templates).name}
    seconds = {"train": model.facts["seconds"], "answer": round(answering, 1)}
    return facts_of(key, setting.size, made, device) | facts | {"seconds": seconds, "figures": figures_of(ranks, data)}


def baselines(shops: Path, out: Path, dataset: str, encoder: str, setting: Setting) -> list[dict[str, Any]]:
    """A line per baseline, on the pairs of the runs; nearest neighbours by the same aligned vectors."""
    made = kept_or_made(shops, (dataset, encoder, "rq-kmeans", 0), setting.size, "cpu")
    data = _data(shops, out, dataset, made)
    folder = shops / dataset / f"aligned-{encoder}"
    vectors = AlignedVectors(*(open_embeddings(str(folder / f"{name}.parquet")) for name in ("items", "queries")))
    found = evaluate_baselines(data, vectors)
    save_ranks(out, (dataset, encoder, "queries", 0), {kind: test.query for kind, test in found.tests.items()})
    lines = []
    for name in BASELINES:
        ranks = {kind: each[name] for kind, each in found.ranks.items()}
        save_ranks(out, (dataset, encoder, name, 0), ranks)
        facts = facts_of((dataset, encoder, "rq-kmeans", 0), setting.size, made, "cpu")
        facts = {key: facts[key] for key in ("dataset", "size", "encoder", "items", "device", "versions", "commit")}
        lines.append(facts | {"tokenizer": name, "seed": 0, "figures": figures_of(ranks, data)})
    return lines


def _data(shops: Path, out: Path, dataset: str, made: Any) -> SearchData:
    left_out = LeftOut(out / f"{dataset}.left-out.tsv", drop=True)
    return SearchData.of(Shop.open(shops / dataset / "shop"), made.items, made.queries, left_out)


def figures_of(ranks: dict[str, np.ndarray], data: SearchData) -> dict[str, Any]:
    """kind -> class of queries ("all" first) -> sums and rates."""
    return {
        kind: {name: one.figures() for name, one in by_intent(each, data.test(kind).intent).items()}
        for kind, each in ranks.items()
    }


def save_ranks(out: Path, key: Key, ranks: dict[str, np.ndarray]) -> None:
    (out / "ranks").mkdir(exist_ok=True)
    np.savez_compressed(out / "ranks" / ("-".join(map(str, key)) + ".npz"), **ranks)


def run_list(shops: Path, datasets: list[str], seeds: int) -> list[Key]:
    """Every run, most telling first, dataset by dataset within a group."""
    groups: list[list[tuple[str, int]]] = [
        [(name, 0) for name in ("prq-kmeans", "rq-kmeans")],
        [(name, seed) for seed in range(1, min(seeds, 2)) for name in ("prq-kmeans", "rq-kmeans")],
        *([(name, 0) for name in names] for names in (FIVE, ABLATIONS, CONTROLS, OTHERS, SENSITIVITY)),
    ]
    last = [(name, seed) for seed in range(1, seeds) for name in ("prq-kmeans", "rq-kmeans", *FIVE[:2])]
    runs = [(dataset, MAIN[dataset], *one) for group in groups for dataset in datasets for one in group]
    for dataset in datasets:
        runs += [
            (dataset, one, name, 0) for one in encoders_of(shops, dataset) if one != MAIN[dataset] for name in ROBUST
        ]
    runs += [(dataset, MAIN[dataset], *one) for dataset in datasets for one in last]
    return list(dict.fromkeys(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shops", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="small shops and a small model")
    parser.add_argument("--datasets", nargs="+", default=list(MAIN), choices=list(MAIN))
    parser.add_argument("--tokenizers", nargs="+", choices=list(TOKENIZERS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="i/n: every n-th run, from the i-th")
    parser.add_argument("--minutes", type=float, default=1e9, help="no run is begun later than this")
    parser.add_argument("--epochs", type=int, nargs=3, help="[default: the paper's 4 3 6; fewer with --small]")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    setting = Setting("small", SMALL, SMALL_EPOCHS) if asked.small else Setting("full", FULL, {}, all_tasks=True)
    if not asked.small:
        setting = setting._replace(plan=replace(FULL, shape=preset(asked.preset)))
    if asked.epochs:
        setting = setting._replace(epochs={dataset: tuple(asked.epochs) for dataset in asked.datasets})
    if asked.learning_rate:
        setting = setting._replace(plan=replace(setting.plan, learning_rate=asked.learning_rate))
    asked.output.mkdir(parents=True, exist_ok=True)
    run_all(asked, setting)


def run_all(asked: Any, setting: Setting) -> None:
    path, began = asked.output / "runs.jsonl", time.monotonic()
    done = {key_of(line) for line in lines_of(path)}
    i, n = map(int, asked.part.split("/"))
    runs = [key for key in run_list(asked.shops, asked.datasets, asked.seeds)]
    if i == 1:
        for dataset, encoder in dict.fromkeys(key[:2] for key in runs):
            if (dataset, encoder, BASELINES[-1], 0) not in done:
                for line in baselines(asked.shops, asked.output, dataset, encoder, setting):
                    append(path, line)
    wanted = [key for key in runs[i - 1 :: n] if not asked.tokenizers or key[2] in asked.tokenizers]
    left = [key for key in wanted if key not in done]
    for number, key in enumerate(left):
        if time.monotonic() - began > 60 * asked.minutes:
            print(f"{len(left) - number} of {len(wanted)} runs are left; run it again")
            return
        append(path, run(asked.shops, asked.output, key, asked.device, setting))
    print(f"all {len(wanted)} runs are done")


def append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    click = line["figures"]["click"]["all"]
    print(*key_of(line), f"{click['hit_rate@50']:.4f} {click['mrr@50']:.4f}", line.get("seconds", ""), flush=True)


if __name__ == "__main__":
    main()
