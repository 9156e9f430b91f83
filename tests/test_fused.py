"""The retriever's kernels beside network.py's plain reading of the same blocks, gradients and dropout included.

On a CUDA device in bfloat16; elsewhere through Triton's interpreter, in float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels import DEVICE, ON_GPU, QUIET, RUN, WHY_NOT, torch

if not RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from sidkit.retriever import network
from sidkit.retriever.fused_layers import Dropout, Layers

pytestmark = QUIET
DTYPES = [torch.bfloat16 if ON_GPU else torch.float32]  # a GPU's own float32 product is not one
R, ROWS, W, D, HEADS, E, WIDE = 2, 5, 20, 64, 4, 16, 192
SHARE, PLACE = 0.25, 2


def kept(seed, place, shape):
    """(R, *shape): the hash of the kernels, in numpy, over the elements of each run."""
    index = np.arange(np.prod(shape), dtype=np.uint32).reshape(1, *shape)
    with np.errstate(over="ignore"):
        start = seed.cpu().numpy().astype(np.uint32) ^ (np.uint32(place) * np.uint32(0x85EBCA77))
        key = index * np.uint32(0x9E3779B1) + start.reshape(-1, *[1] * len(shape))
        key = (key ^ (key >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        key = (key ^ (key >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return torch.as_tensor(key >= np.uint32(round(SHARE * 2**32)), device=seed.device)


def dropped(x, seed, place, shape):
    keep = kept(seed, place, shape).reshape(x.shape) if SHARE else torch.ones_like(x, dtype=torch.bool)
    return torch.where(keep, x / (1 - SHARE), torch.zeros_like(x))


def feed_forward(x, scale, wi, wo, seed):
    hidden = dropped(torch.relu(network.norm(x, scale).to(wi.dtype) @ wi).float(), seed, PLACE, (x.shape[1], WIDE))
    return x + dropped((hidden.to(wo.dtype) @ wo).float(), seed, PLACE + 1, x.shape[1:])


def attend(q, k, v, bias, mine, owner, seed):
    """network.attend with the kernels' dropout."""
    scores = (q.transpose(2, 3) @ k.permute(0, 1, 3, 4, 2)).float()
    scores = scores if bias is None else scores + bias[:, None]
    seen = (mine[..., :, None] == owner[..., None, :])[..., None, :, :]
    chances = torch.softmax(scores.masked_fill(~seen, network.FORBIDDEN), -1)
    chances = dropped(chances, seed, PLACE, chances.shape[1:])
    return (chances.to(v.dtype) @ v.transpose(2, 3)).transpose(2, 3).flatten(3).flatten(1, 2)


def self_block(x, scale, qkv, o, bias, mine, owner, seed):
    parts = (network.norm(x, scale).to(qkv.dtype) @ qkv).unflatten(2, (3, HEADS, E)).unflatten(1, mine.shape)
    mixed = attend(*parts.unbind(3), bias, mine, owner, seed)
    return x + dropped((mixed @ o).float(), seed, PLACE + 1, x.shape[1:])


def cross_block(x, scale, wq, o, keys, mine, owner, seed):
    q = (network.norm(x, scale).to(wq.dtype) @ wq).unflatten(2, (HEADS, E)).unflatten(1, mine.shape)
    mixed = attend(q, *keys.unbind(3), None, mine, owner, seed)
    return x + dropped((mixed @ o).float(), seed, PLACE + 1, x.shape[1:])


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
        torch.cuda.synchronize()  # gradients of matrices have a stream of their own
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
    ours = Layers(Dropout(share, seed), DEVICE).feed_forward(*inputs)
    same(ours, feed_forward(*inputs, seed), inputs, tolerance)


def test_self_block(share, setting):
    dtype, seed, slot, owner, tolerance = setting
    random = draw(dtype)
    inputs = (
        random(R, ROWS * W, D), random(R, D), random(R, D, 3 * HEADS * E, dtype=dtype, scale=0.1),
        random(R, HEADS * E, D, dtype=dtype, scale=0.1), random(R, HEADS, W, W),
    )  # fmt: skip
    ours = Layers(Dropout(share, seed), DEVICE).attend(*inputs, None, slot, owner)
    same(ours, self_block(*inputs, slot, owner, seed), inputs, tolerance)


