"""Alignment: known structure is found, what is written is read again, and mistakes are named."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.rows.sources import ArraySource
from sidkit.search.align.alignment import Alignment, AlignPlan, Projection
from sidkit.search.align.job import Keywords, align, write_aligned
from sidkit.search.evaluate.baselines import nearest_lists
from sidkit.search.evaluate.metrics import ranks_of, totals
from toyshop import D, embeddings, shop_tables, write_shop, write_vectors

torch = pytest.importorskip("torch")
PLAN = AlignPlan(dimensions=24, batch=64, negatives=64, epochs=3, held_out=0.1, learning_rate=0.01)


class WithIds(ArraySource):
    """A matrix with ids, as a file of embeddings."""

    def __init__(self, array, ids):
        super().__init__(array)
        object.__setattr__(self, "ids", pa.array(ids))


@pytest.fixture(scope="module")
def shop():
    items, queries, log = shop_tables()
    x, y = embeddings()
    return {
        "log": log,
        "items": items,
        "queries": queries,
        "item_source": WithIds(x, items["item_id"].to_pylist()),
        "query_source": WithIds(y, queries["query_id"].to_pylist()),
    }


@pytest.fixture(scope="module")
def made(shop):
    return align(**shop, plan=PLAN, device="cpu")


def hit_rate(shop, queries, items):
    """Of the clicks of the test part of the log."""
    test = shop["log"].filter(pa.compute.equal(shop["log"]["split"], "test"))
    row = {text: i for i, text in enumerate(shop["queries"]["query"].to_pylist())}
    item = {name: i for i, name in enumerate(shop["items"]["item_id"].to_pylist())}
    pairs = [(row[q], item[i]) for q, found in zip(test["query"].to_pylist(), test["clicked"].to_pylist(), strict=True)
             for i in found]  # fmt: skip
    asked, wanted = np.array(pairs).T
    return totals(ranks_of(nearest_lists(queries, items, asked), wanted)).hit_rate


def test_alignment_finds_what_is_clicked_for_queries_it_has_not_seen(shop, made):
    recall = made.facts["recall"]
    assert recall["before"] < 0.4
    assert recall["after"] > 0.95
    before = hit_rate(shop, shop["query_source"].array, shop["item_source"].array)
    after = hit_rate(shop, made.queries, made.items)
    assert before < 0.4
    assert after > 0.95
    assert made.items.shape == (480, 24)
    assert np.linalg.norm(made.queries, axis=1) == pytest.approx(np.ones(240), abs=1e-5)


def test_the_same_seed_gives_the_same_alignment_and_another_seed_another(shop, made):
    again = align(**shop, plan=PLAN, device="cpu")
    assert np.array_equal(again.items, made.items)
    assert again.facts == made.facts
    assert not np.array_equal(align(**shop, plan=replace(PLAN, seed=1), device="cpu").items, made.items)


@pytest.mark.parametrize("options", [{"towers": "separate"}, {"hidden": 16}, {"start": "random"}, {"l1": 0, "l2": 0}])
def test_every_form_learns_and_is_saved_and_loaded(shop, options, tmp_path):
    plan = replace(PLAN, epochs=6, **options)
    made = align(**shop, plan=plan, device="cpu")
    assert made.facts["recall"]["after"] > 0.95
    made.alignment.save(tmp_path / "a")
    loaded = Alignment.load(tmp_path / "a")
    assert loaded.plan == plan
    assert loaded.facts == made.facts
    x = embeddings()
    assert np.array_equal(loaded.items(x[0]), made.items)
    assert np.array_equal(loaded.queries(x[1]), made.queries)
    assert (loaded.query is loaded.item) == (plan.towers == "shared")


def test_held_out_queries_are_not_trained_on(shop, monkeypatch):
    from sidkit.search.align import training as align_training

    seen = {}

    def spy(queries, items, pairs, held_out, *others):
        seen.update(pairs=pairs, held=held_out)
        raise KeyboardInterrupt

    monkeypatch.setattr(align_training, "train", spy)
    with pytest.raises(KeyboardInterrupt):
        align(**shop, plan=PLAN)
    held = set(seen["held"].left.tolist())
    assert len(held) == 24  # a tenth of 240 queries
    assert not held & set(seen["pairs"].query_item.left.tolist())
    assert not held & set(seen["pairs"].query_query.left.tolist()) | held & set(
        seen["pairs"].query_query.right.tolist()
    )


def test_training_stops_when_recall_does_not_rise_and_keeps_the_best_epoch(shop):
    made = align(**shop, plan=replace(PLAN, epochs=30, patience=2), device="cpu")
    history, best = made.facts["history"], made.facts["best_epoch"]
    assert history[best] == max(history)
    assert best == history.index(max(history))
    assert len(history) - 1 in (30, best + 2)
    assert made.facts["recall"]["after"] == pytest.approx(history[best], abs=0.01)


def test_the_first_weights_keep_cosines_where_no_dimension_is_lost(shop):
    plan = replace(PLAN, dimensions=D, epochs=1, learning_rate=1e-12)
    made = align(**shop, plan=plan, device="cpu")
    x = shop["item_source"].array
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert made.items @ made.items.T == pytest.approx(unit @ unit.T, abs=1e-5)
    assert made.facts["recall"]["before"] == made.facts["recall"]["after"]


def test_contrast_is_info_nce_without_false_negatives():
    from sidkit.search.align.pairs import Pairs
    from sidkit.search.align.training import contrast

    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    batch = Pairs(np.array([0, 0, 5]), np.array([7, 8, 9]), np.array([1.0, 2.0, 3.0]))
    s = left @ right.T / 0.1
    allowed = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], bool)  # pairs 0 and 1 have the same query
    term = lambda s, i, mask: np.log(np.exp(s[i])[mask[i]].sum()) - s[i, i]  # noqa: E731
    each = [(term(s, i, allowed) + term(s.T, i, allowed.T)) / 2 for i in range(3)]
    weight = np.log1p(batch.weight)
    loss = contrast(torch.tensor(left), torch.tensor(right), batch, 0.1)
    assert float(loss) == pytest.approx((weight @ each) / weight.sum())
    others = rng.normal(size=(2, 4))
    wide = lambda i: np.log(np.exp(s[i])[allowed[i]].sum() + np.exp(left[i] @ others.T / 0.1).sum()) - s[i, i]  # noqa: E731
    each = [(wide(i) + term(s.T, i, allowed.T)) / 2 for i in range(3)]
    loss = contrast(torch.tensor(left), torch.tensor(right), batch, 0.1, torch.tensor(others))
    assert float(loss) == pytest.approx((weight @ each) / weight.sum())


def test_recall_counts_pairs_with_fewer_than_fifty_nearer_items(rng):
    from sidkit.search.align.pairs import Pairs
    from sidkit.search.align.training import hits_at

    queries, items = rng.normal(size=(40, 6)).astype(np.float32), rng.normal(size=(500, 6)).astype(np.float32)
    left, right = rng.integers(0, 40, 300), rng.integers(0, 500, 300)
    unit = items / np.linalg.norm(items, axis=1, keepdims=True)
    hits = totals(ranks_of(nearest_lists(queries, unit, left), right)).hits
    assert 0 < hits < 300
    assert hits_at(torch.tensor(queries), torch.tensor(unit), Pairs(left, right, np.ones(300))) == hits


def test_rows_of_zeros_stay_zero_and_are_not_trained_on(shop):
    x = shop["item_source"].array.copy()
    x[:5] = 0.0
    made = align(**shop | {"item_source": WithIds(x, shop["items"]["item_id"].to_pylist())}, plan=PLAN, device="cpu")
    assert not made.items[:5].any()
    assert made.items[5:].any(axis=1).all()


def test_keywords_are_mixed_into_aligned_vectors(shop, made, tmp_path):
    pytest.importorskip("ahocorasick")
    words = ("hammer drill", "garden", "unheard of")
    vectors = np.random.default_rng(3).normal(size=(3, D)).astype(np.float32)
    fused = align(**shop, plan=PLAN, keywords=Keywords(words, vectors, 0.5), device="cpu")
    aligned = made.alignment.item(vectors)
    expected = 0.5 * made.items[0] + 0.5 * aligned[0]  # item 0 is a hammer drill
    assert fused.items[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert np.array_equal(fused.items[200], made.items[200])  # a floor tile has none of the keywords
    assert fused.facts["keywords"] == 3
    fused.alignment.save(tmp_path / "a")
    loaded = Alignment.load(tmp_path / "a")
    texts = shop["queries"]["query"].to_pylist()
    assert np.array_equal(loaded.queries(shop["query_source"].array, texts), fused.queries)
    with pytest.raises(InputError, match="uses keywords: give a text for each of 240 queries, not none"):
        loaded.queries(shop["query_source"].array)
    with pytest.raises(InputError, match=r"1 keywords have vectors of shape \(1, 3\); embed them .* in 32 dimensions"):
        align(**shop, plan=PLAN, keywords=Keywords(("red",), np.ones((1, 3))))


def test_the_folder_is_read_by_fit_and_its_projection_embeds_new_queries(made, tmp_path):
    write_aligned(made, tmp_path / "aligned")
    items, queries = (open_embeddings(tmp_path / "aligned" / f"{name}.parquet") for name in ("items", "queries"))
    assert items.ids.to_pylist()[:2] == ["P0000", "P0001"]
    assert queries.ids.to_pylist()[:3] == [0, 1, 2]
    assert np.array_equal(next(items.chunks(1000)), made.items)
    assert np.array_equal(next(queries.chunks(1000)), made.queries)
    records = pq.read_table(tmp_path / "aligned" / "queries.parquet")["train_records"].to_numpy()
    assert records.sum() == 1200
    loaded = Alignment.load(tmp_path / "aligned")
    assert np.array_equal(loaded.queries(embeddings()[1][:3]), made.queries[:3])


def test_the_command_reports_recall_before_and_after(tmp_path):
    write_shop(tmp_path)
    files = ("--items-embeddings", "items-emb.parquet", "--queries-embeddings", "queries-emb.parquet")
    options = ("--dimensions", 24, "--batch", 64, "--epochs", 3, "--learning-rate", 0.01, "--device", "cpu")
    told = sidkit("search", "align", "shop", *files, "-o", "aligned", *options, cwd=tmp_path)
    assert "held-out pairs" in told
    assert "next: sidkit fit aligned/items.parquet" in told
    facts = json.loads(sidkit("search", "align", "shop", *files, "-o", "other", *options, "--json", cwd=tmp_path))
    assert facts["recall"]["after"] > facts["recall"]["before"]
    assert f"{facts['recall']['before']:.4f} before, {facts['recall']['after']:.4f} after" in told
    assert facts["pairs"]["query_item"] > 500


def test_the_command_mixes_keywords_in(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from sidkit.cli import app

    pytest.importorskip("ahocorasick")
    write_shop(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["hammer drill", "garden hose", "red"]
    write_vectors("keywords-emb.parquet", "item_id", words, np.random.default_rng(0).normal(size=(3, D)).astype("f4"))
    files = ("--items-embeddings", "items-emb.parquet", "--queries-embeddings", "queries-emb.parquet")
    options = ("--dimensions", "24", "--batch", "64", "--epochs", "1", "--keywords", "keywords-emb.parquet", "--json")
    done = CliRunner().invoke(app, ["search", "align", "shop", *files, "-o", "aligned", *options])
    assert json.loads(done.stdout)["keywords"] == 3, done.output
    loaded = Alignment.load("aligned")
    assert loaded.keywords.keywords == tuple(words)
    x = embeddings()[1][:2]
    assert not np.allclose(loaded.queries(x, ["red thing", "thing"])[0], loaded.query(x)[0])
    assert np.array_equal(loaded.queries(x, ["red thing", "thing"])[1], loaded.query(x)[1])
    write_vectors("keywords-emb.parquet", "item_id", [1, 2], np.ones((2, D), "f4"))
    done = CliRunner().invoke(app, ["search", "align", "shop", *files, "-o", "aligned", *options])
    assert "must be the keywords; embed them with --id-column keyword" in done.exception.typed


def test_a_loss_that_is_no_number_ends_the_training(shop):
    with pytest.raises(SpecError, match="the loss became nan in epoch"):
        align(**shop, plan=replace(PLAN, learning_rate=1e30), device="cpu")


def test_wrong_plans_and_inputs_are_named(shop, tmp_path):
    for options, message in (
        ({"batch": 1}, "batch must be at least 2"),
        ({"temperature": 0}, "temperature must be positive"),
        ({"towers": "three"}, "towers must be shared or separate, not 'three'"),
        ({"held_out": 1.0}, "held_out must lie between 0 and 1"),
        ({"l2": -1}, "l2 must be at least 0"),
        ({"start": "zero"}, "start must be pca or random"),
        ({"epochs": 0}, "epochs must be at least 1"),
    ):
        with pytest.raises(SpecError, match=message):
            AlignPlan(**options)
    with pytest.raises(SpecError, match="pca can keep 32 dimensions at most, not 64"):
        align(**shop, plan=AlignPlan(dimensions=64), device="cpu")
    with pytest.raises(SpecError, match="device must be auto, cpu, cuda or cuda:N, not 'tpu'"):
        align(**shop, plan=PLAN, device="tpu")
    other = WithIds(shop["query_source"].array, [f"q{i}" for i in range(240)])
    with pytest.raises(InputError, match="none of the embedded queries is among the shop's: the first is 'q0'"):
        align(**shop | {"query_source": other}, plan=PLAN)
    other = WithIds(shop["item_source"].array, [f"q{i}" for i in range(480)])
    with pytest.raises(InputError, match="0 of the embedded queries have clicks on embedded items"):
        align(**shop | {"item_source": other}, plan=PLAN)
    with pytest.raises(InputError, match="have 5 dimensions, the items' 32"):
        align(**shop | {"query_source": WithIds(np.ones((240, 5)), list(range(240)))}, plan=PLAN)
    bad = shop["item_source"].array.copy()
    bad[7, 0] = np.nan
    with pytest.raises(InputError, match="row 7 holds NaN or infinity"):
        align(**shop | {"item_source": WithIds(bad, shop["items"]["item_id"].to_pylist())}, plan=PLAN)
    with pytest.raises(InputError, match="projects 2-dimensional rows; these have shape"):
        Projection({"linear": np.ones((2, 3), np.float32)})(np.ones((1, 4)))
    with pytest.raises(StoreError, match="no such alignment folder"):
        Alignment.load(tmp_path / "nowhere")


def test_a_damaged_alignment_is_not_loaded(made, tmp_path):
    made.alignment.save(tmp_path / "a")
    file = tmp_path / "a" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(StoreError, match="damaged"):
        Alignment.load(tmp_path / "a")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_learns_as_much(shop, made):
    found = align(**shop, plan=PLAN, device="cuda")
    assert found.facts["recall"]["after"] == pytest.approx(made.facts["recall"]["after"], abs=0.05)
