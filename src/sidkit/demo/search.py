"""`sidkit search demo`: simulate a shop, give queries and items semantic IDs, train a tiny model, judge it, ask it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..embed.job import Choice
from ..progress import Progress
from ..search.align.alignment import AlignPlan
from ..search.bart.shape import BartShape
from ..search.evaluate.evaluation import AlignedVectors, Evaluation, evaluate
from ..search.model.model import Answer, Request, SearchModel
from ..search.model.trainer import train_search
from ..search.prepare import prepare
from ..search.shop import Shop
from ..search.simulate import ShopPlan, simulate_shop
from ..search.training.corpus import SearchData
from ..search.training.plan import SearchPlan
from ..tokenizer.recipes import recipe

__all__ = ["SearchDemo", "run_search_demo"]

SIZES = (48, 24, 8)
SHAPE = BartShape(layers=1, d_model=128, d_ff=256, heads=4, positions=128)
PLAN = SearchPlan(
    SHAPE, epochs=(1, 1, 5), batch=64, learning_rate=2e-3, decay="linear", warmup=20, words=3000, longest=64,
    history=3, recent_queries=1, beams=64,
)  # fmt: skip
ALIGNMENT = AlignPlan(epochs=6, patience=2)


class SearchDemo(NamedTuple):
    """The results of the demo. question: a query of the test part, with the answers of the model."""

    output: Path
    model: SearchModel
    evaluation: Evaluation
    question: str
    answers: list[Answer]
    seconds: dict[str, float]  # by step


def run_search_demo(output: Path, items: int, rows: int, seed: int, progress: Progress) -> SearchDemo:
    """Make everything and write it to a folder: shop/, the files of `prepare`, and run/."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[step] = time.perf_counter() - began

    with timed("simulate"):
        simulate_shop(output / "shop", ShopPlan.of(items, rows, None, seed=seed), progress)
        shop = Shop.open(output / "shop")
    with timed("semantic IDs"):
        encoder = Choice("wordllama" if find_spec("wordllama") else "tfidf")
        tokenizer = recipe("prq-kmeans", sizes=SIZES, iterations=20)
        made = prepare(shop, output, encoder, replace(ALIGNMENT, seed=seed), tokenizer, seed, progress)
    with timed("train"):
        data = SearchData.of(shop, made.item_sids, made.query_sids)
        plan = replace(PLAN, seed=seed)
        model = train_search(data, output / "run", plan, made.tokenizer, made.query_encoder, progress=progress)
    with timed("evaluate"):
        from ..data.embeddings import open_embeddings

        near = (open_embeddings(str(output / "aligned" / f"{name}.parquet")) for name in ("items", "queries"))
        evaluation = evaluate(model, data, AlignedVectors(*near), progress=progress)
    question = _question(evaluation, data)
    return SearchDemo(output, model, evaluation, question, model.ask([Request(question)])[0], seconds)


def _question(evaluation: Evaluation, data: SearchData) -> str:
    """The broad query of most test pairs, else the most frequent one: what a person can judge by eye."""
    test = evaluation.tests["click"]
    broad = np.array([intent == "broad" for intent in test.intent])
    rows = test.query[broad] if broad.any() else test.query
    return data.corpus.queries[int(np.bincount(rows).argmax())]
