"""Tokens of the GPU engine: those of the float64 scores, ties to the lowest index.

Kernels run on a CUDA device, or on the CPU through Triton's interpreter (`kernels`).
"""

from __future__ import annotations

import numpy as np
import pytest

from float64 import SMALL, on_gpu, rows_and_centroids, scores_in_float64
from kernels import DEVICE, ON_GPU, QUIET, kernels_run, torch
from sidkit.engine import cpu

pytestmark = QUIET
LARGE = [  # shapes that test_cuda_fit.py compiles too, where kernels are shared
    (500, 1024, 128, 5, "cosine"),
    (500, 1008, 100, 5, "euclidean"),
    (500, 704, 768, 5, "cosine"),
    (500, 704, 300, 16, "cosine"),
    (500, 272, 200, 3, "euclidean"),
    (500, 704, 4096, 5, "cosine"),
]


@pytest.fixture
def engine():
    from sidkit.engine.cuda import engine as cuda

    return cuda


@kernels_run
@pytest.mark.parametrize("n, K, d, k, metric", [*SMALL, *(on_gpu(*shape) for shape in LARGE)])
def test_tokens_are_decided_as_in_float64(engine, n, K, d, k, metric):
    x, c = rows_and_centroids(n, K, d, seed=1)
    c[K // 2 :] = c[: K - K // 2]  # every codeword twice: exact ties everywhere
    score = scores_in_float64(x, c, metric)
    want = np.argsort(-score, axis=1, kind="stable")[:, :k]
    score = np.take_along_axis(score, want, 1)
    given = torch.from_numpy(x).to(DEVICE)
    book = engine.book(c, metric, given)
    index, value = engine.top(given, book, k)
    assert np.array_equal(engine.nearest(given, book).cpu().numpy(), want[:, 0])
    assert np.array_equal(index.cpu().numpy(), want)
    assert np.abs(value.cpu().numpy() - score).max() <= 1e-6 * np.abs(score).max()


@kernels_run
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_codewords_that_one_product_of_halves_cannot_tell_apart(engine, monkeypatch, metric):
    from sidkit.engine.cuda import tokens

    sent_on = []
    monkeypatch.setattr(tokens, "_best", lambda x, book, best=tokens._best: sent_on.append(len(x)) or best(x, book))
    rng = np.random.default_rng(2)
    c = np.repeat(rng.normal(size=(40, 20)), [1] * 10 + [2] * 15 + [6] * 15, axis=0)
    c = np.concatenate([c, np.tile(rng.normal(size=(32, 20)), (3, 1))])  # every 32nd falls on the same slot
    c *= 1 + 1e-4 * rng.normal(size=c.shape)
    x = np.concatenate([c[::3], c[130:160]])
    x = (x + 0.01 * rng.normal(size=x.shape)).astype(np.float32)
    given = torch.from_numpy(x).to(DEVICE)
    found = engine.nearest(given, engine.book(c, metric, given)).cpu().numpy()
    assert np.array_equal(found, scores_in_float64(x, c, metric).argmax(1))
    (count,) = sent_on
    assert 60 <= count <= len(x) - 10  # those with six codewords, or three in one slot


@kernels_run
def test_rows_of_16_bits_get_the_tokens_of_their_values(engine):
    x, c = rows_and_centroids(*((80, 90, 24) if ON_GPU else (30, 70, 24)))
    for dtype in (torch.float16, torch.bfloat16):
        given = torch.from_numpy(x).to(DEVICE, dtype)
        exact = given.double().cpu().numpy()
        want = cpu.nearest(exact, cpu.book(c, "cosine", exact))
        assert np.array_equal(engine.nearest(given, engine.book(c, "cosine", given)).cpu().numpy(), want)


@kernels_run
def test_rows_that_do_not_lie_in_one_piece_and_no_rows_at_all(engine):
    x, c = rows_and_centroids(60, 12, 12)
    wide = torch.from_numpy(np.concatenate([x, x], axis=1)).to(DEVICE)
    book = engine.book(c, "cosine", wide)
    plain, cut = torch.from_numpy(x).to(DEVICE), wide[:, :12]
    assert torch.equal(engine.nearest(cut, book), engine.nearest(plain, book))
    assert torch.equal(engine.soft_sums(cut, book, 2, 5.0)[1], engine.soft_sums(plain, book, 2, 5.0)[1])
    assert [tuple(part.shape) for part in engine.soft_sums(plain[:0], book, 2, 5.0)] == [(12,), (12, 12), (1,)]
    assert len(engine.nearest(plain[:0], book)) == 0


@kernels_run
def test_rows_that_are_screened_in_several_parts(engine, monkeypatch):
    from sidkit.engine.cuda import tokens

    monkeypatch.setattr(tokens, "EXACT", 20 * 12)
    x, c = rows_and_centroids(50, 130, 12)
    c[65:] = c[:65] * (1 + 1e-6)  # pairs that only float64 tells apart
    c[60:66] = c[60]  # and more alike than are kept
    given = torch.from_numpy(x).to(DEVICE)
    found = engine.nearest(given, engine.book(c, "euclidean", given)).cpu().numpy()
    assert np.array_equal(found, scores_in_float64(x, c, "euclidean").argmax(1))


@kernels_run
@pytest.mark.parametrize("K", [20, 150])
def test_rows_on_their_way_get_the_tokens_that_they_get_once_they_are_carried(engine, monkeypatch, K):
    from sidkit.engine.cuda import tokens
    from sidkit.engine.steps import CarryStep

    monkeypatch.setattr(tokens, "EXACT", 30 * 12)
    x, c = rows_and_centroids(70, K, 12)
    c[10:20] = c[10] + 1e-6 * c[:10]  # more alike than are kept
    given = torch.from_numpy(x).to(DEVICE)
    codes = torch.arange(80, dtype=torch.int32, device=DEVICE)[None] % 7
    plan = engine.plan_carry([CarryStep(), CarryStep(x[:1]), CarryStep(c[:7], 0.3, True, 0)], given)
    after = engine.carried(given, plan, codes, 10)
    for metric in ("cosine", "euclidean"):
        book = engine.book(c, metric, given)
        found = engine.nearest_after(engine.Uncarried(given, plan, codes, 10), book)
        assert torch.equal(found, engine.nearest(after, book))
        want = scores_in_float64(after.cpu().numpy(), c, metric).argmax(1)
        assert np.array_equal(found.cpu().numpy(), want)
