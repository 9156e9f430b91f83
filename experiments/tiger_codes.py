"""The codes of every tokenizer that `experiments/tiger.py` trains on, one small file per fit.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3

DATA holds a folder per dataset (sports, toys, clothing, lastfm) with embedding.npy, items.parquet and
sequences.parquet. CODES/<dataset>/<tokenizer>-<seed>.npy is written per fit, as uint8 (items, 3), and
CODES/<dataset>/sequences.parquet once; files already there are not made again.

Of another encoder, in a folder of its own (`wordllama` embeds the items' texts; a name is a file in each folder):

    python experiments/tiger_codes.py DATA -o CODES-GTE --seeds 3 --vectors embedding_gte.npy --datasets toys
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidkit.data.sequences import Sequences, read_sequences
from sidkit.files.atomic import replace_file

DATASETS = ("lastfm", "toys", "sports", "clothing")
SIZES = (256, 256, 256)
TOKENIZERS: dict[str, tuple[str, dict]] = {  # most telling first; options that differ from the published defaults
    "prq-kmeans": ("prq-kmeans", {}),
    "rq-kmeans": ("rq-kmeans", {}),
    "without-global": ("without-global", {}),
    "without-soft": ("without-soft", {}),
    "without-projection": ("without-projection", {}),
    "random": ("random", {}),
    "category": ("category", {}),
    "rq-vae": ("rq-vae", {"preset": "public", "epochs": 500}),
    "opq-kmeans": ("opq-kmeans", {}),
    "pq-kmeans": ("pq-kmeans", {}),
    "rq-gmm": ("rq-gmm", {}),
    "r3-vae": ("r3-vae", {"preset": "paper"}),  # read literally: ratings nearly flat
    "r3-vae-top1": ("r3-vae", {"preset": "public", "epochs": 500, "rating": "top1"}),
    "rq-vae-20": ("rq-vae", {"preset": "paper"}),  # the paper's 20 epochs
    "rq-vae-3000": ("rq-vae", {"preset": "public"}),  # the public schedule to its end
    "r3-vae-3000": ("r3-vae", {"preset": "public", "rating": "top1"}),
    **{f"prq-k{k}": ("prq-kmeans", {"top_k": k}) for k in (5, 10)},  # k = 1 is without-soft
    **{f"prq-beta{beta}": ("prq-kmeans", {"beta": float(beta)}) for beta in (10, 20, 25)},
}
BEYOND: dict[str, tuple[str, dict]] = {  # not in the paper; what the options mean: `beyond_tokenizers.py`
    "prq-unique": ("prq-kmeans", {"spread": True}),
    "prq-long": ("prq-kmeans", {"iterations": 100}),
    "prq-init": ("prq-kmeans", {"way": "plus"}),
    "prq-best": ("prq-kmeans", {"way": "best"}),
    "prq-anneal": ("prq-kmeans", {"way": "anneal"}),
    "prq-beam": ("prq-kmeans", {"beam": 16}),
    "prq-balanced": ("prq-kmeans", {"last": "balanced"}),
    "prq-per-parent": ("prq-kmeans", {"last": "per-parent"}),
    "prq-64": ("prq-kmeans", {"sizes": [64, 256, 256]}),
    "rq-unique": ("rq-kmeans", {"spread": True}),
    "prq-long-unique": ("prq-kmeans", {"iterations": 100, "spread": True}),
    "prq-anneal-unique": ("prq-kmeans", {"way": "anneal", "spread": True}),
    "prq-beam-unique": ("prq-kmeans", {"beam": 16, "spread": True}),
    "prq-128-unique": ("prq-kmeans", {"sizes": [128, 256, 256], "spread": True}),
    "prq-64-unique": ("prq-kmeans", {"sizes": [64, 256, 256], "spread": True}),
    "prq-co": ("prq-kmeans", {"together": 0.5}),  # another input: training interactions as well
    "prq-co-unique": ("prq-kmeans", {"together": 0.5, "spread": True}),
    "prq-co1-unique": ("prq-kmeans", {"together": 1.0, "spread": True}),
    "prq-all-unique": ("prq-kmeans", {"together": 0.5, "window": 0, "spread": True}),  # not trained yet
    "prq-64-co-unique": ("prq-kmeans", {"sizes": [64, 256, 256], "together": 0.5, "spread": True}),
}


def embeddings(folder: Path, file: str = "embedding.npy") -> np.ndarray:
    """Rows of length one, of a file in the folder; "wordllama": of the items' texts."""
    if file == "wordllama":
        from wordllama_vectors import embedded

        return embedded(folder / "items.parquet")
    X = np.load(folder / file).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def sequences_of(folder: Path) -> Sequences:
    items = pq.read_metadata(folder / "items.parquet").num_rows
    return read_sequences(folder / "sequences.parquet", pa.chunked_array([np.arange(items)]))


