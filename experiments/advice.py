"""What `sidkit advise` predicts from samples, against full fits on public data.

    python experiments/advice.py DATA -o experiments/results/advice.jsonl
    python experiments/advice.py DATA -o experiments/results/advice.jsonl --tables

DATA holds a folder per dataset with embedding.npy; "together" is all four as one catalogue. One line of JSON is written
per full fit and per prediction; lines already there are not computed again. The second command prints the tables of
docs/choosing-sizes.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

from made import made
from tables import read_options

DATASETS = ("lastfm", "toys", "sports", "clothing", "together")
SIZES = ((32,) * 3, (64,) * 3, (128,) * 3, (256,) * 3, (512,) * 3, (1024, 512, 128))
TOGETHER = ((64,) * 3, (256,) * 3)  # sizes for all four datasets together
FIGURES = ("icr_per_sid", "sids_per_item", "largest_bucket")
# name -> fit on 1/N of the rows, count 1/N of them, at least N rows a codeword
SETTINGS = {
    "an eighth fitted, all counted": (8, 1, 32),
    "an eighth fitted, all counted, 16 rows a codeword": (8, 1, 16),
    "an eighth fitted, half counted": (8, 2, 32),
    "an eighth fitted, a quarter counted": (8, 4, 32),
}


def rows_of(data: Path, name: str):
    import numpy as np
    from codebook_quality import load

    names = [one for one in DATASETS if one != "together"] if name == "together" else [name]
    return np.concatenate([load(data / one) for one in names])


def full(X, sizes: tuple[int, ...], seed: int) -> dict:
    import sidkit

    results = sidkit.quality(sidkit.prq_kmeans(sizes).fit(X, seed=seed).fit_codes, sizes)
    return {"icr_per_sid": results["icr_per_sid"], "sids_per_item": 1 / results["items_per_sid"],
            "largest_bucket": results["largest_bucket"]}  # fmt: skip


def predicted(X, setting: str, seed: int, tried: tuple) -> list[dict]:
    from dataclasses import asdict

    import sidkit
    from sidkit.advice.candidates import Target
    from sidkit.advice.sweep import advise

    part, counted, rows = SETTINGS[setting]
    n = len(X)
    sizes = [one for one in tried if rows * max(one) <= n / counted]
    if not sizes:
        return []
    results = advise(X, Target(0.95), sidkit.prq_kmeans, sizes, sample=n // part, count=n // counted, seed=seed,
                   rows_per_code=rows)  # fmt: skip
    return [asdict(one) for one in results.candidates]


def run(options: argparse.Namespace) -> None:
    done = set()
    if options.output.exists():
        done = {key(json.loads(line)) for line in options.output.read_text().splitlines()}
    where = made(command(options))
    for name in options.datasets:
        X = rows_of(options.data, name)
        tried = TOGETHER if name == "together" else SIZES
        for seed in range(1 if name == "together" else options.seeds):
            jobs = [("full", list(sizes)) for sizes in tried] + [("predicted", setting) for setting in SETTINGS]
            for kind, what in jobs:
                line = {"dataset": name, "items": len(X), "kind": kind, "what": what, "seed": seed}
                if key(line) not in done:
                    results = full(X, tuple(what), seed) if kind == "full" else predicted(X, what, seed, tried)
                    with options.output.open("a") as out:
                        out.write(json.dumps(line | {"found": results} | where) + "\n")
                    print(name, kind, what, seed, flush=True)


def key(line: dict) -> str:
    return json.dumps([line[name] for name in ("dataset", "kind", "what", "seed")])


def command(options: argparse.Namespace) -> str:
    return f"python experiments/advice.py DATA -o {options.output.name} --seeds {options.seeds}"


def tables(lines: list[dict]) -> None:
    truth: dict = {}
    for line in lines:
        if line["kind"] == "full":
            truth.setdefault((line["dataset"], tuple(line["what"])), []).append(line["found"])
    for setting in SETTINGS:
        guesses = [(line, one) for line in lines if line["what"] == setting for one in line["found"]
                   if not one["measured"]]  # fmt: skip
        if not guesses:
            continue
        head = [
            "dataset",
            "sizes",
            "fitted on",
            "ICR %, predicted",
            "full fits",
            "SIDs per item %, predicted",
            "full fits",
        ]
        head += ["largest bucket, predicted", "full fits"]
        print(f"\n### {setting}\n\n| " + " | ".join(head) + " |\n|---|---|" + "---:|" * 7)
        for line, one in guesses:
            if line["seed"] == 0:
                print(row(line, one, truth[line["dataset"], tuple(one["sizes"])]))
        print("\n" + summary(guesses, truth))


def row(line: dict, one: dict, full_fits: list[dict]) -> str:
    cells = [line["dataset"], "-".join(map(str, one["sizes"])), f"{one['fitted_on']:,} of {line['items']:,}"]
    for name in FIGURES:
        scale, form = (1, ".0f") if name == "largest_bucket" else (100, ".1f")
        low, middle, high = (format(scale * one[name + end], form) for end in ("_low", "", "_high"))
        cells += [f"{middle} ({low} to {high})", ", ".join(format(scale * fit[name], form) for fit in full_fits)]
    return "| " + " | ".join(cells) + " |"


def summary(guesses: list[tuple[dict, dict]], truth: dict) -> str:
    """Errors of predictions against the mean of full fits, and how many full fits lie within the intervals."""
    summaries = []
    for name in FIGURES:
        errors, inside = [], []
        for line, one in guesses:
            fits = [fit[name] for fit in truth[line["dataset"], tuple(one["sizes"])]]
            bucket = name == "largest_bucket"
            errors.append(one[name] / mean(fits) - 1 if bucket else one[name] - mean(fits))
            half = 0.5 if bucket else 0.0  # buckets are whole numbers
            inside += [one[f"{name}_low"] - half <= fit <= one[f"{name}_high"] + half for fit in fits]
        size = mean(abs(error) for error in errors)
        unit = "% of it" if name == "largest_bucket" else "points"
        summaries.append(
            f"{name}: mean error {100 * mean(errors):+.2f}, mean absolute error {100 * size:.2f}, largest "
            f"{100 * max(map(abs, errors)):.2f} {unit}; {100 * mean(inside):.0f} % of full fits inside "
            f"({len(errors)} predictions)"
        )
    return "\n".join(f"- {line}" for line in summaries)


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS, seeds=2)
    if not options.tables:
        run(options)
    tables([json.loads(line) for line in options.output.read_text().splitlines()])


if __name__ == "__main__":
    main()
