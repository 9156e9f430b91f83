"""The GPU engine: the ideas behind its kernels on any machine, the kernels themselves where they can run.

Kernels run on a CUDA device, or on the CPU through Triton's interpreter where Triton is installed without a device.
Tests marked gpu need the device: sizes that the interpreter could not do in a day.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels import DEVICE, QUIET, kernels_run, needs_gpu, torch
from sidkit.engine import cpu
from sidkit.engine.steps import CarryStep
from sidkit.geometry import residual, squared_length, unit

pytestmark = QUIET


def rows_and_centroids(n, K, d, seed=0, alike=4):
    """Random rows, one in `alike` identical and one zero; random centroids, two of them identical."""
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(K, d))
    x[: n // alike] = x[0]
    x[n // 2] = 0
    if K > 10:
        c[7] = c[3]
    return x, c


def scores_in_float64(x, c, metric):
    """Every score, added up in one order: a matrix product may give two equal columns different last bits."""
    x = np.asarray(x, np.float64)
    c = unit(np.asarray(c, np.float64)) if metric == "cosine" else np.asarray(c, np.float64)
    product = np.stack([(x * codeword).sum(axis=1) for codeword in c], axis=1)
    return product - (0.0 if metric == "cosine" else 0.5 * squared_length(c).T)


def soft_sums_in_float64(x, c, metric, k, beta, scale):
    """mass, sums and objective of a fit's pass, as the formulas say."""
    x = np.asarray(x, np.float64)
    c = unit(np.asarray(c, np.float64)) if metric == "cosine" else np.asarray(c, np.float64)
    score = x @ c.T - (0.0 if metric == "cosine" else 0.5 * squared_length(c).T)
    index = np.argsort(-score, axis=1, kind="stable")[:, :k]
    value, square = np.take_along_axis(score, index, 1), squared_length(x)
    length = square**0.5
    s = value / (length + (length == 0)) if metric == "cosine" else 2 * scale * (value - 0.5 * square)
    weight = np.exp(beta * (s - s[:, :1]))
    weight /= weight.sum(1, keepdims=True)
    return *cpu.add_up(x, index.astype(np.int32), weight, len(c)), s[:, 0].sum()


# ------------------------------------------------------------------ the ideas, in numpy


