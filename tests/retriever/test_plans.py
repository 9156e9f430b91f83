"""What a plan may change in the training loop: each against torch's own, or worked by hand."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.errors import InputError, SpecError

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from command import sidkit
from sidkit.files.checkpoint import Checkpoint
from sidkit.retriever import Plan, Shape, train
from sidkit.retriever.augment import cut_lengths, drawn_tokens
from sidkit.retriever.backend import why_no_kernels
from sidkit.retriever.data import Vocabulary
from sidkit.retriever.model import new_weights
from sidkit.retriever.network import head
from sidkit.retriever.plan import PLANS, changed, plan_of
from sidkit.retriever.rates import move_average, rates_at
from sidkit.retriever.resume import identity
from sidkit.retriever.runs import TrainingRun
from sidkit.retriever.stack import Stack
from sidkit.retriever.training import train_stack
from toys import StopAt, ring, walks, write_files

TINY = Shape(1, 16, 16, 2, 8, dropout=0.2)
FULL = Plan(
    TINY, epochs=3, batch=16, learning_rate=2e-2, beams=6, warmup=5, decay="cosine", smoothing=0.1, average=0.9,
    crop=0.5, swap=0.5, fusion=False,
)  # fmt: skip


def others_of(table, seed=5):
    """Another SID for every item, of the same sizes."""
    codes = np.random.default_rng(seed).permutation(table.codes)
    return SidTable(table.ids, codes, table.sizes)


def stack_of(plan, others=()):
    table, sequences = ring(users=40)
    stack = Stack(sequences, Vocabulary(table.sizes), plan, 1, "cpu")
    stack.put(0, new_weights(plan.shape, len(stack.vocabulary), 0), table.codes, others=others)
    return stack, table


def test_the_learning_rate_by_hand():
    steps = torch.tensor([1.0, 2.0, 4.0, 5.0, 7.0, 10.0])
    plan = Plan(learning_rate=0.8, warmup=4, decay="linear")
    wanted = [0.2, 0.4, 0.8, 0.8 * 6 / 7, 0.8 * 4 / 7, 0.8 / 7]
    np.testing.assert_allclose(rates_at(steps, plan, 10).tolist(), wanted, rtol=1e-6)
    by_cosine = [0.2, 0.4, 0.8, *(0.4 + 0.4 * np.cos(np.pi * done / 7) for done in (1, 3, 6))]
    np.testing.assert_allclose(rates_at(steps, replace(plan, decay="cosine"), 10).tolist(), by_cosine, rtol=1e-5)
    stays = rates_at(steps, replace(plan, decay="none"), 10).tolist()
    np.testing.assert_allclose(stays, [0.2, 0.4, 0.8, 0.8, 0.8, 0.8], rtol=1e-6)
    assert rates_at(steps, Plan(), 10) == 1e-4
    assert rates_at(torch.tensor([99.0]), plan, 10).item() == 0


@pytest.mark.parametrize("weight_decay", [0.0, 3.0])
def test_a_step_uses_its_rate_and_takes_the_same_steps_as_adamw_of_torch(weight_decay):
    """Ten steps with warm-up and decay equal those of torch's AdamW with the rates set by hand."""
    plan = Plan(replace(TINY, dropout=0.0), epochs=2, batch=64, learning_rate=1e-2, warmup=2, decay="linear")
    plan = replace(plan, weight_decay=weight_decay)
    stack, _ = stack_of(plan)
    total = plan.epochs * stack.layout.batches
    theirs = {name: value.detach().clone().requires_grad_() for name, value in stack.weights.items()}
    names = {"encoder.norm", "encoder.final", "decoder.norm", "decoder.final"}
    matrices, norms = ([value for name, value in theirs.items() if (name in names) is them] for them in (False, True))
    assert len(norms) == 4
    adam = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": weight_decay}, {"params": norms, "weight_decay": 0.0}]
    )
    from sidkit.retriever.network import loss

    step = 0
    for epoch in range(plan.epochs):
        stack.order.copy_(torch.as_tensor(stack.layout.order(0, epoch))[None])
        for at in range(stack.layout.batches):
            stack.at.fill_(at)
            step += 1
            for group in adam.param_groups:
                group["lr"] = float(rates_at(torch.tensor([float(step)]), plan, total))
            adam.zero_grad()
            loss(theirs, plan.shape, 2, stack.batch()).sum().backward()
            adam.step()
        list(stack.epoch([0], [epoch]))
    assert float(stack.step[0]) == step > 4
    for name, value in stack.weights.items():
        torch.testing.assert_close(value, theirs[name].detach(), rtol=1e-3, atol=2e-5)


