"""The compiled kernels against float64 numpy, and the package without them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sidkit.engine import cpu, native
from sidkit.engine.native import CarryChain, build, cache
from sidkit.engine.steps import CarryStep
from sidkit.geometry import residual, unit
from sidkit.stages.cluster.kmeans import Centroids, KMeans

SOURCE = Path(native.__file__).parents[3]
BATCHES = (1, 7, 256, 4096)

needs_kernels = pytest.mark.skipif(build.library() is None, reason=f"no compiled kernels: {build.reason()}")


def test_kernels_are_there_wherever_they_can_be():
    excuses = ("no C compiler", "switched off", "written for x86-64 and aarch64")
    assert build.library() is not None or str(build.reason()).startswith(excuses), build.reason()


@pytest.fixture(params=["1", "2"], ids=["1 thread", "2 threads"])
def threads(request, monkeypatch):
    monkeypatch.setenv("SIDKIT_THREADS", request.param)
    monkeypatch.setattr(native, "WORTH_A_THREAD", 1)
    return int(request.param)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def exact_scores(x, book):
    """The formula that defines an answer, in numpy's order of additions."""
    return np.stack([(book.exact * row.astype(np.float64)).sum(axis=1) + book.exact_offset for row in x])


def in_batches(x, size, f):
    return np.concatenate([f(x[start : start + size]) for start in range(0, len(x), size)])


def screened(x, book, k, screen):
    index = np.empty((len(x), k), np.int32)
    job = native._run(x, native.pack(book), k, screen=screen, index=index)
    return index, job


