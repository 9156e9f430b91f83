"""The lines of `experiments/results/search.jsonl`: runs, codebooks and paired tests, gathered from a folder of runs.

A line has a `kind`: "codebook" (SIDs of a tokenizer), "run" (a model trained on them), "baseline" and "test" (the
difference between two systems on the same pairs). The same key gathered again takes the place of the old line.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from search_codes import CONTROLS, FIVE, Key, lines_of

from search import ABLATIONS, BASELINES, MAIN
from sidkit.search.metrics import compare

Line = dict[str, Any]
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
    runs = lines_of(out / "runs.jsonl")
    made = [
        *(_run(line) for line in runs),
        *(line | {"kind": "codebook"} for line in lines_of(out / "codebooks.jsonl")),
    ]
    made += _tests(out, runs)
    lines |= {_key(line): {"command": _command(line)} | line for line in made}
    for line in lines.values():
        if "commit" not in line and line["kind"] != "test":
            line["recorded"] = RECORDED
    ordered = [lines[key] for key in sorted(lines)]
    results.write_text("".join(json.dumps(line) + "\n" for line in ordered))
    return ordered


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


def _tests(out: Path, runs: list[Line]) -> list[Line]:
    """Differences of all compared systems by the runs' own encoder, over the seeds that both have."""
    lines = []
    for size, dataset, encoder in sorted({(line["size"], line["dataset"], line["encoder"]) for line in runs}):
        here = [line for line in runs if (line["size"], line["dataset"], line["encoder"]) == (size, dataset, encoder)]
        seeds: dict[str, set[int]] = {}
        for line in here:
            seeds.setdefault(line["tokenizer"], set()).add(line["seed"])
        for name, other in COMPARED:
            shared = seeds.get(name, set()) if other in BASELINES else seeds.get(name, set()) & seeds.get(other, set())
            if shared and other in seeds:
                found = _test(out, (dataset, encoder), name, other, sorted(shared))
                head = {"kind": "test", "size": size, "dataset": dataset, "encoder": encoder}
                lines.append(head | {"tokenizer": name, "against": other, "seeds": sorted(shared), "tests": found})
    return lines


def _test(out: Path, place: tuple[str, str], name: str, other: str, seeds: list[int]) -> dict[str, Any]:
    """kind of pairs -> metric -> difference; a query's pairs, of all seeds, are one group."""

    def ranks(system: str, kind: str) -> np.ndarray:
        parts = [_load(out, (*place, system, 0 if system in BASELINES else seed), kind) for seed in seeds]
        return np.concatenate(parts)

    with np.load(out / "ranks" / f"{'-'.join(place)}-queries-0.npz") as file:
        queries = {kind: file[kind] for kind in file.files}
    return {
        kind: {
            metric: {field: round(value, 6) for field, value in asdict(one).items()}
            for metric, one in compare(ranks(other, kind), ranks(name, kind), np.tile(rows, len(seeds))).items()
        }
        for kind, rows in queries.items()
    }


def _load(out: Path, key: Key, kind: str) -> np.ndarray:
    with np.load(out / "ranks" / ("-".join(map(str, key)) + ".npz")) as file:
        return file[kind]


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