def slots_top(score, slots, depth, k):
    """The top k drawn from lists of `depth` per slot, and the rows where an evicted score could have been one."""
    n, K = score.shape
    padded = np.full((n, -(-K // slots) * slots), -np.inf)
    padded[:, :K] = score
    by_slot = np.sort(padded.reshape(n, -1, slots), axis=1)[:, ::-1]
    kept, out = by_slot[:, :depth], by_slot[:, depth:]
    best = np.sort(kept.reshape(n, -1), axis=1)[:, ::-1][:, :k]
    return best, out.reshape(n, -1).max(axis=1, initial=-np.inf) >= best[:, -1]


@pytest.mark.parametrize("slots, depth, k", [(32, 2, 5), (8, 2, 5), (4, 1, 3), (32, 3, 16)])
def test_rows_whose_slots_held_the_top_k_are_never_listed_in_vain_or_missed(slots, depth, k):
    score = np.random.default_rng(0).normal(size=(500, 300))
    best, doubtful = slots_top(score, slots, depth, k)
    right = (best == np.sort(score, axis=1)[:, ::-1][:, :k]).all(axis=1)
    assert np.array_equal(right, ~doubtful)
    assert right.any()


def grid_sum(products, longest):
    """Products rounded to the kernel's grid and added as integers."""
    exponent = np.maximum((np.float32(longest) * np.float32(1.4142135)).view(np.int32) >> 23, 22)
    grid = np.int32((127 + 21 + 127 - exponent) << 23).view(np.float32)
    magic = np.float32(12582912.0)
    steps = (products.astype(np.float32) * grid + magic).view(np.int32) - magic.view(np.int32)
    return steps.astype(np.int64).sum(axis=0) / np.float64(grid)


@pytest.mark.parametrize("scale", [1e-20, 0.3, 1.0, 1.4, 1e6])
def test_sums_on_a_grid_have_the_same_bits_in_any_order(scale):
    rng = np.random.default_rng(0)
    products = (scale * unit(rng.normal(size=(4000, 8)))).astype(np.float32)
    total = grid_sum(products, scale)
    assert np.array_equal(total, grid_sum(products[rng.permutation(4000)], scale))
    assert np.array_equal(total, grid_sum(products[:1234], scale) + grid_sum(products[1234:], scale))
    assert np.abs(total - products.astype(np.float64).sum(0)).max() < 4000 * scale * 2.0**-21
    assert np.abs(grid_sum(np.full((512, 1), scale, np.float32), scale) / (512 * scale) - 1).max() < 1e-6


def test_two_float16_halves_hold_a_float32_row():
    x = np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32) * 10.0 ** np.arange(-10, 10)[:, None].repeat(
        10, 0
    )
    up = 2.0 ** (9 - np.floor(np.log2(np.abs(x).max(axis=1, keepdims=True))))
    high = (x * up).astype(np.float16)
    low = (x * up - high).astype(np.float16)
    error = np.abs((high.astype(np.float64) + low) / up - x).max(axis=1)
    assert (error <= 2.0**-22 * np.abs(x).max(axis=1)).all()


# ------------------------------------------------------------------ the kernels


@pytest.fixture
def engine():
    from sidkit.engine.cuda import engine as cuda

    return cuda


SHAPES = [
    (150, 140, 20, 5, "cosine"),
    (90, 70, 5, 3, "euclidean"),
    (40, 1, 1, 1, "cosine"),
    (60, 3, 5, 2, "euclidean"),
    (60, 130, 32, 1, "cosine"),
    (40, 200, 16, 16, "cosine"),
]
BIG = [
    (20011, 1024, 128, 5, "cosine"),
    (20011, 1000, 100, 5, "euclidean"),
    (20011, 128, 128, 5, "cosine"),
    (20011, 100, 60, 3, "euclidean"),
    (9001, 512, 128, 1, "cosine"),
    (5003, 700, 768, 5, "cosine"),
    (5003, 700, 300, 16, "cosine"),
    (3000, 257, 200, 3, "euclidean"),
    (1500, 300, 4096, 5, "cosine"),
    (3000, 2999, 24, 8, "euclidean"),
]
EVERY = [*SHAPES, *(pytest.param(*shape, marks=[pytest.mark.gpu, needs_gpu]) for shape in BIG)]


@kernels_run
@pytest.mark.parametrize(
    "dtype, precision, close",
    [
        ("float16", "tf32", 5e-3),
        pytest.param("bfloat16", "tf32", 2e-2, marks=[pytest.mark.gpu, needs_gpu]),  # the interpreter has no bfloat16
        ("float32", "tf32", 3e-3),
        ("float32", "fp32", 3e-6),
    ],
)
@pytest.mark.parametrize("n, K, d, k, metric", EVERY)
def test_soft_sums_are_those_of_the_formulas(engine, n, K, d, k, metric, dtype, precision, close):
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
    again = engine.soft_sums(x, book, k, beta, 0.5, precision)
    assert all(torch.equal(a, b) for a, b in zip((mass, sums, objective), again, strict=True))


@kernels_run
def test_rows_in_another_order_give_the_same_bits(engine):
    x, c = rows_and_centroids(200, 150, 24)
    x = torch.from_numpy(unit(x)).to(DEVICE, torch.float16)
    book = engine.book(c, "cosine", x)
    mass, sums, _ = engine.soft_sums(x, book, 3, 15.0)
    parts = [
        engine.soft_sums(part, book, 3, 15.0) for part in (x.flip(0)[:70].contiguous(), x.flip(0)[70:].contiguous())
    ]
    assert torch.equal(mass, parts[0][0] + parts[1][0])
    assert torch.equal(sums, parts[0][1] + parts[1][1])


@kernels_run
@pytest.mark.parametrize("K, k", [(40, 3), (140, 1), (140, 3)])
def test_rows_of_length_zero_have_no_say_if_asked(engine, K, k):
    x, c = rows_and_centroids(90, K, 12)
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
    x = torch.from_numpy(unit(base[rng.integers(0, 64, 100)] + 0.05 * rng.normal(size=(100, 16)))).to(
        DEVICE, getattr(torch, dtype)
    )
    mass, sums, _ = engine.soft_sums(x, engine.book(c, "cosine", x), 5, 2.0, 0.5, "fp32")
    want = soft_sums_in_float64(x.double().cpu().numpy(), c, "cosine", 5, 2.0, 0.5)
    if dtype == "float32":
        assert np.abs(mass.cpu().numpy() - want[0]).max() < 1e-4
    assert float(mass.sum()) == pytest.approx(100, abs=1e-4)
    assert np.linalg.norm(sums.cpu().numpy().sum(0) - want[1].sum(0)) < 1e-2
    assert np.abs(mass.cpu().numpy().reshape(6, 64).sum(0) - want[0].reshape(6, 64).sum(0)).max() < 0.05


@kernels_run
@pytest.mark.parametrize("n, K, d, k, metric", EVERY)
def test_tokens_are_decided_as_in_float64(engine, n, K, d, k, metric):
    x, c = rows_and_centroids(min(n, 500), K, d, seed=1)
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
def test_rows_of_16_bits_get_the_tokens_of_their_values(engine):
    x, c = rows_and_centroids(80, 90, 24)
    for dtype in (torch.float16, torch.bfloat16):
        given = torch.from_numpy(x).to(DEVICE, dtype)
        exact = given.double().cpu().numpy()
        want = cpu.nearest(exact, cpu.book(c, "cosine", exact))
        assert np.array_equal(engine.nearest(given, engine.book(c, "cosine", given)).cpu().numpy(), want)


@kernels_run
def test_add_up_is_that_of_the_cpu(engine):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(300, 20)) * 10.0 ** rng.integers(-2, 3, 20)).astype(np.float32)
    index, weight = rng.integers(0, 37, (300, 3)).astype(np.int32), 7 * rng.random((300, 3))
    mass, total = engine.add_up(*(torch.from_numpy(a).to(DEVICE) for a in (x, index, weight)), 37)
    want_mass, want = cpu.add_up(x, index, weight, 37)
    assert np.abs(mass.cpu().numpy() - want_mass).max() < 1e-5
    assert (np.abs(total.cpu().numpy() - want).max(0) <= 1e-6 * np.abs(want).max(0)).all()
    nothing = torch.zeros(300, 3, dtype=torch.float64, device=DEVICE)
    assert (
        float(
            engine.add_up(torch.from_numpy(x).to(DEVICE), torch.from_numpy(index).to(DEVICE), nothing, 37)[1]
            .abs()
            .max()
        )
        == 0
    )