def test_label_smoothing_is_that_of_torch():
    rng = torch.Generator().manual_seed(0)
    x, final, shared = (torch.randn(*size, generator=rng) for size in ((2, 12, 8), (2, 8), (2, 20, 8)))
    target, weight = torch.randint(20, (2, 4, 3), generator=rng), torch.ones(2, 4, 3)
    weight[1, 3] = 0
    from sidkit.retriever.network import logits

    scores = logits(x, final, shared, torch.float32)
    ours = head(x, final, shared, target, weight, torch.float32, 0.0, smoothing=0.3)
    for run, kept in ((0, 12), (1, 9)):
        loss = torch.nn.CrossEntropyLoss(label_smoothing=0.3)(scores[run, :kept], target[run].flatten()[:kept])
        assert float(ours[run]) == pytest.approx(float(loss), rel=1e-5)


def test_a_stack_trains_with_the_smoothing_of_its_plan():
    losses = []
    for smoothing in (0.0, 0.5):
        stack, _ = stack_of(Plan(replace(TINY, dropout=0.0), batch=64, learning_rate=1e-3, smoothing=smoothing))
        list(stack.epoch([0], [0]))
        losses.append(stack.losses()[0])
    assert losses[1] != pytest.approx(losses[0], rel=1e-3)


def test_the_average_by_hand():
    """d = min(0.5, (1 + t) / (10 + t)): 2/11 at the first step, 3/12 at the second, 0.5 from the eighth on."""
    mean, step = torch.zeros(2, 1), torch.tensor([1.0, 8.0])
    move_average([mean], [torch.tensor([[11.0], [3.0]])], step, 0.5)
    assert mean.flatten().tolist() == pytest.approx([9.0, 1.5])
    move_average([mean], [torch.tensor([[1.0], [3.0]])], step + 1, 0.5)
    assert mean.flatten().tolist() == pytest.approx([9.0 * 0.25 + 0.75, 2.25])


def test_the_average_is_what_is_validated_and_kept():
    table, sequences = ring(users=40)
    plan = Plan(replace(TINY, dropout=0.0), epochs=2, batch=16, learning_rate=2e-2, beams=6, average=0.9)
    stack, _ = stack_of(plan)
    by_hand = {name: value.clone() for name, value in stack.weights.items()}
    for epoch in range(2):
        for taken in stack.epoch([0], [epoch], every=1):
            assert taken == 1
            t = float(stack.step[0])
            share = min(0.9, (1 + t) / (10 + t))
            by_hand = {name: share * by_hand[name] + (1 - share) * w for name, w in stack.weights.items()}
        if epoch == 0:
            first = {name: value.clone() for name, value in by_hand.items()}
    (outcome,) = train_stack([TrainingRun("a", table, 0)], sequences, plan, "cpu")
    kept = by_hand if outcome.best_epoch == 2 else first
    for name, value in outcome.weights.items():
        torch.testing.assert_close(value, kept[name], rtol=1e-4, atol=1e-6)
        assert name.endswith("norm") or not torch.equal(value, stack.weights[name])


def test_histories_are_cut_anew_in_every_epoch():
    length = np.random.default_rng(0).integers(1, 20, 5000)
    cut = cut_lengths(length, 0.4, 7, 3)
    assert (cut == cut_lengths(length, 0.4, 7, 3)).all()
    assert (cut != cut_lengths(length, 0.4, 7, 4)).any()
    assert (cut != cut_lengths(length, 0.4, 8, 3)).any()
    assert ((cut >= 1) & (cut <= length)).all()
    long = length == 19
    assert (cut[long] < 19).mean() == pytest.approx(0.4 * 18 / 19, abs=0.08)
    assert cut_lengths(length, 0.0, 7, 3) is length
    assert cut[long & (cut < 19)].mean() == pytest.approx(9.5, abs=1.0)


def test_a_cut_history_is_its_latest_items():
    stack, table = stack_of(Plan(TINY, batch=16, crop=1.0))
    tokens = Vocabulary(table.sizes).tokens(table.codes)
    next(iter(stack.epoch([0], [0], every=1)))
    stack.at.zero_()
    batch, shorter = stack.batch(), 0
    for slot in range(stack.layout.slots):
        example = int(stack.order[0, 0, slot])
        if example < 0:
            continue
        n, end = int(stack.length[0, example]), int(stack.examples.position[example])
        shorter += n < stack.examples.length[example]
        wanted = tokens[stack.sequences.rows[end - n : end]].ravel()
        assert batch.tokens[0][batch.owner[0] == slot].tolist() == wanted.tolist()
    assert shorter