HARD_CASES = {
    "random": lambda x, c: (x, c),
    "whole numbers, many exact ties": lambda x, c: (np.round(x), np.round(c)),
    "one centroid repeated": lambda x, c: (x, np.repeat(c[:1], len(c), axis=0)),
    "zero rows": lambda x, c: (np.where(np.arange(len(x))[:, None] % 2, x, 0).astype(np.float32), c),
    "zero centroids": lambda x, c: (x, c * 0),
    "denormal rows": lambda x, c: (x * np.float32(1e-41), c),
    "tiny rows, huge centroids": lambda x, c: (x * np.float32(1e-25), c * 1e14),
    "huge rows": lambda x, c: (x * np.float32(1e18), c),
    "rows of mixed size": lambda x, c: (
        x * np.float32(10.0) ** np.arange(-20, 20)[np.arange(len(x)) % 40, None],
        c,
    ),
    "centroids that hardly differ": lambda x, c: (x, 1 + 1e-7 * c),
    "duplicated rows as centroids": lambda x, c: (
        np.repeat(x[:2], len(x) // 2 + 1, 0)[: len(x)],
        c * 0 + x[0],
    ),
    "rows on their centroids": lambda x, c: (c[np.arange(len(x)) % len(c)].astype(np.float32), c),
}


@needs_kernels
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("case", HARD_CASES)
def test_the_best_codewords_are_those_of_the_float64_formula(case, metric):
    for n, d, size, k in ((60, 16, 40, 5), (13, 1, 3, 2), (25, 3, 1, 1), (50, 130, 33, 16), (40, 77, 257, 2)):
        x, centroids = HARD_CASES[case](rows(n, d), rows(size, d, seed=1).astype(np.float64))
        x = x.astype(np.float32)
        book = cpu.book(centroids, metric, x)
        score = exact_scores(x, book)
        best = np.argsort(-score, axis=1, kind="stable")[:, :k]
        for screen in (0, 1):
            assert np.array_equal(screened(x, book, k, screen)[0], best)
        index, found = native.top(x, book, k)
        assert np.array_equal(index, best)
        assert np.array_equal(found, np.take_along_axis(score, best, axis=1).astype(np.float32))
        assert np.array_equal(native.nearest(x, book), score.argmax(axis=1))


@needs_kernels
def test_nearest_gives_the_codes_of_the_numpy_engine(threads):
    x, centroids = unit(rows(20000, 64)), rows(300, 64, seed=1)
    for metric in ("cosine", "euclidean"):
        book = cpu.book(centroids, metric, x)
        assert np.array_equal(native.nearest(x, book), cpu.nearest(x, book))


@needs_kernels
def test_a_row_gets_the_same_bits_in_any_company(threads):
    x = unit(rows(6000, 40))
    book = cpu.book(rows(200, 40, seed=1), "euclidean", x)
    index, score = native.top(x, book, 3)
    for size in BATCHES:
        some = x if size > 7 else x[:300]
        assert np.array_equal(in_batches(some, size, lambda part: native.top(part, book, 3)[0]), index[: len(some)])
        assert np.array_equal(in_batches(some, size, lambda part: native.top(part, book, 3)[1]), score[: len(some)])
        assert np.array_equal(in_batches(some, size, lambda part: native.nearest(part, book)), index[: len(some), 0])


@needs_kernels
def test_float32_takes_over_where_bytes_decide_too_little():
    x = rows(5000, 32)
    book = cpu.book(1 + 1e-4 * rows(400, 32, seed=1), "euclidean", x)
    plain, _ = screened(x, book, 2, 0)
    index, job = screened(x, book, 2, 1)
    assert np.array_equal(index, plain)
    assert job.swept < len(x) / 2


@needs_kernels
def test_offsets_tell_copies_of_a_codeword_apart():
    x, bonus = rows(300, 6), np.where(np.arange(40) % 3, np.linspace(0, 1, 40), -np.inf)
    book = cpu.book(np.repeat(rows(2, 6, seed=1), 20, axis=0), "euclidean", x, bonus)
    assert np.array_equal(native.nearest(x, book), exact_scores(x, book).argmax(axis=1))
    assert np.array_equal(native.nearest(x[:2] * 0, book), [exact_scores(x[:1] * 0, book).argmax()] * 2)


@needs_kernels
def test_a_row_that_is_not_a_number_gets_the_first_codeword():
    x = rows(30, 20)
    x[3], x[5, 2], x[7, 1] = np.nan, np.nan, np.inf
    book = cpu.book(rows(50, 20, seed=1), "cosine", x)
    assert np.array_equal(native.nearest(x, book)[[3, 5]], [0, 0])
    sound = [i for i in range(30) if i not in (3, 5, 7)]
    assert np.array_equal(native.nearest(x, book)[sound], native.nearest(x[sound], book))


@needs_kernels
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 31, 64, 100, 127, 128, 129, 200, 256, 300, 768, 1024, 1537])
def test_rows_are_carried_to_the_same_bits_as_by_geometry(d, threads):
    rng = np.random.default_rng(d)
    x = (rows(60, d) * np.exp(5 * rng.standard_normal((60, 1)))).astype(np.float32)
    mean, centroids = rows(1, d, seed=1), rows(10, d, seed=2)
    codes = rng.integers(0, 10, (60, 2)).astype(np.int32)
    x[3], x[4], centroids[2], x[5], x[6], codes[5:7, 0] = 0, 1e-41, 0, centroids[4], 3 * centroids[4], 4
    for keep in (0.0, 0.3, 1.0):
        r = unit(residual(unit(x), mean, 0.0))
        r = unit(residual(r, centroids[codes[:, 0]], keep))
        r = residual(r, centroids[codes[:, 1]], keep)
        steps = [
            CarryStep(),
            CarryStep(mean),
            CarryStep(centroids, keep, True, 0),
            CarryStep(centroids, keep, False, 1),
        ]
        carried = native.carry(x, CarryChain(steps), codes)
        assert np.array_equal(carried.view(np.int32), r.view(np.int32))
        alone = [native.carry(x[i : i + 1], CarryChain(steps), codes[i : i + 1]) for i in range(len(x))]
        assert np.array_equal(np.concatenate(alone), carried)