@kernels_run
def test_rows_that_do_not_lie_in_one_piece_and_no_rows_at_all(engine):
    x, c = rows_and_centroids(60, 30, 12)
    wide = torch.from_numpy(np.concatenate([x, x], axis=1)).to(DEVICE)
    book = engine.book(c, "cosine", wide)
    plain, cut = torch.from_numpy(x).to(DEVICE), wide[:, :12]
    assert torch.equal(engine.nearest(cut, book), engine.nearest(plain, book))
    assert torch.equal(engine.soft_sums(cut, book, 2, 5.0)[1], engine.soft_sums(plain, book, 2, 5.0)[1])
    assert [tuple(part.shape) for part in engine.soft_sums(plain[:0], book, 2, 5.0)] == [(30,), (30, 12), (1,)]
    assert len(engine.nearest(plain[:0], book)) == 0


@kernels_run
def test_column_sums_are_exact(engine):
    x = np.random.default_rng(0).normal(size=(777, 13)).astype(np.float32)
    got = engine.column_sums(torch.from_numpy(x).to(DEVICE)).cpu().numpy()
    assert np.abs(got - x.sum(0, dtype=np.float64)).max() < 1e-10


@kernels_run
def test_stages_in_one_kernel_are_the_stages(engine):
    rng = np.random.default_rng(0)
    x, mean, c = (rng.normal(size=shape).astype(np.float32) for shape in [(50, 20), (20,), (7, 20)])
    codes = rng.integers(0, 7, (1, 60)).astype(np.int32)
    c[2] = 0  # removes nothing
    x[3] = 2.5 * c[codes[0, 13]]  # parallel to its centroid: nothing is left
    r = unit(residual(x, c[codes[0, 10:]], 0.0))
    r = residual(unit(residual(r, mean[None], 0.3)), c[codes[0, 10:]], 1.0)
    steps = [CarryStep(c, 0.0, True, 0), CarryStep(mean[None], 0.3), CarryStep(c, 1.0, False, 0)]
    given = torch.from_numpy(x).to(DEVICE)
    got = engine.carried(given, engine.plan_carry(steps, given), torch.from_numpy(codes).to(DEVICE), 10)
    assert np.abs(got.cpu().numpy() - r).max() < 1e-5
    assert (unit(residual(x, c[codes[0, 10:]], 0.0))[3] == 0).all()
    only = engine.carried(given, engine.plan_carry(steps[:1], given), torch.from_numpy(codes).to(DEVICE), 10)
    assert (only.cpu().numpy()[3] == 0).all()


