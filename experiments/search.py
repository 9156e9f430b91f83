"""The paper's search tables: every tokenizer's SIDs trained with BART in three stages and scored on the same pairs.

    python experiments/search_data.py DATA -o SHOPS
    python experiments/search.py SHOPS -o OUT
    python experiments/search_tables.py OUT

One line of JSON is appended to OUT/runs.jsonl per (dataset, encoder, tokenizer, seed) as it is done, and the ranks of
all pairs to OUT/ranks/; lines already there are not run again, so the list can be run in pieces (--minutes).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from sidkit import SidTable, quality
from sidkit.data.embeddings import open_embeddings
from sidkit.data.joint import Joint, counts_of, repeated
from sidkit.data.subset import without
from sidkit.search.bart.shape import preset
from sidkit.search.corpus import SearchData
from sidkit.search.evaluation import evaluate_model
from sidkit.search.metrics import totals
from sidkit.search.model.trainer import train_search
from sidkit.search.plan import SearchPlan
from sidkit.search.shop import Shop
from sidkit.tokenizer.recipes import recipe

THREE, FIVE = (256, 128, 64), (256, 128, 64, 64, 64)
PLAN = SearchPlan(preset("small"), learning_rate=5e-4, decay="linear", warmup=100)
TOKENIZERS: dict[str, tuple[str, dict]] = {  # most telling first
    "prq-kmeans": ("prq-kmeans", {"top_k": 5}),
    "rq-kmeans": ("rq-kmeans", {}),
    "prq-opq": ("prq-opq", {"sizes": FIVE}),
    "rq-opq": ("rq-opq", {"sizes": FIVE}),
    "res-kmeans-fsq": ("res-kmeans-fsq", {"sizes": FIVE}),
    "without-global": ("without-global", {"top_k": 5}),
    "without-soft": ("without-soft", {}),
    "without-projection": ("without-projection", {"top_k": 5}),
    "shuffled": ("prq-kmeans", {"top_k": 5}),  # PRQ's SIDs of items, each given to another item
    "random": ("prq-kmeans", {"top_k": 5}),  # codes of items drawn at random
    "rq-vae": ("rq-vae", {"preset": "public", "epochs": 300}),
    "r3-vae": ("r3-vae", {"preset": "public", "epochs": 300, "rating": "top1"}),
    "rq-gmm": ("rq-gmm", {}),
    "pq-kmeans": ("pq-kmeans", {}),
    "opq-kmeans": ("opq-kmeans", {}),
    **{f"prq-k{k}": ("prq-kmeans", {"top_k": k}) for k in (2, 10)},  # k = 1 is without-soft
    **{f"prq-beta{beta}": ("prq-kmeans", {"top_k": 5, "beta": float(beta)}) for beta in (10, 20, 25)},
}
SEEDED = ("prq-kmeans", "rq-kmeans", "prq-opq", "rq-opq")  # with every seed; the others with the first


def sids_of(folder: Path, name: str, seed: int, device: str) -> tuple[SidTable, SidTable, float]:
    """SIDs of items and queries by a tokenizer fitted on the items and the training queries, and the seconds."""
    kind, options = TOKENIZERS[name]
    sources = [open_embeddings(str(folder / f"{one}.parquet")) for one in ("items", "queries")]
    items, queries = (without(one, _zero(one)) for one in sources)
    joint = Joint([("items", items), ("queries", repeated(queries, counts_of(queries, "train_records")))])
    began = time.perf_counter()
    fitted = recipe(kind, **{"sizes": THREE} | options).fit(joint, seed=seed, device=device)
    codes = [fitted.encode(one, device=device) for one in (items, queries)]
    took = time.perf_counter() - began
    rng = np.random.default_rng(seed)
    if name == "shuffled":
        codes[0] = codes[0][rng.permutation(len(codes[0]))]
    if name == "random":
        codes[0] = np.stack([rng.integers(0, size, len(codes[0])) for size in fitted.sizes], 1)
    tables = [SidTable(one.ids, each, fitted.sizes) for one, each in zip((items, queries), codes, strict=True)]
    return tables[0], tables[1], took


def _zero(source) -> np.ndarray:
    return np.flatnonzero(np.concatenate([~np.asarray(chunk).any(axis=1) for chunk in source.chunks(1 << 16)]))


def run(shops: Path, out: Path, key: tuple[str, str, str, int], device: str, plan: SearchPlan) -> dict:
    dataset, encoder, name, seed = key
    items, queries, fitting = sids_of(shops / dataset / f"aligned-{encoder}", name, seed, device)
    from sidkit.search.read.left_out import LeftOut

    data = SearchData.of(Shop.open(shops / dataset / "shop"), items, queries, LeftOut(out / "left-out.tsv", drop=True))
    model = train_search(data, out / "run", replace(plan, seed=seed), device=device)
    began = time.perf_counter()
    ranks = evaluate_model(model, data)
    answering = time.perf_counter() - began
    (out / "ranks").mkdir(exist_ok=True)
    stem = "-".join(map(str, key))
    np.savez_compressed(out / "ranks" / f"{stem}.npz", **{kind: each.astype(np.uint8) for kind, each in ranks.items()})
    return {
        "dataset": dataset, "encoder": encoder, "tokenizer": name, "seed": seed, "sizes": list(items.sizes),
        "recipe": TOKENIZERS[name], "quality": quality(items.codes, items.sizes),
        "figures": {kind: totals(each).figures() for kind, each in ranks.items()},
        "seconds": {"fit": round(fitting, 1), "train": model.facts["seconds"], "answer": round(answering, 1)},
        **{fact: model.facts[fact] for fact in ("plan", "examples", "losses", "device", "versions", "items")},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shops", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--encoders", nargs="+", help="[default: every aligned-* folder]")
    parser.add_argument("--tokenizers", nargs="+", default=list(TOKENIZERS), choices=list(TOKENIZERS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--epochs", type=int, nargs=3, default=PLAN.epochs)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    lines = asked.output / "runs.jsonl"
    done = set()
    for text in lines.read_text().splitlines() if lines.exists() else ():
        line = json.loads(text)
        done.add(tuple(line[name] for name in ("dataset", "encoder", "tokenizer", "seed")))
    plan = replace(PLAN, shape=preset(asked.preset), epochs=tuple(asked.epochs))
    began = time.monotonic()
    for key in run_list(asked):
        if key in done:
            continue
        if time.monotonic() - began > 60 * asked.minutes:
            break
        line = run(asked.shops, asked.output, key, asked.device, plan)
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        click = line["figures"]["click"]
        print(*key, f"{click['hit_rate@50']:.4f} {click['mrr@50']:.4f}", line["seconds"], flush=True)


def run_list(asked) -> list[tuple[str, str, str, int]]:
    """Every run, most telling first: all tokenizers of the first seed by row, then the further seeds."""
    datasets = asked.datasets or sorted(path.name for path in asked.shops.iterdir() if (path / "shop").is_dir())
    runs = []
    for seed in range(asked.seeds):
        for name in asked.tokenizers:
            for dataset in datasets if seed == 0 or name in SEEDED else ():
                found = sorted(path.name.removeprefix("aligned-") for path in (asked.shops / dataset).glob("aligned-*"))
                runs += [(dataset, one, name, seed) for one in asked.encoders or found if one in found]
    return runs


if __name__ == "__main__":
    main()