def test_cross_block(share, setting):
    dtype, seed, slot, owner, tolerance = setting
    random, mine = draw(dtype), slot[:, 3:12].contiguous()
    inputs = (
        random(R, ROWS * 9, D), random(R, D), random(R, D, HEADS * E, dtype=dtype, scale=0.1),
        random(R, HEADS * E, D, dtype=dtype, scale=0.1), random(R, ROWS, W, 2, HEADS, E, dtype=dtype),
    )  # fmt: skip
    *most, keys = inputs
    ours = Layers(Dropout(share, seed), DEVICE).attend(*most, None, keys, mine, owner)
    same(ours, cross_block(*inputs, mine, owner, seed), inputs, tolerance)


def test_a_share_of_the_elements_is_dropped_and_every_place_and_run_drops_others():
    seed = torch.tensor([1, 2], dtype=torch.int32)
    masks = [kept(seed, place, (300, 400)) for place in (2, 3)]
    for mask in masks:
        assert (mask.float().mean((1, 2)) - 0.75).abs().max() < 0.005
    for one, other in ((masks[0][0], masks[0][1]), (masks[0][0], masks[1][0])):
        both = (one & other).float().mean()
        assert abs(float(both) - 0.75**2) < 0.006


def stack_of(precision, device):
    from sidkit.retriever.model import Shape, new_weights
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.stack import Stack, Vocabulary
    from sidkit.sequences import Sequences

    shape = Shape(layers=2, d_model=64, d_ff=64, heads=4, d_kv=16, dropout=0.0)
    plan, rng = Plan(shape, batch=16, history=6, precision=precision), np.random.default_rng(0)
    walks = Sequences.of([rng.integers(30, size=9).tolist() for _ in range(12)])
    stack = Stack(walks, Vocabulary((5, 6)), plan, R, device)
    codes = np.stack([np.arange(30) // 6, np.arange(30) % 6], 1)
    for run in range(R):
        stack.place(run, new_weights(plan.shape, len(stack.vocabulary), run), codes)
    return stack


@pytest.mark.skipif(ON_GPU, reason="float32 on a CPU; the GPU has a test of its own")
def test_a_model_of_kernels_has_the_loss_and_gradients_of_the_plain_one():
    stack = stack_of("float32", "cpu")
    list(stack.epoch([3, 4], [0, 0]))
    stack.at.zero_()
    batch, weights = stack.batch(), list(stack.copies.values())
    layers = Layers(Dropout(0.0, torch.zeros(R, dtype=torch.int32)), "cpu")
    names = ("unstack", "encoder_layer", "decoder_layer")
    kernels = network.Parts(**{name: getattr(layers, name) for name in names})
    found = []
    for parts in (kernels, network.Parts()):
        losses = network.loss(stack.copies, stack.plan.shape, 2, batch, 0.0, parts)
        found.append([losses.detach(), *torch.autograd.grad(losses.sum(), weights)])
    for ours, plain in zip(*found, strict=True):
        assert float((ours - plain).norm() / plain.norm()) < 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
def test_a_stack_of_kernels_learns_as_a_compiled_one_does(monkeypatch):
    found = []
    for kernels in (True, False):
        if not kernels:
            monkeypatch.setattr("sidkit.retriever.stack.fused_fits", lambda *_: False)
        stack = stack_of("bfloat16", "cuda")
        assert (stack._drop is not None) == kernels
        losses = []
        for epoch in range(4):
            list(stack.epoch([3, 4], [epoch, epoch]))
            losses.append(stack.losses())
        found.append(losses)
    np.testing.assert_allclose(*found, rtol=5e-3)
    assert (np.array(found[0])[-1] < np.array(found[0])[0]).all()
