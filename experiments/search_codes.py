"""The SIDs that `experiments/search.py` trains on: tokenizers, ablations, controls; and their codebook columns.

    python experiments/search_codes.py SHOPS -o OUT             for every dataset, encoder, tokenizer and seed
    python experiments/search_codes.py SMALL -o OUT --small     with the sizes for small shops
    python experiments/search_codes.py SMALL -o OUT --keep KEPT   the SIDs as files, beside copies of the shops

One line of JSON is appended to OUT/codebooks.jsonl per set of SIDs; lines already there are not made again. ICR,
utilisation and Gini count items alone. Nothing is trained but the tokenizers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from made import commit, versions

from sidkit import SidTable, quality
from sidkit.data.embeddings import open_embeddings
from sidkit.data.items import match
from sidkit.data.joint import Joint, counts_of, repeated
from sidkit.data.subset import without
from sidkit.search.shop import Shop
from sidkit.stages.stage import HasCodebooks
from sidkit.tokenizer.recipes import recipe

Key = tuple[str, str, str, int]  # dataset, encoder, tokenizer, seed
SIZES = {"full": ((256, 128, 64), (256, 128, 64, 64, 64)), "small": ((64, 32, 16), (64, 32, 16, 16, 16))}
PRQ: dict[str, Any] = {"top_k": 5}
TOKENIZERS: dict[str, tuple[str, dict[str, Any]]] = {  # most telling first
    "prq-kmeans": ("prq-kmeans", PRQ),
    "rq-kmeans": ("rq-kmeans", {}),
    "prq-opq": ("prq-opq", {}),
    "rq-opq": ("rq-opq", {}),
    "res-kmeans-fsq": ("res-kmeans-fsq", {}),
    "without-global": ("without-global", PRQ),
    "without-soft": ("without-soft", {}),
    "without-projection": ("without-projection", PRQ),
    "shuffled": ("prq-kmeans", PRQ),  # the SIDs of prq-kmeans, each given to another item
    "random": ("prq-kmeans", PRQ),  # the codes of items are drawn at random
    "category": ("prq-kmeans", PRQ),  # an item's first code is its category or brand; the others are drawn at random
    "rq-vae": ("rq-vae", {"preset": "public", "epochs": 300}),
    "r3-vae": ("r3-vae", {"preset": "public", "epochs": 300, "rating": "top1"}),
    "rq-gmm": ("rq-gmm", {}),
    "pq-kmeans": ("pq-kmeans", {}),
    "opq-kmeans": ("opq-kmeans", {}),
    **{f"prq-k{k}": ("prq-kmeans", {"top_k": k}) for k in (2, 10)},  # k = 1 is without-soft
    **{f"prq-beta{beta}": ("prq-kmeans", PRQ | {"beta": float(beta)}) for beta in (10, 20, 25)},
}
WHOLE_EPOCHS = 40  # of the VAEs on whole shops, which have ten times the rows
FIVE = ("prq-opq", "rq-opq", "res-kmeans-fsq")
CONTROLS = ("shuffled", "random", "category")  # of these the queries keep the SIDs of prq-kmeans


class Made(NamedTuple):
    """SIDs of items and of queries, the tokenizer if SID tokens can start from its centroids, and the seconds."""

    items: SidTable
    queries: SidTable
    tokenizer: Any
    seconds: float


def recipe_of(name: str, size: str) -> tuple[str, dict[str, Any]]:
    """The recipe of a row of the tables, and its options."""
    kind, options = TOKENIZERS[name]
    return kind, options | ({"epochs": WHOLE_EPOCHS} if size == "full" and "epochs" in options else {})


def sids_of(shops: Path, key: Key, size: str, device: str) -> Made:
    """SIDs by a tokenizer fitted on the items and the training queries, each as often as it was typed."""
    dataset, _, name, seed = key
    kind, options = recipe_of(name, size)
    folder, sizes = aligned_path(shops, key), SIZES[size][name in FIVE]
    sources = [open_embeddings(str(folder / f"{one}.parquet")) for one in ("items", "queries")]
    items, queries = (without(one, _zero(one)) for one in sources)
    joint = Joint([("items", items), ("queries", repeated(queries, counts_of(queries, "train_records")))])
    began = time.perf_counter()
    fitted = recipe(kind, **{"sizes": sizes} | options).fit(joint, seed=seed, device=device)
    codes = [fitted.encode(one, device=device) for one in (items, queries)]
    took = time.perf_counter() - began
    rng = np.random.default_rng((seed, 17))
    if name == "shuffled":
        codes[0] = codes[0][rng.permutation(len(codes[0]))]
    elif name in CONTROLS:
        codes[0] = np.stack([rng.integers(0, size, len(codes[0])) for size in fitted.sizes], 1)
    if name == "category":
        codes[0][:, 0] = _category(Shop.open(shops / dataset / "shop").items, items.ids, fitted.sizes[0])
    tables = [SidTable(one.ids, each, fitted.sizes) for one, each in zip((items, queries), codes, strict=True)]
    return Made(*tables, fitted if name not in ("random", "category") else None, took)


class KeptStage(NamedTuple):
    """A level of a tokenizer, as far as first weights need it: its size, and its centroids or None."""

    sizes: tuple[int, ...]
    codebooks: tuple[Any, ...]


def keep(made: Made, shop: Shop, path: Path) -> None:
    """SIDs of the shop's items and queries, -1 for those without one, and centroids: a file of some ten kilobytes."""
    rows = (
        match(shop.items.column("item_id"), made.items.ids),
        match(shop.queries.column("query_id"), made.queries.ids),
    )
    tables = (made.items.codes, made.queries.codes)
    arrays = {
        name: np.where(at[:, None] < 0, -1, codes[at]).astype(np.int16)
        for name, at, codes in zip(("items", "queries"), rows, tables, strict=True)
    }
    level = 0
    for stage in made.tokenizer.stages if made.tokenizer is not None else ():
        books = list(stage.codebooks) if isinstance(stage, HasCodebooks) else []
        for size, book in zip_longest(stage.sizes, books[: len(stage.sizes)]):
            if book is not None and len(book) == size:
                arrays[f"book{level}"] = np.asarray(book, np.float16)
            level += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"sizes": made.items.sizes, "seconds": made.seconds, "tokenizer": made.tokenizer is not None}
    np.savez_compressed(path, facts=json.dumps(facts), **arrays)


