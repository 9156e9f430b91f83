"""A trained search model: its folder, its answers against transformers, and training that resumes."""

import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from dataclasses import replace  # noqa: E402

import sidkit  # noqa: E402
from command import sidkit as command  # noqa: E402
from sidkit.errors import InputError, SpecError, StoreError  # noqa: E402
from sidkit.search.bart.shape import PRESETS, BartShape, shape_in  # noqa: E402
from sidkit.search.evaluate.evaluation import AlignedVectors, data_of, evaluate  # noqa: E402
from sidkit.search.evaluate.metrics import ranks_of  # noqa: E402
from sidkit.search.model.model import Request, SearchModel  # noqa: E402
from sidkit.search.model.query_clicks import QueryClicks  # noqa: E402
from sidkit.search.model.query_sids import QueryEncoder  # noqa: E402
from sidkit.search.model.start import centroid_rows, first_weights  # noqa: E402
from sidkit.search.model.trainer import _require_same_codes, train_search  # noqa: E402
from sidkit.search.shop import Shop  # noqa: E402
from sidkit.search.simulate import ShopPlan, simulate_shop  # noqa: E402
from sidkit.search.training.corpus import SearchData, _events  # noqa: E402
from sidkit.search.training.plan import SCHEDULES, SearchPlan, plan_for  # noqa: E402
from sidkit.search.training.tokens import Tokens, train_bpe  # noqa: E402
from sidkit.tokenizer.recipes import recipe  # noqa: E402
from toyshop import write_vectors  # noqa: E402

SHAPE = BartShape(layers=1, d_model=32, d_ff=64, heads=2, positions=192, dropout=0.1)
PLAN = SearchPlan(SHAPE, epochs=(1, 1, 1), batch=64, learning_rate=1e-3, words=400, longest=192, beams=8)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "shop"
    simulate_shop(folder, ShopPlan.of(200, 250, None, seed=1))
    return Shop.open(folder)


@pytest.fixture(scope="module")
def parts(shop):
    """A tokenizer, and the shop with the SIDs it gives to random vectors."""
    rng = np.random.default_rng(0)
    items, queries = (rng.normal(size=(shop.rows(name), 8)).astype(np.float32) for name in ("items", "queries"))
    fitted = recipe("prq-kmeans", sizes=(4, 4, 2), iterations=4).fit(items)
    tables = [
        sidkit.SidTable(shop.table(name)[key], fitted.encode(x), fitted.sizes)
        for name, key, x in (("items", "item_id", items), ("queries", "query_id", queries))
    ]
    return fitted, SearchData.of(shop, *tables)


@pytest.fixture(scope="module")
def run(parts, tmp_path_factory):
    fitted, data = parts
    folder = tmp_path_factory.mktemp("run") / "run"
    train_search(data, folder, PLAN, fitted, device="cpu")
    return folder


def test_generated_sids_are_the_best_of_all_by_transformers_own_scores(run, parts):
    """Every SID of the trie, scored by transformers' model from the same folder."""
    from transformers import BartForConditionalGeneration

    _, data = parts
    model, theirs = SearchModel.load(run, "cpu"), BartForConditionalGeneration.from_pretrained(run).eval()
    test = data.test("click")
    leaves, scores = model.generate(data.corpus, test.events, beams=40)
    trie, tokens = model.trie, model.tokens
    codes = np.stack([data.table.codes[trie.items(leaf)[0]] for leaf in range(len(trie))])
    labels = torch.as_tensor(tokens.sids(codes).astype(np.int64))
    for event in range(0, len(leaves), 7):
        inputs = torch.as_tensor([_input(model, data, test.events, event)])
        with torch.no_grad():
            start = torch.full((len(labels), 1), tokens.eos)
            logits = theirs(
                inputs.expand(len(labels), -1), decoder_input_ids=torch.cat([start, labels[:, :-1]], 1)
            ).logits
        each = logits.log_softmax(-1).gather(2, labels[..., None])[..., 0].sum(1).numpy()
        found = leaves[event] >= 0
        assert found.sum() == min(40, len(trie))
        np.testing.assert_allclose(scores[event][found], np.sort(each)[::-1][: found.sum()], atol=1e-4)
        np.testing.assert_allclose(each[leaves[event][found]], scores[event][found], atol=1e-4)


