"""Figures of ranked SIDs, worked by hand and compared with lists written out; and evaluators."""

import math

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.sids.trie import Trie

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from sidkit.retriever.evaluation import Evaluator, JointEvaluator
from sidkit.retriever.metrics import CUTS, Judge, representatives
from toys import SMALL, fresh_weights, peaked, shop, walks


def slow_figures(trie, chosen, lists, targets, leaf_of):
    """Item lists written out and searched, one user at a time, in plain Python."""
    sums = {}

    def add(name, cut, ranks, share):
        for rank in ranks:
            if rank <= cut:
                for metric, gain in (
                    ("recall", 1),
                    ("hit_rate", 1),
                    ("ndcg", 1 / math.log2(rank + 1)),
                    ("mrr", 1 / rank),
                ):
                    key = f"{name}_{metric}@{cut}"
                    sums[key] = sums.get(key, 0.0) + gain * share

    for leaves, target in zip(lists, targets, strict=True):
        items, sids, expanded = [], [], []
        for leaf in leaves:
            if leaf < 0:
                expanded.append(None)
                continue
            if chosen[leaf] not in items:
                items.append(chosen[leaf])
            sids.append(leaf)
            expanded += [leaf] * len(trie.items(leaf))
        group = len(trie.items(leaf_of[target]))
        for cut in CUTS:
            add("item", cut, [items.index(target) + 1] if target in items else [], 1)
            add("expected", cut, [sids.index(leaf_of[target]) + 1] if leaf_of[target] in sids else [], 1 / group)
            add("corrected", cut, [i + 1 for i, leaf in enumerate(expanded) if leaf == leaf_of[target]], 1 / group)
            add("sid", cut, [list(leaves).index(leaf_of[target]) + 1] if leaf_of[target] in leaves else [], 1)
    return sums


class TestFigures:
    def test_three_users_worked_by_hand(self):
        # SIDs: leaf 0 = {a, b}, leaf 1 = {c}, leaf 2 = {d, e, f}
        table = SidTable(list("abcdef"), [[0], [0], [1], [2], [2], [2]], (3,))
        trie = Trie.of(table)
        judge = Judge(trie, 6, "cpu")
        judge.chosen = torch.tensor([1, 2, 4])  # b, c, e stand for their SIDs
        lists = torch.tensor([[2, 0, 1], [2, 0, 1], [1, -1, 0]])
        targets = torch.tensor([1, 0, 0])  # b, a, a
        sums = {name: value.item() for name, value in judge.sums(lists, targets).items()}
        assert sums["item_recall@5"] == 1  # b is second; a is nobody's representative
        assert sums["item_ndcg@5"] == pytest.approx(1 / math.log2(3))
        assert sums["expected_recall@5"] == 1.5
        assert sums["expected_mrr@5"] == pytest.approx(3 * 0.5 * 0.5)  # always second, the invalid one being skipped
        assert sums["sid_mrr@5"] == pytest.approx(0.5 + 0.5 + 1 / 3)
        # ranks 4 and 5 for the first two users, 3 and 4 for the third (an unknown SID takes one)
        assert sums["corrected_recall@5"] == pytest.approx(3)
        gains = [1 / math.log2(rank + 1) for rank in (4, 5, 4, 5, 3, 4)]
        assert sums["corrected_ndcg@5"] == pytest.approx(sum(gains) / 2)

    def test_the_item_that_stands_for_a_sid_is_drawn_with_seed_42(self):
        trie = Trie.of(SidTable(range(12), np.arange(12)[:, None] % 3, (3,)))
        drawn = np.random.default_rng(42).integers([4, 4, 4])
        assert representatives(trie).tolist() == [int(leaf + 3 * drawn[leaf]) for leaf in range(3)]
        assert representatives(trie).tolist() == [0, 10, 8]

    def test_invalid_sequences_take_a_rank_if_so_asked(self):
        table = SidTable(list("ab"), [[0], [1]], (2,))
        lists, target = torch.tensor([[-1, 1]]), torch.tensor([1])
        ranks = [
            Judge(Trie.of(table), 2, "cpu", invalid_consumes_rank=choice).sums(lists, target)["item_mrr@5"].item()
            for choice in (False, True)
        ]
        assert ranks == [1.0, 0.5]

    @pytest.mark.parametrize("seed", [0, 1])
    def test_they_equal_lists_written_out_and_searched(self, seed):
        table = shop(seed=seed, sizes=(3, 3, 3))
        trie, rng = Trie.of(table), np.random.default_rng(seed)
        lists = np.array([rng.permutation(len(trie))[:15] for _ in range(50)])
        lists[rng.random(lists.shape) < 0.1] = -1
        targets = rng.integers(0, 60, 50)
        fast = Judge(trie, 60, "cpu").sums(torch.tensor(lists), torch.tensor(targets))
        slow = slow_figures(trie, representatives(trie), lists.tolist(), targets.tolist(), trie.leaf_of(60))
        for name, value in fast.items():
            assert value.item() == pytest.approx(slow.get(name, 0.0)), name

    def test_without_collisions_all_item_figures_agree(self):
        table = SidTable(range(30), np.arange(30)[:, None], (30,))
        lists = torch.tensor(np.array([np.random.default_rng(i).permutation(30)[:25] for i in range(20)]))
        sums = Judge(Trie.of(table), 30, "cpu").sums(lists, torch.arange(20))
        for cut in CUTS:
            for metric in ("recall", "ndcg", "mrr"):
                figures = {sums[f"{name}_{metric}@{cut}"].item() for name in ("item", "expected", "corrected", "sid")}
                assert max(figures) == pytest.approx(min(figures))

    def test_the_expectation_is_the_mean_over_draws_of_representatives(self):
        table = shop(sizes=(3, 3, 3))
        trie = Trie.of(table)
        lists = torch.tensor(np.array([np.random.default_rng(i).permutation(len(trie))[:20] for i in range(40)]))
        targets = torch.arange(40)
        draws = [Judge(trie, 60, "cpu", seed=s).sums(lists, targets)["item_ndcg@20"].item() for s in range(400)]
        exact = Judge(trie, 60, "cpu").sums(lists, targets)["expected_ndcg@20"].item()
        assert np.mean(draws) == pytest.approx(exact, abs=4 * np.std(draws) / 20)


def test_figures_do_not_depend_on_how_many_users_are_judged_at_once(monkeypatch):
    sequences, weights = walks(users=25), peaked(fresh_weights(SMALL, 25, 0))
    judge = Evaluator(shop(), sequences, "valid", 20, "cpu")
    complete = judge(weights, SMALL, 10)
    monkeypatch.setattr("sidkit.retriever.evaluation.SCORED_USERS", 4)
    assert judge(weights, SMALL, 10).sums == pytest.approx(complete.sums)


def test_runs_judged_together_get_the_figures_they_get_alone():
    sequences = walks(users=25)
    judges = [Evaluator(shop(seed=seed), sequences, "valid", 20, "cpu") for seed in (4, 5)]
    runs = [peaked(fresh_weights(SMALL, 25, seed)) for seed in range(2)]
    stacked = {name: torch.cat([weights[name] for weights in runs]) for name in runs[0]}
    together = JointEvaluator(judges)(stacked, SMALL, 10)
    for judge, weights, tally in zip(judges, runs, together, strict=True):
        alone = judge(weights, SMALL, 10)
        assert tally.count == alone.count == 25
        assert tally.sums == pytest.approx(alone.sums)
    assert together[0].sums != together[1].sums