def test_items_are_read_by_other_sids_in_histories_alone():
    table, _ = ring(users=40)
    other = others_of(table)
    stack, _ = stack_of(Plan(TINY, batch=16, swap=0.5), others=(other.codes,))
    both = np.stack([Vocabulary(table.sizes).tokens(one.codes) for one in (table, other)])
    drawn = drawn_tokens(both, 0.5, 0, 0)
    swapped = (drawn != both[0]).any(1)
    assert 8 <= swapped.sum() <= 24
    assert (drawn[swapped] == both[1][swapped]).all()
    assert (drawn != drawn_tokens(both, 0.5, 0, 1)).any()
    next(iter(stack.epoch([0], [0], every=1)))
    assert (stack.read[0].numpy() == drawn).all()
    assert (stack.tokens[0].numpy() == both[0]).all()
    stack.at.zero_()
    batch = stack.batch()
    known = {tuple(row) for row in both[0].tolist()}
    targets = batch.target[0][batch.weight[0] > 0].view(-1, 2).tolist()
    assert {tuple(row) for row in targets} <= known
    read = {tuple(row) for row in drawn.tolist()}
    assert {tuple(row) for row in batch.tokens[0][batch.owner[0] >= 0].view(-1, 2).tolist()} <= read


@pytest.mark.parametrize("words", [("epoch 1",), ("epoch 2",)])
def test_a_training_with_everything_resumes_to_the_same_bits(tmp_path, monkeypatch, words):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    table, sequences = ring(users=40)
    others = [others_of(table)]
    whole = train(table, sequences, tmp_path / "whole", FULL, "cpu", others=others)
    with pytest.raises(KeyboardInterrupt):
        train(table, sequences, tmp_path / "run", FULL, "cpu", StopAt(*words), others=others)
    resumed = train(table, sequences, tmp_path / "run", FULL, "cpu", resume=True, others=others)
    for name, value in whole.weights.items():
        assert torch.equal(value, resumed.weights[name])
    assert whole.facts["test"] == resumed.facts["test"]


def test_a_run_with_everything_learns_in_a_stack_what_it_learns_alone():
    table, sequences = ring(users=30)
    codes = (others_of(table).codes,)
    runs = [TrainingRun("a", table, seed, others=codes) for seed in range(3)]
    together = {one.run.seed: one for one in train_stack(runs, sequences, FULL, "cpu", at_once=3)}
    (alone,) = train_stack([runs[1]], sequences, FULL, "cpu")
    losses = [[entry["loss"] for entry in one.log] for one in (together[1], alone)]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0] != pytest.approx([entry["loss"] for entry in together[0].log], rel=1e-3)


def test_what_a_decaying_rate_depends_on_cannot_change_when_a_training_resumes():
    table, sequences = ring(users=30)
    plain, decaying = Plan(TINY, epochs=3), Plan(TINY, epochs=3, decay="linear")
    assert identity(table, sequences, plain) == identity(table, sequences, replace(plain, epochs=9))
    assert identity(table, sequences, decaying) != identity(table, sequences, replace(decaying, epochs=9))
    assert identity(table, sequences, plain) != identity(table, sequences, plain, [table.codes])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"smoothing": 1.0}, r"smoothing must lie in \[0, 1\), not 1.0"),
        ({"average": -0.1}, r"average must lie in \[0, 1\), not -0.1"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"crop": 1.5}, r"crop must lie in \[0, 1\], not 1.5"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"decay": "cosin"}, "decay must be 'none', 'linear' or 'cosine', not 'cosin'"),
    ],
)
def test_plans_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(SpecError, match=message):
        Plan(**fields)


def test_other_sids_have_to_fit(tmp_path):
    table, sequences = ring(users=30)
    plan = Plan(TINY, epochs=1, swap=0.2)
    with pytest.raises(SpecError, match=r"swap 0\.2 needs other SIDs"):
        train(table, sequences, tmp_path / "run", plan, "cpu")
    with pytest.raises(InputError, match=r"same sizes, \(4, 8\), not \(4, 9\)"):
        train(table, sequences, tmp_path / "run", plan, "cpu", others=[SidTable(table.ids, table.codes, (4, 9))])
    with pytest.raises(InputError, match="1 of 32 items have no SID in another table"):
        less = SidTable(table.ids[1:], table.codes[1:], table.sizes)
        train(table, sequences, tmp_path / "run", plan, "cpu", others=[less])
    assert not (tmp_path / "run").exists()


