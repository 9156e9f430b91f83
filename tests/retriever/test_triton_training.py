"""The retriever's kernels compared with the plain code of network.py and step.py, gradients and dropout included.

On a CUDA device in bfloat16; elsewhere through Triton's interpreter, in float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels import DEVICE, ON_GPU, QUIET, RUN, WHY_NOT, torch

if not RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from sidkit.retriever import backend, network, stack
from sidkit.retriever import step as plain_step
from sidkit.retriever.triton import step as kernel_step
from sidkit.retriever.triton.layers import KernelDropout, Layers
from sidkit.retriever.triton.t5_blocks import TILES

pytestmark = QUIET
DTYPES = [torch.bfloat16 if ON_GPU else torch.float32]  # a GPU's own float32 product is not one
R, ROWS, W, D, HEADS, E, WIDE, WORDS = (2, 5, 20, 64, 4, 16, 192, 37) if ON_GPU else (2, 2, 20, 64, 2, 32, 192, 37)
SMALL = (2, 64, 64, 4, 16) if ON_GPU else (1, 64, 64, 2, 32)  # layers, d_model, d_ff, heads, d_kv
SHARE, SITE = 0.25, 2


def keep_mask(seed, site, lines, width):
    """(R, lines, width): the hash of the kernels, in numpy."""
    index = np.arange(lines * width // 2, dtype=np.uint32).reshape(1, lines, width // 2)
    with np.errstate(over="ignore"):
        key = index * np.uint32(0x9E3779B1)
        key = key + (seed.cpu().numpy().astype(np.uint32) ^ (np.uint32(site) * np.uint32(0x85EBCA77)))[:, None, None]
        key = (key ^ (key >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        key = (key ^ (key >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    both = np.stack([key, key << np.uint32(16)], 3).reshape(-1, lines, width)
    return torch.as_tensor(both >= np.uint32(round(SHARE * 2**32)), device=seed.device)


def dropped(x, seed, site, width):
    """x: (R, ...), cut into lines of `width` elements; of a last line that is not full, the first ones."""
    lines = x.reshape(len(x), -1, width) if x.shape[-1] % width == 0 else x.flatten(1, -2)
    keep = keep_mask(seed, site, lines.shape[1], width)[..., : lines.shape[2]] if SHARE else True
    return torch.where(torch.as_tensor(keep, device=x.device), lines / (1 - SHARE), 0.0).view(x.shape)


def feed_forward(x, scale, wi, wo, seed):
    hidden = dropped(
        torch.relu(network.norm(x, scale).to(wi.dtype) @ wi).float(), seed, SITE, TILES["norm_matmul"]["BN"]
    )
    return x + dropped((hidden.to(wo.dtype) @ wo).float(), seed, SITE + 1, D)


def attend(q, k, v, bias, mine, owner, seed):
    """network.attend with the kernels' dropout."""
    scores = (q.transpose(2, 3) @ k.permute(0, 1, 3, 4, 2)).float()
    scores = scores if bias is None else scores + bias[:, None]
    seen = (mine[..., :, None] == owner[..., None, :])[..., None, :, :]
    chances = torch.softmax(scores.masked_fill(~seen, network.FORBIDDEN), -1)
    chances = dropped(chances, seed, SITE, 1 << (chances.shape[-1] - 1).bit_length())
    return (chances.to(v.dtype) @ v.transpose(2, 3)).transpose(2, 3).flatten(3).flatten(1, 2)


def self_block(x, scale, qkv, o, bias, mine, owner, seed):
    parts = (network.norm(x, scale).to(qkv.dtype) @ qkv).unflatten(2, (3, HEADS, E)).unflatten(1, mine.shape)
    mixed = attend(*parts.unbind(3), bias, mine, owner, seed)
    return x + dropped((mixed @ o).float(), seed, SITE + 1, D)


def cross_block(x, scale, wq, o, keys, mine, owner, seed):
    q = (network.norm(x, scale).to(wq.dtype) @ wq).unflatten(2, (HEADS, E)).unflatten(1, mine.shape)
    mixed = attend(q, *keys.unbind(3), None, mine, owner, seed)
    return x + dropped((mixed @ o).float(), seed, SITE + 1, D)


def draw(dtype):
    generator = torch.Generator().manual_seed(0)

    def random(*shape, dtype=torch.float32, scale=1.0):
        return (torch.randn(*shape, generator=generator) * scale).to(dtype).to(DEVICE).requires_grad_()

    return random


