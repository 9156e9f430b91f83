"""The generative recommender: examples, packing, the network, decoding, figures, training."""

import json
import math
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidkit import SidTable, prq_kmeans
from sidkit.data.sequences import Sequences, read_sequences
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.measure.counting import counted
from sidkit.sids.trie import Trie

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from sidkit.retriever import PRESETS, Plan, Retriever, Shape, SidLogitsProcessor  # noqa: E402
from sidkit.retriever import training as loop  # noqa: E402
from sidkit.retriever.beams import DeviceTrie, beam_search, free_search, stacked_search  # noqa: E402
from sidkit.retriever.data import Vocabulary, examples  # noqa: E402
from sidkit.retriever.evaluation import Evaluator, Panel  # noqa: E402
from sidkit.retriever.layout import Layout  # noqa: E402
from sidkit.retriever.metrics import CUTS, Judge, representatives  # noqa: E402
from sidkit.retriever.model import build_t5, from_state, new_weights, to_state  # noqa: E402
from sidkit.retriever.network import loss  # noqa: E402
from sidkit.retriever.retriever import train  # noqa: E402
from sidkit.retriever.stack import Stack, adam  # noqa: E402
from sidkit.retriever.training import Job, Outcome, train_stack  # noqa: E402

LASTFM = Path(os.environ.get("SIDKIT_DATA", "")) / "lastfm"
SMALL = Shape(layers=2, d_model=32, d_ff=48, heads=3, d_kv=8)


def shop(items=60, sizes=(8, 8, 8), seed=0, twins=20):
    """A table in which the last `twins` items share their SIDs with the first."""
    codes = np.random.default_rng(seed).integers(0, sizes, (items, len(sizes)))
    codes[items - twins :] = codes[:twins]
    return SidTable([f"p{i}" for i in range(items)], codes, sizes)


def walks(items=60, users=30, seed=0, most=30):
    rng = np.random.default_rng(seed)
    return Sequences.of([rng.integers(0, items, rng.integers(3, most)) for _ in range(users)])


def peaked(weights, by=4.0):
    """Fresh weights give nearly equal chances; sharper attention and biases make the beams differ."""
    return {name: value * by if "q" in name or "bias" in name else value for name, value in weights.items()}


class TestExamples:
    def test_a_sequence_of_five_is_split_as_the_protocol_says(self):
        sequences = Sequences.of([[10, 11, 12, 13, 14]])
        cut = {name: examples(sequences, name) for name in ("train", "valid", "test")}
        pairs = {
            name: [
                (sequences.rows[at - n : at].tolist(), int(sequences.rows[at]))
                for at, n in zip(e.position, e.length, strict=True)
            ]
            for name, e in cut.items()
        }
        assert pairs == {
            "train": [([10], 11), ([10, 11], 12)],
            "valid": [([10, 11, 12], 13)],
            "test": [([10, 11, 12, 13], 14)],
        }

    def test_a_history_keeps_the_latest_items_and_never_another_users(self):
        sequences = Sequences.of([range(100, 130), range(7)])
        for split in ("train", "valid", "test"):
            found = examples(sequences, split, history=20)
            for at, n in zip(found.position, found.length, strict=True):
                start = 0 if at < 30 else 30
                assert n == min(at - start, 20) >= 1

    def test_short_sequences_are_left_out_of_the_splits_they_cannot_serve(self):
        sequences = Sequences.of([[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]])
        assert [len(examples(sequences, split)) for split in ("train", "valid", "test")] == [1, 2, 3]

    def test_tokens_are_the_codes_shifted_by_level(self):
        assert Vocabulary((256, 256, 256)).tokens(np.array([[0, 0, 0], [255, 1, 2]])).tolist() == [
            [1, 257, 513],
            [256, 258, 515],
        ]
        assert len(Vocabulary((256, 256, 256))) == 769


