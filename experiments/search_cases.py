"""How typical a case of `sidkit case query` is: every query of one word, under each tokenizer.

    python experiments/search_cases.py SHOP ALIGNED prq=TOK-PRQ rq=TOK-RQ -o experiments/results/search_cases.json

For each tokenizer: the queries of one word whose first two tokens no item has, and the items under those two tokens and
the different third tokens (mean and median over all these queries). The case of a single query can be picked to say
anything; this is what it was picked from. docs/results/searching.md has the commands that make SHOP, ALIGNED and the
tokenizers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from made import made

import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.data.items import match
from sidkit.search.shop import Shop

LEVEL = 2


def neighbourhoods(items: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every query the items that share its first tokens, and the different tokens that follow: (q,) each."""
    prefixes, which = np.unique(items[:, :LEVEL], axis=0, return_inverse=True)
    branches = np.unique(np.stack([which.reshape(-1), items[:, LEVEL]], 1), axis=0)[:, 0]
    counts, following = (np.bincount(one, minlength=len(prefixes)) for one in (which.reshape(-1), branches))
    found = {tuple(prefix): i for i, prefix in enumerate(prefixes.tolist())}
    at = np.array([found.get(tuple(codes[:LEVEL]), -1) for codes in queries.tolist()])
    return tuple(np.where(at < 0, 0, one[at]) for one in (counts, following))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shop", type=Path)
    parser.add_argument("aligned", type=Path)
    parser.add_argument("tokenizers", nargs="+", help="NAME=FOLDER")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    shop = Shop.open(asked.shop)
    items, queries = (open_embeddings(str(asked.aligned / f"{name}.parquet")) for name in ("items", "queries"))
    texts = shop.queries.column("query").to_pylist()
    single = [row for row in match(queries.ids, shop.queries.column("query_id")).tolist() if " " not in texts[row]]
    chosen = match(shop.queries.column("query_id").take(single), queries.ids)
    out: dict[str, dict[str, float]] = {}
    sizes = {}
    for text in asked.tokenizers:
        name, _, folder = text.partition("=")
        fitted = sidkit.load(folder)
        counts, following = neighbourhoods(fitted.encode(items), fitted.encode(queries)[chosen])
        sizes[name] = counts
        out[name] = {
            "queries": len(counts),
            "without_items": int((counts == 0).sum()),
            "items_mean": float(counts.mean()),
            "items_median": float(np.median(counts)),
            "next_tokens_mean": float(following.mean()),
        }
    first, second = list(sizes.values())[:2]
    where = made("python experiments/search_cases.py SHOP ALIGNED prq=TOK-PRQ rq=TOK-RQ")
    found = where | {"shop": shop.facts["source"], "tokenizers": out}
    found["first_has_more"], found["second_has_more"] = int((first > second).sum()), int((second > first).sum())
    print(json.dumps(found, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