def _input(model, data, events, event):
    """The tokens of an event's input, put together from the words of the template."""
    corpus, tokens, plan = data.corpus, model.tokens, model.plan
    from sidkit.search.training.context import RecentQueries, ShortHistory, UserSids

    row = np.array([event])
    offsets = tokens.sids(np.zeros((1, 3), np.int32))[0]
    fields = {
        "query": tokens.texts([corpus.queries[events.query[event]]], 96).tokens,
        "query_sid": tokens.sids(corpus.query_codes[[events.query[event]]])[0],
        "user_sid": UserSids(events.clicks, corpus.item_codes, offsets, 5, 50, events.others).take(row).tokens,
        "profile": tokens.texts([corpus.profiles[events.user[event]]], 96).tokens,
        "history": ShortHistory(events.clicks, tokens.sids(corpus.item_codes)).take(row).tokens,
        "recent_queries": RecentQueries(events.queries, tokens.texts(corpus.queries, 96), tokens.eos).take(row).tokens,
    }
    (task,) = model.parts.templates["personal"]
    words = [tokens.bos]
    for kind, value in task.input:
        words += (tokens.texts([value], 192).tokens if kind == "text" else fields[value]).tolist()
    return [*words[: plan.longest - 1], tokens.eos]


def test_a_loaded_model_is_the_one_that_was_trained(run, parts):
    fitted, data = parts
    again = train_search(data, run.parent / "again", PLAN, fitted, device="cpu")
    model = SearchModel.load(run, "cpu")
    for name, value in again.weights.items():
        assert torch.equal(model.weights[name], value), name
    assert model.facts["examples"]["personal"] == len(data.corpus.events)
    assert [one["stage"] for one in model.facts["losses"]] == ["content", "pairs", "personal"]
    assert {path.name for path in run.iterdir()} >= {"log.jsonl", "tensorboard", "search.json", "sidkit.json"}


@pytest.mark.parametrize("stop", [2, 9, 15, 21])
def test_a_training_that_is_stopped_resumes_to_the_same_bits(run, parts, tmp_path, monkeypatch, stop):
    from sidkit.files.checkpoint import Checkpoint
    from sidkit.search.training.loop import Trainer

    fitted, data = parts
    real, steps = Trainer._step, []

    def step(self, *arguments):
        steps.append(1)
        if len(steps) > stop:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "due", lambda self: len(steps) % 2 == 0)
        patch.setattr(Trainer, "_step", step)
        with pytest.raises(KeyboardInterrupt):
            train_search(data, tmp_path / "run", PLAN, fitted, device="cpu")
    assert (tmp_path / "run.unfinished").is_dir()
    model = train_search(data, tmp_path / "run", PLAN, fitted, device="cpu", resume=True)
    expected = SearchModel.load(run, "cpu")
    for name, value in model.weights.items():
        assert torch.equal(expected.weights[name], value), name
    assert not (tmp_path / "run.unfinished").exists()


def test_a_training_of_something_else_does_not_resume(parts, tmp_path, monkeypatch):
    from sidkit.search.training.loop import Trainer

    fitted, data = parts

    def stopped(self, progress=None):
        self._save()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "run", stopped)
        train_search(data, tmp_path / "run", PLAN, fitted, device="cpu")
    with pytest.raises(StoreError, match="of another"):
        train_search(data, tmp_path / "run", replace(PLAN, seed=1), fitted, device="cpu", resume=True)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "sids.parquet", "queries.parquet", "items.parquet", "search.json", "tokenizer.json",
             "tokens.json", "templates.toml", "config.json", "sidkit.json"]
)  # fmt: skip
def test_a_flipped_bit_is_an_error_that_names_the_file(run, tmp_path, name):
    folder = shutil.copytree(run, tmp_path / "run")
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(StoreError, match=name):
        SearchModel.load(folder)


