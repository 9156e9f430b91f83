"""What equal vectors do to the ICR of RQ-OPQ, whose release numbers the rows of a small parent: docs/tokenizers.md.

    python experiments/own_codes.py DATA/toys/embedding.npy DATA/bestbuy/items_embedding.npy -o OUT.json

The release gives every row of a parent with at most K rows its own third code, equal vectors included. Here equal
vectors have equal codes. Both are counted on the same fit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from made import made

import sidkit
from sidkit.sids.crowded import slots_of
from sidkit.sids.prefixes import prefix_numbers


def numbered(codes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The codes with the rows of every small parent numbered in row order at the third level."""
    parent = prefix_numbers(codes, sizes)[1]
    small = np.unique(parent, return_counts=True)[1][np.unique(parent, return_inverse=True)[1]] <= sizes[2]
    own = codes.copy()
    own[small, 2] = slots_of(parent)[small]
    return own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--sizes", default="1024-512-128-64-64")
    parser.add_argument("--iterations", type=int, default=25)
    options = parser.parse_args()
    sizes = tuple(map(int, options.sizes.split("-")))
    names = [f"{path.parent.name}/{path.name}" for path in options.embeddings]
    results = made(f"python experiments/own_codes.py {' '.join(f'DATA/{name}' for name in names)} -o OUT.json")
    for name, path in zip(names, options.embeddings, strict=True):
        X = np.load(path).astype(np.float32)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        codes = sidkit.rq_opq(sizes, options.iterations).fit(X, seed=0, device="cpu").fit_codes
        figures = {"by vector": sidkit.quality(codes, sizes), "numbered": sidkit.quality(numbered(codes, sizes), sizes)}
        results[name] = {"rows": len(X), "equal_rows": len(X) - len(np.unique(X, axis=0))} | {
            how: {metric: one[metric] for metric in ("icr_per_sid", "icr_per_item")} for how, one in figures.items()
        }
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(name, results[name], flush=True)


if __name__ == "__main__":
    main()
