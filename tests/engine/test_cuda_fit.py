"""A fitting pass of the GPU engine against the formulas in float64.

Kernels run on a CUDA device, or on the CPU through Triton's interpreter (`kernels`). Cases marked gpu have sizes that
the interpreter could not do in a day. Each of their shapes compiles separate kernels, a second each, so they share what
they can: dimensions, neighbours, codebooks of a multiple of 16 codewords, numbers of rows that are not one.
"""

from __future__ import annotations

import numpy as np
import pytest

from float64 import SMALL, on_gpu, rows_and_centroids, scores_in_float64, soft_sums_in_float64
from kernels import DEVICE, ON_GPU, QUIET, kernels_run, needs_gpu, torch
from sidkit.engine import cpu
from sidkit.geometry import unit

pytestmark = QUIET


@pytest.fixture
def engine():
    from sidkit.engine.cuda import engine as cuda

    return cuda


PRECISIONS = {  # dtype of the rows, precision asked for, relative error
    "fp16": ("float16", "tf32", 5e-3),
    "bf16": ("bfloat16", "tf32", 2e-2),  # on a GPU only: the interpreter multiplies the bits of bfloat16 as integers
    "tf32": ("float32", "tf32", 3e-3),
    "fp32": ("float32", "fp32", 3e-6),
}
LARGE = {  # every kind of tile in every precision that it is compiled for
    (20011, 1024, 128, 5, "cosine"): ("fp16", "bf16", "tf32", "fp32"),  # rows in registers
    (20011, 1008, 100, 5, "euclidean"): ("fp16", "fp32"),  # padded rows, a ragged codebook, offsets
    (20011, 128, 128, 5, "cosine"): ("fp16",),  # codebooks that fit on a multiprocessor
    (20011, 96, 60, 3, "euclidean"): ("fp16",),
    (9001, 1024, 128, 1, "cosine"): ("fp16",),  # one neighbour
    (5003, 704, 768, 5, "cosine"): ("fp16", "fp32"),  # rows in parts
    (5003, 704, 300, 16, "cosine"): ("tf32",),
    (3001, 272, 200, 3, "euclidean"): ("fp16", "fp32"),  # rows of up to 256 dimensions
    (1501, 704, 4096, 5, "cosine"): ("bf16",),
    (3001, 2992, 24, 8, "euclidean"): ("tf32",),  # many blocks
}
CASES = [(*shape, name) for shape in SMALL for name in ("fp16", "tf32", "fp32")]
CASES += [on_gpu(61, 16, 128, 5, "cosine", "bf16")]
CASES += [on_gpu(*shape, name) for shape, names in LARGE.items() for name in names]


@kernels_run
@pytest.mark.parametrize("n, K, d, k, metric, name", CASES)
def test_soft_sums_are_those_of_the_formulas(engine, n, K, d, k, metric, name):
    dtype, precision, close = PRECISIONS[name]
    # Rounded scores may turn a row's last two neighbours around, and with it all rows like it.
    x, c = rows_and_centroids(n, K, d, alike=4 if precision == "fp32" else n)
    x, c = torch.from_numpy(unit(x)).to(DEVICE, getattr(torch, dtype)), unit(c)
    book, beta = engine.book(c, metric, x), 4.0
    mass, sums, objective = engine.soft_sums(x, book, k, beta, 0.5, precision)
    want = soft_sums_in_float64(x.float().cpu().numpy(), c, metric, k, beta, 0.5)
    if precision == "fp32":  # a row between two codewords may fall either way: allow one for 2,000
        close += 1.0 / 2000 * (n > 1000)
    assert np.abs(mass.cpu().numpy() - want[0]).sum() <= close * n + 2  # the zero row is at the same distance from all
    # a share of rows has its k-th neighbour within rounding of the next one, and a part 1 / k of such a row may move
    moved = 0.0 if precision == "fp32" else np.sqrt(2 * max(1, n * k * close / 5)) / k
    assert np.linalg.norm(sums.cpu().numpy() - want[1]) <= 3 * close * np.linalg.norm(want[1]) + moved
    assert abs(float(objective[0]) - want[2]) <= close * n
    if ON_GPU or K == 3:  # the interpreter runs one program after the other
        again = engine.soft_sums(x, book, k, beta, 0.5, precision)
        assert all(torch.equal(a, b) for a, b in zip((mass, sums, objective), again, strict=True))