def test_what_is_no_model(run, tmp_path):
    with pytest.raises(StoreError, match=r"not a trained search model: it has no search\.json"):
        SearchModel.load(tmp_path)
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(StoreError, match="holds other files"):
        train_search(None, tmp_path, PLAN)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_answers_are_the_items_of_the_generated_sids(run, parts):
    _, data = parts
    model = SearchModel.load(run, "cpu")
    query = data.corpus.queries[0]
    history = tuple(data.table.ids[:3].to_pylist())
    plain, personal = model.ask([Request(query), Request(query, history, ("red mug",), "gender F")])
    assert plain != personal
    for answers in (plain, personal):
        assert len({one.item for one in answers}) == len(answers) <= 50
        assert all(data.table.row_of(one.item) == one.row for one in answers)
        assert [one.sid for one in answers] == [data.table.strings()[one.row].as_py() for one in answers]
        probabilities = [one.probability for one in answers]
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum({one.sid: one.probability for one in answers}.values()) <= 1
    alone = model.ask([Request(query)])[0]
    assert [one[:3] for one in alone] == [one[:3] for one in plain]
    np.testing.assert_allclose([one.probability for one in alone], [one.probability for one in plain], rtol=1e-4)


def test_a_user_without_clicks_is_asked_for_as_in_the_evaluation(run, parts, tmp_path):
    _, data = parts
    model = SearchModel.load(run, "cpu")
    queries, rows = data.clicked_for_queries(50)
    log, number = data.log, {text: i for i, text in enumerate(data.corpus.queries)}
    train = log.train[log.clicked[0]]
    searched, clicked = (part[train] for part in log.clicked)
    assert sorted(number[text] for text in queries) == sorted(set(log.query[searched].tolist()))
    for text, ranked in zip(queries, rows, strict=True):
        counts = Counter(clicked[log.query[searched] == number[text]].tolist())
        assert [counts[row] for row in ranked.tolist()] == sorted(counts.values())
    asked = np.array([number[text] for text in queries[:20]])
    after = np.full(len(asked), log.time[log.train].max() + 1)
    none = np.full(len(asked), -1)
    events = _events(log, asked, none, after, none, log.train)
    leaf, _ = model.generate(data.corpus, events)
    answers = model.ask([Request(f" {text} ") for text in queries[:20]])
    assert [[one.row for one in answer] for answer in answers] == [
        row[row >= 0].tolist() for row in model.ranker.lists(leaf)
    ]
    without = replace(model, parts=replace(model.parts, query_clicks=None))
    assert without.ask([Request(text) for text in queries[:20]]) != answers
    never = train_search(data, tmp_path / "run", replace(PLAN, epochs=(0, 0, 1), cold_users="none"), device="cpu")
    assert never.parts.query_clicks is None
    assert SearchModel.load(tmp_path / "run").parts.query_clicks is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["mug"], "items": pa.array([[200]], pa.list_(pa.int32()))}, "rows that are not among the 200 items"),
        ({"query": ["mug"], "items": pa.array([[-1]], pa.list_(pa.int32()))}, "rows that are not among the 200 items"),
        ({"query": ["mug"], "items": pa.array([[None]], pa.list_(pa.int32()))}, "rows that are not among"),
        ({"query": [1], "items": pa.array([[0]], pa.list_(pa.int32()))}, "does not hold queries and rows of items"),
        ({"query": ["mug"]}, "does not hold queries and rows of items"),
    ],
)
def test_clicks_of_queries_that_are_not_of_this_model_are_refused(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "query-clicks.parquet")
    with pytest.raises(StoreError, match=message):
        QueryClicks.load(tmp_path / "query-clicks.parquet", 200, "train it again")


def test_bad_requests(run):
    model = SearchModel.load(run, "cpu")
    with pytest.raises(InputError, match="an empty query has no answer"):
        model.ask([Request("  ")])
    with pytest.raises(InputError, match="'nothing', which is not an item"):
        model.ask([Request("mug", ("nothing",))])
    for beams in (0, -1):
        with pytest.raises(SpecError, match=f"beams must be at least 1, not {beams}"):
            model.ask([Request("mug")], beams)


