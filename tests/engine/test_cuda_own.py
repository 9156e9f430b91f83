"""Rows on a GPU with centroids of their own, and k-means under every parent, against float64 loops."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU engine needs torch")

from kernels import DEVICE, ON_GPU, QUIET, kernels_run  # noqa: E402

pytestmark = [*QUIET, kernels_run]
N = 3000 if ON_GPU else 60


def plain_kmeans(x, c, iterations):
    for _ in range(iterations):
        code = ((x[:, None] - c[None]) ** 2).sum(axis=2).argmin(axis=1)
        c = np.stack([x[code == j].mean(axis=0) if (code == j).any() else c[j] for j in range(len(c))])
    return c


@pytest.mark.parametrize("d", [3, 16, 130])
@pytest.mark.parametrize("kind", ["random", "ties"])
def test_a_row_takes_the_nearest_of_its_own_centroids(d, kind):
    from sidkit.engine.cuda.own import nearest_own

    rng = np.random.default_rng(2)
    x, c = (rng.standard_normal((n, d)).astype(np.float32) for n in (N, 200))
    if kind == "ties":
        x, c = np.round(x), np.repeat(np.round(c[:20]), 10, axis=0)
    edges = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 200), 8, replace=False)), [200]])
    parents = rng.integers(0, 9, N)
    first, count = edges[parents], np.diff(edges)[parents]
    exact = c.astype(np.float64)
    score = np.stack([(exact * row.astype(np.float64)).sum(axis=1) for row in x]) - 0.5 * (exact**2).sum(axis=1)
    want = [score[i, f : f + k].argmax() for i, (f, k) in enumerate(zip(first, count, strict=True))]
    assert np.array_equal(nearest_own(torch.from_numpy(x).to(DEVICE), c, first, count).cpu().numpy(), want)


def test_parents_of_any_size_are_clustered_as_each_alone(monkeypatch):
    from sidkit.engine.cuda import own

    rng = np.random.default_rng(0)
    count = np.array([5, 33, 40, 64, 65, 100, 200])
    x = (rng.normal(size=(3, 4))[rng.integers(0, 3, count.sum())] + 0.1 * rng.normal(size=(count.sum(), 4))).astype(
        "f4"
    )
    begin = np.cumsum(count) - count
    starts = begin[:, None] + np.arange(5)
    want = [
        plain_kmeans(x[b : b + n].astype(np.float64), x[s].astype(np.float64), 6)
        for b, n, s in zip(begin, count, starts, strict=True)
    ]
    there = torch.from_numpy(x).to(DEVICE), count, torch.from_numpy(starts).to(DEVICE)
    np.testing.assert_allclose(own.families(*there, 6).cpu().numpy(), want, atol=1e-5)
    monkeypatch.setattr(own, "BUSY", 1)  # one parent at a time
    np.testing.assert_allclose(own.families(*there, 6).cpu().numpy(), want, atol=1e-5)


def test_rows_are_grouped_by_their_last_tokens(monkeypatch):
    from sidkit.rows import cuda
    from sidkit.rows.groups import group_counts
    from sidkit.tokenizer.recipes import rq_kmeans

    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    rows = cuda.DeviceRows(cuda.Resident(torch.from_numpy(x).to(DEVICE)))
    rows = rq_kmeans((3, 4), iterations=1).fit(rows).fitted_rows
    for prod in (cuda.prod, lambda _: 1 << 62):  # more groups than fit into a number
        monkeypatch.setattr(cuda, "prod", prod)
        for tokens in (1, 2):
            keys, counts, order = rows.grouped(tokens)
            want = group_counts(rows.codes()[:, -tokens:])
            assert np.array_equal(keys, want[0])
            assert np.array_equal(counts, want[1])
            own = rows.codes()[order.cpu().numpy(), -tokens:]
            assert np.array_equal(own, np.repeat(keys, counts, axis=0))
            carried = rows.take(order.cpu().numpy())
            np.testing.assert_array_equal(rows.gathered(order).cpu().numpy(), carried)


@pytest.mark.skipif(not ON_GPU, reason="pinned memory needs a CUDA device")
def test_large_results_reach_the_host_through_pinned_buffers(monkeypatch):
    from sidkit.engine.cuda import to_host

    monkeypatch.setattr(to_host, "WORTH_PINNING", 0)
    monkeypatch.setattr(to_host, "PIECE", 1000)
    x = torch.arange(12_345, device=DEVICE).reshape(5, -1)
    assert np.array_equal(to_host.to_host(x), x.cpu().numpy())
