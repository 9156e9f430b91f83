"""Codebook quality, carryover and retention on public embeddings: the codebook half of the paper's tables.

    python experiments/codebook_quality.py DATA -o experiments/results/codebook_quality.jsonl --jobs 2

DATA holds a folder per dataset (sports, toys, clothing, lastfm) with embedding.npy. One line of JSON is written per
(dataset, table, tokenizer, seed) as it is done; lines already there are not computed again.
`experiments/tables.py` turns them into the tables of docs/results/codebooks.md.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from made import made, one_of

DATASETS = ("sports", "toys", "clothing", "lastfm")
THREE = (256, 256, 256)
FIVE = {"five": (256, 256, 256, 64, 64), "five-tight": (64, 32, 16, 64, 64)}
MAIN = ("rq-kmeans", "rq-gmm", "pq-kmeans", "opq-kmeans", "prq-kmeans", "rq-vae", "r3-vae")
ABLATIONS = ("without-global", "without-soft", "without-projection")
HYBRIDS = ("rq-opq", "res-kmeans-fsq", "prq-opq")
ETAS = (0.0, 0.25, 0.5, 0.75, 1.0)


def plan(seeds: int, vae: dict) -> list[dict]:
    """Every run, most telling first."""
    runs = []
    for seed in range(seeds):
        for dataset in DATASETS:
            for name in (*MAIN, *ABLATIONS):
                options = vae if "vae" in name else {}
                runs.append({"table": "three", "recipe": name, "sizes": THREE, "options": options})
            for table, sizes in FIVE.items():
                runs += [{"table": table, "recipe": name, "sizes": sizes, "options": {}} for name in HYBRIDS]
            for eta in ETAS:
                runs.append({"table": "retention", "recipe": "retain", "sizes": THREE[:2], "options": {"keep": eta}})
            for run in runs:
                run.setdefault("dataset", dataset)
        for run in runs:
            run.setdefault("seed", seed)
    return runs


def load(folder: Path):
    import numpy as np

    X = np.load(folder / "embedding.npy").astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def work(data: str, run: dict) -> dict:
    """One fit and all its figures."""
    import sidkit
    from sidkit.tokenizer.recipes import recipe

    X = load(Path(data) / run["dataset"])
    start = time.perf_counter()
    fitted = recipe(run["recipe"], sizes=tuple(run["sizes"]), **run["options"]).fit(X, seed=run["seed"])
    seconds = time.perf_counter() - start
    result = run | {"quality": sidkit.quality(fitted.fit_codes, fitted.sizes), "seconds": round(seconds, 2)}
    if run["table"] in ("three", "retention") and run["recipe"] not in ("pq-kmeans", "opq-kmeans", "rq-vae", "r3-vae"):
        result["carryover"] = sidkit.carryover(fitted, X)
    return result


def key(run: dict) -> str:
    return json.dumps([run[name] for name in ("dataset", "table", "recipe", "sizes", "options", "seed")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--datasets", type=one_of(DATASETS), default=DATASETS, help="only these, by commas")
    parser.add_argument("--recipes", default="", help="only these, by commas")
    parser.add_argument("--tables", default="", help="only these, by commas")
    parser.add_argument("--vae", default='{"preset": "paper"}', help="options of the VAEs, as JSON")
    options = parser.parse_args()
    done = set()
    if options.output.exists():
        done = {key(json.loads(line)) for line in options.output.read_text().splitlines()}
    runs = [run for run in plan(options.seeds, json.loads(options.vae)) if key(run) not in done]
    runs = [r for r in runs if r["dataset"] in options.datasets]
    runs = [r for r in runs if not options.recipes or r["recipe"] in options.recipes.split(",")]
    runs = [r for r in runs if not options.tables or r["table"] in options.tables.split(",")]
    where = made(command(options))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("a") as out, ProcessPoolExecutor(options.jobs) as pool:
        pending = [pool.submit(work, options.data, run) for run in runs]
        for count, future in enumerate(as_completed(pending), 1):
            out.write(json.dumps(future.result() | where) + "\n")
            out.flush()
            print(f"{count}/{len(pending)}", flush=True)


def command(options: argparse.Namespace) -> str:
    """What reruns this, without this machine's folders."""
    script = "python experiments/codebook_quality.py DATA"
    return f"{script} -o {options.output.name} --seeds {options.seeds} --vae '{options.vae}'"


if __name__ == "__main__":
    main()