def test_the_evaluation_counts_what_the_lists_hold(run, shop, parts):
    _, data = parts
    model = SearchModel.load(run, "cpu")
    result = evaluate(model, data_of(model, shop))
    test = data.test("click")
    leaf, _ = model.generate(data.corpus, test.events)
    assert (
        result.ranks["click"]["semantic IDs"].tolist()
        == ranks_of(model.ranker.lists(leaf)[test.event], test.item).tolist()
    )
    figures = result.figures()["click"]
    assert list(figures) == ["semantic IDs", "BM25", "counting"]
    for system, each in figures.items():
        hits = result.ranks["click"][system] > 0
        assert each["all"]["hit_rate@50"] == pytest.approx(hits.mean())
        assert each["all"]["pairs"] == sum(each[name]["pairs"] for name in each if name != "all") == len(test)
    ahead = result.differences()["click"]["BM25"]["hit_rate@50"]
    assert ahead["mean"] == pytest.approx(
        figures["semantic IDs"]["all"]["hit_rate@50"] - figures["BM25"]["all"]["hit_rate@50"]
    )


def test_nearest_neighbours_join_where_vectors_are_given(run, shop):
    class Source:
        def __init__(self, ids, x):
            self.ids, self.x = ids, x

        def chunks(self, size):
            yield self.x

    model, rng = SearchModel.load(run, "cpu"), np.random.default_rng(3)
    sources = [
        Source(shop.table(name)[key].combine_chunks(), rng.normal(size=(shop.rows(name), 4)).astype(np.float32))
        for name, key in (("items", "item_id"), ("queries", "query_id"))
    ]
    ranks = evaluate(model, data_of(model, shop), AlignedVectors(*sources)).ranks["click"]
    assert list(ranks) == ["semantic IDs", "BM25", "nearest", "counting"]
    with pytest.raises(InputError, match="none of the shop's item ids"):
        evaluate(model, data_of(model, shop), AlignedVectors(Source(sources[1].ids, sources[1].x), sources[1]))


def test_a_model_of_another_shop_is_refused(run, tmp_path):
    simulate_shop(tmp_path / "shop", ShopPlan.of(210, 250, None, seed=2))
    model = SearchModel.load(run, "cpu")
    with pytest.raises(InputError, match="have no SID"):
        evaluate(model, data_of(model, Shop.open(tmp_path / "shop")))


def test_a_tokenizer_that_did_not_make_the_sids_is_refused(parts, tmp_path):
    _, data = parts
    other = recipe("prq-kmeans", sizes=(4, 4), iterations=2).fit(np.random.default_rng(0).normal(size=(50, 4)))
    with pytest.raises(InputError, match="sizes 4-4-2, but the tokenizer makes 4-4: it did not make these SIDs"):
        train_search(data, tmp_path / "run", PLAN, other)
    assert not (tmp_path / "run").exists()


def test_an_encoder_that_gives_known_queries_other_sids_is_refused(parts, tmp_path):
    class Encoder:
        """The vectors of the queries, moved by this many rows."""

        d = 8

        def __init__(self, by):
            rng = np.random.default_rng(0)
            rng.normal(size=(len(data.table), 8))  # of the items, drawn first
            self.rows = np.roll(rng.normal(size=(len(data.corpus.queries), 8)).astype(np.float32), by, axis=0)

        def embed(self, texts, query):
            return self.rows[[data.corpus.queries.index(text) for text in texts]]

    fitted, data = parts
    _require_same_codes(data.corpus, QueryEncoder(Encoder(0), None, fitted))
    with pytest.raises(
        InputError, match=r"of 64 queries other SIDs than they have: name those with which the SIDs were"
    ):
        train_search(data, tmp_path / "run", PLAN, query_encoder=QueryEncoder(Encoder(1), None, fitted))
    assert not (tmp_path / "run").exists()


