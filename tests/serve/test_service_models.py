"""The service with models: answers are those of the recommender and of the search model, hostile bodies are refused."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

import sidkit
from served import fuzzed, served, tokenizer
from sidkit.serve.options import ServeOptions

for module in ("uvicorn", "starlette", "orjson", "prometheus_client", "torch", "transformers", "tokenizers"):
    pytest.importorskip(module)

K = 4


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A service with a recommender that was not trained and a search model of one step; both models."""
    folder = tmp_path_factory.mktemp("models")
    _, table = tokenizer(folder)
    recommender, search = written_recommender(folder / "run", table), trained_search(folder / "search")
    options = ServeOptions(str(folder / "tok"), retriever=str(folder / "run"), search=str(folder / "search"))
    with served(options) as (client, _):
        yield client, recommender, search


def written_recommender(folder, table):
    from sidkit.retriever import Plan, Retriever, Shape
    from sidkit.retriever.model import new_weights
    from sidkit.retriever.store import save

    plan = Plan(Shape(1, 16, 16, 2, 8), history=3, beams=6)
    save(Retriever(table, plan, new_weights(plan.shape, 1 + 28, 0), {"plan": asdict(plan)}), folder)
    return Retriever.load(folder)


def trained_search(folder):
    from sidkit.search.bart.shape import BartShape
    from sidkit.search.model.model import SearchModel
    from sidkit.search.model.trainer import train_search
    from sidkit.search.shop import Shop
    from sidkit.search.simulate import ShopPlan, simulate_shop
    from sidkit.search.training.corpus import SearchData
    from sidkit.search.training.plan import SearchPlan

    simulate_shop(folder.parent / "shop", ShopPlan.of(200, 250, None, seed=1))
    shop, rng = Shop.open(folder.parent / "shop"), np.random.default_rng(0)
    items, queries = (rng.normal(size=(shop.rows(name), 8)).astype(np.float32) for name in ("items", "queries"))
    fitted = sidkit.prq_kmeans((4, 4, 2), iterations=2).fit(items, seed=0)
    tables = [
        sidkit.SidTable(shop.table(name)[key], fitted.encode(x), fitted.sizes)
        for name, key, x in (("items", "item_id", items), ("queries", "query_id", queries))
    ]
    shape = BartShape(layers=1, d_model=16, d_ff=32, heads=2, positions=192, dropout=0.0)
    plan = SearchPlan(shape, epochs=(1, 1, 1), batch=64, learning_rate=1e-3, words=300, longest=192, beams=8)
    train_search(SearchData.of(shop, *tables), folder, plan, fitted, device="cpu")
    return SearchModel.load(folder, "cpu")


def test_recommendations_are_those_of_the_retriever(models):
    client, model, _ = models
    status, answer = client.post("/recommend", histories=[["p1", "new", "p2"], ["p3"]], k=K)
    assert (status, answer["unknown_items"]) == (200, 1)
    expected = model.recommend_many([["p1", "p2"], ["p3"]], K, per_sid=1)
    items = [[one["item"] for one in each] for each in answer["recommendations"]]
    assert items == [[one.item for one in each] for each in expected]


def test_answers_to_queries_are_those_of_the_search_model(models):
    from sidkit.search.model.model import Request

    client, _, model = models
    queries = ["red lamp", "a garden hose"]
    status, answer = client.post("/search", queries=queries, k=K)
    assert status == 200
    expected = model.ask([Request(query) for query in queries])
    assert [len(each) for each in answer["answers"]] == [K, K]
    for ours, theirs in zip(answer["answers"], expected, strict=True):
        assert [(one["item"], one["sid"]) for one in ours] == [(one.item, one.sid) for one in theirs[:K]]
        assert np.allclose([one["probability"] for one in ours], [one.probability for one in theirs[:K]])


@pytest.mark.parametrize(
    "path, fields",
    [
        ("/recommend", {"histories": [["new"]]}),
        ("/recommend", {"histories": [["p1"]], "k": 0}),
        ("/recommend", {"histories": [["p1"]], "per_sid": 1001}),
        ("/recommend", {"histories": [[None]]}),
        ("/recommend", {"histories": ["p1"]}),
        ("/recommend", {"histories": [[]]}),
        ("/recommend", {"histories": []}),
        ("/recommend", {"histories": [["p1"]], "exclude_history": 1}),
        ("/search", {"queries": []}),
        ("/search", {"queries": [" "]}),
        ("/search", {"queries": [3]}),
        ("/search", {"queries": ["x" * 1001]}),
        ("/search", {"queries": ["lamp"], "k": 1001}),
        ("/search", {"queries": ["lamp"], "query": "lamp"}),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(models, path, fields):
    status, answer = models[0].post(path, **fields)
    assert (status, set(answer)) == (422, {"error"})


STRANGE = {
    "a null": "\u0000",
    "half a pair": "\ud800",
    "faces": "\U0001f600" * 1000,
    "long words": "ﷺ" * 1000,
    "backwards": "\u202e<a_1>",
    "marks of the model": "</s><pad>",
}


@pytest.mark.parametrize("query", STRANGE.values(), ids=STRANGE)
def test_strange_queries_are_answered_or_refused(models, query):
    status, content, _ = models[0].call("POST", "/search", json.dumps({"queries": [query]}).encode())
    assert status in (200, 400, 422), content


def test_fuzzing_by_the_schema_finds_no_failure(models):
    assert fuzzed(models[0], 10) > 60
