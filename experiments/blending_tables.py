"""The tables of experiments/blending.py: docs/results/beyond.md has them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

LOSS = -0.02  # what a recipe may lose at most
DEFAULT = (5, 1.0)  # window and weight of `sidkit blend` without --auto
TRAINED = {(5, 0.5): "prq-co-unique", (5, 1.0): "prq-co1-unique"}  # the rows of the recommendation tables


def tables(lines: list[dict], tiger: Path) -> None:
    lines = sorted(lines, key=lambda line: (line["encoder"], line["dataset"]))
    _orders(lines)
    _choices(lines)
    _trained([line for line in lines if line["encoder"] == "MiniLM"], tiger)


def _orders(lines: list[dict]) -> None:
    print("\n| data | same order, before | same order, last steps | arranged |\n|---|---:|---:|---|")
    for line in {line["dataset"]: line for line in lines}.values():
        order = line["advice"]["order"]
        words = "yes" if order["arranged"] else "no"
        print(f"| {line['dataset']} | {order['agreement']:.0%} | {order['agreement_last']:.0%} | {words} |")


def _choices(lines: list[dict]) -> None:
    print("\n| data | encoder | default: weight 1, window 5 | L1 explains | --auto: weight, window | expected | found |"
          " L1 explains |\n|---|---|---:|---:|---|---:|---:|---:|")  # fmt: skip
    rows = []
    for line in lines:
        advice = line["advice"]
        chosen = (advice["window"], advice["weight"])
        expected = next((one for one in advice["gains"] if one["weight"] == chosen[1]), {"gain": 0.0, "error": 0.0})
        default, auto = found(line, *DEFAULT), found(line, *chosen)
        rows.append((default["gains"]["both"]["gain"], auto["gains"]["both"]["gain"]))
        cells = [line["dataset"], line["encoder"], _gain(default["gains"]["both"]), f"{default['explained']:.0%}"]
        cells += [
            f"{chosen[1]:g}, {chosen[0]}",
            _gain(expected),
            _gain(auto["gains"]["both"]),
            f"{auto['explained']:.0%}",
        ]
        print(f"| {' | '.join(cells)} |")
    for name, at in (("default", 0), ("--auto", 1)):
        values = [row[at] for row in rows]
        lost = sum(value < LOSS for value in values)
        print(f"\n{name}: mean {mean(values):+.1%}, lowest {min(values):+.1%}; {lost} of {len(rows)} lose over 2 %")
    wrong = sum((line["advice"]["weight"] > 0) != (auto > 0) for line, (_, auto) in zip(lines, rows, strict=True))
    print(f"\nwhether blending pays was said wrongly in {wrong} of {len(rows)} cells")
    said = [(line["advice"]["spread_pays"], mean(part["gain"] for part in line["spread"].values())) for line in lines]
    close = [f"{gain:+.1%}" for pays, gain in said if pays != (gain > 0.01)]
    print(f"whether spreading pays (by over 1 %) in {len(close)}: {', '.join(close)}")
    print("found by spreading alone: " + ", ".join(f"{gain:+.0%}" for _, gain in said))


def _trained(lines: list[dict], tiger: Path) -> None:
    """Counting beside TIGER's NDCG@20 on the test items, where a setting was trained."""
    runs = [json.loads(line) for line in tiger.read_text().splitlines()]

    def ndcg(dataset: str, name: str) -> list[float]:
        return [run["test"]["item_ndcg@20"] for run in runs if (run["dataset"], run["tokenizer"]) == (dataset, name)]

    print("\n| data | window 5, weight | L1 explains | counted, test | TIGER, test |\n|---|---:|---:|---:|---:|")
    for line in lines:
        for (window, weight), name in TRAINED.items():
            if base := ndcg(line["dataset"], name) and ndcg(line["dataset"], "prq-kmeans"):
                here, plain = found(line, window, weight), line["found"][0]["ndcg"]
                counted = here["gains"]["test"]["gain"], here["gains"]["test"]["error"]
                whole = (1 + counted[0]) * plain["test"] / plain["plain test"] - 1
                gain = mean(ndcg(line["dataset"], name)) / mean(base) - 1
                print(f"| {line['dataset']} | {weight:g} | {here['explained']:.0%} | {whole:+.0%} | {gain:+.0%} |")


def found(line: dict, window: int, weight: float) -> dict:
    """What that setting brought; nothing without co-occurrence."""
    if not weight:
        return line["found"][0] | {"gains": {"both": {"gain": 0.0, "error": 0.0}}}
    return next(one for one in line["found"] if (one["window"], one["weight"]) == (window, weight))


def _gain(gain: dict) -> str:
    return f"{gain['gain']:+.1%} ±{100 * gain['error']:.1f}"