def test_sid_tokens_start_from_centroids(parts):
    fitted, data = parts
    tokens = Tokens(train_bpe(data.corpus.queries, 300), fitted.sizes)
    weights = first_weights(PLAN, tokens, fitted, None)["shared"]
    rows = centroid_rows(fitted, weights[: tokens.first], PLAN.seed)
    assert {at: len(each) for at, each in rows.items()} == {0: 4, 4: 4, 8: 2}
    for (at, each), book in zip(rows.items(), fitted.codebooks, strict=True):
        assert torch.equal(weights[tokens.first + at : tokens.first + at + len(each)], each)
        centred = torch.as_tensor(book - book.mean(0))
        scale = each.sub(each.mean(0)).norm(dim=1).mean() / centred.norm(dim=1).mean()
        np.testing.assert_allclose(torch.cdist(each, each), scale * torch.cdist(centred, centred), atol=1e-4)
    random = first_weights(replace(PLAN, from_centroids=False), tokens, fitted, None)["shared"]
    assert torch.equal(random[: tokens.first], weights[: tokens.first])
    assert not torch.equal(random[tokens.first], weights[tokens.first])


TEN = {
    "prq-kmeans": {0: 8, 8: 4, 12: 4}, "rq-kmeans": {0: 8, 8: 4, 12: 4}, "rq-gmm": {0: 8, 8: 4, 12: 4},
    "pq-kmeans": {0: 8, 8: 4, 12: 4}, "opq-kmeans": {0: 8, 8: 4, 12: 4}, "rq-vae": {0: 8, 8: 4, 12: 4},
    "r3-vae": {0: 8, 8: 4, 12: 4},
    "rq-opq": {0: 8, 8: 4, 16: 2, 18: 2},  # the third level has a codebook per parent, so no centroid per token
    "prq-opq": {0: 8, 8: 4, 16: 2, 18: 2},
    "res-kmeans-fsq": {0: 8, 8: 4, 12: 4},  # the last two are bits
}  # fmt: skip


@pytest.mark.parametrize("name", TEN)
def test_the_tokens_of_every_tokenizer_follow_each_other_level_by_level(name, rng):
    sizes = (8, 4, 4, 2, 2) if name in ("rq-opq", "prq-opq", "res-kmeans-fsq") else (8, 4, 4)
    options = {"epochs": 1} if name.endswith("vae") else {}
    x = rng.normal(size=(300, 6)).astype(np.float32)
    fitted = recipe(name, sizes=sizes, **options).fit(x)
    tokens = Tokens(train_bpe(["rain jacket", "tent"], 300), fitted.sizes)
    codes = fitted.encode(x)
    starts = tokens.first + np.cumsum([0, *sizes[:-1]])
    assert fitted.sizes == sizes
    assert np.array_equal(tokens.sids(codes), codes + starts)
    rows = centroid_rows(fitted, torch.randn(50, 16), 0)
    assert {at: len(each) for at, each in rows.items()} == TEN[name]


def test_a_model_starts_from_a_local_folder(run, parts, tmp_path):
    """Words and layers are those of the folder; the rows of SID tokens are new."""
    fitted, data = parts
    small = replace(PLAN, epochs=(0, 0, 1), learning_rate=1e-9)
    model = train_search(data, tmp_path / "run", small, fitted, start=run, device="cpu")
    before = SearchModel.load(run, "cpu")
    assert model.plan.shape == before.plan.shape
    assert model.tokens.first == before.tokens.first
    words = slice(0, before.tokens.first)
    np.testing.assert_allclose(model.weights["shared"][words], before.weights["shared"][words], atol=1e-5)
    np.testing.assert_allclose(model.weights["encoder.fc1.weight"], before.weights["encoder.fc1.weight"], atol=1e-5)
    with pytest.raises(InputError, match="no such model folder"):
        train_search(data, tmp_path / "other", small, start=tmp_path / "missing")