class TestLayout:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.integers(1, 20), min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 5))
    def test_every_example_has_its_place_once_an_epoch(self, lengths, batch, epoch):
        layout = Layout.plan(np.array(lengths), batch, 20, 3)
        order = layout.order(3, epoch)
        assert sorted(order[order >= 0]) == list(range(len(lengths)))
        assert (order[:, -1] == -1).all()
        room = np.array([(layout.slot == slot).sum() // 3 for slot in range(layout.slots)])
        for ids in order[:, :-1]:
            assert (np.array([lengths[i] if i >= 0 else 0 for i in ids]) <= room).all()
        for slot in range(layout.slots):
            assert (layout.mine == slot).sum() == 3
            (row,) = np.unique(np.nonzero(layout.slot == slot)[0])
            assert (layout.mine[row] == slot).any()

    def test_little_is_padding_when_lengths_are_skewed(self):
        lengths = np.minimum(np.random.default_rng(0).geometric(0.18, 20_000), 20)
        assert Layout.plan(lengths, 256, 20, 3).fill > 0.9

    def test_the_order_of_batches_does_not_follow_lengths(self):
        lengths = np.arange(400) % 20 + 1
        layout = Layout.plan(lengths, 1, 20, 3)
        seen = lengths[layout.order(0, 0)[:, 0]]
        assert abs(np.corrcoef(seen, np.arange(400))[0, 1]) < 0.2

    def test_epochs_and_seeds_differ_and_repeat(self):
        layout = Layout.plan(np.full(100, 3), 16, 20, 3)
        assert (layout.order(0, 1) == layout.order(0, 1)).all()
        assert (layout.order(0, 1) != layout.order(0, 2)).any()
        assert (layout.order(0, 1) != layout.order(1, 1)).any()


def padded(sequences, found, tokens, some, levels=3):
    """What transformers takes: histories padded on the left, and the targets."""
    width = int(found.length[some].max()) * levels
    inputs = np.zeros((len(some), width), np.int64)
    for row, example in enumerate(some):
        at, n = found.position[example], found.length[example]
        inputs[row, width - n * levels :] = tokens[sequences.rows[at - n : at]].ravel()
    return torch.tensor(inputs), torch.tensor(tokens[sequences.rows[found.position[some]]])


class TestNetwork:
    def test_weights_go_to_transformers_and_back_unchanged(self):
        weights = new_weights(SMALL, 25, seed=1)
        model = build_t5(SMALL, 25, to_state(weights, SMALL))
        again = from_state(model.state_dict(), SMALL)
        assert weights.keys() == again.keys()
        assert all(torch.equal(weights[name], again[name]) for name in weights)
        assert not torch.equal(new_weights(SMALL, 25, seed=2)["shared"], weights["shared"])

    def test_the_loss_of_packed_stacked_batches_is_transformers(self):
        table, sequences = shop(), walks()
        plan, vocabulary = Plan(SMALL, batch=24), Vocabulary(table.sizes)
        stack = Stack(sequences, vocabulary, plan, 2, "cpu")
        models = []
        for run in range(2):
            weights = peaked(new_weights(SMALL, len(vocabulary), run))
            stack.place(run, weights, table.codes)
            models.append(build_t5(SMALL, len(vocabulary), to_state(weights, SMALL)))
        orders = np.stack([stack.layout.order(seed, 0) for seed in (5, 6)])
        stack.order.copy_(torch.as_tensor(orders))
        tokens = vocabulary.tokens(table.codes)
        for at in (0, stack.layout.batches - 1):
            stack.at.fill_(at)
            ours = loss(stack.copies, SMALL, 3, stack.batch())
            for run, model in enumerate(models):
                ids = orders[run, at]
                inputs, labels = padded(sequences, stack.examples, tokens, ids[ids >= 0])
                theirs = model(input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels).loss
                assert ours[run].item() == pytest.approx(theirs.item(), rel=2e-6)

    def test_a_step_is_torchs_adam_on_transformers_model(self):
        table, sequences = shop(), walks(users=8, most=8)
        shape, vocabulary = Shape(1, 16, 24, 2, 8, dropout=0.0), Vocabulary((8, 8, 8))
        stack = Stack(sequences, vocabulary, Plan(shape, batch=500, learning_rate=1e-2), 1, "cpu")
        fresh = new_weights(shape, len(vocabulary), 0)
        stack.place(0, fresh, table.codes)
        model = build_t5(shape, len(vocabulary), to_state(fresh, shape)).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        inputs, labels = padded(
            sequences, stack.examples, vocabulary.tokens(table.codes), np.arange(len(stack.examples))
        )
        for _ in range(3):
            list(stack.epoch([0], [0]))
            optimizer.zero_grad()
            model(input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels).loss.backward()
            optimizer.step()
        theirs = from_state(model.state_dict(), shape)
        for name, value in stack.kept(0).items():
            assert torch.allclose(value, theirs[name], atol=2e-4), name

    def test_runs_in_a_stack_do_not_touch_each_other(self):
        shape = Shape(1, 16, 24, 2, 8, dropout=0.0)
        table, sequences = shop(), walks(users=10, most=10)

        def after(seeds):
            stack = Stack(sequences, Vocabulary(table.sizes), Plan(shape, batch=16), len(seeds), "cpu")
            for run, seed in enumerate(seeds):
                stack.place(run, new_weights(shape, 25, seed), table.codes)
            list(stack.epoch(seeds, [0] * len(seeds)))
            return stack.kept(len(seeds) - 1)

        alone, beside = after([7]), after([1, 2, 7])
        assert all(torch.allclose(alone[name], beside[name], atol=1e-6) for name in alone)

    def test_adam_counts_every_runs_steps_alone(self):
        grad = torch.tensor([[1.0], [1.0]])
        weights, first, second = torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2, 1)
        second[1], first[1] = 0.5, 0.5
        adam([weights], [weights], [grad], [first], [second], torch.tensor([1.0, 9.0]), 0.1)
        m, v = 0.9 * 0.5 + 0.1, 0.999 * 0.5 + 0.001
        expected = -0.1 * (m / (1 - 0.9**9)) / (math.sqrt(v / (1 - 0.999**9)) + 1e-8)
        assert weights[:, 0].tolist() == pytest.approx([-0.1, expected], rel=1e-5)


class TestTrie:
    def test_children_and_items_of_a_small_catalogue(self):
        table = SidTable(list("abcde"), [[1, 0], [0, 1], [1, 0], [1, 2], [0, 1]], (2, 3))
        trie = Trie.of(table)
        assert [codes.tolist() for codes in trie.codes] == [[0, 1], [1, 0, 2]]
        assert [bounds.tolist() for bounds in trie.children] == [[0, 2], [0, 1, 3]]
        assert [trie.items(leaf).tolist() for leaf in range(3)] == [[1, 4], [0, 2], [3]]
        assert trie.leaf_of(5).tolist() == [1, 0, 1, 2, 0]
        part = Trie.of(table, [3, 0])
        assert [part.items(leaf).tolist() for leaf in range(len(part))] == [[0], [3]]
        assert part.leaf_of(5).tolist() == [0, -1, -1, 1, -1]

    def test_nothing_to_choose_from_is_an_error(self):
        with pytest.raises(InputError, match="no items are left"):
            Trie.of(shop(), np.zeros(60, bool))


@pytest.fixture(scope="module")
def decoding():
    """A sharpened random model in both forms, and padded histories."""
    table = shop()
    vocabulary = Vocabulary(table.sizes)
    weights = peaked(new_weights(SMALL, len(vocabulary), 3))
    model = build_t5(SMALL, len(vocabulary), to_state(weights, SMALL))
    sequences = walks(users=6, most=24)
    inputs, _ = padded(sequences, examples(sequences, "test"), vocabulary.tokens(table.codes), np.arange(6))
    return table, vocabulary, weights, model, inputs


def generated(model, inputs, beams, *processors, levels=3):
    found = model.generate(
        input_ids=inputs,
        attention_mask=(inputs != 0).long(),
        num_beams=beams,
        num_return_sequences=beams,
        max_length=1 + levels,
        logits_processor=list(processors),
        return_dict_in_generate=True,
        output_scores=True,
    )
    return found.sequences.view(len(inputs), beams, -1)[:, :, 1:], found.sequences_scores.view(len(inputs), beams)


class TestDecoding:
    @pytest.mark.parametrize("within", [None, range(0, 60, 3)])
    def test_beams_are_those_of_transformers_generate_with_the_processor(self, decoding, within):
        table, vocabulary, weights, model, inputs = decoding
        trie = Trie.of(table, None if within is None else np.array(within))
        beams = 12
        ours = beam_search(weights, SMALL, DeviceTrie(trie, vocabulary, "cpu"), inputs, beams)
        tokens, scores = generated(model, inputs, beams, SidLogitsProcessor(trie))
        codes = np.array([table.codes[trie.items(leaf)[0]] for leaf in range(len(trie))])
        assert torch.equal(torch.tensor(vocabulary.tokens(codes))[ours.leaf], tokens)
        assert torch.allclose(ours.score / 3, scores, atol=1e-5)

    @pytest.mark.parametrize("end", [0.0, 3.0])
    def test_unconstrained_beams_are_those_of_transformers(self, decoding, end):
        table, vocabulary, weights, _, inputs = decoding
        final = weights["decoder.final"].clone()
        shared = weights["shared"].clone()
        shared[:, 0] += end * shared[:, 1:9].mean(1)  # makes ending early likelier
        weights = weights | {"shared": shared, "decoder.final": final}
        model = build_t5(SMALL, len(vocabulary), to_state(weights, SMALL))
        trie = Trie.of(table)
        ours = free_search(weights, SMALL, DeviceTrie(trie, vocabulary, "cpu"), inputs, 8)
        tokens, scores = generated(model, inputs, 8)
        assert bool((tokens[:, :, 1] == 0).any()) is bool(end)  # some hypotheses do end early, where they should
        assert torch.allclose(ours.score / 3, scores, atol=1e-5)
        known = {tuple(row): leaf for leaf, row in enumerate(_leaf_tokens(trie, table, vocabulary))}
        theirs = [[known.get(tuple(beam), -1) for beam in user] for user in tokens.tolist()]
        assert ours.leaf.tolist() == theirs

    def test_fewer_sids_than_beams_leave_empty_places(self, decoding):
        table, vocabulary, weights, _, inputs = decoding
        trie = Trie.of(table, np.array([4, 9]))
        found = beam_search(weights, SMALL, DeviceTrie(trie, vocabulary, "cpu"), inputs, 10)
        assert (found.leaf >= 0).sum(1).tolist() == [len(trie)] * len(inputs)

    @pytest.mark.parametrize("constrained", [True, False])
    def test_stacked_runs_find_what_each_finds_alone(self, constrained):
        tables = [shop(seed=1), shop(items=6, seed=2, twins=2), shop(seed=3)]  # the second has few SIDs
        vocabulary, rng = Vocabulary(tables[0].sizes), np.random.default_rng(0)
        tries = [Trie.of(table) for table in tables]
        runs = [peaked(new_weights(SMALL, len(vocabulary), seed)) for seed in range(3)]
        stacked = {name: torch.cat([weights[name] for weights in runs]) for name in runs[0]}
        tokens = torch.tensor(rng.integers(1, len(vocabulary), (3, 5, 12)))
        tokens[:, 2:, :6] = 0
        together = stacked_search(stacked, SMALL, DeviceTrie(tries, vocabulary, "cpu"), tokens, 8, constrained)
        for run, weights in enumerate(runs):
            trie = DeviceTrie(tries[run], vocabulary, "cpu")
            alone = (beam_search if constrained else free_search)(weights, SMALL, trie, tokens[run], 8)
            size = alone.leaf.shape[1]
            assert torch.equal(together.leaf[run, :, :size], alone.leaf)
            assert torch.allclose(together.score[run, :, :size], alone.score, atol=1e-5)
            assert (together.leaf[run, :, size:] == -1).all()
        assert not constrained or (together.leaf[1] >= 0).sum(1).tolist() == [len(tries[1])] * 5

    def test_the_processor_serves_other_vocabularies_and_prompts(self):
        table = SidTable(list("abc"), [[0, 1], [0, 0], [1, 1]], (2, 2))
        processor = SidLogitsProcessor(Trie.of(table), start=2, tokens=[[7, 5], [3, 8]], end=9)
        scores = torch.zeros(2, 10)

        def allowed(*ids):
            found = processor(torch.tensor([[1, 2, *ids]] * 2), scores)
            return torch.nonzero(found[0] == 0)[:, 0].tolist()

        assert allowed() == [5, 7]
        assert allowed(7) == [3, 8]
        assert allowed(5) == [8]
        assert allowed(5, 8) == [9]
        assert allowed(4) == [9]

    @pytest.mark.parametrize("kind", ["gpt2", "llama", "bart"])
    @pytest.mark.parametrize("way", [{"num_beams": 6, "num_return_sequences": 6}, {"do_sample": True}, {}])
    def test_models_of_other_makes_generate_valid_sids_too(self, kind, way):
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

        table, end, first = shop(items=30, sizes=(6, 5, 4), twins=4), 2, (20, 30, 40)  # of 60 tokens
        sizes = {"vocab_size": 60, "bos_token_id": 1, "eos_token_id": end, "pad_token_id": 0}
        sizes |= {
            "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2},
            "llama": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
            "bart": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "decoder_start_token_id": end},
        }[kind]
        torch.manual_seed(0)
        family = AutoModelForSeq2SeqLM if kind == "bart" else AutoModelForCausalLM
        model = family.from_config(AutoConfig.for_model(kind, **sizes)).eval()
        start = 1 if kind == "bart" else 5
        tokens = [range(at, at + size) for at, size in zip(first, table.sizes, strict=True)]
        processor = SidLogitsProcessor(Trie.of(table), start, tokens, end)
        prompt = torch.randint(3, 20, (4, 5))
        given = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 4, "logits_processor": [processor]}
        found = model.generate(prompt, **given, **way)[:, start:]
        assert (found[:, 3] == end).all()
        assert {tuple(sid) for sid in (found[:, :3] - torch.tensor(first)).tolist()} <= set(
            map(tuple, table.codes.tolist())
        )

    def test_tokens_for_another_number_of_codes_are_refused(self):
        with pytest.raises(InputError, match="codes were given"):
            SidLogitsProcessor(Trie.of(shop()), tokens=[[1], [2], [3]])

    def test_a_model_with_too_few_tokens_is_refused(self):
        with pytest.raises(InputError, match="token 24 is needed for semantic IDs, and the model has 24 tokens"):
            SidLogitsProcessor(Trie.of(shop()))(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 24))