def aligned_path(shops: Path, key: Key) -> Path:
    return shops / key[0] / f"aligned-{key[1]}"


def kept_path(shops: Path, key: Key) -> Path:
    dataset, encoder, name, seed = key
    return shops / dataset / "codes" / f"{encoder}-{name}-{seed}.npz"


def kept_or_made(shops: Path, key: Key, size: str, device: str) -> Made:
    """The SIDs that `keep` wrote, or new ones where there are none."""
    path = kept_path(shops, key)
    if not path.exists():
        return sids_of(shops, key, size, device)
    shop = Shop.open(shops / key[0] / "shop")
    ids = (shop.items.column("item_id").combine_chunks(), shop.queries.column("query_id").combine_chunks())
    with np.load(path) as file:
        facts = json.loads(str(file["facts"]))
        sizes, tables = tuple(facts["sizes"]), []
        for one, codes in zip(ids, (file["items"], file["queries"]), strict=True):
            known = np.flatnonzero(codes[:, 0] >= 0)
            tables.append(SidTable(one.take(pa.array(known)), codes[known].astype(np.int32), sizes))
        books = [
            file[f"book{level}"].astype(np.float32) if f"book{level}" in file else None for level in range(len(sizes))
        ]
    stages = [KeptStage((one,), (book,)) for one, book in zip(sizes, books, strict=True)]
    tokenizer = SimpleNamespace(stages=stages, sizes=sizes) if facts["tokenizer"] else None
    return Made(*tables, tokenizer, facts["seconds"])


def encoders_of(shops: Path, dataset: str) -> list[str]:
    """The encoders whose aligned vectors, or SIDs made of them, there are."""
    folder = shops / dataset
    names = {path.name.removeprefix("aligned-") for path in folder.glob("aligned-*")}
    return sorted(names | {path.name.split("-")[0] for path in folder.glob("codes/*.npz")})


def _zero(source: Any) -> np.ndarray:
    return np.flatnonzero(np.concatenate([~np.asarray(chunk).any(axis=1) for chunk in source.chunks(1 << 16)]))


def _category(table: Any, ids: Any, size: int) -> np.ndarray:
    """A code per category, of a shop without categories per brand: the largest size - 1, and one for the rest."""
    rows = table.take(match(ids, table.column("item_id"))).to_pylist()
    paths = ["/".join(filter(None, (row["category_1"], row["category_2"]))) for row in rows]
    names = paths if any(paths) else [row["brand"] or "" for row in rows]
    rank = {one: code for code, (one, _) in enumerate(Counter(names).most_common(size - 1))}
    return np.array([rank.get(one, size - 1) for one in names])


def facts_of(key: Key, size: str, made: Made, device: str) -> dict[str, Any]:
    """What a line says of its SIDs."""
    dataset, encoder, name, seed = key
    return {
        "dataset": dataset, "size": size, "encoder": encoder, "tokenizer": name, "seed": seed,
        "sizes": list(made.items.sizes), "recipe": recipe_of(name, size), "items": len(made.items),
        "quality": quality(made.items.codes, made.items.sizes), "fit_seconds": round(made.seconds, 1),
        "device": torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else "CPU",
        "versions": {"torch": torch.__version__, **versions()},
        "commit": commit(),
    }  # fmt: skip


def keys(shops: Path, datasets: list[str], encoders: list[str] | None, names: list[str], seeds: int) -> Iterator[Key]:
    """Every set of SIDs, tokenizer after tokenizer; all seeds of each."""
    for name in names:
        for dataset in datasets or sorted(path.parent.name for path in shops.glob("*/shop")):
            found = encoders_of(shops, dataset)
            for encoder in encoders or found:
                if encoder in found:
                    yield from ((dataset, encoder, name, seed) for seed in range(seeds))


def key_of(line: dict[str, Any]) -> Key:
    return line["dataset"], line["encoder"], line["tokenizer"], line["seed"]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shops", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="the sizes for small shops")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--encoders", nargs="+", help="[default: every aligned-* folder]")
    parser.add_argument("--tokenizers", nargs="+", default=list(TOKENIZERS), choices=list(TOKENIZERS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=Path, help="also write the SIDs to files of this folder")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    path, size = asked.output / "codebooks.jsonl", "small" if asked.small else "full"
    done = {key_of(line) for line in lines_of(path) if line["size"] == size}
    for key in keys(asked.shops, asked.datasets, asked.encoders, asked.tokenizers, asked.seeds):
        if key not in done:
            made = sids_of(asked.shops, key, size, asked.device)
            if asked.keep:
                keep(made, Shop.open(asked.shops / key[0] / "shop"), kept_path(asked.keep, key))
            line = facts_of(key, size, made, asked.device)
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(*key, f"ICR {line['quality']['icr_per_sid']:.4f}", line["fit_seconds"], flush=True)


if __name__ == "__main__":
    main()