def test_presets_have_schedules_and_the_base_model_that_of_the_paper():
    assert plan_for("base") == SearchPlan()
    assert plan_for("tiny").learning_rate == SCHEDULES["tiny"]["learning_rate"] > SearchPlan().learning_rate
    plan = plan_for("tiny", batch=7, decay="none", warmup=None)
    assert (plan.batch, plan.decay, plan.warmup) == (7, "none", SCHEDULES["tiny"]["warmup"])
    assert plan.shape == PRESETS["tiny"]
    assert PRESETS.keys() == SCHEDULES.keys()
    with pytest.raises(SpecError, match="no model preset 'tinny'; did you mean 'tiny'"):
        plan_for("tinny")


def test_a_config_gives_the_sizes_of_a_fresh_model(run, tmp_path):
    assert shape_in(run / "config.json") == SHAPE
    wrong = tmp_path / "config.json"
    for text, message in (
        ('{"model_type": "t5"}', "is the config of t5, not of a BART"),
        ("[1]", "is the config of no model, not of a BART"),
        ('{"model_type": "bart", "encoder_layers": 2, "decoder_layers": 3}', "need the same layers, not 2 and 3"),
    ):
        wrong.write_text(text)
        with pytest.raises(SpecError, match=message):
            shape_in(wrong)
    wrong.write_text("{")
    with pytest.raises(InputError, match="cannot read a config from"):
        shape_in(wrong)
    with pytest.raises(InputError, match=r"no such file: .*none\.json; config names"):
        shape_in(tmp_path / "none.json")
    words = ("search", "train", "shop", "i.parquet", "q.parquet", "-o", "run", "--config", wrong, "--start", run)
    assert "--start has a config of its own" in command(*words, check=1, cwd=tmp_path)


def test_templates_without_the_last_stage_are_refused(parts, tmp_path):
    (tmp_path / "mine.toml").write_text(
        '[content]\ntasks = [{ name = "a", input = "{query}", output = "{query_sid}" }]\n[pairs]\ntasks = []\n',
        encoding="utf-8",
    )
    with pytest.raises(SpecError, match=r"mine.toml: stage 'personal' is missing"):
        train_search(parts[1], tmp_path / "run", replace(PLAN, templates=str(tmp_path / "mine.toml")))


def test_a_model_with_vectors_of_the_history_is_saved_and_reads_them(parts, tmp_path):
    from transformers import BartForConditionalGeneration

    from sidkit.data.embeddings import open_embeddings

    fitted, data = parts
    ids = data.table.ids
    x = np.random.default_rng(4).normal(size=(len(ids), 6)).astype(np.float32)
    write_vectors(tmp_path / "items.parquet", "item_id", ids[1:], x[1:])  # the first item has none
    with_vectors = data.with_item_vectors(open_embeddings(str(tmp_path / "items.parquet")))
    unit = with_vectors.corpus.item_vectors
    np.testing.assert_allclose(unit[1:], x[1:] / np.linalg.norm(x[1:], axis=1, keepdims=True), rtol=1e-6)
    assert not unit[0].any()
    plan = replace(PLAN, history_vectors=2)
    trained = train_search(with_vectors, tmp_path / "run", plan, fitted, device="cpu")
    loaded = SearchModel.load(tmp_path / "run", "cpu")
    assert set(loaded.weights) == set(trained.weights) > {"former.queries"}
    assert all(torch.equal(loaded.weights[name], value) for name, value in trained.weights.items())
    np.testing.assert_array_equal(loaded.parts.item_vectors, unit)
    BartForConditionalGeneration.from_pretrained(tmp_path / "run")  # knows nothing of the former
    query, history = data.corpus.queries[0], tuple(ids[3:30].to_pylist())
    long, short = loaded.ask([Request(query, history), Request(query, history[-5:])])  # the same short window
    assert long == trained.ask([Request(query, history), Request(query, history[-5:])])[0]
    assert [one.probability for one in long] != [one.probability for one in short]
    assert len(evaluate(loaded, data_of(loaded, data.shop)).figures())
    (tmp_path / "run" / "history.safetensors").unlink()
    with pytest.raises(StoreError, match=r"history\.safetensors"):
        SearchModel.load(tmp_path / "run", "cpu")