def _leaf_tokens(trie, table, vocabulary):
    return vocabulary.tokens(np.array([table.codes[trie.items(leaf)[0]] for leaf in range(len(trie))])).tolist()


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
        items, spread, expanded = [], [], []
        for leaf in leaves:
            if leaf < 0:
                expanded.append(None)
                continue
            if chosen[leaf] not in items:
                items.append(chosen[leaf])
            spread.append(leaf)
            expanded += [leaf] * len(trie.items(leaf))
        group = len(trie.items(leaf_of[target]))
        for cut in CUTS:
            add("item", cut, [items.index(target) + 1] if target in items else [], 1)
            add("expected", cut, [spread.index(leaf_of[target]) + 1] if leaf_of[target] in spread else [], 1 / group)
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
        # places 4 and 5 for the first two users, 3 and 4 for the third (an unknown SID takes one)
        assert sums["corrected_recall@5"] == pytest.approx(3)
        gains = [1 / math.log2(place + 1) for place in (4, 5, 4, 5, 3, 4)]
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


def ring(users=120, items=32, seed=0):
    """Most steps go to the next item on a ring, so that the best guess is known."""
    rng, lists = np.random.default_rng(seed), []
    for _ in range(users):
        walk = [int(rng.integers(items))]
        for _ in range(int(rng.integers(4, 8))):
            walk.append((walk[-1] + 1) % items if rng.random() < 0.95 else int(rng.integers(items)))
        lists.append(walk)
    codes = np.stack([np.arange(items) // 8, np.arange(items) % 8], 1)
    return SidTable([f"p{i}" for i in range(items)], codes, (4, 8)), Sequences.of(lists)


LEARNS = Plan(Shape(1, 32, 64, 2, 16, dropout=0.05), epochs=12, batch=32, learning_rate=6e-3, patience=6, beams=10)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    table, sequences = ring()
    folder = tmp_path_factory.mktemp("train") / "run"
    return train(table, sequences, folder, LEARNS, device="cpu"), table, sequences, folder


class TestTraining:
    def test_it_learns_what_comes_next_and_beats_popularity(self, trained):
        retriever, _, sequences, _ = trained
        test = examples(sequences, "test")
        popular = np.argsort(-np.bincount(sequences.rows, minlength=32))[:5]
        by_popularity = np.isin(sequences.rows[test.position], popular).mean()
        found = retriever.facts["test"]["item_recall@5"]
        assert found > 2 * max(by_popularity, 5 / 32)
        assert found > 0.6

    def test_the_folder_loads_as_a_retriever_and_with_transformers(self, trained):
        from transformers import T5ForConditionalGeneration

        retriever, table, sequences, folder = trained
        again = Retriever.load(folder, "cpu")
        assert again.evaluate(sequences).means() == pytest.approx(retriever.facts["test"])
        model = T5ForConditionalGeneration.from_pretrained(folder)
        vocabulary = Vocabulary(table.sizes)
        inputs, _ = padded(sequences, examples(sequences, "test"), vocabulary.tokens(table.codes), np.arange(4), 2)
        ours = beam_search(again.weights, LEARNS.shape, again._device_trie, inputs, 5)
        _, scores = generated(model, inputs, 5, SidLogitsProcessor(again.trie), levels=2)
        assert torch.allclose(ours.score / 2, scores, atol=1e-4)

    def test_recommendations_are_items_with_scores_best_first(self, trained):
        retriever = trained[0]
        found = retriever.recommend(["p3", "p4", "p5"], k=5)
        assert found[0].item == "p6"
        assert found[0].sid == (0, 6)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert {one.item for one in retriever.recommend(["p3", "p4", "p5"], k=5, within=["p9", "p20"])} == {"p9", "p20"}

    def test_items_that_share_a_sid_are_all_recommended(self, trained):
        retriever = trained[0]
        table = SidTable(["x", "y", *retriever.table.ids.to_pylist()[2:]], retriever.table.codes.copy(), (4, 8))
        table.codes[0] = table.codes[1] = (0, 6)
        twins = Retriever(table, retriever.plan, retriever.weights, {})
        assert {one.item for one in twins.recommend(["p3", "p4", "p5"], k=3)} == {"x", "y", "p6"}

    def test_the_log_is_json_lines_and_tensorboard(self, trained):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        retriever, _, _, folder = trained
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == list(range(1, retriever.facts["epochs"] + 1))
        assert lines[-1]["loss"] < lines[0]["loss"]
        events = EventAccumulator(str(folder / "tensorboard")).Reload()
        assert [event.value for event in events.Scalars("train/loss")] == pytest.approx([one["loss"] for one in lines])
        assert pq.read_table(folder / "sids.parquet").num_rows == 32
        assert len({part.stat().st_mode for part in folder.iterdir() if part.is_file()}) == 1  # who reads one reads all

    def test_a_stopped_training_goes_on_to_the_same_bits(self, trained, tmp_path, monkeypatch):
        from sidkit.files.checkpoint import Checkpoint

        retriever, table, sequences, _ = trained
        monkeypatch.setattr(Checkpoint, "due", lambda self: True)

        class Stop:
            def start(self, label, rows): ...

            def advance(self, rows): ...

            def note(self, text):
                if "epoch 3," in text:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(table, sequences, tmp_path / "run", LEARNS, device="cpu", progress=Stop())
        resumed = train(table, sequences, tmp_path / "run", LEARNS, device="cpu", resume=True)
        assert all(torch.equal(resumed.weights[name], value) for name, value in retriever.weights.items())
        assert resumed.facts["test"] == retriever.facts["test"]
        assert not (tmp_path / "run.unfinished").exists()

    def test_a_training_stopped_after_its_last_epoch_does_not_train_on(self, trained, tmp_path, monkeypatch):
        retriever, table, sequences, _ = trained

        def no_disk(*_):
            raise OSError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr("sidkit.retriever.retriever.save", no_disk)
            with pytest.raises(OSError, match="full"):
                train(table, sequences, tmp_path / "run", LEARNS, device="cpu")
        resumed = train(table, sequences, tmp_path / "run", LEARNS, device="cpu", resume=True)
        assert resumed.facts["epochs"] == retriever.facts["epochs"]
        assert all(torch.equal(resumed.weights[name], value) for name, value in retriever.weights.items())

    def test_the_weights_are_those_of_the_epoch_that_was_best_in_validation(self):
        table, sequences = ring(users=60)
        plan = Plan(Shape(1, 16, 16, 2, 8), epochs=8, batch=16, learning_rate=0.1, patience=3, beams=8)
        (outcome,) = train_stack([Job("a", table, 0)], sequences, plan, "cpu")
        valid, test = (
            Evaluator(table, sequences, split, plan.history, "cpu")(outcome.weights, plan.shape, plan.beams).means()
            for split in ("valid", "test")
        )
        assert outcome.best_epoch < outcome.epoch
        assert outcome.best == pytest.approx(valid["item_ndcg@20"])
        assert outcome.test.means() == pytest.approx(test)
        assert valid["item_ndcg@20"] != pytest.approx(test["item_ndcg@20"], rel=1e-3)

    def test_a_plateau_runs_out_of_patience(self):
        outcome, plan = Outcome(Job("a", shop(), 0)), Plan(patience=2)
        for epoch, value in enumerate((0.4, 0.5, 0.5, 0.5), start=1):
            assert not outcome.is_over(plan)
            outcome.epoch = epoch
            outcome.consider(value, lambda epoch=epoch: {"of": epoch})
        assert outcome.is_over(plan)
        assert (outcome.best_epoch, outcome.weights) == (2, {"of": 2})

    @pytest.mark.skipif(not (LASTFM / "embedding.npy").exists(), reason="SIDKIT_DATA names no folder with lastfm/")
    def test_the_tiny_model_beats_popularity_on_lastfm_on_a_cpu(self, tmp_path):
        X = np.load(LASTFM / "embedding.npy").astype(np.float32)
        fitted = prq_kmeans(sizes=(64, 64, 64)).fit(X, seed=0)
        table = SidTable(np.arange(len(X)), fitted.encode(X), fitted.sizes)
        sequences = read_sequences(LASTFM / "sequences.parquet", table.ids).tail(20)
        plan = Plan(PRESETS["tiny"], epochs=4, learning_rate=3e-3, history=8, beams=20)
        figures = train(table, sequences, tmp_path / "run", plan, "cpu").facts["test"]
        popular = counted(sequences, len(table))["popular"]
        assert figures["expected_recall@20"] > 1.2 * popular["recall@20"]
        assert figures["expected_ndcg@20"] > 1.1 * popular["ndcg@20"]

    def test_a_loss_that_is_no_number_ends_the_training(self, tmp_path):
        table, sequences = ring(users=30)
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=2, batch=32, learning_rate=1e30, beams=4)
        with pytest.raises(SpecError, match="the loss became nan in epoch 1; lower learning_rate"):
            train(table, sequences, tmp_path / "run", plan, "cpu")
        assert not (tmp_path / "run").exists()

    def test_progress_has_room_for_the_time_left_on_eighty_columns(self, monkeypatch):
        from io import StringIO

        from rich.console import Console

        from sidkit.cli.terminal import Terminal

        table, sequences = ring(users=30)
        plan, screen = Plan(Shape(1, 8, 8, 1, 8), epochs=2, batch=32, beams=4), StringIO()
        shown = Console(file=screen, width=80, force_terminal=True, color_system=None)
        monkeypatch.setattr("sidkit.cli.terminal.Console", lambda **_: shown)
        with Terminal() as progress:
            list(train_stack([Job("a", table, 0)], sequences, plan, "cpu", progress=progress))
        last = screen.getvalue()[-400:]
        for words in ("100%", "rows/s", "0:00:00", "epoch 2, loss ", "NDCG@20 0.", "best 0."):
            assert words in last

    def test_dropout_is_for_training(self):
        table, sequences = ring(users=30)
        losses = {}
        for dropout in (0.0, 0.5):
            plan = Plan(Shape(1, 16, 16, 2, 8, dropout=dropout), epochs=1, batch=500, beams=4)
            stack = Stack(sequences, Vocabulary(table.sizes), plan, 1, "cpu")
            stack.place(0, peaked(new_weights(plan.shape, 13, 0)), table.codes)
            list(stack.epoch([0], [0]))
            losses[dropout] = stack.losses()[0]  # one batch: before any step
        assert losses[0.0] != pytest.approx(losses[0.5], rel=1e-3)

    def test_early_stopping_keeps_the_best_epoch_and_frees_the_place(self):
        table, sequences = ring(users=30)
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=4, batch=64, learning_rate=1e-9, patience=2, beams=4)
        found = list(train_stack([Job("a", table, seed) for seed in range(3)], sequences, plan, "cpu", at_once=2))
        assert sorted(outcome.job.seed for outcome in found) == [0, 1, 2]
        for outcome in found:
            assert outcome.finished
            assert outcome.epoch == min(outcome.best_epoch + 2, 4)
            assert outcome.best == max(entry["item_ndcg@20"] for entry in outcome.log)

    def test_runs_that_outlast_the_others_go_on_in_a_smaller_stack_as_they_would_alone(self, monkeypatch):
        table, sequences = ring(users=30)
        shape = Shape(1, 16, 16, 2, 8, dropout=0.0)
        plan, sizes = Plan(shape, epochs=6, batch=64, learning_rate=1e-3, beams=4), []
        last = {0: 2, 1: 5, 2: 3, 3: 2}  # epochs by seed
        monkeypatch.setattr(Outcome, "is_over", lambda self, plan: self.epoch >= last[self.job.seed])
        monkeypatch.setattr(loop, "Stack", lambda *given: sizes.append(given[3]) or Stack(*given))
        found = train_stack([Job("a", table, seed) for seed in last], sequences, plan, "cpu", at_once=4)
        together = {outcome.job.seed: outcome for outcome in found}
        assert sizes == [4, 2, 1]
        for seed in (1, 2):
            (alone,) = train_stack([Job("a", table, seed)], sequences, plan, "cpu")
            losses = [[entry["loss"] for entry in one.log] for one in (together[seed], alone)]
            np.testing.assert_allclose(*losses, rtol=1e-5)

    def test_near_a_deadline_no_run_is_started_that_would_meet_it(self):
        table, sequences = ring(users=30)
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=3, batch=64, beams=4)
        jobs = [Job("a", table, seed) for seed in range(500)]
        soon = time.monotonic() + 2.0
        found = list(train_stack(jobs, sequences, plan, "cpu", deadline=soon))
        assert 1 <= len(found) < 500
        assert sum(not outcome.finished for outcome in found) <= 1

    def test_a_deadline_ends_a_run_that_is_not_finished(self):
        table, sequences = ring(users=20)
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=50, batch=64, beams=4)
        (outcome,) = train_stack([Job("a", table, 0)], sequences, plan, "cpu", deadline=0.0)
        assert (outcome.epoch, outcome.finished) == (1, False)


