"""A shop whose answers are known: items and queries of a few topics, and clicks within topics.

The first TOPICS dimensions of an embedding tell the topic, faintly; the others are noise. Cosines are mostly noise, and
a projection that keeps the first dimensions finds what is clicked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TOPICS, PER_TOPIC, QUERIES, D = 12, 40, 20, 32
WORDS = ("hammer drill", "garden hose", "paint brush", "door lock", "wall lamp", "floor tile", "water pump", "desk fan",
         "tool box", "work glove", "safety goggles", "shelf bracket")  # fmt: skip
BRANDS = ("Acme", "Bolt Works", "Corvo")


def shop_tables(seed=0):
    """(items, queries, log) with the columns of a shop."""
    rng = np.random.default_rng(seed)
    n = TOPICS * PER_TOPIC
    topic = np.repeat(np.arange(TOPICS), PER_TOPIC)
    brand = [BRANDS[i % 3] for i in range(n)]
    titles = [f"{brand[i]} {WORDS[topic[i]].title()} {6 + i % 4} in. red no{i}" for i in range(n)]
    items = pa.table(
        {
            "item_id": [f"P{i:04}" for i in range(n)],
            "title": titles,
            "brand": brand,
            "seller": pa.nulls(n, pa.string()),
            "category_1": ["hardware"] * n,
            "category_2": pa.nulls(n, pa.string()),
            "category_3": [WORDS[t] for t in topic],
            "price": rng.uniform(1, 100, n),
            "keywords": pa.array([[WORDS[t].split()[0]] for t in topic], pa.list_(pa.string())),
            "text": titles,
        }
    )
    texts = [f"{WORDS[t]} kind {j}" for t in range(TOPICS) for j in range(QUERIES)]
    rows = []
    for session in range(1500):
        user, t = session % 200, int(rng.integers(TOPICS))
        query = t * QUERIES + int(rng.integers(QUERIES))
        shown = (t * PER_TOPIC + rng.choice(PER_TOPIC, 6, replace=False)).tolist()
        rows.append((user, session, session, query, shown, shown[:2], shown[:1] if session % 3 == 0 else []))
    split = ["train" if i < 1200 else "test" for i in range(len(rows))]
    name = "P{:04}".format
    log = pa.table(
        {
            "user": [f"u{row[0]}" for row in rows],
            "session": pa.array([row[1] for row in rows]),
            "time": pa.array([row[2] for row in rows], pa.int64()),
            "query": [texts[row[3]] for row in rows],
            **{
                column: pa.array([[name(i) for i in row[at]] for row in rows], pa.list_(pa.string()))
                for column, at in (("shown", 4), ("clicked", 5), ("ordered", 6))
            },
            "split": split,
        }
    )
    asked = np.array([row[3] for row in rows])
    train = np.bincount(asked[:1200], minlength=len(texts))
    queries = pa.table(
        {
            "query_id": pa.array(np.arange(len(texts))),
            "query": texts,
            "train_records": pa.array(train),
            "test_records": pa.array(np.bincount(asked, minlength=len(texts)) - train),
        }
    )
    return items, queries, log


def embeddings(seed=0, signal=1.0, noise=0.6):
    """(items, queries): (n, D) and (q, D) float32."""
    rng = np.random.default_rng(seed)

    def rows(topic):
        x = noise * rng.normal(size=(len(topic), D))
        x[:, :TOPICS] *= 0.2
        x[np.arange(len(topic)), topic] += signal
        return x.astype(np.float32)

    return rows(np.repeat(np.arange(TOPICS), PER_TOPIC)), rows(np.repeat(np.arange(TOPICS), QUERIES))


def write_vectors(path, name, ids, x):
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    pq.write_table(pa.table({name: ids, "embedding": column}), path)


def write_shop(folder, seed=0):
    """shop/, items-emb.parquet and queries-emb.parquet in a folder."""
    folder = Path(folder)
    (folder / "shop").mkdir(parents=True)
    items, queries, log = shop_tables(seed)
    for name, table in (("items", items), ("queries", queries), ("log", log)):
        pq.write_table(table, folder / "shop" / f"{name}.parquet")
    x, y = embeddings(seed)
    write_vectors(folder / "items-emb.parquet", "item_id", items["item_id"].combine_chunks(), x)
    write_vectors(folder / "queries-emb.parquet", "query_id", queries["query_id"].combine_chunks(), y)
    return folder
