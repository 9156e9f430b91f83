"""What it takes to keep IDs on a real catalogue: items added, policies, refits aligned, refits within a budget.

    python experiments/keeping_ids.py DATA [--recipes prq-kmeans,rq-kmeans,rq-opq] [--new 601] [--seed 0]

DATA holds embedding.npy (int8 rows of any length; they are scaled to length one). The last items by a random order are
new; a tokenizer (256-256-256, or 64-64-64-32-32 for hybrids) is fitted on the others and published with `nearest`. Then
- all items are encoded again with `nearest`, and once more with the published SIDs as given;
- every policy places the new items beside the published ones;
- the recipe is fitted to all items with another seed, and aligned with the old one by the old items;
- it is fitted to all items from the old tokenizer, within budgets of changed SIDs.
Results go to experiments/results/keeping_ids.jsonl, a line for every recipe.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from made import made

from sidkit.errors import SpecError
from sidkit.publish.align import align_tokenizer
from sidkit.sids.policies import POLICIES, Occupied, Policy
from sidkit.tokenizer.recipes import recipe
from sidkit.tokenizer.spread import resolve_rows
from sidkit.tokenizer.warm import fit_from

RESULTS = Path(__file__).with_name("results") / "keeping_ids.jsonl"
SIZES = {"rq-opq": (64, 64, 64, 32, 32), "prq-opq": (64, 64, 64, 32, 32), "res-kmeans-fsq": (64, 64, 64, 32, 32)}


def sid_set(codes):
    return set(map(tuple, codes.tolist()))


def measure(name, X, new, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    old_rows, new_rows = np.sort(order[new:]), np.sort(order[:new])
    spec = recipe(name, sizes=SIZES.get(name, (256, 256, 256)))
    old = spec.fit(X[old_rows], seed=seed)
    plain = old.encode(X)
    published = resolve_rows(old, X[old_rows], plain[old_rows], "nearest")
    again = resolve_rows(old, X, plain, "nearest").codes
    taken = Occupied(published.codes, published.slots)
    given = sid_set(published.codes)
    policies = {}
    for policy in POLICIES:
        weights = np.random.default_rng(1).random(new)
        chosen = Policy(policy, 2 if policy == "capacity" else 1)
        made = resolve_rows(old, X[new_rows], plain[new_rows], chosen, taken, weights)
        policies[policy] = {
            "moved": int(made.moved.sum()),
            "on_taken_sids": sum(tuple(code) in given for code in made.codes.tolist()),
            "added_cost": made.cost,
            "greedy_added_cost": made.greedy_cost,
        }
    aligned = align_tokenizer(published.codes, spec.fit(X, seed=seed + 1), X[old_rows])
    budgets = {}
    for budget in (None, 0.2, 0.1, 0.05, 0.01):
        try:
            budgets[str(budget)] = fit_from(old, X, budget, seed).facts
        except SpecError as error:
            budgets = {"refused": str(error)}
            break
    return {
        "recipe": name,
        "items": len(X),
        "new": new,
        "seed": seed,
        "encoded_again": {
            "old_items_renamed": int((again[old_rows] != published.codes).any(axis=1).sum()),
            "new_items_on_taken_sids": sum(tuple(code) in given for code in plain[new_rows].tolist()),
        },
        "policies": policies,
        "align": aligned.facts,
        "from_old": budgets,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipes", default="prq-kmeans,rq-kmeans,rq-opq")
    parser.add_argument("--new", type=int, default=601)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    X = np.load(options.data / "embedding.npy").astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for name in options.recipes.split(","):
        command = (
            f"python experiments/keeping_ids.py DATA/{options.data.name} --new {options.new} --seed {options.seed}"
        )
        line = {"data": options.data.name} | measure(name, X, options.new, options.seed) | made(command)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1), flush=True)


if __name__ == "__main__":
    main()
