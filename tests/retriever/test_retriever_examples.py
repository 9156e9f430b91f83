"""Histories as examples, and their packing into batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidkit.data.sequences import Sequences

pytest.importorskip("torch")
pytest.importorskip("transformers")

from sidkit.retriever.data import Vocabulary, examples
from sidkit.retriever.layout import Layout


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
            split_examples = examples(sequences, split, history=20)
            for at, n in zip(split_examples.position, split_examples.length, strict=True):
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
    def test_every_example_has_one_slot_an_epoch(self, lengths, batch, epoch):
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
