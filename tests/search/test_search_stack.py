"""Search models that are trained at once (experiments/search_stack.py) are those that are trained one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sidkit

torch = pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("transformers", reason="the search model needs transformers")
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="a source package has no experiments")


@pytest.fixture
def experiment(monkeypatch):
    """The module, imported as its own folder's scripts import each other."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import search_stack

    yield search_stack
    for name in set(sys.modules) - before:
        if str(EXPERIMENTS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A simulated shop with two sets of random SIDs."""
    from sidkit.search.shop import Shop
    from sidkit.search.simulate import ShopPlan, simulate_shop
    from sidkit.search.training.corpus import SearchData

    folder = tmp_path_factory.mktemp("stack") / "shop"
    simulate_shop(folder, ShopPlan.of(200, 60))
    shop, sizes, found = Shop.open(folder), (8, 4), []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        tables = [
            sidkit.SidTable(ids, np.stack([rng.integers(0, size, len(ids)) for size in sizes], 1), sizes)
            for ids in (shop.items.column("item_id"), shop.queries.column("query_id"))
        ]
        found.append(SearchData.of(shop, *tables))
    return found


def test_models_trained_at_once_are_those_trained_one_by_one(experiment, data):
    from sidkit.search.bart.shape import BartShape
    from sidkit.search.model.start import first_weights
    from sidkit.search.templates import read_templates
    from sidkit.search.training.loop import Trainer
    from sidkit.search.training.plan import SearchPlan
    from sidkit.search.training.stages import training_stages
    from sidkit.search.training.tokens import Tokens, train_bpe

    shape = BartShape(layers=1, d_model=16, d_ff=32, heads=2, positions=128, dropout=0.0)
    plan = SearchPlan(shape, (0, 1, 2), 32, 1e-2, warmup=3, decay="linear", words=300, longest=48)
    plans = [plan, replace(plan, seed=1)]
    tokens = Tokens(train_bpe(data[0].corpus.titles, plan.words), data[0].table.sizes)
    first = [first_weights(one, tokens, None, None) for one in plans]
    stages = [training_stages(one.corpus, read_templates("en"), tokens, plan) for one in data]
    stack = experiment.Stack(first, stages, tokens, plan, [0, 1], "cpu")
    stack.train()
    for run, (weights, examples, one) in enumerate(zip(first, stages, plans, strict=True)):
        alone = Trainer(weights, examples, tokens, one, "cpu", torch.float32)
        losses = [entry["loss"] for entry in alone.run().losses]
        assert [entry["loss"] for entry in stack.losses[run]] == pytest.approx(losses, rel=1e-4)
        for name, value in stack.weights_of(run).items():
            torch.testing.assert_close(value, alone.weights[name].detach(), rtol=1e-3, atol=1e-4)
            if name == "shared":
                assert (value - weights[name]).abs().max() > 1e-2  # they learned something


def test_held_out_queries_are_not_learned_from(experiment, data):
    kept, events = experiment.held_out(data[0], 0.5)
    before, after = data[0].corpus, kept.corpus
    assert len(events) + len(after.events) == len(before.events)
    assert len(events)
    asked = set(events.query.tolist())
    assert not asked & set(after.events.query.tolist())
    assert not asked & set(after.pairs[0].tolist())
    assert not asked & set(after.training_queries.tolist())


def test_kept_sids_are_read_back(experiment, data, tmp_path):
    import search_codes

    rng = np.random.default_rng(0)
    fitted = sidkit.rq_kmeans(sizes=(8, 4)).fit(rng.normal(size=(64, 6)).astype(np.float32))
    tables = (
        data[0].table,
        sidkit.SidTable(data[0].shop.queries.column("query_id"), data[0].corpus.query_codes, (8, 4)),
    )
    made = search_codes.Made(*tables, fitted, 1.5)
    key = ("toy", "any", "rq-kmeans", 0)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "shop").symlink_to(data[0].shop.folder)
    search_codes.keep(made, data[0].shop, search_codes.kept_path(tmp_path, key))
    read = search_codes.kept_or_made(tmp_path, key, "small", "cpu")
    assert read.items.codes.tolist() == data[0].table.codes.tolist()
    assert read.items.ids.to_pylist() == data[0].table.ids.to_pylist()
    assert read.queries.codes.tolist() == data[0].corpus.query_codes.tolist()
    books = [stage.codebooks[0] for stage in read.tokenizer.stages]
    for book, own in zip(books, fitted.codebooks, strict=True):
        np.testing.assert_allclose(book, own, rtol=1e-2, atol=1e-3)
