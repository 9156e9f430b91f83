"""Blending, said before and found after, in small shops: a share of the users, and the items that they took.

    python experiments/blending_small.py DATA -o experiments/results/blending_small.jsonl
    python experiments/blending_small.py DATA -o experiments/results/blending_small.jsonl --tables

As `blending.py` does it, with the settings of `sidkit blend` (weight 1, window 5) and those of --auto alone. Few users
say little about which items belong together, so this is where blending is most likely to lose. A line of JSON is
written per dataset, share and draw; lines already there are not computed again.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import numpy as np
from blending import SEEDS, SIZES, ndcg
from blending_tables import DEFAULT, LOSS
from codebook_quality import load
from made import made
from tables import read_options
from tiger_codes import sequences_of

from sidkit.advice.blending import advise_blending, gain_of
from sidkit.data.sequences import Sequences
from sidkit.embed.co_occurrence import blend, co_occurrence
from sidkit.tokenizer.recipes import prq_kmeans
from sidkit.tokenizer.spread import spread

DATASETS = ("lastfm", "toys", "beauty", "sports", "clothing")


def small(folder: Path, users: int, draw: int) -> tuple[np.ndarray, Sequences]:
    """So many users at random, and the vectors of the items that they took."""
    whole = sequences_of(folder)
    chosen = np.sort(np.random.default_rng(draw).choice(len(whole), users, replace=False))
    lists = [whole.rows[whole.starts[user] : whole.starts[user + 1]] for user in chosen]
    items, rows = np.unique(np.concatenate(lists), return_inverse=True)
    return load(folder)[items], Sequences(rows, np.cumsum([0, *map(len, lists)]))


def found(X: np.ndarray, sequences: Sequences) -> np.ndarray:
    """NDCG@20 of the last two items of every user by counting, with spread SIDs of these vectors."""
    figures = []
    for seed in SEEDS:
        fitted = prq_kmeans(SIZES).fit(X, seed=seed, device="cpu")
        codes = spread(fitted, X, fitted.fit_codes)
        figures.append(np.concatenate([ndcg(codes, sequences, split) for split in ("valid", "test")]))
    return np.mean(figures, axis=0)


def measured(folder: Path, users: int, draw: int) -> dict:
    X, sequences = small(folder, users, draw)
    advice = advise_blending(X, sequences, sizes=SIZES).as_dict()
    base, gains = found(X, sequences), {}
    for name, (window, weight) in {"default": DEFAULT, "auto": (advice["window"], advice["weight"])}.items():
        if (window, weight) == DEFAULT and name == "auto":
            gains[name] = gains["default"]
        elif not weight:
            gains[name] = {"weight": 0.0, "gain": 0.0, "error": 0.0}
        else:
            vectors = co_occurrence(sequences.training(), len(X), min(128, len(X) - 1), window)
            gains[name] = vars(gain_of(weight, found(blend(X, vectors, weight), sequences), base))
    kept = {key: advice[key] for key in ("window", "weight", "gains", "spread", "spread_pays", "order")}
    facts = {"items": len(X), "events": len(sequences.rows)}
    return {"dataset": folder.name, "users": users, "draw": draw} | facts | {"advice": kept, "found": gains}


def tables(lines: list[dict]) -> None:
    print("| data | users | items | default: weight 1, window 5 | --auto: weight, window | expected | found |")
    print("|---|---:|---:|---:|---|---:|---:|")
    lines = sorted(lines, key=lambda line: (line["dataset"], line["users"], line["draw"]))
    for line in lines:
        advice, found = line["advice"], line["found"]
        expected = next((one for one in advice["gains"] if one["weight"] == advice["weight"]), None)
        cells = [line["dataset"], f"{line['users']:,}", f"{line['items']:,}", _gain(found["default"])]
        cells.append(f"{advice['weight']:g}, {advice['window']}" if expected else "none")
        cells += [_gain(expected) if expected else "", _gain(found["auto"])]
        print(f"| {' | '.join(cells)} |")
    for name in ("default", "auto"):
        gains = [line["found"][name] for line in lines]
        values = [one["gain"] for one in gains]
        sure = sum(one["gain"] + 2 * one["error"] < LOSS for one in gains)
        low = f"{sum(value < LOSS for value in values)} below {LOSS:.0%}, {sure} by two standard errors"
        print(f"\n{name}, {len(lines)} shops: mean {mean(values):+.1%}, lowest {min(values):+.1%}; {low}")
    said = [line["found"]["auto"]["gain"] for line in lines if line["advice"]["weight"]]
    rest = [line["found"]["default"]["gain"] for line in lines if not line["advice"]["weight"]]
    print(f"\nadvised in {len(said)}, {sum(gain <= 0 for gain in said)} of which did not gain")
    print(f"not advised in {len(rest)}, {sum(gain > 0 for gain in rest)} of which would have gained by the default")


def _gain(gain: dict) -> str:
    return f"{gain['gain']:+.1%} ±{100 * gain['error']:.1f}"


def main() -> None:
    options = read_options(__doc__, "data", datasets=DATASETS, users="300,1000", draws=3)
    lines = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(line["dataset"], line["users"], line["draw"]) for line in lines}
    where = made(f"python experiments/blending_small.py DATA -o {options.output.name} --draws {options.draws}")
    for draw in range(0 if options.tables else options.draws):
        for users in map(int, options.users.split(",")):
            for name in options.datasets:
                if (name, users, draw) in done:
                    continue
                lines.append(measured(options.data / name, users, draw) | where)
                with options.output.open("a") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
                print(name, users, draw, lines[-1]["advice"]["weight"], flush=True)
    tables(lines)


if __name__ == "__main__":
    main()