class TestCommands:
    def test_training_the_papers_model_on_a_cpu_is_warned_of(self, tmp_path):
        from typer.testing import CliRunner

        from sidkit.cli import app

        table, sequences = ring(users=8)
        table.to_parquet(tmp_path / "sids.parquet")
        lists = [table.ids.take(part).to_pylist() for part in np.split(sequences.rows, sequences.starts[1:-1])]
        pq.write_table(pa.table({"items": lists}), tmp_path / "sequences.parquet")
        words = ["train", tmp_path / "sids.parquet", tmp_path / "sequences.parquet", "--epochs", 1, "--device", "cpu"]
        told = {}
        for preset in ("paper", "tiny"):
            given = [*words, "--preset", preset, "-o", tmp_path / preset, "--json"]
            result = CliRunner().invoke(app, [str(word) for word in given])
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout)["epochs"] == 1
            told[preset] = "hours on a CPU" in result.stderr
            assert set(json.loads(result.stdout)["counting"]) == {"popular", "followed"}
        assert told == {"paper": True, "tiny": False}
        words = ["evaluate", tmp_path / "tiny", tmp_path / "sequences.parquet", "--device", "cpu"]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert "no model: what followed the last item" in result.stdout
        (tmp_path / "stock.txt").write_text(str(table.ids[3].as_py()))
        result = CliRunner().invoke(app, [str(word) for word in [*words, "--within", tmp_path / "stock.txt"]])
        assert result.exit_code == 0, result.output
        assert "no model" not in result.stdout  # counting knows of no stock

    def test_a_list_of_items_has_an_id_a_line_and_decoding_is_as_trained(self, tmp_path):
        from typer.testing import CliRunner

        from sidkit.cli import app

        table, sequences = ring(users=20)
        table = SidTable([f"p {i}" for i in range(32)], table.codes, table.sizes)
        lists = [table.ids.take(part).to_pylist() for part in np.split(sequences.rows, sequences.starts[1:-1])]
        pq.write_table(pa.table({"items": lists}), tmp_path / "sequences.parquet")
        plan = Plan(Shape(1, 8, 8, 1, 8), epochs=1, batch=64, beams=6, constrained=False)
        facts = train(table, sequences, tmp_path / "run", plan, "cpu").facts
        assert facts["test"]["valid_share"] < 1

        def evaluated(*more):
            words = ["evaluate", tmp_path / "run", tmp_path / "sequences.parquet", "--device", "cpu", "--json", *more]
            result = CliRunner().invoke(app, [str(word) for word in words])
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)["means"]

        words = ["evaluate", str(tmp_path / "run"), str(tmp_path / "sequences.parquet"), "--device", "cpu"]
        assert "with 6 SIDs generated per user" in CliRunner().invoke(app, words).stdout
        assert f"{facts['test']['valid_share']:.1%} of what was generated" in CliRunner().invoke(app, words).stdout
        assert evaluated() == pytest.approx(facts["test"])
        assert evaluated("--constrained")["valid_share"] == 1
        assert evaluated("--invalid-consumes-rank")["item_mrr@20"] < facts["test"]["item_mrr@20"]
        (tmp_path / "stock.txt").write_text("p 3\n\n  p 4 \n")
        assert evaluated("--within", tmp_path / "stock.txt", "--constrained")["valid_share"] == 1  # two SIDs, six beams

    def test_a_narrow_terminal_shows_every_digit(self, monkeypatch, trained):
        from io import StringIO

        import rich.console

        from sidkit.cli.printing import print_figures

        screen, make = StringIO(), rich.console.Console
        monkeypatch.setattr(
            "sidkit.cli.printing.Console",
            lambda **_: make(file=screen, width=80, force_terminal=True, color_system=None),
        )
        facts = trained[0].facts
        print_figures(facts["test"], facts["users"], {})
        for name in ("recall@5", "ndcg@20", "mrr@10"):
            assert f"{facts['test'][f'corrected_{name}']:.4f}" in screen.getvalue()
        assert "…" not in screen.getvalue()


