"""Fusion of a retriever with counts: planted data where it must help, and where it must switch itself off."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.data.sequences import Sequences
from sidkit.errors import InputError, SidkitError, StoreError
from sidkit.measure.counting_tables import CountTables

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from command import run as command
from sidkit.decoding.device_trie import DeviceTrie
from sidkit.retriever import Plan, Retriever, Shape, train
from sidkit.retriever.beams import beam_search, search_and_score
from sidkit.retriever.candidates import Candidates, UserHistories
from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.fused import fitted, fused_ranks, held_out_candidates
from sidkit.retriever.fusion import (
    OFF,
    Fusion,
    FusionWeights,
    fit_fusion,
    fused_scores,
    likeliest,
    target_ranks,
    weights_from,
)
from sidkit.retriever.signals import Term, signals_of
from sidkit.sids.trie import Trie
from toys import SMALL, fresh_weights, peaked, ring, shop, walks

PLAN = Plan(SMALL, beams=4, history=6)


def untrained(table, plan=PLAN):
    words = len(Vocabulary(table.sizes))
    return Retriever(table, plan, peaked(fresh_weights(plan.shape, words, 0)), {})


def test_a_sid_has_the_score_that_a_search_wide_enough_gives_it():
    table = shop()
    retriever, trie = untrained(table), Trie.of(table)
    on_device = DeviceTrie(trie, Vocabulary(table.sizes), "cpu")
    tokens = retriever._tokens([[3, 4, 5], [7, 0, 2]])
    given = retriever._fast_weights, SMALL, on_device, tokens
    every = beam_search(*given, len(trie))
    codes = torch.as_tensor(table.codes[:11], dtype=torch.long).repeat(2, 1, 1)
    best, scores = search_and_score(*given, 4, codes)
    few = beam_search(*given, 4)
    assert torch.equal(best.leaf, few.leaf)
    assert torch.equal(best.score, few.score)
    for user in range(2):
        known = dict(zip(every.leaf[user].tolist(), every.score[user].tolist(), strict=True))
        wanted = [known[leaf] for leaf in trie.leaves(table.codes[:11]).tolist()]
        np.testing.assert_allclose(scores[user].tolist(), wanted, rtol=1e-4)


def test_candidates_are_the_items_of_the_beams_and_those_that_were_counted():
    table, sequences = shop(), walks()
    retriever, tables = untrained(table), CountTables.of(walks().training(), 60)
    held_out = examples(sequences, "test", 6)
    seen = 0
    for users, target, found in held_out_candidates(retriever, tables, sequences, "test"):
        assert (target == sequences.rows[held_out.position[users]]).all()
        for place, user in enumerate(users):
            end, length = held_out.position[user], held_out.length[user]
            history = sequences.rows[end - length : end]
            had = sequences.rows[sequences.starts[np.searchsorted(sequences.starts, end, "right") - 1] : end]
            mine = found.user == place
            reached = retriever.recommend([f"p{row}" for row in history], k=60, beams=4, fused=False)
            by_beam = {int(one.item[1:]): one for one in reached}
            counted = set(tables.followed[[history[-1]]].indices)
            near, flow = (
                sum(of[[row]].toarray()[0] / (length - at) for at, row in enumerate(history))
                for of in (tables.together, tables.flow)
            )
            every = by_beam.keys() | set(np.flatnonzero(near + flow))
            assert by_beam.keys() | counted <= set(found.item[mine]) <= every | counted
            for entry in np.flatnonzero(mine):
                item = int(found.item[entry])
                assert found.followed[entry] == tables.followed[history[-1], item]
                assert found.together[entry] == pytest.approx(near[item] / near.sum(), rel=1e-4)
                assert found.flow[entry] == pytest.approx(flow[item], rel=1e-4)
                assert found.beside[entry] == tables.together[history[-1], item]
                assert found.popular[entry] == tables.popular[item]
                assert found.length[entry] == length
                assert found.past[entry] == (item in had)
                if item in by_beam:
                    group = len(table.rows_of(by_beam[item].sid))
                    assert found.model[entry] == pytest.approx(by_beam[item].probability / group, rel=1e-3)
                else:
                    seen += 1
                    assert 0 < found.model[entry] < 1
    assert seen  # items that no beam reached


def by_hand():
    """Two users with three candidates each; the targets are item 2 and item 0."""
    user, item = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2])
    model = np.array([0.5, 0.3, 0.1, 0.2, 0.2, 0.4])
    followed, after = np.array([0, 1, 3, 1, 0, 0.0]), np.array([4, 4, 4, 1, 1, 1.0])
    together = np.array([0, 0.5, 0.5, 1, 0, 0.0])
    flow, beside = np.array([0, 0.1, 0.2, 0.3, 0, 0]), np.array([0.5, 0, 0, 0, 0, 0.25])
    popular, length = np.array([9, 1, 0, 3, 0, 1]), np.array([2, 2, 2, 5, 5, 5])
    past = np.array([True, False, False, False, False, True])
    found = Candidates(2, user, item, model, followed, after, flow, together, beside, popular, length, past)
    return found, np.array([2, 0])


TERMS = (
    Term("model", 0.5),
    Term("popular", -0.2),
    Term("followed", 0.7, above=-4.0),
    Term("flow", 1.5),
    Term("together", 0.9),
    Term("beside", 0.3),
    Term("past", -1.0),
    Term("length", 0.1, times="popular"),
    Term("model", 0.02, times="together"),
)


def test_signals_and_terms_by_hand():
    candidates, _ = by_hand()
    signals = signals_of(candidates)
    np.testing.assert_allclose(signals["model"][:3], np.log([0.5, 0.3, 0.1]))
    np.testing.assert_allclose(signals["followed"][:4], np.log(np.array([0, 1 / 12, 3 / 12, 1 / 9]) + 0.001))
    np.testing.assert_allclose(signals["flow"][3:5], np.log([0.301, 0.001]))
    np.testing.assert_allclose(signals["together"][1:4], np.log([0.501, 0.501, 1.001]))
    np.testing.assert_allclose(signals["beside"][[0, 5]], np.log([0.501, 0.251]))
    np.testing.assert_allclose(signals["popular"][:3], np.log([10, 2, 1]))
    np.testing.assert_allclose(signals["length"][2:4], np.log([3, 6]))
    assert signals["past"].tolist() == [1, 0, 0, 0, 0, 1]
    limit = float(np.log(0.2))
    above = Term("model", above=limit).value(signals)
    np.testing.assert_allclose(above[:4], [np.log(2.5), np.log(1.5), 0, 0], atol=1e-12)
    np.testing.assert_allclose(
        Term("length", times="popular").value(signals), np.log1p(candidates.length) * np.log1p(candidates.popular)
    )
    kept = np.array([False, True, False, False, True, False])
    few = signals_of(candidates.where(kept))
    assert all((few[name] == value[kept]).all() for name, value in signals.items())
    scores = [fused_scores(candidates, FusionWeights(TERMS), given) for given in (None, signals)]
    assert (scores[0] == scores[1]).all()


def test_the_formula_and_the_ranks_by_hand():
    candidates, target = by_hand()
    terms = (Term("model", 0.5), Term("past", -1.0))
    score = fused_scores(candidates, FusionWeights(terms, reach=0.8))
    power = np.sqrt([0.5, 0.3, 0.1]) * [np.exp(-1), 1, 1]
    np.testing.assert_allclose(score[:3], 0.8 * power / power.sum())
    power = np.sqrt([0.2, 0.2, 0.4]) * [1, 1, np.exp(-1)]
    np.testing.assert_allclose(score[3:], 0.8 * power / power.sum())
    assert target_ranks(candidates, target, score, 99).tolist() == [1, 0]
    assert target_ranks(candidates, target, fused_scores(candidates, OFF), 99).tolist() == [2, 1]
    again = fused_scores(candidates, FusionWeights(repeats=False))
    assert target_ranks(candidates, target, again, 99).tolist() == [1, 0]  # of equal scores the earlier item
    assert target_ranks(candidates, np.array([0, 7]), again, 99).tolist() == [99, 99]
    fresh = fused_scores(candidates, FusionWeights(terms, repeats=False))
    np.testing.assert_allclose(fresh[3:], [0.5, 0.5, 0])
    nothing = fused_scores(candidates._replace(past=candidates.past | True), FusionWeights(terms, repeats=False))
    assert (nothing == 0).all()


def test_the_weights_are_the_likeliest():
    """Where the gradient of the penalised likelihood, in plain loops, is zero."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, size=40)
    starts = np.cumsum(sizes) - sizes
    own = starts + rng.integers(sizes)
    x = rng.normal(size=(sizes.sum(), 4)).astype(np.float32)
    first = np.array([1.0, 0, 0, 0])
    w = likeliest(x, own, starts, first, ridge=0.5)
    gradient = 0.5 * (w - first)
    for start, size, target in zip(starts, sizes, own, strict=True):
        part = x[start : start + size].astype(np.float64)
        share = np.exp(part @ w)
        gradient += share @ part / share.sum() - x[target]
    assert np.abs(gradient).max() < 1e-3
    assert np.abs(w - first).max() > 0.05
    np.testing.assert_allclose(likeliest(x, own, starts, first, ridge=1e9), first, atol=1e-5)
    assert (likeliest(x[:0], own[:0], starts[:0], first, ridge=0.5) == first).all()