def same(ours, reference, inputs, tolerance):
    """Results and gradients of the same random direction, by the length of their difference."""
    g = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    pairs = [(ours, reference)]
    grads = (torch.autograd.grad((out * g).sum(), inputs) for out in (ours, reference))
    pairs += list(zip(*grads, strict=True))
    if ON_GPU:
        torch.cuda.synchronize()  # gradients of matrices have a separate stream
    for number, (a, b) in enumerate(pairs):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = a.detach().double(), b.detach().double()
        assert float((a - b).norm() / b.norm().clamp(min=1e-9)) < tolerance, number


@pytest.fixture(params=[0.0, 0.25], ids=["all kept", "dropout"])
def share(request, monkeypatch):
    monkeypatch.setitem(globals(), "SHARE", request.param)
    return request.param


@pytest.fixture(params=DTYPES, ids=str)
def setting(request):
    dtype = request.param
    seed = torch.tensor([7, 123456789], dtype=torch.int32, device=DEVICE)
    slot = torch.arange(W, device=DEVICE).div(7, rounding_mode="floor").repeat(ROWS, 1)
    slot = slot + 3 * torch.arange(ROWS, device=DEVICE)[:, None]
    owner = slot.repeat(R, 1, 1).masked_fill(torch.arange(W, device=DEVICE) % 7 == 6, -1)  # padding in every slot
    return dtype, seed, slot, owner, 2e-2 if ON_GPU else 2e-5


def test_feed_forward(share, setting):
    dtype, seed, _, _, tolerance = setting
    random = draw(dtype)
    inputs = (
        random(R, ROWS * W, D), random(R, D),
        random(R, D, WIDE, dtype=dtype, scale=0.1), random(R, WIDE, D, dtype=dtype, scale=0.1),
    )  # fmt: skip
    ours = Layers(KernelDropout(share, seed), DEVICE).feed_forward(*inputs)
    same(ours, feed_forward(*inputs, seed), inputs, tolerance)


@pytest.mark.parametrize("tokens", [W, 16])  # not a power of two, and one
def test_self_block(share, setting, tokens):
    dtype, seed, slot, owner, tolerance = setting
    slot, owner = slot[:, :tokens].contiguous(), owner[:, :, :tokens].contiguous()
    random = draw(dtype)
    inputs = (
        random(R, ROWS * tokens, D), random(R, D), random(R, D, 3 * HEADS * E, dtype=dtype, scale=0.1),
        random(R, HEADS * E, D, dtype=dtype, scale=0.1), random(R, HEADS, tokens, tokens),
    )  # fmt: skip
    ours = Layers(KernelDropout(share, seed), DEVICE).attend(*inputs, None, slot, owner)
    same(ours, self_block(*inputs, slot, owner, seed), inputs, tolerance)


@pytest.mark.parametrize("tokens", [9, 16])
def test_cross_block(share, setting, tokens):
    dtype, seed, slot, owner, tolerance = setting
    random, mine = draw(dtype), slot[:, 3 : 3 + tokens].contiguous()
    inputs = (
        random(R, ROWS * tokens, D), random(R, D), random(R, D, HEADS * E, dtype=dtype, scale=0.1),
        random(R, HEADS * E, D, dtype=dtype, scale=0.1), random(R, ROWS, W, 2, HEADS, E, dtype=dtype),
    )  # fmt: skip
    *most, keys = inputs
    ours = Layers(KernelDropout(share, seed), DEVICE).attend(*most, None, keys, mine, owner)
    same(ours, cross_block(*inputs, mine, owner, seed), inputs, tolerance)


def test_a_share_of_the_elements_is_dropped_whatever_becomes_of_others():
    seed = torch.tensor([1, 2], dtype=torch.int32)
    masks = [keep_mask(seed, site, 300, 400) for site in (2, 3)]
    for mask in masks:
        assert (mask.float().mean((1, 2)) - 0.75).abs().max() < 0.005
    mask = masks[0][0]
    neighbours = [(mask[:, ::2], mask[:, 1::2]), (mask[:, 1:-1:2], mask[:, 2::2]), (mask[:-1], mask[1:])]
    for one, other in ((mask, masks[0][1]), (mask, masks[1][0]), *neighbours):
        both = (one & other).float().mean()
        assert abs(float(both) - 0.75**2) < 0.006