class TestErrors:
    def test_items_without_a_sid_are_counted(self, tmp_path):
        table, _ = ring()
        with pytest.raises(InputError, match="1 of 6 items"):
            train(table, Sequences(np.array([0, 1, 2, -1, 4, 5]), np.array([0, 6]), 1), tmp_path / "run", LEARNS, "cpu")

    def test_sequences_too_short_for_training_are_named(self, tmp_path):
        table, _ = ring()
        with pytest.raises(InputError, match="no sequence has the 4 items"):
            train(table, Sequences.of([[1, 2, 3]]), tmp_path / "run", LEARNS, device="cpu")

    def test_a_folder_of_something_else_is_left_alone(self, tmp_path):
        table, sequences = ring()
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(StoreError, match="other files"):
            train(table, sequences, tmp_path, LEARNS, device="cpu")
        with pytest.raises(StoreError, match=r"no trained retriever: no retriever\.json in it$"):
            Retriever.load(tmp_path)
        (tmp_path / "run.unfinished").mkdir()
        with pytest.raises(StoreError, match=r"run\.unfinished can be trained on with --resume"):
            Retriever.load(tmp_path / "run")

    def test_histories_of_unknown_or_no_items_are_refused(self, trained):
        for history, words in ((["nobody"], "no item 'nobody'"), ([], "at least one item")):
            with pytest.raises(InputError, match=words):
                trained[0].recommend(history)

    def test_plans_that_make_no_sense_are_refused(self):
        for options in ({"epochs": 0}, {"learning_rate": 0.0}, {"precision": "int3"}, {"seed": -1}, {"seed": 1 << 63}):
            with pytest.raises(SpecError):
                Plan(**options)
        with pytest.raises(SpecError, match="dropout"):
            Shape(dropout=1.0)

    def test_numbers_that_make_no_sense_are_refused(self, trained):
        retriever, _, sequences, _ = trained
        with pytest.raises(SpecError, match="beams must be at least 1, not 0"):
            retriever.evaluate(sequences, beams=0)
        with pytest.raises(SpecError, match="beams must be at least 1, not -1"):
            retriever.recommend(["p1"], beams=-1)
        with pytest.raises(SpecError, match="k must be at least 1"):
            retriever.recommend(["p1"], k=0)

    def test_a_device_that_does_not_exist_is_named(self, tmp_path):
        with pytest.raises(SpecError, match="no device 'gpu'"):
            Retriever.load(tmp_path, "gpu")

    def test_a_training_of_other_sizes_is_not_gone_on_with(self):
        table, sequences = ring()
        other = SidTable(table.ids, table.codes, (8, 8))
        assert loop.identity(table, sequences, LEARNS) != loop.identity(other, sequences, LEARNS)

    def test_a_gpu_that_is_not_there_is_named(self, tmp_path):
        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(InputError, match="finds no GPU"):
            Retriever.load(tmp_path, "cuda")


