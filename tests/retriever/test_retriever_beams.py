"""Tries, beam search and constrained generation, compared with transformers' generate."""

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.errors import InputError
from sidkit.sids.trie import Trie

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from sidkit.decoding.device_trie import DeviceTrie
from sidkit.retriever import SidLogitsProcessor
from sidkit.retriever.beams import Beams, beam_search, stacked_search
from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.model import build_t5, to_state
from toys import SMALL, fresh_weights, generated, padded, peaked, shop, walks


def unconstrained(weights, shape, trie, tokens, beams):
    """The best token sequences of one run, SIDs or not; those that are no SID have leaf -1."""
    best = stacked_search(weights, shape, trie, tokens[None], beams, constrained=False)
    return Beams(best.leaf[0], best.score[0])


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
    weights = peaked(fresh_weights(SMALL, len(vocabulary), 3))
    model = build_t5(SMALL, len(vocabulary), to_state(weights, SMALL))
    sequences = walks(users=6, most=24)
    inputs, _ = padded(sequences, examples(sequences, "test"), vocabulary.tokens(table.codes), np.arange(6))
    return table, vocabulary, weights, model, inputs


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
        ours = unconstrained(weights, SMALL, DeviceTrie(trie, vocabulary, "cpu"), inputs, 8)
        tokens, scores = generated(model, inputs, 8)
        assert bool((tokens[:, :, 1] == 0).any()) is bool(end)  # some hypotheses do end early, where they should
        assert torch.allclose(ours.score / 3, scores, atol=1e-5)
        known = {tuple(row): leaf for leaf, row in enumerate(_leaf_tokens(trie, table, vocabulary))}
        theirs = [[known.get(tuple(beam), -1) for beam in user] for user in tokens.tolist()]
        assert ours.leaf.tolist() == theirs

    def test_fewer_sids_than_beams_leave_empty_ranks(self, decoding):
        table, vocabulary, weights, _, inputs = decoding
        trie = Trie.of(table, np.array([4, 9]))
        best = beam_search(weights, SMALL, DeviceTrie(trie, vocabulary, "cpu"), inputs, 10)
        assert (best.leaf >= 0).sum(1).tolist() == [len(trie)] * len(inputs)

    @pytest.mark.parametrize("constrained", [True, False])
    def test_stacked_runs_find_what_each_finds_alone(self, constrained):
        tables = [shop(seed=1), shop(items=6, seed=2, twins=2), shop(seed=3)]  # the second has few SIDs
        vocabulary, rng = Vocabulary(tables[0].sizes), np.random.default_rng(0)
        tries = [Trie.of(table) for table in tables]
        runs = [peaked(fresh_weights(SMALL, len(vocabulary), seed)) for seed in range(3)]
        stacked = {name: torch.cat([weights[name] for weights in runs]) for name in runs[0]}
        tokens = torch.tensor(rng.integers(1, len(vocabulary), (3, 5, 12)))
        tokens[:, 2:, :6] = 0
        together = stacked_search(stacked, SMALL, DeviceTrie(tries, vocabulary, "cpu"), tokens, 8, constrained)
        for run, weights in enumerate(runs):
            trie = DeviceTrie(tries[run], vocabulary, "cpu")
            alone = (beam_search if constrained else unconstrained)(weights, SMALL, trie, tokens[run], 8)
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
            scored = processor(torch.tensor([[1, 2, *ids]] * 2), scores)
            return torch.nonzero(scored[0] == 0)[:, 0].tolist()

        assert allowed() == [5, 7]
        assert allowed(7) == [3, 8]
        assert allowed(5) == [8]
        assert allowed(5, 8) == [9]
        assert allowed(4) == [9]

    @pytest.mark.parametrize("kind", ["gpt2", "llama", "bart"])
    @pytest.mark.parametrize("options", [{"num_beams": 6, "num_return_sequences": 6}, {"do_sample": True}, {}])
    def test_models_of_other_makes_generate_valid_sids_too(self, kind, options):
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
        sids = model.generate(prompt, **given, **options)[:, start:]
        assert (sids[:, 3] == end).all()
        assert {tuple(sid) for sid in (sids[:, :3] - torch.tensor(first)).tolist()} <= set(
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