@kernels_run
def test_more_neighbours_than_the_kernels_keep_are_refused(engine):
    from sidkit.errors import SpecError

    x = torch.zeros(4, 3, device=DEVICE)
    with pytest.raises(SpecError, match="at most its 16 nearest centroids, not 17"):
        engine.soft_sums(x, engine.book(np.eye(30, 3), "cosine", x), 17, 1.0)
    with pytest.raises(SpecError, match=r"not torch\.float64"):
        engine.soft_sums(x.double(), engine.book(np.eye(30, 3), "cosine", x), 1, 1.0)


# ------------------------------------------------------------------ rows on the device


@pytest.fixture
def fitted():
    """Two levels of PRQ-KMeans fitted on the CPU, and its rows."""
    import sidkit

    rng = np.random.default_rng(0)
    x = (rng.normal(size=(12, 24))[rng.integers(0, 12, 300)] + 0.5 * rng.normal(size=(300, 24))).astype(np.float32)
    return sidkit.prq_kmeans(sizes=(20, 8), top_k=2, iterations=3).fit(x, seed=0), x


@kernels_run
@pytest.mark.parametrize("spare", [1 << 30, 300 * 24])
def test_rows_on_the_device_are_the_rows_on_the_host(fitted, spare):
    from sidkit.rows.cuda import DeviceRows, Resident
    from sidkit.rows.local import LocalRows
    from sidkit.rows.sources import ArraySource

    tokenizer, x = fitted
    host, device = LocalRows(ArraySource(x)), DeviceRows(Resident(torch.from_numpy(x).to(DEVICE)), spare=spare)
    for stage in tokenizer.stages:
        host, device = host.map(stage), device.map(stage)
        assert device.width == host.width
        assert np.abs(device.sample(7, (0, 1)) - host.sample(7, (0, 1))).max() < 1e-5
        count, total = device.reduce(lambda x, codes: (torch.tensor([float(len(x))]), x.double().sum(0)))
        assert count[0] == 300
        assert np.abs(total - host.reduce(lambda x, codes: (x.sum(0, dtype=np.float64),))[0]).max() < 1e-4
    assert np.array_equal(device.codes(), host.codes())
    batches = list(device.batches(64, (0,)))
    assert sum(len(batch) for batch in batches) == 300
    assert np.abs(batches[0].cpu().numpy() - next(host.batches(64, (0,)))).max() < 1e-5


@kernels_run
def test_a_fit_gets_16_bit_rows_only_where_they_have_length_one(fitted):
    from sidkit.rows.cuda import DeviceRows, Resident

    tokenizer, x = fitted
    seen = []

    def note(x, codes):
        seen.append(x.dtype)
        return (torch.zeros(1),)

    rows = DeviceRows(Resident(torch.from_numpy(x).to(DEVICE)))
    rows.reduce(note, "fp16")
    rows.map(tokenizer.stages[0]).reduce(note, "fp16")
    rows.map(tokenizer.stages[0]).reduce(note, "bf16")
    rows.map(tokenizer.stages[0]).reduce(note)
    assert seen == [torch.float32, torch.float16, torch.bfloat16, torch.float32]