@kernels_run
def test_rows_in_another_order_give_the_same_bits(engine):
    n, K, d = (200, 150, 24) if ON_GPU else (50, 66, 24)
    x, c = rows_and_centroids(n, K, d)
    if not ON_GPU:  # a product of the interpreter has other last bits elsewhere in a tile: only exact ones have none
        c = np.random.default_rng(1).permuted(np.repeat([[0.25] * 8 + [-0.25] * 8 + [0.0] * 8], K, axis=0), axis=1)
        x = np.round(unit(x) * 1024) / 1024
    x = torch.from_numpy(unit(x) if ON_GPU else x).to(DEVICE, torch.float16)
    book = engine.book(c, "cosine", x)
    mass, sums, _ = engine.soft_sums(x, book, 3, 15.0)
    parts = [
        engine.soft_sums(part, book, 3, 15.0) for part in (x.flip(0)[:17].contiguous(), x.flip(0)[17:].contiguous())
    ]
    assert torch.equal(mass, parts[0][0] + parts[1][0])
    assert torch.equal(sums, parts[0][1] + parts[1][1])


@kernels_run
@pytest.mark.parametrize("K, k", [(40, 3), (140, 1), (140, 3)] if ON_GPU else [(20, 3), (40, 1), (40, 3)])
def test_rows_of_length_zero_have_no_say_if_asked(engine, K, k):
    x, c = rows_and_centroids(90 if ON_GPU else 30, K, 12)
    x = unit(x)
    x[::3] = 0
    given = torch.from_numpy(x).to(DEVICE, torch.float16)
    book = engine.book(unit(c), "euclidean", given)
    mass, sums, objective = engine.soft_sums(given, book, k, 4.0, 0.5, skip_zero=True)
    want = engine.soft_sums(given[(x != 0).any(1)], book, k, 4.0, 0.5)
    assert np.allclose(mass.cpu(), want[0].cpu(), atol=1e-3)
    assert np.allclose(sums.cpu(), want[1].cpu(), atol=1e-3)
    assert float(objective[0]) == pytest.approx(float(want[2][0]), abs=1e-3)


@kernels_run
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_neighbours_that_share_a_slot_are_not_lost(engine, dtype):
    """Codewords 64 apart fall on the same slot; here a row's five nearest all do."""
    rng = np.random.default_rng(0)
    base = unit(rng.normal(size=(64, 16)))
    c = unit(np.concatenate([base + 0.01 * rng.normal(size=base.shape) for _ in range(6)]))  # 384
    n, used = (100, 64) if ON_GPU else (20, 3)
    x = unit(base[rng.integers(0, used, n)] + 0.05 * rng.normal(size=(n, 16)))
    x = torch.from_numpy(x).to(DEVICE, getattr(torch, dtype))
    mass, sums, _ = engine.soft_sums(x, engine.book(c, "cosine", x), 5, 2.0, 0.5, "fp32")
    want = soft_sums_in_float64(x.double().cpu().numpy(), c, "cosine", 5, 2.0, 0.5)
    if dtype == "float32":
        assert np.abs(mass.cpu().numpy() - want[0]).max() < 1e-4
    assert float(mass.sum()) == pytest.approx(n, abs=1e-4)
    assert np.linalg.norm(sums.cpu().numpy().sum(0) - want[1].sum(0)) < 1e-2
    assert np.abs(mass.cpu().numpy().reshape(6, 64).sum(0) - want[0].reshape(6, 64).sum(0)).max() < 0.05


# On a GPU, every number of neighbours compiles kernels of its own: those where the depth of the slots or the next power
# of two changes, in one precision each (1 and 5 are compiled above). The interpreter takes all.
EVERY = [on_gpu(k, name) for k, name in ((1, "fp16"), (2, "fp32"), (5, "bf16"), (8, "fp16"), (9, "bf16"), (15, "fp32"))]


