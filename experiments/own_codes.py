"""What equal vectors do to the ICR of RQ-OPQ, whose release numbers the rows of a small parent: docs/tokenizers.md.

    python experiments/own_codes.py DATA/toys/embedding.npy DATA/bestbuy/items_embedding.npy -o OUT.json

The release gives every row of a parent with at most K rows its own third code, equal vectors included. Here equal
vectors have equal codes, unless `sidkit encode --number` deals them out. Both are counted on the same fit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from made import made

import sidkit
from sidkit.tokenizer.numbering import number_equal


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
        fitted = sidkit.rq_opq(sizes, options.iterations).fit(X, seed=0, device="cpu")
        tables = {"by vector": fitted.fit_codes, "numbered": number_equal(fitted, fitted.fit_codes)}
        figures = {how: sidkit.quality(codes, sizes) for how, codes in tables.items()}
        results[name] = {"rows": len(X), "equal_rows": len(X) - len(np.unique(X, axis=0))} | {
            how: {metric: one[metric] for metric in ("icr_per_sid", "icr_per_item")} for how, one in figures.items()
        }
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(name, results[name], flush=True)


if __name__ == "__main__":
    main()
