"""The network, its training step and stacked runs, compared with transformers' T5."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from sidkit.retriever import Plan, Shape
from sidkit.retriever.data import Vocabulary
from sidkit.retriever.model import build_t5, from_state, to_state
from sidkit.retriever.network import loss
from sidkit.retriever.stack import Stack
from sidkit.retriever.step import adam
from toys import SMALL, fresh_weights, padded, peaked, ring, shop, walks


class TestNetwork:
    def test_weights_go_to_transformers_and_back_unchanged(self):
        weights = fresh_weights(SMALL, 25, seed=1)
        model = build_t5(SMALL, 25, to_state(weights, SMALL))
        again = from_state(model.state_dict(), SMALL)
        assert weights.keys() == again.keys()
        assert all(torch.equal(weights[name], again[name]) for name in weights)
        assert not torch.equal(fresh_weights(SMALL, 25, seed=2)["shared"], weights["shared"])

    def test_the_loss_of_packed_stacked_batches_is_transformers(self):
        table, sequences = shop(), walks()
        plan, vocabulary = Plan(SMALL, batch=24), Vocabulary(table.sizes)
        stack = Stack(sequences, vocabulary, plan, 2, "cpu")
        models = []
        for run in range(2):
            weights = peaked(fresh_weights(SMALL, len(vocabulary), run))
            stack.put(run, weights, table.codes)
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
        fresh = fresh_weights(shape, len(vocabulary), 0)
        stack.put(0, fresh, table.codes)
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
        for name, value in stack.weights_of(0).items():
            assert torch.allclose(value, theirs[name], atol=2e-4), name

    def test_runs_in_a_stack_do_not_touch_each_other(self):
        shape = Shape(1, 16, 24, 2, 8, dropout=0.0)
        table, sequences = shop(), walks(users=10, most=10)

        def after(seeds):
            stack = Stack(sequences, Vocabulary(table.sizes), Plan(shape, batch=16), len(seeds), "cpu")
            for run, seed in enumerate(seeds):
                stack.put(run, fresh_weights(shape, 25, seed), table.codes)
            list(stack.epoch(seeds, [0] * len(seeds)))
            return stack.weights_of(len(seeds) - 1)

        alone, stacked = after([7]), after([1, 2, 7])
        assert all(torch.allclose(alone[name], stacked[name], atol=1e-6) for name in alone)

    def test_adam_counts_every_runs_steps_alone(self):
        grad = torch.tensor([[1.0], [1.0]])
        weights, first, second = torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2, 1)
        second[1], first[1] = 0.5, 0.5
        adam([weights], [weights], [grad], [first], [second], torch.tensor([1.0, 9.0]), 0.1)
        m, v = 0.9 * 0.5 + 0.1, 0.999 * 0.5 + 0.001
        expected = -0.1 * (m / (1 - 0.9**9)) / (math.sqrt(v / (1 - 0.999**9)) + 1e-8)
        assert weights[:, 0].tolist() == pytest.approx([-0.1, expected], rel=1e-5)


def test_dropout_is_for_training():
    table, sequences = ring(users=30)
    losses = {}
    for dropout in (0.0, 0.5):
        plan = Plan(Shape(1, 16, 16, 2, 8, dropout=dropout), epochs=1, batch=500, beams=4)
        stack = Stack(sequences, Vocabulary(table.sizes), plan, 1, "cpu")
        stack.put(0, peaked(fresh_weights(plan.shape, 13, 0)), table.codes)
        list(stack.epoch([0], [0]))
        losses[dropout] = stack.losses()[0]  # one batch: before any step
    assert losses[0.0] != pytest.approx(losses[0.5], rel=1e-3)


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
            stack.put(run, fresh_weights(shape, 25, run), table.codes)
        losses = []
        for epoch in range(3):
            list(stack.epoch([0, 1], [epoch, epoch]))
            losses.append(stack.losses())
        after[device] = losses
    assert np.allclose(after["cpu"], after["cuda"], rtol=1e-3)
    assert after["cuda"][2][0] < after["cuda"][0][0]
