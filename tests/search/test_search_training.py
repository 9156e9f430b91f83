"""Training a search model: steps against transformers in float64, exact resuming, stages, learning rates."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the search model needs torch")
pytest.importorskip("transformers", reason="the search model needs transformers")
pytest.importorskip("tokenizers", reason="the search model needs tokenizers")

from sidkit.errors import SpecError  # noqa: E402
from sidkit.files.checkpoint import Checkpoint  # noqa: E402
from sidkit.search.bart.packing import epoch  # noqa: E402
from sidkit.search.bart.shape import BartShape, build_bart  # noqa: E402
from sidkit.search.bart.weights import from_state  # noqa: E402
from sidkit.search.templates import read_templates  # noqa: E402
from sidkit.search.training.loop import Trainer  # noqa: E402
from sidkit.search.training.plan import SearchPlan  # noqa: E402
from sidkit.search.training.stages import training_stages  # noqa: E402
from toy_corpus import corpus, sequences, tokens  # noqa: E402

SHAPE = BartShape(layers=1, d_model=16, d_ff=24, heads=2, positions=128, dropout=0.1)
STEPS = (2 * 3, 1 * 4, 2 * 1)  # epochs x batches of each stage


def plan_of(**changes):
    return SearchPlan(**({"shape": SHAPE, "epochs": (2, 1, 2), "batch": 8, "learning_rate": 1e-2} | changes))


def exact(**changes):
    """A plan without dropout."""
    return plan_of(shape=BartShape(layers=1, d_model=16, d_ff=24, heads=2, positions=128, dropout=0.0), **changes)


@cache
def model():
    torch.manual_seed(0)
    return build_bart(SHAPE, tokens().size, {"pad": 1, "bos": 0, "eos": 2})


@cache
def examples():
    return training_stages(corpus(), read_templates("en"), tokens(), plan_of())


def weights():
    return from_state(model().state_dict(), SHAPE)


def trainer(plan=None, kind=Trainer, start=None, stages=None, **options):
    stages = examples() if stages is None else stages
    return kind(start or weights(), stages, tokens(), plan or plan_of(), "cpu", torch.float32, **options)


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@cache
def trained():
    done = trainer()
    done.run()
    return done


class Killed(Exception):
    pass


class Short(Trainer):
    """A training that is killed before its step number `last`."""

    last = 0
    count = 0

    def _step(self, *given):
        if self.count == self.last:
            raise Killed
        self.count += 1
        return super()._step(*given)


class At(Checkpoint):
    """Saves once, after the step number `step`."""

    step = 0
    count = 0

    def due(self):
        self.count += 1
        return self.count == self.step


@pytest.mark.parametrize("step", range(1, sum(STEPS) + 1))
def test_a_training_resumes_at_any_step_of_any_stage_bit_for_bit(tmp_path, step):
    """Saved after a step, killed up to two steps later, resumed by another process: the same weights and losses."""
    whole = trained()
    saved = At(tmp_path, "run")
    saved.step = step
    first = trainer(kind=Short, checkpoint=saved)
    first.last = step + step % 3
    if first.last >= sum(STEPS):
        first.run()
    else:
        with pytest.raises(Killed):
            first.run()
    resumed = trainer(checkpoint=Checkpoint(tmp_path, "run"))
    resumed.run()
    assert same(resumed.weights, whole.weights)
    assert resumed.at.losses == whole.at.losses
    assert resumed.at.stage == 3


def test_a_training_killed_at_every_step_ends_the_same(tmp_path):
    for _ in range(sum(STEPS) - 1):
        one = trainer(kind=Short, checkpoint=Checkpoint(tmp_path, "run", every=0))
        one.last = 1
        with pytest.raises(Killed):
            one.run()
    last = trainer(checkpoint=Checkpoint(tmp_path, "run"))
    last.run()
    assert same(last.weights, trained().weights)
    assert last.at.losses == trained().at.losses


def test_a_finished_training_is_not_trained_again(tmp_path):
    first = trainer(checkpoint=Checkpoint(tmp_path, "run", every=0))
    first.run()
    again = trainer(kind=Short, checkpoint=Checkpoint(tmp_path, "run"))
    assert again.run().stage == 3  # a step would raise
    assert same(again.weights, first.weights)
    assert 0 < first.at.seconds / 2 < again.at.seconds


def test_the_weights_given_are_not_changed():
    given = weights()
    trainer(plan_of(epochs=(1, 0, 0)), start=given).run()
    assert same(given, weights())
    assert not any(value.requires_grad for value in given.values())


def test_each_stage_starts_from_the_weights_of_the_last_with_a_new_optimiser():
    """Three trainings of one stage each, one after the other, are one training of three stages."""
    start = weights()
    for epochs in ((2, 0, 0), (0, 1, 0), (0, 0, 2)):
        one = trainer(plan_of(epochs=epochs), start=start)
        one.run()
        assert not same(one.weights, start)
        start = {name: value.detach() for name, value in one.weights.items()}
    assert same(start, trained().weights)


def test_empty_stages_are_passed_over(tmp_path):
    none = np.array([], int)
    stages = training_stages(corpus(pairs=(none, none)), read_templates("en"), tokens(), plan_of())
    one = trainer(stages=stages, checkpoint=Checkpoint(tmp_path, "run", every=0))
    assert one.run().stage == 3
    assert [(entry["stage"], entry["epoch"]) for entry in one.at.losses] == [
        ("content", 1), ("content", 2), ("personal", 1), ("personal", 2),
    ]  # fmt: skip


def test_seeds_differ_by_seed_and_are_the_same_for_the_same():
    def run(seed):
        one = trainer(plan_of(seed=seed, epochs=(1, 0, 0)))
        one.run()
        return one.weights

    assert same(run(3), run(3))
    assert not same(run(3), run(4))


def plain_loss(bart, inputs, outputs):
    """The mean of -log p over the tokens of all outputs, their ends included, one example at a time, in float64."""
    total, count = 0.0, 0
    for input, output in zip(inputs, outputs, strict=True):
        shifted = torch.tensor([[2, *output[:-1]]])
        logits = bart(input_ids=torch.tensor([input]), decoder_input_ids=shifted).logits[0]
        for line, label in zip(logits, output, strict=True):
            total = total + torch.logsumexp(line, 0) - line[label]
            count += 1
    return total / count


def test_steps_are_those_of_transformers_and_adamw_in_float64():
    """Four batches: plain cross-entropy of the real tokens, without smoothing; AdamW with weight decay."""
    plan = exact(epochs=(0, 1, 0), weight_decay=0.1, warmup=3, decay="linear")
    ours = trainer(plan)
    ours.run()
    torch.manual_seed(0)
    bart = build_bart(plan.shape, tokens().size, {"pad": 1, "bos": 0, "eos": 2}).double()
    bart.load_state_dict({name: value.double() for name, value in model().state_dict().items()})
    parameters = [value for name, value in bart.named_parameters()]
    optimiser, losses, stage = torch.optim.AdamW(parameters, weight_decay=0.1), [], examples()["pairs"]
    for step, index in enumerate(epoch(len(stage), 8, (0, 1, 0))):
        batch = stage.take(index)
        loss = plain_loss(bart, sequences(batch.inputs), sequences(batch.outputs))
        loss.backward()
        optimiser.param_groups[0]["lr"] = 1e-2 * min(1, (step + 1) / 3) * (1 - step / 4)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert len(losses) == 4
    assert ours.at.losses[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    expected = from_state(bart.state_dict(), plan.shape)
    for name, value in ours.weights.items():
        if name == "shared":  # the row of padding has no gradient in transformers, and is never used
            value, expected[name] = (torch.cat([one[:1], one[2:]]) for one in (value, expected[name]))
        torch.testing.assert_close(value.detach(), expected[name], rtol=2e-3, atol=2e-4, msg=name)


def rates(**changes):
    """The learning rates of a training, by step."""
    seen = []

    class Listening(Trainer):
        def _step(self, *given):
            value = super()._step(*given)
            seen.append(self.optimiser.param_groups[0]["lr"])
            return value

    trainer(exact(**changes), Listening).run()
    return seen


def test_the_learning_rate_is_constant_by_default():
    assert rates() == [1e-2] * sum(STEPS)


def test_the_learning_rate_rises_and_falls_within_each_stage():
    expected = [
        1e-2 * min(1, (step + 1) / 4) * (1 - step / steps) for steps in STEPS for step in range(steps)
    ]  # fmt: skip
    assert rates(warmup=4, decay="linear") == pytest.approx(expected)
    assert rates(warmup=2) == pytest.approx([1e-2 * min(1, (s + 1) / 2) for steps in STEPS for s in range(steps)])


def test_losses_are_reported_by_epoch_and_fall():
    done = trainer(exact(epochs=(6, 6, 6)))
    done.run()
    by_stage = {}
    for entry in done.at.losses:
        by_stage.setdefault(entry["stage"], []).append(entry["loss"])
    assert list(by_stage) == ["content", "pairs", "personal"]
    for losses in by_stage.values():
        assert len(losses) == 6
        assert losses[-1] < losses[0]


class Heard:
    """A progress that is remembered."""

    def __init__(self):
        self.started, self.rows, self.notes = [], [], []

    def start(self, label, rows):
        self.started.append((label, rows))
        self.rows.append(0)

    def advance(self, rows):
        self.rows[-1] += rows

    def note(self, text):
        self.notes.append(text)

    def workers(self, text): ...


def test_progress_counts_examples_and_a_resumed_training_begins_where_it_was(tmp_path):
    logged = []
    one = trainer(
        kind=Short,
        checkpoint=Checkpoint(tmp_path, "run", every=0),
        log=lambda name, value, step: logged.append((name, step)),
    )
    one.last = 8
    with pytest.raises(Killed):
        one.run()
    assert logged == [("content/loss", 3), ("content/loss", 6)]
    heard = Heard()
    trainer(checkpoint=Checkpoint(tmp_path, "run")).run(heard)
    assert heard.started == [("pairs", 28), ("personal", 16)]
    assert heard.rows == [28, 16]
    assert heard.notes[-1].startswith("epoch 2/2, loss ")


def test_a_training_that_diverges_stops_and_is_not_saved(tmp_path):
    one = trainer(exact(learning_rate=1e18), checkpoint=Checkpoint(tmp_path, "run", every=0))
    with pytest.raises(SpecError, match=r"the loss became (nan|inf) in stage content; lower the learning rate"):
        one.run()
    saved = Checkpoint(tmp_path, "run").load("train")
    assert saved is None or np.isfinite(saved[0]["loss"])