@needs_kernels
def test_encoding_in_one_sweep_gives_the_codes_of_one_level_after_another(threads):
    x = rows(5000, 48)
    mean, books = rows(1, 48, seed=1), [rows(size, 48, seed=size) for size in (100, 50, 7)]
    steps, r, columns = [CarryStep(), CarryStep(mean)], unit(residual(unit(x), mean, 0.0)), []
    for j, centroids in enumerate(books):
        book = cpu.book(centroids, "cosine", x)
        steps.append(CarryStep(centroids, 0.0, True, j, book))
        columns.append(cpu.nearest(r, book))
        r = unit(residual(r, centroids[columns[-1]], 0.0))
    chain = CarryChain(steps)
    codes = native.encode(x, chain)
    assert np.array_equal(codes, np.stack(columns, axis=1))
    assert np.array_equal(native.carry(x, chain, codes).view(np.int32), r.view(np.int32))
    for size in BATCHES:
        some = x if size > 7 else x[:200]
        assert np.array_equal(in_batches(some, size, lambda part: native.encode(part, chain)), codes[: len(some)])


@needs_kernels
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_one_pass_adds_up_what_the_formula_says(k, metric, threads):
    x = rows(3000, 24)
    x[10] = 0
    centroids, beta, scale = rows(50, 24, seed=1).astype(np.float64), 3.0, 0.5
    mass, total, objective = native.soft_sums(x, cpu.book(centroids, metric, x), k, beta, scale)
    wide = x.astype(np.float64)
    if metric == "cosine":
        s = unit(wide) @ unit(centroids).T
    else:
        s = -scale * ((wide[:, None, :] - centroids) ** 2).sum(axis=2)
    best = np.argsort(-s, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(s, best, axis=1)
    weight = np.exp(beta * (chosen - chosen[:, :1]))
    weight /= weight.sum(axis=1, keepdims=True)
    full = np.zeros_like(s)
    np.put_along_axis(full, best, weight, axis=1)
    assert np.allclose(mass, full.sum(axis=0), rtol=1e-9, atol=1e-9)
    assert np.allclose(total, full.T @ wide, rtol=1e-9, atol=1e-9)
    assert np.isclose(objective[0], chosen[:, 0].sum(), rtol=1e-9)
    theirs = KMeans(50, metric, k, beta, scale=scale).statistics(Centroids(centroids, metric), x, None)
    assert np.allclose(total, theirs[1], rtol=1e-3, atol=1e-3)
    assert np.isclose(objective[0], theirs[2][0], rtol=1e-5)


@needs_kernels
def test_sums_are_the_same_bits_however_rows_are_cut_and_shared_out(monkeypatch):
    x = unit(rows(20000, 33))
    book = cpu.book(rows(100, 33, seed=1), "cosine", x)
    whole = native.soft_sums(x, book, 3, 15.0, 0.5)
    monkeypatch.setattr(native, "WORTH_A_THREAD", 1)
    for team in ("1", "2", "3", "7"):
        monkeypatch.setenv("SIDKIT_THREADS", team)
        for size in (256, 4096, 20000):
            sums = tuple(np.zeros_like(part) for part in whole)
            for start in range(0, len(x), size):
                native.soft_sums(x[start : start + size], book, 3, 15.0, 0.5, into=sums)
            assert all(np.array_equal(a, b) for a, b in zip(sums, whole, strict=True))


@needs_kernels
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("case", HARD_CASES)
def test_sums_are_the_same_bits_by_any_screen_and_those_of_the_formula(case, metric, threads):
    for n, d, size, k in ((60, 16, 40, 5), (13, 1, 3, 2), (25, 3, 1, 1), (50, 130, 33, 16), (1100, 300, 257, 2)):
        x, centroids = HARD_CASES[case](rows(n, d), rows(size, d, seed=1).astype(np.float64))
        x = x.astype(np.float32)
        book, sums = cpu.book(centroids, metric, x), []
        for screen in (0, 1):
            mass, total, objective = np.zeros(size), np.zeros((size, d)), np.zeros(1)
            native._run(
                x, native.pack(book), k, screen=screen, beta=3.0, scale=-1.0 if metric == "cosine" else 0.5,
                mass=mass, total=total, objective=objective,
            )  # fmt: skip
            sums.append((mass, total, objective))
        assert all(np.array_equal(a, b) for a, b in zip(*sums, strict=True))
        score, square = exact_scores(x, book), (x.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
        best = np.argsort(-score, axis=1, kind="stable")[:, :k]
        s = np.take_along_axis(score, best, axis=1)
        s = s / np.sqrt(square + (square == 0)) if metric == "cosine" else s - 0.5 * square
        weight = np.zeros_like(score)
        np.put_along_axis(weight, best, cpu.soft_weights(s, 3.0), axis=1)
        assert np.allclose(sums[0][0], weight.sum(axis=0), rtol=1e-9, atol=1e-9)
        assert np.allclose(sums[0][1], weight.T @ x.astype(np.float64), rtol=1e-9, atol=1e-9 * np.abs(x).max() * n)
        assert np.isclose(sums[0][2][0], s[:, 0].sum(), rtol=1e-9)


@needs_kernels
@pytest.mark.parametrize("k", [1, 3])
def test_a_row_that_is_not_a_number_spoils_no_other_codeword(k):
    x = rows(2000, 20)
    book = cpu.book(rows(50, 20, seed=1), "cosine", x)
    spoiled = x.copy()
    spoiled[700] = np.nan
    mass, total, _ = native.soft_sums(spoiled, book, k, 3.0, 0.5)
    others = native.soft_sums(np.delete(x, 700, axis=0), book, k, 3.0, 0.5)
    sound = np.arange(k, 50)  # where no score is a number, the first k codewords are the best
    assert np.array_equal(mass[sound], others[0][sound])
    assert np.array_equal(total[sound], others[1][sound])


@needs_kernels
def test_a_pass_over_raw_rows_equals_a_pass_over_carried_rows(threads):
    x, centroids = rows(9000, 31), rows(20, 31, seed=1)
    codes = np.random.default_rng(0).integers(0, 20, (9000, 1)).astype(np.int32)
    chain = CarryChain([CarryStep(), CarryStep(centroids, 0.0, True, 0)])
    book = cpu.book(rows(60, 31, seed=2), "cosine", x)
    raw = native.soft_sums(x, book, 2, 15.0, 0.5, chain=chain, codes=codes)
    carried = native.soft_sums(native.carry(x, chain, codes), book, 2, 15.0, 0.5)
    assert all(np.array_equal(a, b) for a, b in zip(raw, carried, strict=True))


@needs_kernels
def test_what_the_kernels_could_trip_over_is_refused():
    chain = CarryChain([CarryStep(rows(5, 4), 0.0, True, 0)])
    with pytest.raises(ValueError, match="codes run from 0 to 5, not below 5"):
        native.carry(rows(2, 4), chain, np.array([[0], [5]], np.int32))
    with pytest.raises(ValueError, match=r"codes of shape \(2, 0\) cannot lead 2 rows through 1 levels"):
        native.carry(rows(2, 4), chain)
    with pytest.raises(ValueError, match=r"rows of 3 numbers cannot go through stages of \{4\}"):
        native.carry(rows(2, 3), chain, np.zeros((2, 1), np.int32))
    with pytest.raises(ValueError, match=r"cannot take away vectors of shape \(2, 4\)"):
        CarryChain([CarryStep(rows(2, 4), 0.0, True, 0, cpu.book(rows(5, 4), "cosine", rows(2, 4)))])
    with pytest.raises(ValueError, match="a step without a book cannot find its codes"):
        native.encode(rows(2, 4), chain)
    with pytest.raises(ValueError, match=r"cannot add to float32 sums of shape \(2,\)"):
        book = cpu.book(rows(2, 4), "cosine", rows(2, 4))
        native.soft_sums(rows(2, 4), book, 1, 1.0, 0.5, into=(np.zeros(2, np.float32), np.zeros((2, 4)), np.zeros(1)))
    with pytest.raises(ValueError, match="cannot find 3 of 2 codewords"):
        native.top(rows(2, 4), cpu.book(rows(2, 4), "cosine", rows(2, 4)), 3)


@needs_kernels
def test_no_rows_are_no_trouble():
    book = cpu.book(rows(5, 4), "cosine", rows(1, 4))
    assert native.nearest(rows(0, 4), book).shape == (0,)
    assert native.soft_sums(rows(0, 4), book, 1, 1.0, 0.5)[0].sum() == 0


def test_only_float32_matrices_are_taken():
    assert not native.ready(rows(3, 4).astype(np.float64))
    assert not native.ready(rows(3, 4), k=17)
    assert not native.ready([[1.0]])


# ---------------------------------------------------------------- building


SCRIPT = """
import numpy as np
from sidkit.engine import cpu, native
ready = native.prepare(float("inf"))
x = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
book = cpu.book(x[:5], "cosine", x)
codes = native.nearest(x, book) if ready else cpu.nearest(x, book)
assert np.array_equal(codes, (x.astype(float) @ book.exact.T).argmax(axis=1))
print(ready, native.reason())
"""


def fresh_process(cache, script=SCRIPT, **environment):
    """The output of a process with an empty cache of kernels."""
    settings = os.environ | {"PYTHONPATH": str(SOURCE), "XDG_CACHE_HOME": str(cache)} | environment
    done = subprocess.run([sys.executable, "-c", script], env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def compiler_that(tmp_path, does):
    path = tmp_path / "cc"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_kernels_can_be_switched_off(tmp_path):
    assert fresh_process(tmp_path, SIDKIT_NATIVE="0") == "False switched off by SIDKIT_NATIVE=0"


def test_without_a_compiler_numpy_does_the_work(tmp_path):
    assert fresh_process(tmp_path, CC="no-such-compiler") == "False no C compiler (no-such-compiler)"


def test_a_compiler_that_fails_is_named_and_remembered(tmp_path):
    broken = compiler_that(tmp_path, 'echo "disk on fire" >&2; exit 1')
    assert fresh_process(tmp_path, CC=broken).endswith("could not compile the kernels: disk on fire")
    assert "remembered in" in fresh_process(tmp_path, CC=broken)


@needs_kernels
def test_a_failed_build_is_tried_again_after_a_day(tmp_path):
    flag = tmp_path / "repaired"
    real = build.find_compiler()[0]
    compiler = compiler_that(tmp_path, f'test -e {flag} || {{ echo "disk on fire" >&2; exit 1; }}; exec {real} "$@"')
    assert "disk on fire" in fresh_process(tmp_path, CC=compiler)
    flag.touch()
    assert "remembered in" in fresh_process(tmp_path, CC=compiler)
    (bad,) = (tmp_path / "sidkit").glob("*.bad")
    old = bad.stat().st_mtime - cache.REMEMBERED
    os.utime(bad, (old, old))
    assert fresh_process(tmp_path, CC=compiler) == "True None"
    assert not bad.exists()


def test_a_compiler_that_never_ends_is_stopped_and_remembered(tmp_path):
    slow = compiler_that(tmp_path, "exec sleep 1000")
    script = "from sidkit.engine.native import compiler; compiler.COMPILING = 1" + SCRIPT
    assert fresh_process(tmp_path, script, CC=slow) == "False cc took over 1 seconds to build the kernels"
    assert "remembered in" in fresh_process(tmp_path, CC=slow)


def test_what_a_compiler_started_is_stopped_with_it(tmp_path):
    slow = compiler_that(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    script = "from sidkit.engine.native import compiler; compiler.COMPILING = 1" + SCRIPT
    assert fresh_process(tmp_path, script, CC=slow) == "False cc took over 1 seconds to build the kernels"
    status = Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    deadline = time.monotonic() + 10
    while status.exists() and " Z " not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_kernels
def test_a_library_that_others_may_have_written_is_not_loaded(tmp_path):
    look = "from sidkit.engine import native; print(native.prepare(0), native.reason())"
    assert fresh_process(tmp_path) == "True None"
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "sidkit").iterdir()} == {0}
    for one in (tmp_path / "sidkit").iterdir():
        one.chmod(0o666)
        assert fresh_process(tmp_path, look) == "False not compiled yet"
        one.chmod(0o600)
    assert fresh_process(tmp_path, look) == "True None"


def test_no_shell_reads_the_name_of_a_compiler(tmp_path):
    trap = tmp_path / "trap"
    assert "no C compiler" in fresh_process(tmp_path, CC=f"$(touch {trap})")
    assert "could not compile" in fresh_process(tmp_path, CC=f"false ; touch {trap}")
    assert not trap.exists()


@needs_kernels
def test_no_library_with_a_flipped_byte_is_loaded(tmp_path):
    """Its checksum is compared before the system sees it; a library whose start runs code shows whether it was."""
    assert fresh_process(tmp_path) == "True None"
    (library,) = (tmp_path / "sidkit").glob("*.so")
    data = library.read_bytes()
    look = (
        "import sys; from pathlib import Path; from sidkit.engine.native import build\n"
        f"path = Path({str(library)!r}); data = path.read_bytes(); loaded = []\n"
        "build.ctypes.CDLL = loaded.append\n"
        "for at in range(0, len(data), len(data) // 40):\n"
        "    path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])\n"
        "    build._looked = build._settled = False\n"
        "    assert build.library(build=False) is None, at\n"
        "print(len(loaded), build.reason())"
    )
    assert fresh_process(tmp_path, look) == "0 not compiled yet"
    library.write_bytes(data)


@needs_kernels
def test_kernels_that_crash_when_tried_are_not_used(tmp_path):
    (tmp_path / "trap.h").write_text("__attribute__((constructor)) static void trap(void) { __builtin_trap(); }\n")
    crashing = compiler_that(tmp_path, f'exec {build.find_compiler()[0]} -include {tmp_path}/trap.h "$@"')
    assert fresh_process(tmp_path, CC=crashing) == "False the kernels died of signal 4 when tested"


@needs_kernels
def test_kernels_that_answer_wrongly_when_tried_are_not_used(tmp_path):
    (tmp_path / "wrong.h").write_text("#include <math.h>\n#define sqrtf(x) (0 * (x))\n")
    wrong = compiler_that(tmp_path, f'exec {build.find_compiler()[0]} -include {tmp_path}/wrong.h "$@"')
    assert "the kernels failed when tested: wrong answer" in fresh_process(tmp_path, CC=wrong)


@needs_kernels
def test_kernels_are_built_once_and_rebuilt_when_damaged(tmp_path):
    look = "from sidkit.engine import native; print(native.prepare(0), native.reason())"
    assert fresh_process(tmp_path, look) == "False not compiled yet"
    assert fresh_process(tmp_path) == "True None"
    assert fresh_process(tmp_path, look) == "True None"
    (library,) = (tmp_path / "sidkit").glob("*.so")
    library.write_bytes(library.read_bytes()[:1000])
    assert fresh_process(tmp_path, look) == "False not compiled yet"
    assert fresh_process(tmp_path) == "True None"
    assert sorted(path.suffix for path in (tmp_path / "sidkit").iterdir()) == [".ok", ".so"]


@needs_kernels
def test_a_cache_that_others_can_write_is_refused(tmp_path):
    (tmp_path / "sidkit").mkdir()
    (tmp_path / "sidkit").chmod(0o777)
    assert "can be written by others" in fresh_process(tmp_path)


def test_importing_sidkit_touches_no_kernels(tmp_path):
    script = "import sys, sidkit; print([m for m in sys.modules if 'native' in m or m == 'ctypes'])"
    assert fresh_process(tmp_path, script) == "[]"


def test_a_fit_without_kernels_still_gives_codes(tmp_path):
    script = (
        "import numpy as np, sidkit\n"
        "x = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)\n"
        "print(sidkit.prq_kmeans(sizes=(8, 4), iterations=3).fit(x, seed=0).encode(x).shape)"
    )
    assert fresh_process(tmp_path, script, SIDKIT_NATIVE="0") == "(400, 2)"


@needs_kernels
@pytest.mark.parametrize("top_k", [1, 2, 5])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_fit_comes_to_the_same_codes_with_the_kernels_and_without_them(metric, top_k, monkeypatch):
    """Rows without structure: the least difference in one pass would grow from pass to pass."""
    from sidkit.stages.level import PROJECT, SUBTRACT, Level
    from sidkit.tokenizer.tokenizer import Tokenizer

    x = rows(20_000, 24)
    step = PROJECT if metric == "cosine" else SUBTRACT
    spec = Tokenizer(tuple(Level(KMeans(K, metric, top_k), step) for K in (16, 128)))
    found = [spec.fit(x, seed=0).fit_codes]
    monkeypatch.setattr(native, "ready", lambda x, k=1: False)
    found.append(spec.fit(x, seed=0).fit_codes)
    np.testing.assert_array_equal(*found)