def stack_of(precision, device):
    from sidkit.data.sequences import Sequences
    from sidkit.retriever.model import Shape, new_weights
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.stack import Stack, Vocabulary

    shape = Shape(*SMALL, dropout=0.0)
    plan, rng = Plan(shape, batch=16, history=6, precision=precision), np.random.default_rng(0)
    walks = Sequences.of([rng.integers(30, size=9).tolist() for _ in range(12 if ON_GPU else 3)])
    runs = Stack(walks, Vocabulary((5, 6)), plan, R, device)
    codes = np.stack([np.arange(30) // 6, np.arange(30) % 6], 1)
    for run in range(R):
        runs.put(run, new_weights(plan.shape, len(runs.vocabulary), run), codes)
    return runs


def tokens_of(*shape):
    return torch.as_tensor(np.random.default_rng(2).integers(WORDS, size=shape), device=DEVICE)


def test_batches():
    one = stack_of("bfloat16" if ON_GPU else "float32", DEVICE)
    one.order.copy_(torch.as_tensor(np.stack([one.layout.order(seed, 1) for seed in (3, 4)])))
    given = (
        one.order, one.at, one.slot, one.item, one.level, one.mine, one.within,
        one.position, one.length, one.items, one.tokens, one.tokens.flip(1),
    )  # fmt: skip
    one.length[1] = 1  # the second run has short histories, both read by other SIDs
    empty = 0
    for at in range(one.layout.batches):
        one.at.fill_(at)
        ours, plain = (network.Batch(*part.gather_examples(*given)) for part in (kernel_step, plain_step))
        for name in ("tokens", "slot", "owner", "mine", "weight"):
            assert torch.equal(getattr(ours, name), getattr(plain, name)), name
        real = plain.weight > 0
        empty += int((~real).sum())
        for name in ("target", "before"):
            assert torch.equal(getattr(ours, name)[real], getattr(plain, name)[real]), name
            assert (getattr(ours, name)[~real] == 0).all()
    assert empty


def test_embeddings(share, setting):
    seed = setting[1]
    table, tokens = draw(torch.float32)(R, WORDS, D), tokens_of(R, 5, 9)
    plain = network.embed(table, tokens, 0.0)
    same(kernel_step.embed(table, tokens, (share, seed, SITE)), dropped(plain, seed, SITE, D), [table], 1e-5)


def test_the_end_of_the_encoder(share, setting):
    dtype, seed, _, _, tolerance = setting
    random = draw(torch.float32)
    inputs = random(R, 45, D), random(R, D)
    plain = dropped(network.norm(*inputs), seed, SITE, D).to(dtype)
    same(kernel_step.finish(*inputs, dtype, (share, seed, SITE)), plain, inputs, tolerance)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss(share, setting, smoothing):
    dtype, seed, _, _, tolerance = setting
    random, target = draw(torch.float32), tokens_of(R, 7, 11)
    weight = (tokens_of(R, 7, 11) % 3 > 0).float()
    x, final, shared = random(R, 77, D), random(R, D), random(R, WORDS, D)
    y = dropped(network.norm(x, final), seed, SITE, D) * D**-0.5
    scores = (y.to(dtype) @ shared.to(dtype).transpose(1, 2)).float()
    flat = scores.flatten(0, 1), target.flatten()
    each = torch.nn.functional.cross_entropy(*flat, reduction="none", label_smoothing=smoothing).view(R, -1)
    plain = (each * weight.flatten(1)).sum(1) / weight.sum((1, 2))
    if not share:
        known = network.head(x, final, shared, target, weight, dtype, 0.0, smoothing)
        torch.testing.assert_close(plain, known, rtol=tolerance, atol=0)
    ours = kernel_step.head(x, final, shared, target, weight, dtype, (share, seed, SITE), smoothing)
    same(ours, plain, (x, final, shared), tolerance)


def test_a_batch_of_nothing_has_no_loss(setting):
    dtype, seed = setting[:2]
    random = draw(torch.float32)
    x, final, shared = random(R, 6, D), random(R, D), random(R, WORDS, D)
    weight = torch.zeros(R, 2, 3, device=DEVICE)
    losses = kernel_step.head(x, final, shared, tokens_of(R, 2, 3), weight, dtype, (0.0, seed, SITE))
    grads = torch.autograd.grad(losses.sum(), (x, final, shared))
    assert all((value == 0).all() for value in (losses, *grads))


@pytest.mark.parametrize(("steps", "rate"), [(1, 1e-2), (3, (1e-2, 3e-3)), (400, 1e-2)])
def test_adam(steps, rate):
    """Many numbers and few, with a copy in another dtype and without, runs at different steps, and with rates of their
    own."""
    rate = torch.tensor(rate, device=DEVICE) if isinstance(rate, tuple) else rate
    results = []
    for part in (kernel_step, plain_step):
        generator = torch.Generator().manual_seed(0)
        weights, first, second = (
            [torch.randn(R, *shape, generator=generator).to(DEVICE) for shape in ((3, 700), (5,))] for _ in range(3)
        )
        second = [value.square() for value in second]
        copies = [weights[0].to(torch.bfloat16), weights[1]]
        grads = [torch.randn(w.shape, generator=generator).to(copy) for w, copy in zip(weights, copies, strict=True)]
        step = torch.tensor([1.0, float(steps)], device=DEVICE)
        part.adam(weights, copies, grads, first, second, step, rate)
        results.append([*weights, *copies, *first, *second])
    for ours, plain in zip(*results, strict=True):
        rtol = 1e-2 if ours.dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(ours.float(), plain.float(), rtol=rtol, atol=1e-6)


@pytest.mark.skipif(ON_GPU, reason="float32 on a CPU; the GPU has a separate test")
def test_a_model_of_kernels_has_the_loss_and_gradients_of_the_plain_one():
    stack = stack_of("float32", "cpu")
    list(stack.epoch([3, 4], [0, 0]))
    stack.at.zero_()
    batch, weights = stack.batch(), list(stack.copies.values())
    layers = Layers(KernelDropout(0.0, torch.zeros(R, dtype=torch.int32)), "cpu")
    results = []
    for parts in (layers.parts, network.ForwardParts()):
        losses = network.loss(stack.copies, stack.plan.shape, 2, batch, 0.0, parts)
        results.append([losses.detach(), *torch.autograd.grad(losses.sum(), weights)])
    for ours, plain in zip(*results, strict=True):
        assert float((ours - plain).norm() / plain.norm()) < 1e-4


def test_a_run_learns_in_a_stack_that_shrinks_what_it_learns_alone(monkeypatch):
    from sidkit import SidTable
    from sidkit.data.sequences import Sequences
    from sidkit.retriever.model import Shape
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.runs import Outcome, TrainingRun
    from sidkit.retriever.training import train_stack

    monkeypatch.setattr(
        stack, "choose_parts", lambda shape, runs, dtype, device, tokens: backend.kernel_parts(shape, runs, device)
    )
    monkeypatch.setattr(Outcome, "is_over", lambda self, plan: self.epoch >= 1 + self.run.seed)
    table = SidTable(np.arange(24), np.stack([np.arange(24) // 6, np.arange(24) % 6], 1), (4, 6))
    users, steps, history = (8, 7, 20) if ON_GPU else (3, 5, 4)
    walks = Sequences.of([[(user + step) % 24 for step in range(steps)] for user in range(users)])
    shape = Shape(1, *SMALL[1:], dropout=0.3)
    plan = Plan(shape, epochs=3, batch=32, beams=2, learning_rate=1e-3, history=history)
    results = []
    for seeds in ((0, 1), (1,)):
        *_, last = train_stack([TrainingRun("a", table, seed) for seed in seeds], walks, plan, DEVICE, at_once=2)
        assert (last.run.seed, last.epoch) == (1, 2)
        results.append([entry["loss"] for entry in last.log])
    np.testing.assert_allclose(*results, rtol=5e-3 if ON_GPU else 1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="bfloat16 and recorded steps need a CUDA device")
def test_a_stack_of_kernels_learns_as_a_compiled_one_does(monkeypatch):
    results = []
    for kernels in (True, False):
        if not kernels:
            monkeypatch.setattr(backend, "kernels_serve", lambda *_: False)
        stack = stack_of("bfloat16", "cuda")
        assert stack.parts.kind == ("kernels" if kernels else "compiled")
        losses = []
        for epoch in range(4):
            list(stack.epoch([3, 4], [epoch, epoch]))
            losses.append(stack.losses())
        results.append(losses)
    np.testing.assert_allclose(*results, rtol=5e-3)
    assert (np.array(results[0])[-1] < np.array(results[0])[0]).all()
