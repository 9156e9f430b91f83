"""Rows on a device: tensors on it, or rows of the host that stream to it. What all rows share: test_backends.py."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import DEVICE, QUIET, kernels_run, needs_gpu, torch
from sidkit.rows.local import LocalRows
from sidkit.rows.seam import choose
from sidkit.rows.sources import ArraySource
from sidkit.stages.prepare import FittedNormalize
from sidkit.stages.stage import FitContext

pytestmark = QUIET


@kernels_run
def test_a_fit_gets_16_bit_rows_only_where_they_have_length_one():
    from sidkit.rows.cuda import DeviceRows, Resident

    seen = []

    def note(x, codes):
        seen.append(x.dtype)
        return (torch.zeros(1),)

    rows = DeviceRows(Resident(torch.randn(30, 8).to(DEVICE)))
    rows.reduce(note, "fp16")
    rows.map(FittedNormalize()).reduce(note, "fp16")
    rows.map(FittedNormalize()).reduce(note, "bf16")
    rows.map(FittedNormalize()).reduce(note)
    assert seen == [torch.float32, torch.float16, torch.bfloat16, torch.float32]


@kernels_run
@pytest.mark.parametrize(("change", "stay"), [(None, True), ("a copy", False), ("a zero row", False)])
def test_first_centroids_stay_on_the_device_if_all_are_different(change, stay):
    from sidkit.rows.cuda import DeviceRows, Resident

    x = np.random.default_rng(5).normal(size=(40, 6)).astype(np.float32)
    drawn = choose(40, 32, (3, 0))
    if change == "a copy":
        x[drawn[4]] = x[drawn[9]]
    elif change is not None:
        x[drawn[4]] = 0
    run = FitContext(seed=3)
    found = run.start_rows(DeviceRows(Resident(torch.from_numpy(x).to(DEVICE))), 16, 0, there=True)
    assert isinstance(found, torch.Tensor) == stay
    assert np.array_equal(torch.as_tensor(found).cpu().numpy(), run.start_rows(LocalRows(ArraySource(x)), 16, 0))


def test_chunks_from_files_pass_through_two_buffers(monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")
    from sidkit.rows import device_source

    monkeypatch.setattr(device_source, "_pinned", lambda n, d: torch.empty(n, d))
    x = np.random.default_rng(0).normal(size=(103, 4)).astype(np.float16)
    x.flags.writeable = False
    streamed = device_source.Streamed(ArraySource(x), torch.device("cpu"))
    copies = [part.clone() for part in streamed._staged(10)]
    assert [len(part) for part in copies] == [10] * 10 + [3]
    assert np.array_equal(torch.cat(copies).numpy(), x.astype(np.float32))
    assert streamed._pages() is None


@kernels_run
def test_bad_rows_of_a_tensor_are_named():
    from sidkit.errors import BadRowsError
    from sidkit.rows.device_source import Resident, require_good_rows

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


@pytest.mark.gpu
@needs_gpu  # for its streams and pinned memory
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_streamed_rows_are_the_resident_rows(dtype):
    from sidkit.rows.cuda import DeviceRows, Resident, Streamed, on_device

    class File(ArraySource):  # a source that is not plain memory: goes through the pinned buffers
        pass

    x = np.random.default_rng(0).normal(size=(100_003, 56)).astype(dtype)
    whole = DeviceRows(Resident(torch.from_numpy(x).cuda())).map(FittedNormalize())
    want = whole.reduce(lambda x, codes: (x.double().sum(0), (x.double() ** 2).sum(0)))
    file = File(x[:, :])
    file.array.flags.writeable = False
    for held in (Streamed(ArraySource(x.copy()), torch.device("cuda")), Streamed(file, torch.device("cuda"))):
        rows = DeviceRows(held, spare=1 << 20).map(FittedNormalize())
        for _ in range(2):
            got = rows.reduce(lambda x, codes: (x.double().sum(0), (x.double() ** 2).sum(0)))
            assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(got, want, strict=True))
    assert isinstance(on_device(ArraySource(x)).source, Resident)


@pytest.mark.gpu
@needs_gpu  # for its streams and pinned memory
def test_rows_in_memory_may_stream_to_several_places_at_once():
    from sidkit.rows.cuda import DeviceRows, Streamed

    X = np.random.default_rng(0).normal(size=(30_001, 56)).astype(np.float32)

    def total(array):
        rows = DeviceRows(Streamed(ArraySource(array), torch.device("cuda")), spare=1 << 19)
        return rows, rows.reduce(lambda x, codes: (x.double().sum(0),))[0]

    first, want = total(X)
    second, same = total(X)  # the same pages
    third, part = total(X[5000:])  # some of them: the driver refuses
    assert np.allclose(want, X.sum(0, dtype=np.float64), atol=1e-6)
    assert np.array_equal(want, same)
    assert np.allclose(part, X[5000:].sum(0, dtype=np.float64), atol=1e-6)
    assert third.source._pages() is None
    del first, second
    assert third.source._pages() is None  # rows stay with what they began with
    assert total(X)[0].source._pages() is not None


@kernels_run
def test_centroids_of_a_fit_on_a_device_stay_there():
    from sidkit.rows.cuda import DeviceRows, Resident
    from sidkit.stages.cluster.kmeans import KMeans

    x = torch.randn(60, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    found = KMeans(4, iterations=2).fit(DeviceRows(Resident(x)).map(FittedNormalize()), FitContext())
    assert found.centroids.dtype == np.float32
    assert found.beside(x) is found.beside(x.half())  # uploaded by nobody
    assert np.array_equal(found.beside(x).cpu().numpy(), found.centroids)
    assert found.beside(found.centroids) is found.centroids


@kernels_run
def test_what_is_read_later_is_what_it_was_then():
    from sidkit.rows.cuda import DeviceRows, Resident

    number = torch.ones((), device=DEVICE)
    call = DeviceRows(Resident(torch.ones(3, 2, device=DEVICE))).later(number, number > 0)
    number += 1
    assert call() == [1.0, 1.0]


@kernels_run
@pytest.mark.parametrize("spare", [1 << 20, 2000])
def test_tokens_of_rows_that_are_only_carried_in_float16_are_those_of_the_cpu(monkeypatch, spare):
    import sidkit
    from sidkit.engine.cuda import tokens
    from sidkit.rows.cuda import DeviceRows, Resident

    monkeypatch.setattr(tokens, "SCREENED", 2)
    x = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    rows = DeviceRows(Resident(torch.from_numpy(x).to(DEVICE)), spare=spare)
    fitted = sidkit.prq_kmeans((12, 9), iterations=1).fit(rows)
    assert np.array_equal(fitted.fit_codes, fitted.encode(x, device="cpu"))
    assert np.array_equal(fitted.fit_codes, fitted.encode(rows))