@kernels_run
@pytest.mark.parametrize("k, name", EVERY if ON_GPU else [(k, "fp32") for k in range(1, 17)])
def test_every_number_of_neighbours(engine, k, name):
    n, K, d = (3001, 1024, 128) if ON_GPU else (4, 18, 3)
    dtype, precision, _ = PRECISIONS[name]
    x, c = rows_and_centroids(n, K, d, seed=k)
    given = torch.from_numpy(unit(x)).to(DEVICE)
    book, score = engine.book(c, "cosine", given), scores_in_float64(given.cpu().numpy(), c, "cosine")
    want = np.argsort(-score, axis=1, kind="stable")[:, :k]
    assert np.array_equal(engine.top(given, book, k)[0].cpu().numpy(), want)
    weight = np.exp(15 * (np.take_along_axis(score, want, 1) - np.take_along_axis(score, want, 1)[:, :1]))
    mass, _ = cpu.add_up(x[:, :1], want.astype(np.int32), weight / weight.sum(1, keepdims=True), K)
    got = engine.soft_sums(given.to(getattr(torch, dtype)), book, k, 15.0, 0.5, precision)[0].cpu().numpy()
    assert abs(got.sum() - n) < 1e-3
    assert np.abs(got - mass).sum() < {"fp32": 1e-3, "fp16": 0.01, "bf16": 0.05}[name] * n


@kernels_run
def test_add_up_is_that_of_the_cpu(engine):
    rng = np.random.default_rng(0)
    K = 37 if ON_GPU else 13
    x = (rng.normal(size=(300, 20)) * 10.0 ** rng.integers(-2, 3, 20)).astype(np.float32)
    index, weight = rng.integers(0, K, (300, 3)).astype(np.int32), 7 * rng.random((300, 3))
    given = tuple(torch.from_numpy(a).to(DEVICE) for a in (x, index, weight))
    mass, total = engine.add_up(*given, K)
    want_mass, want = cpu.add_up(x, index, weight, K)
    assert np.abs(mass.cpu().numpy() - want_mass).max() < 1e-5
    assert (np.abs(total.cpu().numpy() - want).max(0) <= 1e-6 * np.abs(want).max(0)).all()
    nothing = torch.zeros(300, 3, dtype=torch.float64, device=DEVICE)
    assert float(engine.add_up(*given[:2], nothing, K)[1].abs().max()) == 0


@kernels_run
def test_column_sums_are_exact(engine):
    x = np.random.default_rng(0).normal(size=(777, 13)).astype(np.float32)
    got = engine.column_sums(torch.from_numpy(x).to(DEVICE)).cpu().numpy()
    assert np.abs(got - x.sum(0, dtype=np.float64)).max() < 1e-10


@kernels_run
def test_more_neighbours_than_the_kernels_keep_are_refused(engine):
    from sidkit.errors import SpecError

    x = torch.zeros(4, 3, device=DEVICE)
    with pytest.raises(SpecError, match="at most its 16 nearest centroids, not 17"):
        engine.soft_sums(x, engine.book(np.eye(30, 3), "cosine", x), 17, 1.0)
    with pytest.raises(SpecError, match=r"not torch\.float64"):
        engine.soft_sums(x.double(), engine.book(np.eye(30, 3), "cosine", x), 1, 1.0)


@pytest.mark.gpu
@needs_gpu  # for the sizes
@pytest.mark.parametrize(
    "n, K, d, k, dtypes",
    [
        (3001, 65_536, 128, 5, (torch.float16,)),
        (20_011, 8192, 768, 5, (torch.float16,)),
        (200_003, 1024, 128, 5, (torch.float16, torch.bfloat16, torch.float32)),
    ],
)
def test_large_codebooks(engine, n, K, d, k, dtypes):
    g = torch.Generator(device="cuda").manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(n, d, device="cuda", generator=g), dim=1)
    c = torch.randn(K, d, device="cuda", generator=g, dtype=torch.float64)
    book = engine.book(c, "cosine", x)
    assert torch.equal(engine.nearest(x, book).long(), (x.double() @ book.exact.T).argmax(1))
    for rows in map(x.to, dtypes):
        score = (rows.double() @ book.exact.T).topk(k, 1)
        weight = torch.softmax(15.0 * score.values / rows.double().norm(dim=1, keepdim=True), 1)
        want = torch.zeros(K, dtype=torch.float64, device="cuda").index_add_(
            0, score.indices.flatten(), weight.flatten()
        )
        mass, _, _ = engine.soft_sums(rows, book, k, 15.0)
        assert float((mass - want).abs().sum()) < 0.02 * n
        assert float(mass.sum()) == pytest.approx(n, rel=1e-5)