def test_evaluation_does_not_depend_on_how_users_are_batched(trained, monkeypatch):
    retriever, table, sequences, _ = trained
    whole = Evaluator(table, sequences, "test", 20, "cpu")(retriever.weights, LEARNS.shape, 10)
    monkeypatch.setattr("sidkit.retriever.evaluation.TOGETHER", 7 * 10 * 25)
    parts = Evaluator(table, sequences, "test", 20, "cpu")(retriever.weights, LEARNS.shape, 10)
    assert parts.count == whole.count == 120
    assert parts.sums == pytest.approx(whole.sums)


def test_many_users_get_what_each_gets_alone(trained, monkeypatch):
    retriever = trained[0]
    histories = [[f"p{(start + i) % 32}" for i in range(1 + start % 5)] for start in range(9)]
    whole = retriever.recommend_many(histories, k=4)
    monkeypatch.setattr("sidkit.retriever.evaluation.TOGETHER", 2 * 10 * 13)  # two users at a time
    parts = retriever.recommend_many(histories, k=4)
    alone = [retriever.recommend(history, k=4) for history in histories]
    for other in (parts, alone):
        assert [[one[:2] for one in user] for user in other] == [[one[:2] for one in user] for user in whole]
        np.testing.assert_allclose(
            *([one.score for user in each for one in user] for each in (other, whole)), atol=1e-5
        )


