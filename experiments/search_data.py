"""The shops that `experiments/search.py` trains on, each with aligned vectors of its items and queries.

    python experiments/search_data.py DATA -o SHOPS --encoders minilm wordllama
    python experiments/search_data.py DATA -o SMALL --encoders minilm wordllama --small

DATA holds homedepot/ (items, queries, judgements) and bestbuy/ (items, queries, clicks), each with items_embedding.npy
and queries_embedding.npy; simulated needs nothing
(its encoders are wordllama and tfidf). SHOPS/<dataset>/ then has shop/ and aligned-<encoder>/; folders
already there are not made again. Vectors are written as float16.

--small makes shops that a CPU can train on in minutes:
    homedepot   every judgement of 2,500 queries drawn at random, and the items judged for them
    bestbuy     every pair, with one record for 20 clicks (at least one); the items clicked and 5,000 others
    simulated   5,000 items, 20,000 searches
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidkit.data.embeddings import open_embeddings
from sidkit.embed.choose import choose
from sidkit.progress import Silent
from sidkit.search.align.alignment import AlignPlan
from sidkit.search.align.job import align, write_aligned
from sidkit.search.read.assemble import ReadOptions
from sidkit.search.shop import Shop
from sidkit.search.simulate import ShopPlan, simulate_shop

DATASETS = ("homedepot", "bestbuy", "simulated")
SIMULATED, SMALL_SIMULATED = 20_000, 5_000  # items, with four searches each
SMALL_QUERIES, SMALL_OTHERS, SMALL_CLICKS = 2_500, 5_000, 20  # queries, items without clicks, clicks of a record


def make_shop(dataset: str, data: Path, output: Path, small: bool) -> Shop:
    """Read or simulate a shop, once."""
    if not (output / "shop.json").exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        if dataset == "simulated":
            items = SMALL_SIMULATED if small else SIMULATED
            simulate_shop(output, ShopPlan.of(items, 4 * items, None))
        elif small:
            with TemporaryDirectory() as folder:
                _reduce(dataset, data / dataset, Path(folder))
                _read(dataset, Path(folder), output)
        else:
            _read(dataset, data / dataset, output)
    return Shop.open(output)


def _reduce(dataset: str, folder: Path, output: Path) -> None:
    """The part of a dataset's files that a small shop is made of."""
    rng, pairs = np.random.default_rng(0), "judgements" if dataset == "homedepot" else "clicks"
    items, queries, judged = (pq.read_table(folder / f"{name}.parquet") for name in ("items", "queries", pairs))
    if dataset == "homedepot":
        drawn = rng.choice(pc.unique(judged.column("query")).to_numpy(), SMALL_QUERIES, replace=False)
        judged = judged.filter(pc.is_in(judged.column("query"), value_set=pa.array(drawn)))
        others = np.zeros(0, np.int64)
    else:
        counts = np.maximum(1, judged.column("count").to_numpy() // SMALL_CLICKS)
        judged = judged.set_column(judged.column_names.index("count"), "count", pa.array(counts))
        others = rng.choice(len(items), SMALL_OTHERS, replace=False)
    used = pc.is_in(items.column("item"), value_set=pc.unique(judged.column("item"))).to_numpy(zero_copy_only=False)
    used[others] = True
    for name, table in (("items", items.filter(pa.array(used))), ("queries", queries), (pairs, judged)):
        pq.write_table(table, output / f"{name}.parquet")


def _read(dataset: str, folder: Path, output: Path) -> None:
    from sidkit.search.read.clicks import ClickFiles, read_clicks
    from sidkit.search.read.judgements import JudgementFiles, read_judgements

    options, scratch = ReadOptions(drop_unknown=True, drop_bad_rows=True), output.with_name("scratch")
    if dataset == "homedepot":
        names = (str(folder / f"{name}.parquet") for name in ("items", "judgements", "queries"))
        files = JudgementFiles(*names, label_min=2.33)
        read_judgements(files, output, options, scratch, Silent())
    else:
        names = (str(folder / f"{name}.parquet") for name in ("items", "clicks", "queries"))
        read_clicks(ClickFiles(*names), output, options, scratch, Silent())


def vectors_of(shop: Shop, dataset: str, data: Path, encoder: str, folder: Path) -> list:
    """Embeddings of items and queries: the dataset's own, or by an encoder of sidkit."""
    sources = []
    texts = shop.items.column("text").to_pylist() if encoder == "tfidf" else None
    model = choose(encoder, texts) if encoder != "minilm" else None
    for name, key, text in (("items", "item_id", "text"), ("queries", "query_id", "query")):
        table = getattr(shop, name)
        if model is not None:
            rows = model.embed(table.column(text).to_pylist(), query=name == "queries")
        else:
            rows = _own(table, data / dataset, name, key)
        path = folder / f"{name}-{encoder}.parquet"
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.astype(np.float16).ravel()), rows.shape[1])
        pq.write_table(pa.table({key: table.column(key), "embedding": column}), path)
        sources.append(open_embeddings(str(path)))
    return sources


def _own(table, folder: Path, name: str, key: str) -> np.ndarray:
    """The rows of a dataset's own embeddings, in the order of the shop's table; queries are matched by their text."""
    from sidkit.data.items import match
    from sidkit.search.shop.texts import normalise

    given = pq.read_table(folder / f"{name}.parquet")
    x = np.load(folder / f"{name}_embedding.npy").astype(np.float32)
    if name == "items":
        rows = match(table.column(key), given.column("item"))
    else:
        rows = match(table.column("query"), normalise(given.column("text")))
    assert (rows >= 0).all(), f"{(rows < 0).sum()} of {name} have no vector"
    return x[rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--encoders", nargs="+", default=("minilm",), choices=("minilm", "wordllama"))
    parser.add_argument("--small", action="store_true", help="shops that a CPU can train on in minutes")
    asked = parser.parse_args()
    for dataset in asked.datasets:
        shop = make_shop(dataset, asked.data, asked.output / dataset / "shop", asked.small)
        for encoder in ("wordllama", "tfidf")[: len(asked.encoders)] if dataset == "simulated" else asked.encoders:
            aligned = asked.output / dataset / f"aligned-{encoder}"
            if aligned.exists():
                continue
            sources = vectors_of(shop, dataset, asked.data, encoder, asked.output / dataset)
            made = align(shop.log(), shop.items, shop.queries, *sources, AlignPlan())
            write_aligned(made, aligned)
            print(dataset, encoder, made.facts["recall"], flush=True)


if __name__ == "__main__":
    main()