def by_loops(retriever, tables, had, weights, inside):
    """Items with scores, best first, in plain float64: the formula of `fusion.py` over the candidates of a user."""
    table, read = retriever.table, had[-retriever.plan.history :]
    sharing = Counter(tuple(table.codes[item]) for item in inside)
    ids = [f"p{item}" for item in inside]
    reached, every = (
        {
            one.sid: one.probability
            for one in retriever.recommend([f"p{row}" for row in read], 60, ids, beams, fused=False)
        }
        for beams in (4, 60)
    )
    model = {item: every[tuple(table.codes[item])] / sharing[tuple(table.codes[item])] for item in inside}
    near, flow = Counter(), Counter()
    for counts, table_of in ((near, tables.together), (flow, tables.flow)):
        for ago, taken in enumerate(reversed(read), 1):
            for item, value in enumerate(table_of[[taken]].toarray()[0].tolist()):
                counts[item] += value / ago
    beside = tables.together[[had[-1]]].toarray()[0]
    after = dict(enumerate(tables.followed[[had[-1]]].toarray()[0].tolist()))
    chosen = {item for item in inside if tuple(table.codes[item]) in reached}
    for counts in (after, flow, near):
        ranked = [item for item in sorted(inside, key=lambda item: (-counts[item], item)) if counts[item] > 0]
        chosen |= {*ranked[:3], *[item for item in ranked if item not in had][:3]}
    scores = {}
    for item in chosen:
        signals = {
            "model": math.log(model[item]),
            "popular": math.log(1 + tables.popular[item]),
            "followed": math.log(0.001 + after[item] / (sum(after.values()) + 8)),
            "flow": math.log(0.001 + flow[item]),
            "together": math.log(0.001 + near[item] / (sum(near.values()) or 1.0)),
            "beside": math.log(0.001 + beside[item]),
            "length": math.log(1 + len(read)),
            "past": float(item in had),
        }
        values = [
            max(signals[term.of] - term.above, 0) if term.above is not None else
            signals[term.of] * (signals[term.times] if term.times else 1) for term in weights.terms
        ]  # fmt: skip
        score = sum(term.weight * value for term, value in zip(weights.terms, values, strict=True))
        if weights.repeats or item not in had:
            scores[item] = math.exp(score)
    whole = sum(scores.values())
    scores = {item: weights.reach * score / whole for item, score in scores.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("part", [1, 3])
@pytest.mark.parametrize("sizes", [(8, 8, 8), (3, 2, 3, 2, 3)])
def test_recommendations_and_ranks_are_those_of_the_formula_in_loops(sizes, part, monkeypatch):
    """Items that share SIDs, users with one item, items that nobody took, SIDs of five levels, a part of the items."""
    monkeypatch.setattr("sidkit.retriever.candidates.COUNTED", 3)
    table, lists = shop(sizes=sizes), walks(items=50, users=25)
    lists = Sequences.of([*np.split(lists.rows, lists.starts[1:-1]), [7, 55], [55, 7, 7, 8], [1]])
    retriever, inside = untrained(table), list(range(0, 60, part))
    weights = FusionWeights(TERMS, repeats=False, reach=0.7)
    tables = CountTables.of(lists.training(), 60)
    retriever.fusion = Fusion(weights, tables, {})
    held_out = examples(lists, "test", 6)
    ids = [f"p{item}" for item in inside]
    ranks = fused_ranks(retriever, retriever.fusion, lists, "test", trie=Trie.of(table, inside))
    users = [one.tolist() for one in np.split(lists.rows, lists.starts[1:-1]) if len(one) > 1]
    assert len(users) == len(held_out) == len(ranks)
    found = 0
    for one, rank in zip(users, ranks, strict=True):
        wanted = by_loops(retriever, tables, one[:-1], weights, inside)
        ours = retriever.recommend([f"p{item}" for item in one[:-1]], 60, ids, beams=4, fused=True)
        assert [item.item for item in ours] == [f"p{item}" for item, _ in wanted]
        np.testing.assert_allclose([item.probability for item in ours], [score for _, score in wanted], rtol=2e-3)
        places = {item: place for place, (item, _) in enumerate(wanted)}
        found += one[-1] in places
        assert rank == places.get(one[-1], rank if rank >= 60 else -1)
    assert 0 < found < len(users)


def test_what_is_left_out_makes_room_for_other_counted_items():
    """With most of the catalogue left out, or taken already, as many items as before are added by counting."""
    table, sequences = shop(), walks(users=80)
    retriever, tables = untrained(table, replace(PLAN, beams=1)), CountTables.of(sequences, 60)
    retriever.fusion = Fusion(FusionWeights(TERMS), tables, {})
    near = set(tables.together[[5]].indices.tolist()) - set(range(0, 60, 3))
    few = [f"p{item}" for item in sorted(near)]
    assert {one.item for one in retriever.recommend(["p5"], 60, few)} == set(few)
    others = [f"p{item}" for item in range(48)]
    left = {one.item for one in retriever.recommend([*others, "p5"], 60, exclude_history=True)}
    assert left <= {f"p{item}" for item in range(48, 60)}
    assert len(left) > 6


def test_many_collisions_are_judged_a_few_users_at_once():
    crowded = SidTable([f"p{i}" for i in range(600)], np.repeat([[0, 0], [1, 1]], 300, axis=0), (2, 2))
    tables = CountTables.of(Sequences.of([[0, 1]]), 600)
    searcher = untrained(crowded).searcher(tables)
    assert searcher.of_a_user(30) == 30 * 300 + 240
    assert searcher.at_once(30) == (1 << 22) // 9240
    assert untrained(shop(twins=0)).searcher(CountTables.of(Sequences.of([[0, 1]]), 60)).at_once(30) == 2048


def planted(users=400, items=30, model_knows=True, counts_know=False, seed=0):
    """Candidates of users whose targets the model, or counting, puts first more often than chance would."""
    rng = np.random.default_rng(seed)
    target = rng.integers(items, size=users)
    user, item = np.repeat(np.arange(users), items), np.tile(np.arange(items), users)
    is_target = item == target[user]

    def noisy(knows):
        values = rng.random(users * items) + 0.8 * is_target * knows
        return values / np.bincount(user, values)[user]

    followed = rng.poisson(1 + 4 * is_target) if counts_know else rng.poisson(1, users * items)
    after = np.bincount(user, followed)[user]
    past = rng.random(users * items) < 0.05
    model, together, flow = noisy(model_knows), noisy(counts_know), noisy(False)
    popular, length = rng.poisson(5, items)[item], rng.integers(1, 9, size=users)[user]
    found = Candidates(
        users, user, item, model, followed * 1.0, after, flow, together, noisy(False), popular, length,
        past & ~is_target,
    )  # fmt: skip
    tables = CountTables.of(Sequences.of([[0, items - 1]]), items)
    return found, target, tables


def test_fusion_switches_itself_off_where_counting_knows_nothing():
    for seed in range(5):
        found, target, tables = planted(model_knows=True, counts_know=False, seed=seed)
        found = found._replace(past=np.zeros_like(found.past))
        fusion = fit_fusion(found, target, tables)
        assert fusion.weights == OFF
        assert not fusion.facts["on"]


def test_weights_of_chance_are_seen_through_by_users_who_did_not_choose_them():
    """On few users some of the many weights always look better; judged by the others they do not."""
    seeming, on, honest = [], 0, []
    for seed in range(20):
        found, target, tables = planted(users=60, model_knows=False, counts_know=False, seed=seed)
        fusion = fit_fusion(found._replace(past=np.zeros_like(found.past)), target, tables)
        seeming.append(fusion.facts["highest_ndcg@10"] - fusion.facts["model_ndcg@10"])
        honest.append(fusion.facts["gain"])
        on += fusion.facts["on"]
    assert min(seeming) > 0
    assert np.mean(seeming) > 0.03 > abs(np.mean(honest))
    assert on <= 2


@pytest.mark.parametrize("users", [1, 2, 3, 7])
def test_a_handful_of_users_is_enough_to_try(users):
    fusion = fit_fusion(*planted(users=users, counts_know=True))
    assert fusion.facts["users"] == users
    assert fusion.facts["on"] == fusion.weights.is_on
    assert users > 1 or fusion.weights == OFF


def test_fusion_helps_on_other_users_where_counting_knows_something():
    fusion = fit_fusion(*planted(counts_know=True))
    assert fusion.weights.is_on
    assert fusion.weights.reach == 1.0
    found, target, _ = planted(counts_know=True, seed=1)
    gains = [
        1 / np.log2(target_ranks(found, target, fused_scores(found, weights), 30) + 2.0)
        for weights in (fusion.weights, OFF)
    ]
    assert gains[0].mean() > gains[1].mean() + 0.05


def test_a_model_that_is_too_sure_of_its_first_items_is_flattened():
    found, target, tables = planted(users=1500, counts_know=True)
    sure = found.model**8
    sure /= np.bincount(found.user, sure)[found.user]
    even = fit_fusion(found, target, tables)
    flat = fit_fusion(found._replace(model=sure), target, tables)
    total = [
        sum(term.weight for term in fit.weights.terms if term.of == "model" and not term.times) for fit in (flat, even)
    ]
    assert total[0] < total[1] / 2
    assert flat.facts["fused_ndcg@10"] > even.facts["fused_ndcg@10"] - 0.03


def test_items_of_the_history_are_left_out_where_nobody_takes_them_again():
    found, target, tables = planted(model_knows=True)
    found = found._replace(model=np.where(found.past, 0.5, found.model))  # the model puts them first
    assert not fit_fusion(found, target, tables).weights.repeats
    again, target, tables = planted(model_knows=True)
    again = again._replace(past=again.item == target[again.user])  # everybody takes one of them again
    assert fit_fusion(again, target, tables).weights.repeats


def test_items_of_the_history_are_left_out_where_counting_alone_puts_them_first():
    found, target, tables = planted(model_knows=False, counts_know=True)
    found = found._replace(model=np.full(len(found.user), 1 / 30), followed=found.followed + 50 * found.past)
    fusion = fit_fusion(found, target, tables)
    assert fusion.weights.is_on
    past = found.past & (fused_scores(found, fusion.weights) > 0)
    assert not fusion.weights.repeats or target_ranks(found, target, fused_scores(found, fusion.weights), 30).mean() < 5
    assert past.sum() == 0 or fusion.weights.repeats


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that learned nothing, and steps on a ring, which counting knows."""
    table, sequences = ring(users=200)
    plan = Plan(Shape(1, 8, 8, 1, 8), epochs=1, batch=256, learning_rate=1e-9, beams=4)
    folder = tmp_path_factory.mktemp("fused") / "run"
    return train(table, sequences, folder, plan, "cpu"), sequences, folder


def test_a_model_that_knows_nothing_recommends_what_counting_knows(run):
    retriever, sequences, folder = run
    assert retriever.fusion.weights.is_on
    assert retriever.facts["test"]["fused_ndcg@10"] > 0.5 > retriever.facts["test"]["item_ndcg@10"] + 0.2
    loaded = Retriever.load(folder, "cpu")
    assert loaded.fusion.weights == retriever.fusion.weights
    tally = loaded.evaluate(sequences)
    assert tally.means() == pytest.approx(retriever.facts["test"])
    assert tally.seen.keys() == {"model", "fused", "followed"}
    assert "fused_ndcg@10" not in loaded.evaluate(sequences, fused=False).means()
    assert next(one.item for one in loaded.recommend(["p4", "p5", "p6"], k=3)) == "p7"
    reached = {one.item for one in loaded.recommend(["p4", "p5", "p6"], k=32, beams=4, fused=False)}
    assert "p7" not in reached  # no beam did
    ranks = fused_ranks(loaded, loaded.fusion, sequences, "test")
    assert np.mean((ranks < 10) / np.log2(ranks + 2.0)) == pytest.approx(tally.means()["fused_ndcg@10"])


def test_a_fused_list_keeps_to_what_is_wanted(run):
    retriever = run[0]
    history = ["p4", "p5", "p6"]
    whole = retriever.recommend(history, k=40)
    assert [one.score for one in whole] == sorted((one.score for one in whole), reverse=True)
    assert len({one.item for one in whole}) == len(whole)
    assert all(0 < one.probability <= 1 for one in whole)
    inside = retriever.recommend(history, k=40, within=["p7", "p20", "p6"])
    assert {one.item for one in inside} <= {"p7", "p20", "p6"}
    assert inside[0].item == "p7"
    assert not {one.item for one in retriever.recommend(history, k=40, exclude_history=True)} & set(history)
    many = retriever.recommend_many([history, ["p9"]], k=3)
    assert [one.item for one in many[0]] == [one.item for one in retriever.recommend(history, k=3)]
    assert many[1][0].item == "p10"
    assert math.isfinite(many[1][0].score)


def test_of_one_sid_at_most_so_many_items_are_in_a_fused_list():
    table, sequences = shop(twins=30), walks(users=60)
    retriever = untrained(table)
    retriever.fusion = fitted(retriever, sequences)
    assert len({one.sid for one in retriever.recommend(["p1"], k=20, per_sid=1, fused=True)}) == 20
    assert len({one.sid for one in retriever.recommend(["p1"], k=20, fused=True)}) < 20


def test_counts_that_are_damaged_or_of_other_items_are_refused(run, tmp_path):
    import shutil

    from sidkit.retriever.counts_file import COUNTS, read_counts, write_counts

    shutil.copytree(run[2], tmp_path / "run")
    file = tmp_path / "run" / COUNTS
    tables = read_counts(file, 32)
    assert (tables.followed != run[0].fusion.tables.followed).nnz == 0
    assert (tables.flow != run[0].fusion.tables.flow).nnz == 0
    assert (tables.together != run[0].fusion.tables.together).nnz == 0
    with pytest.raises(SidkitError, match="counts 32 items, not 31"):
        read_counts(file, 31)
    tables.followed.indices[0] = 99
    write_counts(tables, file)
    with pytest.raises(SidkitError, match="items outside the catalogue"):
        read_counts(file, 32)
    with pytest.raises(SidkitError, match=f"run/{COUNTS} is damaged"):
        Retriever.load(tmp_path / "run", "cpu")


def test_a_retriever_without_fusion_says_so():
    with pytest.raises(InputError, match="trained without fusion"):
        untrained(shop()).recommend(["p1"], fused=True)


def test_weights_from_a_file_are_those_that_were_written_or_are_refused():
    weights = FusionWeights(TERMS, repeats=False, reach=0.25)
    plain = json.loads(json.dumps(weights.plain()))
    assert weights_from(plain) == weights
    for wrong in (
        {"reach": 2.0},
        {"repeats": 1},
        {"terms": {}},
        {"terms": [{"of": "age"}]},
        {"terms": [{"of": "model", "weight": float("nan")}]},
        {"terms": [{"of": "model", "above": "0"}]},
        {"terms": [{"of": "model", "size": 1}]},
        {"terms": [{}] * 300},
    ):
        with pytest.raises(StoreError, match="fusion"):
            weights_from(plain | wrong)


def test_a_fusion_of_an_earlier_version_is_left_out_and_said(run, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(run[2], folder)
    (folder / "sidkit.json").unlink()
    facts = json.loads((folder / "retriever.json").read_text())
    facts.pop("format")
    facts["fusion"]["weights"] = {"followed": 0.1, "together": 0.2, "prior": 2.0, "repeats": True, "sharpness": 0.5}
    (folder / "retriever.json").write_text(json.dumps(facts))
    with pytest.warns(UserWarning, match="fuses counts by a formula of an earlier version"):
        loaded = Retriever.load(folder, "cpu")
    assert loaded.fusion is None
    assert "fusion" not in loaded.facts
    said = command("recommend", folder, "--history", "p4", "--device", "cpu", fresh=True).stderr
    assert f"warning: {folder} fuses counts by a formula of an earlier version, and is used without; train it" in said


def test_users_drawn_for_the_fit_are_different():
    table, sequences = shop(), walks(users=50)
    parts = list(held_out_candidates(untrained(table), CountTables.of(sequences, 60), sequences, "test", 20))
    users = np.concatenate([one for one, _, _ in parts])
    assert len(users) == len(set(users.tolist())) == 20


def test_histories_keep_their_latest_items():
    given = UserHistories.of([[1, 2, 3], [4]], 2)
    assert given.past(10).tolist() == [3, 2, 1, 14]
    rows, real = given.table()
    assert rows[0].tolist() == [2, 3]
    assert real.tolist() == [[True, True], [False, True]]
    assert rows[1, 1] == 4


def test_the_card_of_a_run_judges_items_by_how_often_they_were_seen():
    from sidkit.measure.seen import ranks_by_seen
    from sidkit.retriever.card import retriever_card

    times = np.array([0, 2, 3, 9])
    lists = {"model": np.array([0, 0, 99, 99]), "fused": np.array([99, 0, 0, 0])}
    card = retriever_card({"seen": {name: ranks_by_seen(rank, times) for name, rank in lists.items()}}, shop(), "run")
    assert "| target item | users | Recall@10, alone | NDCG@10, alone | Recall@10, fused with counts |" in card
    assert "| never seen in training | 1 | 1.0000 | 1.0000 | 0.0000 | 0.0000 |" in card
    assert "| seen 1 to 4 times | 2 | 0.5000 | 0.5000 | 1.0000 | 1.0000 |" in card
    alone = retriever_card({"seen": {"model": ranks_by_seen(lists["model"], times + 1)}}, shop(), "run")
    assert "| never seen in training | 0 | - | - |" in alone
    assert "seen" not in retriever_card({}, shop(), "run")
