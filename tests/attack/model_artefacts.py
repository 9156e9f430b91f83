"""Artefacts of trainings: networks, alignments, shops, and what a stopped run leaves."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from artefact import ROWS, SIZES, Artefact, digest_of, table_of


def make_retriever(folder: Path) -> None:
    from sidkit.retriever.data import Vocabulary
    from sidkit.retriever.model import Shape, new_weights
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.retriever import Retriever

    shape = Shape(layers=1, d_model=8, d_ff=8, heads=1, d_kv=8)
    table, plan = table_of(), Plan(shape=shape, epochs=1, beams=4, history=4)
    weights = new_weights(shape, len(Vocabulary(table.sizes)), 0)
    Retriever(table, plan, weights, {"plan": asdict(plan)}).save(folder / "run")


def use_retriever(folder: Path) -> Any:
    from sidkit.retriever.retriever import Retriever

    found = Retriever.load(folder / "run", device="cpu").recommend(["P3 é", "P4 é"], k=3)
    return [(one.item, round(one.score, 3)) for one in found]


def make_search(folder: Path) -> None:
    import pyarrow as pa

    from sidkit import SidTable
    from sidkit.search.bart.shape import BartShape
    from sidkit.search.model.model import SearchModel
    from sidkit.search.model.query_clicks import QueryClicks
    from sidkit.search.model.ranking import Counters
    from sidkit.search.model.start import first_weights
    from sidkit.search.model.store import ModelParts
    from sidkit.search.model.trainer import SHOWN
    from sidkit.search.templates import read_templates, template_file
    from sidkit.search.training.plan import SearchPlan
    from sidkit.search.training.tokens import Tokens, train_bpe

    shape = BartShape(layers=1, d_model=8, d_ff=8, heads=1, positions=64, dropout=0.0)
    plan = SearchPlan(shape, epochs=(1, 1, 1), words=300, longest=64, beams=4)
    table, titles = table_of(), [f"red shoe {i}" for i in range(len(ROWS))]
    tokens = Tokens(train_bpe(titles, plan.words), SIZES)
    shown: dict[str, Any] = {name: pa.array(titles) for name in SHOWN} | {"item_id": table.ids}
    if "price" in shown:
        shown["price"] = pa.array(np.ones(len(ROWS)))
    counts = {field.name: pa.array(np.zeros(len(ROWS))) for field in fields(Counters)}
    queries = SidTable(["red shoe"], table.codes[:1], SIZES)
    text = template_file(plan.templates).read_text(encoding="utf-8")
    clicks = QueryClicks.of(["red shoe"], [np.array([2, 0])])
    templates = read_templates(plan.templates)
    parts = ModelParts(table, pa.table(shown | counts), queries, templates, text, query_clicks=clicks)
    weights = first_weights(plan, tokens, None, None)
    SearchModel(weights, tokens, plan, parts, {"plan": asdict(plan)}, "cpu").save(folder / "run")


def use_search(folder: Path) -> Any:
    from sidkit.search.model.model import Request, SearchModel

    (found,) = SearchModel.load(folder / "run", "cpu").ask([Request("red shoe")])
    return [(one.item, one.sid, round(one.probability, 4)) for one in found]


def make_alignment(folder: Path) -> None:
    from sidkit.search.align.alignment import Alignment, AlignPlan, KeywordVectors, Projection

    plan = AlignPlan(dimensions=4, hidden=5, towers="separate")
    rng = np.random.default_rng(3)

    def tower() -> Projection:
        shapes = {"linear": (8, 4), "hidden": (8, 5), "bias": (5,), "out": (5, 4)}
        return Projection({name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})

    words = rng.normal(size=(2, 4)).astype(np.float32)
    keywords = KeywordVectors(("red", "shoe"), words, words[::-1].copy(), 0.5)
    Alignment(tower(), tower(), plan, keywords, {"items": 3}).save(folder / "aligned")


def use_alignment(folder: Path) -> Any:
    from sidkit.search.align.alignment import Alignment

    read = Alignment.load(folder / "aligned")
    texts = ["red shoe"] * len(ROWS)
    return digest_of(read.queries(ROWS, texts), read.items(ROWS, texts)), read.facts


def _sequences() -> Any:
    from sidkit.data.sequences import Sequences

    rng = np.random.default_rng(5)
    return Sequences.of([rng.integers(0, len(ROWS), 6) for _ in range(12)])


def _small_plan() -> Any:
    from sidkit.retriever.model import Shape
    from sidkit.retriever.plan import Plan

    return Plan(shape=Shape(layers=1, d_model=8, d_ff=8, heads=1, d_kv=8), epochs=2, batch=8, beams=3, history=3)


class _Stop(Exception):
    """Ends a training in the middle of it."""


def make_training(folder: Path) -> None:
    """A training that was stopped after its first epoch."""
    from sidkit.files.checkpoint import Checkpoint
    from sidkit.progress import Silent
    from sidkit.retriever.trainer import train

    class Stops(Silent):
        def note(self, text: str) -> None:
            self.seen = getattr(self, "seen", 0) + 1
            if self.seen == 2:
                raise _Stop

    usual = Checkpoint.due
    Checkpoint.due = lambda self: True  # type: ignore[method-assign]
    try:
        train(table_of(), _sequences(), folder / "run", _small_plan(), "cpu", Stops())
    except _Stop:
        pass
    finally:
        Checkpoint.due = usual  # type: ignore[method-assign]


def use_training(folder: Path) -> Any:
    from sidkit.retriever.trainer import train

    made = train(table_of(), _sequences(), folder / "run", _small_plan(), "cpu", resume=True)
    return digest_of(*(made.weights[name].numpy() for name in sorted(made.weights)))


def make_seeds(folder: Path) -> None:
    from sidkit.retriever.trainer import train_seeds

    train_seeds(table_of(), _sequences(), folder / "runs", (0, 1), _small_plan(), "cpu", at_once=1)


def use_seeds(folder: Path) -> Any:
    from sidkit.retriever.seeds import seeds_in

    return seeds_in(folder / "runs")


def make_unfinished(folder: Path) -> None:
    """An `embed` that was stopped before its vectors were written."""
    import sidkit.embed.job as job

    usual = job.begin

    def stop(unfinished: Path) -> None:
        raise _Stop

    job.begin = stop
    try:
        use_unfinished(folder)
    except _Stop:
        pass
    finally:
        job.begin = usual


def use_unfinished(folder: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sidkit.embed.job import Choice, embed_file
    from sidkit.progress import Silent

    words = ["red", "blue", "shoe", "hat", "mug", "lamp"]
    texts = pa.array([f"{a} {b}" for a in words for b in words])
    output, ids = folder / "items.parquet", pa.array([str(i) for i in range(len(texts))])
    embed_file(ids, texts, output, Choice("tfidf", 4), folder / "items.parquet.unfinished", Silent())
    vectors = pq.read_table(output).column("embedding").combine_chunks().flatten()
    return digest_of(vectors.to_numpy())


def make_shop(folder: Path) -> None:
    from sidkit.search.simulate.make import ShopPlan, simulate_shop

    simulate_shop(folder / "shop", ShopPlan.of(200, 40, 8, pairs=10))


def use_shop(folder: Path) -> Any:
    from sidkit.search.shop import Shop

    shop = Shop.open(folder / "shop")
    return {name: shop.table(name).to_pylist() for name in shop.facts["tables"]}


def make_bart(folder: Path) -> None:
    from sidkit.search.bart.shape import BartShape, build_bart

    shape = BartShape(layers=1, d_model=8, d_ff=8, heads=1, positions=16)
    build_bart(shape, 64, {"pad": 1, "bos": 0, "eos": 2}).config.save_pretrained(folder)


def use_bart(folder: Path) -> Any:
    from sidkit.search.bart.shape import shape_in

    return shape_in(folder / "config.json")


MODELS = {
    "retriever": Artefact(make_retriever, use_retriever),
    "search": Artefact(make_search, use_search),
    "alignment": Artefact(make_alignment, use_alignment),
    "training": Artefact(make_training, use_training),
    "seeds": Artefact(make_seeds, use_seeds),
    "unfinished": Artefact(make_unfinished, use_unfinished),
    "shop": Artefact(make_shop, use_shop),
    "bart": Artefact(make_bart, use_bart, checked=False),  # transformers writes it
}
