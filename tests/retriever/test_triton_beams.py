"""Beam search by kernels compared with beam search in plain torch, block by block and end to end.

On a CUDA device in bfloat16 too; elsewhere through Triton's interpreter, in float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels import DEVICE, ON_GPU, QUIET, RUN, WHY_NOT, torch

pytest.importorskip("transformers")
if not RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from sidkit import SidTable
from sidkit.decoding.device_trie import DeviceTrie
from sidkit.retriever import backend, beams, search_blocks
from sidkit.retriever.data import Vocabulary
from sidkit.retriever.model import Shape, new_weights
from sidkit.retriever.network import in_dtype
from sidkit.retriever.search_blocks import PLAIN_BLOCKS
from sidkit.retriever.triton.search_blocks import KERNEL_BLOCKS
from sidkit.sids.trie import Trie

pytestmark = QUIET
R, USERS, BEAMS, D, HEADS, E = (2, 5, 30, 64, 4, 16) if ON_GPU else (2, 2, 17, 64, 2, 32)


@pytest.fixture(params=[torch.float32, torch.bfloat16] if ON_GPU else [torch.float32], ids=str)
def dtype(request):
    return request.param


def draw(*shape, dtype=torch.float32, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.randn(*shape, generator=generator) * scale).to(DEVICE, dtype)


def close(a, b, dtype):
    bound = 1e-5 if dtype == torch.float32 and not ON_GPU else 2e-2
    assert a.shape == b.shape
    assert float((a.double() - b.double()).norm() / b.double().norm()) < bound


@pytest.mark.parametrize("levels, token", [(1, 0), (3, 0), (3, 1), (3, 2), (4, 3)])
def test_beams_attend_to_the_tokens_they_descend_from(levels, token, dtype):
    n = USERS * (BEAMS if token else 1)
    x, scale, bias = draw(R, n, D), draw(R, D), draw(R, HEADS, levels, levels)
    qkv = draw(R, 2, D, 3 * HEADS * E, dtype=dtype, scale=0.2)[:, 1]  # of one layer among others
    o = draw(R, 2, HEADS * E, D, dtype=dtype, scale=0.2)[:, 1]
    user, rng = torch.arange(n) // (n // USERS), np.random.default_rng(0)
    past, origin = [], []
    for before in range(token):
        width = 7 * before or 1  # beams of a user then
        past.append(draw(R, USERS * width, 2, HEADS, E, dtype=dtype, seed=before))
        origin.append((user * width + torch.tensor(rng.integers(0, width, (R, n)))).to(DEVICE))
    plain, latest = search_blocks.self_block(x, scale, qkv, o, bias, past, origin)
    ours, written = KERNEL_BLOCKS.self_block(x, scale, qkv, o, bias, past, origin)
    close(ours, plain, dtype)
    if token < levels - 1:
        close(written, latest, dtype)


def test_feed_forward(dtype):
    wi, wo = draw(R, D, 192, dtype=dtype, scale=0.1), draw(R, 192, D, dtype=dtype, scale=0.1)
    x, scale = draw(R, 150, D), draw(R, D)
    close(KERNEL_BLOCKS.feed_forward(x, scale, wi, wo), PLAIN_BLOCKS.feed_forward(x, scale, wi, wo), dtype)


@pytest.mark.parametrize("first, size", [(1, 64), (65, 64), (129, 20), (0, 149)])
def test_logits_of_a_level_and_the_sum_over_all_tokens(first, size, dtype):
    x, final, shared = draw(R, 150, D, scale=3.0), draw(R, D), draw(R, 149, D, dtype=dtype, scale=2.0)
    ours, plain = (one.score(x, final, shared, first, size) for one in (KERNEL_BLOCKS, PLAIN_BLOCKS))
    close(ours[0], plain[0], dtype)
    close(ours[1], plain[1], dtype)


@pytest.mark.parametrize("widest", [1, 7, 300])
def test_scores_of_candidates(widest):
    rng = np.random.default_rng(0)
    codes = torch.tensor(rng.integers(0, 20, 500))
    begin = torch.tensor(rng.integers(0, 500, (R, 3, 4)))
    stop = (begin + torch.tensor(rng.integers(0, widest + 1, begin.shape))).clamp(max=500)
    base, scores = draw(R, 3, 4), draw(R, 3, 4, 20)
    base[0, 0, 1] = -torch.inf
    given = base, scores, begin.to(DEVICE), stop.to(DEVICE), codes.to(DEVICE), widest
    ours, plain = KERNEL_BLOCKS.totals(*given), PLAIN_BLOCKS.totals(*given)
    assert torch.equal(ours, plain)
    assert (plain > -torch.inf).sum(3).tolist() == torch.where(base.cpu() > -torch.inf, stop - begin, 0).tolist()


@pytest.mark.skipif(ON_GPU, reason="in bfloat16 near ties swap ranks; the blocks are compared above")
@pytest.mark.parametrize("constrained", [True, False])
def test_a_search_by_kernels_finds_what_the_plain_one_finds(constrained, monkeypatch):
    shape, vocabulary = Shape(layers=1, d_model=64, d_ff=64, heads=2, d_kv=32), Vocabulary((8, 8, 8))
    rng = np.random.default_rng(1)
    tables = [SidTable(range(n), rng.integers(0, 8, (n, 3)), (8, 8, 8)) for n in (40, 9)]
    runs = [new_weights(shape, len(vocabulary), seed) for seed in range(R)]
    weights = {
        name: torch.cat([one[name] * (3.0 if "q" in name or "bias" in name else 1.0) for one in runs])
        for name in runs[0]
    }
    tokens = torch.tensor(rng.integers(1, len(vocabulary), (R, 2, 9)))
    tokens[:, 1, :3] = 0
    trie = DeviceTrie([Trie.of(table) for table in tables], vocabulary, "cpu")
    plain = beams.stacked_search(weights, shape, trie, tokens, 12, constrained)
    monkeypatch.setattr(beams, "choose_blocks", lambda *_: KERNEL_BLOCKS)
    ours = beams.stacked_search(weights, shape, trie, tokens, 12, constrained)
    assert torch.equal(ours.leaf, plain.leaf)
    assert torch.allclose(ours.score, plain.score, atol=1e-4)
    if constrained:
        assert (ours.leaf[1] >= 0).sum(1).tolist() == [len(Trie.of(tables[1]))] * 2


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="bfloat16 needs a CUDA device")
def test_a_search_on_a_gpu_ranks_as_the_cpu_does(monkeypatch):
    shape, vocabulary = Shape(), Vocabulary((64, 64, 64))
    rng = np.random.default_rng(1)
    trie = Trie.of(SidTable(range(900), rng.integers(0, 64, (900, 3)), vocabulary.sizes))
    weights = new_weights(shape, len(vocabulary), 0)
    weights = {name: value * (3.0 if "q" in name or "bias" in name else 1.0) for name, value in weights.items()}
    tokens = torch.tensor(rng.integers(1, len(vocabulary), (50, 30)))
    plain = beams.beam_search(weights, shape, DeviceTrie(trie, vocabulary, "cpu"), tokens, 30)
    there = {name: value.cuda() for name, value in in_dtype(weights, torch.bfloat16).items()}
    assert backend.choose_blocks(there, shape, 3, 50, 30, 30) is KERNEL_BLOCKS
    ours = beams.beam_search(there, shape, DeviceTrie(trie, vocabulary, "cuda"), tokens.cuda(), 30)
    both = [len(set(a) & set(b)) for a, b in zip(ours.leaf.tolist(), plain.leaf.tolist(), strict=True)]
    assert np.mean(both) > 0.9 * 30
    monkeypatch.setattr(beams, "choose_blocks", lambda *_: PLAIN_BLOCKS)
    rounded = beams.beam_search(there, shape, DeviceTrie(trie, vocabulary, "cuda"), tokens.cuda(), 30)
    noise = float((rounded.score[:, 0].cpu() - plain.score[:, 0]).abs().mean())  # of bfloat16, without the kernels
    assert float((ours.score[:, 0].cpu() - plain.score[:, 0]).abs().mean()) < 1.5 * noise