def random_codes(n: int, seed: int) -> np.ndarray:
    """Random codes, different for all items."""
    number = np.random.default_rng(seed).choice(np.prod(SIZES), n, replace=False)
    return np.stack(np.unravel_index(number, SIZES), 1)


def category_codes(folder: Path, seed: int) -> np.ndarray:
    """The first token is the item's category (the last field of its text; the 255 largest, and the rest); the other two
    are random."""
    texts = pq.read_table(folder / "items.parquet").column("text").to_pylist()
    categories = [text.rpartition("; ")[2] for text in texts]
    rank = {category: code for code, (category, _) in enumerate(Counter(categories).most_common(255))}
    first = np.array([rank.get(category, 255) for category in categories])
    rng, codes = np.random.default_rng(seed), np.empty((len(first), 3), np.int64)
    codes[:, 0] = first
    for code in np.unique(first):
        rows = np.flatnonzero(first == code)
        codes[rows, 1:] = np.stack(np.unravel_index(rng.choice(256 * 256, len(rows), replace=False), SIZES[1:]), 1)
    return codes


def codes_of(folder: Path, name: str, seeds: Sequence[int], vectors: str) -> Iterator[np.ndarray]:
    """The codes of each seed. Learned tokenizers train all seeds at once, which a GPU does in the time of one."""
    if name in ("random", "category"):
        items = pq.read_metadata(folder / "items.parquet").num_rows
        yield from (random_codes(items, seed) if name == "random" else category_codes(folder, seed) for seed in seeds)
        return
    X = embeddings(folder, vectors)
    recipe_name, options = (TOKENIZERS | BEYOND)[name]
    if name in BEYOND:
        from beyond_tokenizers import beyond_codes

        for seed in seeds:
            yield beyond_codes(recipe_name, folder, X, **{"sizes": SIZES, "seed": seed} | options)
        return
    from sidkit.tokenizer.recipes import recipe

    tokenizer = recipe(recipe_name, sizes=SIZES, **options)
    at_once = [seeds] if tokenizer.fits_seeds_at_once else [[seed] for seed in seeds]
    yield from (fitted.fit_codes for some in at_once for fitted in tokenizer.fit_seeds(X, some))


def make(
    data: Path, output: Path, dataset: str, name: str, seeds: Sequence[int], vectors: str = "embedding.npy"
) -> None:
    """A file of codes for each seed, and the dataset's sequences in the same folder, unless they exist."""
    paths = {seed: output / dataset / f"{name}-{seed}.npy" for seed in seeds}
    paths = {seed: path for seed, path in paths.items() if not path.exists()}
    if not paths:
        return
    folder = output / dataset
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "sequences.parquet").exists():
        shutil.copyfile(data / dataset / "sequences.parquet", folder / "sequences.parquet")
    start = time.perf_counter()
    for path, codes in zip(paths.values(), codes_of(data / dataset, name, list(paths), vectors), strict=True):
        with replace_file(path) as temporary, temporary.open("wb") as file:
            np.save(file, codes.astype(np.uint8))
        print(json.dumps({"made": str(path), "seconds": round(time.perf_counter() - start, 1)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokenizers", default=",".join(TOKENIZERS))
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--vectors", default="embedding.npy", help="file of vectors in each folder, or wordllama")
    options = parser.parse_args()
    for name in options.tokenizers.split(","):
        for dataset in options.datasets.split(","):
            make(options.data, options.output, dataset, name, range(options.seeds), options.vectors)


if __name__ == "__main__":
    main()
