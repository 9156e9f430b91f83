"""The lines of `experiments/results/search.jsonl`: runs, codebooks and paired tests, gathered from a folder of runs.

A line has a `kind`: "codebook" (SIDs of a tokenizer), "run" (a model trained on them), "baseline" and "test" (the
difference between two systems on the same pairs). The same key gathered again takes the place of the old line, but for
a test over fewer seeds than the old one. The ranks of all pairs are kept beside it, in `search_ranks.npz`, so that runs
made later can be tested against those of today.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from search_codes import CONTROLS, FIVE, lines_of

from search import ABLATIONS, BASELINES, MAIN
from sidkit.search.evaluate.metrics import compare

Line = dict[str, Any]
Ranks = dict[str, np.ndarray]
RECORDED = "10378ce7f1b2"  # the commit of lines that were made before commits were noted
PLAN = ("epochs", "batch", "learning_rate", "warmup", "decay", "words", "longest", "beams", "templates")
COMPARED = [  # ahead, behind
    ("prq-kmeans", "rq-kmeans"),
    ("prq-opq", "rq-opq"),
    ("prq-opq", "res-kmeans-fsq"),
    ("prq-opq", "prq-kmeans"),
    *(
        ("prq-kmeans", name)
        for name in (*ABLATIONS, "rq-gmm", "opq-kmeans", "pq-kmeans", "rq-vae", "r3-vae", *CONTROLS)
    ),
    *((name, baseline) for name in ("prq-kmeans", "prq-opq") for baseline in BASELINES),
]


def gather(out: Path, results: Path) -> list[Line]:
    """The lines of the results with those of a folder of runs, in a fixed order; written back."""
    lines = {_key(line): line for line in lines_of(results)}
    made = [
        *(_run(line) for line in lines_of(out / "runs.jsonl")),
        *(line | {"kind": "codebook"} for line in lines_of(out / "codebooks.jsonl")),
    ]
    lines |= {_key(line): {"command": _command(line)} | line for line in made}
    ranks = keep_ranks(out, results.with_name("search_ranks.npz"))
    for line in _tests(ranks, [line for line in lines.values() if line["kind"] in ("run", "baseline")]):
        old = lines.get(_key(line), line)
        if set(line["seeds"]) >= set(old["seeds"]):
            lines[_key(line)] = {"command": _command(line)} | line
    for line in lines.values():
        if "commit" not in line and line["kind"] != "test":
            line["recorded"] = RECORDED
    ordered = [lines[key] for key in sorted(lines)]
    results.write_text("".join(json.dumps(line) + "\n" for line in ordered))
    return ordered


def keep_ranks(out: Path, kept: Path) -> Ranks:
    """The ranks of the runs, added to the file of all ranks: "small/bestbuy-minilm-prq-kmeans-0/click" -> (pairs,)."""
    ranks: Ranks = {}
    if kept.exists():
        with np.load(kept) as file:
            ranks |= {name: file[name] for name in file.files}
    sizes = {line["size"] for line in lines_of(out / "runs.jsonl")}
    for path in sorted((out / "ranks").glob("*.npz")):
        with np.load(path) as file:
            (size,) = sizes
            ranks |= {f"{size}/{path.stem}/{kind}": file[kind].astype(np.uint16) for kind in file.files}
    np.savez_compressed(kept, **{name: ranks[name] for name in sorted(ranks)})
    return ranks


def _key(line: Line) -> tuple[Any, ...]:
    names = ("kind", "size", "dataset", "encoder", "tokenizer", "against")
    return *(line.get(name, "") for name in names), line.get("seed", 0)


def _command(line: Line) -> str:
    """What made a line."""
    script = {"codebook": "search_codes", "test": "search_tables"}.get(line["kind"], "search")
    if script == "search_tables":
        return "python experiments/search_tables.py OUT"
    return f"python experiments/{script}.py " + ("SMALL -o OUT --small" if line["size"] == "small" else "SHOPS -o OUT")


def _run(line: Line) -> Line:
    if line["tokenizer"] in BASELINES:
        return line | {"kind": "baseline"}
    plan = {name: line["plan"][name] for name in PLAN} | line["plan"]["shape"]
    last = {one["stage"]: round(one["loss"], 4) for one in line["losses"]}
    return line | {"kind": "run", "plan": plan, "losses": last}


def _tests(ranks: Ranks, runs: list[Line]) -> list[Line]:
    """Differences of all compared systems by the runs' own encoder, over the seeds whose ranks both have."""
    seeds: dict[tuple[str, ...], dict[str, set[int]]] = {}
    for line in runs:
        place, name = (line["size"], line["dataset"], line["encoder"]), line["tokenizer"]
        if _name(place, name, line["seed"], "click") in ranks:
            seeds.setdefault(place, {}).setdefault(name, set()).add(line["seed"])
    lines = []
    for place, here in sorted(seeds.items()):
        for name, other in COMPARED:
            shared = here.get(name, set()) if other in BASELINES else here.get(name, set()) & here.get(other, set())
            if shared and other in here:
                head = {"kind": "test", "size": place[0], "dataset": place[1], "encoder": place[2]}
                found = _test(ranks, place, name, other, sorted(shared))
                if not found:
                    continue  # the queries of the ranks are not known
                lines.append(head | {"tokenizer": name, "against": other, "seeds": sorted(shared), "tests": found})
    return lines


def _test(ranks: Ranks, place: tuple[str, ...], name: str, other: str, seeds: list[int]) -> dict[str, Any]:
    """kind of pairs -> metric -> difference; a query's pairs, of all seeds, are one group."""

    def of(system: str, kind: str) -> np.ndarray:
        parts = [ranks[_name(place, system, 0 if system in BASELINES else seed, kind)] for seed in seeds]
        return np.concatenate(parts).astype(np.int64)

    queries = {kind: ranks[at] for kind in ("click", "order") if (at := _name(place, "queries", 0, kind)) in ranks}
    return {
        kind: {
            metric: {field: round(value, 6) for field, value in asdict(one).items()}
            for metric, one in compare(of(other, kind), of(name, kind), np.tile(rows, len(seeds))).items()
        }
        for kind, rows in queries.items()
    }


def _name(place: tuple[str, ...], system: str, seed: int, kind: str) -> str:
    size, dataset, encoder = place
    return f"{size}/{dataset}-{encoder}-{system}-{seed}/{kind}"


def seeds_of(
    lines: list[Line], kind: str, size: str, dataset: str, name: str, encoder: str | None = None
) -> list[Line]:
    """The lines of a tokenizer, seed after seed; by the encoder of the tables unless another is named."""
    wanted = (kind, size, dataset, encoder or MAIN[dataset], name)
    fields = ("kind", "size", "dataset", "encoder", "tokenizer")
    found = [line for line in lines if tuple(line[field] for field in fields) == wanted]
    return sorted(found, key=lambda line: line["seed"])


def encoders_of(lines: list[Line], kinds: tuple[str, ...], size: str, dataset: str) -> list[str]:
    """The encoders of a dataset, that of the tables first."""
    here = [line for line in lines if line["kind"] in kinds and (line["size"], line["dataset"]) == (size, dataset)]
    return sorted({line["encoder"] for line in here}, key=lambda name: (name != MAIN[dataset], name))


THREE = ("rq-vae", "r3-vae", "rq-kmeans", "rq-gmm", "pq-kmeans", "opq-kmeans", "prq-kmeans")
BLOCKS = (THREE, tuple(reversed(FIVE)))  # the paper's order of rows