def test_chunks_from_files_pass_through_two_buffers(monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")
    from sidkit.rows import cuda_memory as held
    from sidkit.rows.sources import ArraySource

    monkeypatch.setattr(held, "_pinned", lambda n, d: torch.empty(n, d))
    x = np.random.default_rng(0).normal(size=(103, 4)).astype(np.float16)
    x.flags.writeable = False
    streamed = held.Streamed(ArraySource(x), torch.device("cpu"))
    copies = [part.clone() for part in streamed._staged(10)]
    assert [len(part) for part in copies] == [10] * 10 + [3]
    assert np.array_equal(torch.cat(copies).numpy(), x.astype(np.float32))
    assert streamed._pages() is None


@kernels_run
def test_bad_rows_of_a_tensor_are_named():
    from sidkit.errors import BadRowsError
    from sidkit.rows.cuda_memory import Resident, require_good_rows

    x = torch.ones(40, 3, device=DEVICE)
    require_good_rows(Resident(x))
    x[7], x[9, 1], x[11], x[13, 2] = 0, float("nan"), 0, float("inf")
    with pytest.raises(BadRowsError, match="4 of 40 rows cannot be used: row 7 is all zeros, row 9 holds NaN") as error:
        require_good_rows(Resident(x))
    assert error.value.rows == [7, 9, 11, 13]


@kernels_run
def test_rows_of_64_bits_are_refused():
    from sidkit.errors import InputError
    from sidkit.rows.cuda import Resident

    with pytest.raises(InputError, match="must be float32, float16 or bfloat16"):
        Resident(torch.zeros(3, 2, dtype=torch.float64, device=DEVICE))


# ------------------------------------------------------------------ sizes for a device


@pytest.mark.gpu
@needs_gpu
def test_gpu_and_cpu_encode_alike():
    import sidkit
    from sidkit.rows.cuda import DeviceRows, Resident

    g = torch.Generator(device="cuda").manual_seed(0)
    x = torch.randn(200, 64, device="cuda", generator=g)[torch.randint(0, 200, (50_000,), device="cuda", generator=g)]
    x = x + torch.randn(50_000, 64, device="cuda", generator=g)
    tokenizer = sidkit.prq_kmeans(sizes=(256, 128, 64), top_k=5, iterations=3).fit(x.cpu().numpy(), seed=0)
    same = tokenizer.encode(DeviceRows(Resident(x), spare=1 << 24)) == tokenizer.encode(x.cpu().numpy())
    assert same.mean() >= 0.9999


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_streamed_rows_are_the_resident_rows(dtype):
    from sidkit.rows.cuda import DeviceRows, Resident, Streamed, on_device
    from sidkit.rows.sources import ArraySource
    from sidkit.stages.prepare import FittedNormalize

    class File(ArraySource):  # a source that is not plain memory: goes through the pinned buffers
        pass

    x = np.random.default_rng(0).normal(size=(100_003, 32)).astype(dtype)
    whole = DeviceRows(Resident(torch.from_numpy(x).cuda())).map(FittedNormalize())
    want = whole.reduce(lambda x, codes: (x.double().sum(0), (x.double() ** 2).sum(0)))
    file = File(x[:, :])
    file.array.flags.writeable = False
    for held in (Streamed(ArraySource(x.copy()), torch.device("cuda")), Streamed(file, torch.device("cuda"))):
        rows = DeviceRows(held, spare=1 << 20).map(FittedNormalize())
        for _ in range(2):
            got = rows.reduce(lambda x, codes: (x.double().sum(0), (x.double() ** 2).sum(0)))
            assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(got, want, strict=True))
    assert isinstance(on_device(ArraySource(x)).held, Resident)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("k", range(1, 17))
def test_every_number_of_neighbours(engine, k):
    x, c = rows_and_centroids(3001, 333, 72, seed=k)
    given = torch.from_numpy(unit(x)).to(DEVICE)
    book, score = engine.book(c, "cosine", given), scores_in_float64(given.cpu().numpy(), c, "cosine")
    want = np.argsort(-score, axis=1, kind="stable")[:, :k]
    assert np.array_equal(engine.top(given, book, k)[0].cpu().numpy(), want)
    weight = np.exp(15 * (np.take_along_axis(score, want, 1) - np.take_along_axis(score, want, 1)[:, :1]))
    mass, _ = cpu.add_up(x[:, :1], want.astype(np.int32), weight / weight.sum(1, keepdims=True), 333)
    for rows in (given, given.half(), given.bfloat16()):
        got = engine.soft_sums(rows, book, k, 15.0, 0.5, "fp32")[0].cpu().numpy()
        assert abs(got.sum() - 3001) < 1e-3
        assert (
            np.abs(got - mass).sum()
            < {torch.float32: 1e-3, torch.float16: 0.01, torch.bfloat16: 0.05}[rows.dtype] * 3001
        )


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("n, K, d, k", [(3000, 65_536, 48, 5), (20_000, 8192, 768, 5), (200_000, 1024, 128, 5)])
def test_large_codebooks(engine, n, K, d, k):
    g = torch.Generator(device="cuda").manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(n, d, device="cuda", generator=g), dim=1)
    c = torch.randn(K, d, device="cuda", generator=g, dtype=torch.float64)
    book = engine.book(c, "cosine", x)
    assert torch.equal(engine.nearest(x, book).long(), (x.double() @ book.exact.T).argmax(1))
    for rows in (x.half(), x.bfloat16(), x):
        score = (rows.double() @ book.exact.T).topk(k, 1)
        weight = torch.softmax(15.0 * score.values / rows.double().norm(dim=1, keepdim=True), 1)
        want = torch.zeros(K, dtype=torch.float64, device="cuda").index_add_(
            0, score.indices.flatten(), weight.flatten()
        )
        mass, _, _ = engine.soft_sums(rows, book, k, 15.0)
        assert float((mass - want).abs().sum()) < 0.02 * n
        assert float(mass.sum()) == pytest.approx(n, rel=1e-5)
