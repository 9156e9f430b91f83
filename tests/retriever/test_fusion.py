"""Fusion of a retriever with counts: planted data where it must help, and where it must switch itself off."""

import math

import numpy as np
import pytest

from sidkit.data.sequences import Sequences
from sidkit.errors import InputError, SidkitError
from sidkit.measure.counting_tables import CountTables

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from sidkit.decoding.device_trie import DeviceTrie
from sidkit.retriever import Plan, Retriever, Shape, train
from sidkit.retriever.beams import beam_search, search_and_score
from sidkit.retriever.candidates import Candidates, UserHistories
from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.fused import fitted, fused_ranks, held_out_candidates
from sidkit.retriever.fusion import OFF, FusionWeights, fit_fusion, fused_scores, target_ranks
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
            mine = found.user == place
            reached = retriever.recommend([f"p{row}" for row in history], k=60, beams=4, fused=False)
            by_beam = {int(one.item[1:]): one for one in reached}
            counted = set(tables.followed[[history[-1]]].indices)
            near = sum(tables.together[[row]].toarray()[0] / (length - at) for at, row in enumerate(history))
            assert by_beam.keys() | counted <= set(found.item[mine]) <= by_beam.keys() | set(np.flatnonzero(near))
            for entry in np.flatnonzero(mine):
                item = int(found.item[entry])
                assert found.followed[entry] == tables.followed[history[-1], item]
                assert found.together[entry] == pytest.approx(near[item] / near.sum(), rel=1e-4)
                assert found.past[entry] == (item in history)
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
    past = np.array([True, False, False, False, False, True])
    return Candidates(2, user, item, model, followed, after, together, past), np.array([2, 0])


def test_the_formula_and_the_ranks_by_hand():
    candidates, target = by_hand()
    score = fused_scores(candidates, FusionWeights(0.5, 0.2, prior=4.0))
    np.testing.assert_allclose(score[:3], [0.15, 0.09 + 0.5 / 8 + 0.1, 0.03 + 1.5 / 8 + 0.1])
    np.testing.assert_allclose(score[3:], [0.06 + 0.1 + 0.2, 0.06, 0.12])
    assert target_ranks(candidates, target, score, 99).tolist() == [0, 0]
    assert target_ranks(candidates, target, fused_scores(candidates, OFF), 99).tolist() == [2, 1]
    again = fused_scores(candidates, FusionWeights(repeats=False))
    assert target_ranks(candidates, target, again, 99).tolist() == [1, 0]  # of equal scores the earlier item
    assert target_ranks(candidates, np.array([0, 7]), again, 99).tolist() == [99, 99]
    flat = fused_scores(candidates, FusionWeights(0.5, 0.2, prior=4.0, sharpness=0.5))
    scale = 0.3 * 0.9 / (np.sqrt(0.5) + np.sqrt(0.3) + np.sqrt(0.1))
    np.testing.assert_allclose(flat[:2], [scale * np.sqrt(0.5), scale * np.sqrt(0.3) + 0.5 / 8 + 0.1])


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
    found = Candidates(
        users, user, item, noisy(model_knows), followed * 1.0, after, noisy(counts_know), past & ~is_target
    )
    tables = CountTables.of(Sequences.of([[0, items - 1]]), items)
    return found, target, tables


def test_fusion_switches_itself_off_where_counting_knows_nothing():
    for seed in range(5):
        found, target, tables = planted(model_knows=True, counts_know=False, seed=seed)
        found = found._replace(past=np.zeros_like(found.past))
        fusion = fit_fusion(found, target, tables)
        assert fusion.weights == OFF
        assert not fusion.facts["on"]


def test_fusion_helps_on_other_users_where_counting_knows_something():
    fusion = fit_fusion(*planted(counts_know=True))
    assert fusion.weights.is_on
    assert fusion.weights.followed + fusion.weights.together > 0.05
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
    assert flat.weights.sharpness < even.weights.sharpness
    assert flat.facts["fused_ndcg@10"] > even.facts["fused_ndcg@10"] - 0.03


def test_items_of_the_history_are_left_out_where_nobody_takes_them_again():
    found, target, tables = planted(model_knows=True)
    found = found._replace(model=np.where(found.past, 0.5, found.model))  # the model puts them first
    assert not fit_fusion(found, target, tables).weights.repeats
    again, target, tables = planted(model_knows=True)
    again = again._replace(past=again.item == target[again.user])  # everybody takes one of them again
    assert fit_fusion(again, target, tables).weights.repeats


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
    assert tally.seen.keys() == {"model", "fused"}
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


def test_users_drawn_for_the_fit_are_different():
    table, sequences = shop(), walks(users=50)
    parts = list(held_out_candidates(untrained(table), CountTables.of(sequences, 60), sequences, "test", 20))
    users = np.concatenate([one for one, _, _ in parts])
    assert len(users) == len(set(users.tolist())) == 20


def test_histories_keep_their_latest_items():
    given = UserHistories.of([[1, 2, 3], [4]], 2)
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