def test_figures_do_not_depend_on_how_many_users_are_judged_at_once(monkeypatch):
    sequences, weights = walks(users=25), peaked(new_weights(SMALL, 25, 0))
    judge = Evaluator(shop(), sequences, "valid", 20, "cpu")
    whole = judge(weights, SMALL, 10)
    monkeypatch.setattr("sidkit.retriever.evaluation.JUDGED", 4)
    assert judge(weights, SMALL, 10).sums == pytest.approx(whole.sums)


def test_runs_judged_together_get_the_figures_they_get_alone():
    sequences = walks(users=25)
    judges = [Evaluator(shop(seed=seed), sequences, "valid", 20, "cpu") for seed in (4, 5)]
    runs = [peaked(new_weights(SMALL, 25, seed)) for seed in range(2)]
    stacked = {name: torch.cat([weights[name] for weights in runs]) for name in runs[0]}
    together = Panel(judges)(stacked, SMALL, 10)
    for judge, weights, tally in zip(judges, runs, together, strict=True):
        alone = judge(weights, SMALL, 10)
        assert tally.count == alone.count == 25
        assert tally.sums == pytest.approx(alone.sums)
    assert together[0].sums != together[1].sums


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_recorded_step_of_a_gpu_trains_as_the_cpu_does():
    shape = Shape(2, 32, 64, 2, 16, dropout=0.0)
    table, sequences = shop(), walks(users=40)
    after = {}
    for device in ("cpu", "cuda"):
        plan = Plan(shape, batch=32, learning_rate=1e-3, precision="float32")
        stack = Stack(sequences, Vocabulary(table.sizes), plan, 2, device)
        for run in range(2):
            stack.place(run, new_weights(shape, 25, run), table.codes)
        losses = []
        for epoch in range(3):
            list(stack.epoch([0, 1], [epoch, epoch]))
            losses.append(stack.losses())
        after[device] = losses
    assert np.allclose(after["cpu"], after["cuda"], rtol=1e-3)
    assert after["cuda"][2][0] < after["cuda"][0][0]