def test_the_help_says_what_the_presets_have():
    from typing import get_args, get_type_hints

    from sidkit.cli.train import train as command

    said = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for option in get_args(hint)[1:]:
            found = re.search(r"\[(?:default: ([^;\]]+))?(?:; )?(?:best: ([^\]]+))?\]", option.help or "")
            if found:
                said[name] = found.groups()
    assert said["learning_rate"] == ("1e-4", "2e-3")
    best = {"epochs", "batch", "learning_rate", "warmup", "decay", "smoothing", "weight_decay", "average", "crop"}
    assert {name for name, (_, value) in said.items() if value} == best
    for name in best:
        for plan, value in zip(("paper", "best"), said[name], strict=True):
            kept = getattr(PLANS[plan], name)
            assert value is None or (value == kept if isinstance(kept, str) else float(value) == kept), (name, plan)


def test_presets_are_plans_and_options_change_them():
    assert plan_of("paper") == Plan()
    assert PLANS["best"].decay == "cosine"
    plan = changed(plan_of("best"), {"layers": 1, "d_model": None}, epochs=7, crop=None)
    assert (plan.shape.layers, plan.shape.d_model, plan.epochs, plan.crop) == (1, 128, 7, PLANS["best"].crop)
    with pytest.raises(SpecError, match="no model preset 'bst'; did you mean 'best'"):
        plan_of("bst")


def test_why_kernels_do_not_serve_a_model_is_said():
    assert "they need a GPU" in why_no_kernels(Shape(), torch.bfloat16, "cpu", 64)
    words = why_no_kernels(Shape(d_model=256, d_kv=24), torch.float32, "cuda", 128)
    for part in ("bfloat16", "256 is not 64 or 128", "24 are not of 16", "128 tokens are over 64"):
        assert part in words
    assert not why_no_kernels(PLANS["best"].shape, torch.bfloat16, "cuda", 64)


def test_the_commands_train_and_judge_with_and_without_fusion(tmp_path):
    table, sequences = ring(users=60)
    write_files(tmp_path, table, sequences)
    others_of(table).to_parquet(tmp_path / "others.parquet")
    small = ("--preset", "best", "--layers", 1, "--width", 64, "--epochs", 2, "--beams", 6, "--device", "cpu")
    sids, taken = tmp_path / "sids.parquet", tmp_path / "sequences.parquet"
    also = ("--also", tmp_path / "others.parquet")
    facts = json.loads(sidkit("train", sids, taken, "-o", tmp_path / "run", *small, *also, "--json"))
    assert facts["plan"]["shape"]["layers"] == 1
    assert (facts["plan"]["decay"], facts["plan"]["swap"], facts["plan"]["smoothing"]) == ("cosine", 0.2, 0.1)
    assert facts["fusion"]["validation"]["on"]  # two epochs learn less than counting knows
    judged = json.loads(sidkit("evaluate", tmp_path / "run", taken, "--device", "cpu", "--json"))
    assert judged["means"]["fused_ndcg@10"] == pytest.approx(facts["test"]["fused_ndcg@10"])
    assert judged["seen"]["fused"].keys() == {"0", "1-4", "5+"}
    alone = json.loads(sidkit("evaluate", tmp_path / "run", taken, "--device", "cpu", "--not-fused", "--json"))
    assert "fused_ndcg@10" not in alone["means"]
    assert judged["fusion"]
    assert alone["fusion"] is None  # which says nothing of lists that are not shown
    shown = sidkit("evaluate", tmp_path / "run", taken, "--device", "cpu")
    for words in ("fused with counts", "never seen in training", "of NDCG@10 on validation", "could know"):
        assert words in shown
    lists = [
        json.loads(sidkit("recommend", tmp_path / "run", "--history", "p4,p5", *more, "--json"))
        for more in ((), ("--not-fused",))
    ]
    assert [one["fused"] for one in lists] == [True, False]
    refused = sidkit("train", sids, taken, "-o", tmp_path / "x", "--swap", 0.5, check=1)
    assert "--swap 0.5 needs other SIDs" in refused


def test_walks_of_any_length_can_be_cut():
    sequences = walks(users=10)
    plan = Plan(TINY, batch=8, crop=1.0, history=5)
    stack = Stack(sequences, Vocabulary((8, 8, 8)), plan, 1, "cpu")
    codes = np.random.default_rng(0).integers(0, 8, (60, 3))
    stack.put(0, new_weights(TINY, len(stack.vocabulary), 0), codes)
    list(stack.epoch([0], [0]))
    assert np.isfinite(stack.losses()[0])
