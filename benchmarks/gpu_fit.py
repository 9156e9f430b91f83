"""The paper's industrial fit on one GPU, beside a plain torch loop and flash-kmeans.

    PYTHONPATH=src python benchmarks/gpu_fit.py --out benchmarks/results/gpu_fit.json
    PYTHONPATH=src python benchmarks/gpu_fit.py --parts top5 --profile        one fit, and where its time goes

Timed with CUDA events, warm, median of several runs; whole fits with a host clock around a synchronised device. Rows
are a mixture of 3,000 directions of very different sizes with noise, float32 unless said, made on the device from the
seed. flash-kmeans is timed when it can be imported.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_profile import profiled

import sidkit
from sidkit.engine.cuda import engine as cuda
from sidkit.engine.steps import CarryStep
from sidkit.geometry import unit
from sidkit.rows.cuda import SPARE, DeviceRows, Resident, Streamed, spare_memory
from sidkit.rows.sources import ArraySource
from sidkit.stages.cluster import Balanced
from sidkit.stages.level import SUBTRACT, Level
from sidkit.tokenizer.recipes import recipe

N, D, SIZES = 16_843_945, 128, (1024, 512, 128)
BETA, SCALE = 15.0, 0.5


def rows_on_card(n: int, d: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    g = torch.Generator(device="cuda").manual_seed(seed)
    centre = torch.randn(3000, d, device="cuda", generator=g) + 0.3 * torch.randn(1, d, device="cuda", generator=g)
    x = torch.empty(n, d, dtype=dtype, device="cuda")
    for i in range(0, n, 1 << 19):
        m = min(1 << 19, n - i)
        own = (3000 * torch.rand(m, device="cuda", generator=g) * torch.rand(m, device="cuda", generator=g)).long()
        x[i : i + m] = 0.6 * centre[own] + torch.randn(m, d, device="cuda", generator=g)
    return x


def milliseconds(f: Callable[[], Any], repeats: int = 7, warm: int = 2) -> float:
    """The median time of a call on the device."""
    for _ in range(warm):
        f()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        f()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return float(np.median(times))


def seconds(f: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = f()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def ceilings() -> dict[str, float]:
    """What this card can do: copies, and bf16 products of the shapes scored here."""
    a = torch.randn(8192, 8192, device="cuda").bfloat16()
    b = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    return {
        "bf16_tflops_8192": 2 * 8192**3 / milliseconds(lambda: a @ a) / 1e9,
        "copy_tb_s": 2 * len(b) / 2 / milliseconds(lambda: b[: len(b) // 2].copy_(b[len(b) // 2 :])) / 1e9,
    }


def torch_pass(x: torch.Tensor, c: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One top-k pass as one writes it in torch: product, topk, index_add."""
    mass, total = torch.zeros(len(c), device=x.device), torch.zeros(len(c), x.shape[1], device=x.device)
    for i in range(0, len(x), 1 << 18):
        some = x[i : i + (1 << 18)]
        value, index = (some @ c.T).float().topk(k, dim=1)
        weight = torch.softmax(BETA * value, 1)
        mass.index_add_(0, index.reshape(-1), weight.reshape(-1))
        total.index_add_(0, index.reshape(-1), (weight[:, :, None] * some[:, None, :].float()).reshape(-1, x.shape[1]))
    return mass, total


def passes(x: torch.Tensor, sizes: tuple[int, ...], plain: bool) -> list[dict[str, Any]]:
    """One pass of a fit over float16 rows of length one: ours, flash-kmeans's, torch's."""
    try:
        from flash_kmeans.kmeans_triton_impl import _cosine_iter
    except ImportError:
        _cosine_iter = None
    table = []
    for K in sizes:
        c = x[torch.randperm(len(x), device=x.device)[:K]]
        book = cuda.book(c.double().cpu().numpy(), "cosine", x)
        row: dict[str, Any] = {"K": K}
        if _cosine_iter is not None:
            row["flash_kmeans_hard"] = milliseconds(lambda c=c: _cosine_iter(x[None], c[None]))
        for k in (1, 2, 5):
            row[f"sidkit_top{k}"] = milliseconds(lambda book=book, k=k: cuda.soft_sums(x, book, k, BETA, SCALE))
        if plain:
            row["torch_top5"] = milliseconds(lambda c=c: torch_pass(x, c, 5), 1, 1)
        table.append(row)
        print(row, flush=True)
    return table


def whole_fit(x: torch.Tensor, sizes: tuple[int, ...], top_k: int, iterations: int, spare: int) -> dict[str, Any]:
    """A fit and an encode of rows on the card, twice: the second is timed, both must give the same bits."""
    spec = sidkit.prq_kmeans(sizes=sizes, top_k=top_k, beta=BETA, iterations=iterations)
    first = spec.fit(DeviceRows(Resident(x), spare=spare), seed=0)
    before = first.fit_codes
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    took, fitted = seconds(lambda: spec.fit(DeviceRows(Resident(x), spare=spare), seed=0))
    peak = torch.cuda.max_memory_allocated() - held
    fitted.encode(DeviceRows(Resident(x), spare=spare))
    encode, _ = seconds(lambda: DeviceRows(Resident(x), spare=spare).map(fitted.chain))
    with_host, codes = seconds(lambda: fitted.encode(DeviceRows(Resident(x), spare=spare)))
    return {
        "top_k": top_k, "iterations": iterations, "dtype": str(x.dtype), "spare_bytes": spare, "fit_s": took,
        "encode_s": encode, "encode_with_codes_on_host_s": with_host, "peak_above_rows_gb": peak / 1e9,
        "same_bits": all(np.array_equal(a, b) for a, b in zip(first.codebooks, fitted.codebooks, strict=True))
        and np.array_equal(before, codes),
    }  # fmt: skip


def profile_of_fit(x: torch.Tensor, sizes: tuple[int, ...], top_k: int, iterations: int) -> str:
    spec = sidkit.prq_kmeans(sizes=sizes, top_k=top_k, beta=BETA, iterations=iterations)
    spec.fit(DeviceRows(Resident(x)), seed=0)  # kernels compiled
    return profiled(lambda: spec.fit(DeviceRows(Resident(x)), seed=0))


def agreement(x: torch.Tensor, sizes: tuple[int, ...], n: int = 200_000) -> dict[str, Any]:
    """GPU tokens against CPU tokens under one codebook, level by level."""
    some = x[:: max(1, len(x) // n)][:n].contiguous()
    fitted = sidkit.prq_kmeans(sizes=sizes, top_k=5, beta=BETA, iterations=10).fit(DeviceRows(Resident(some)), seed=0)
    same = fitted.encode(DeviceRows(Resident(some))) == fitted.encode(some.cpu().numpy(), device="cpu")
    return {"rows": len(some), "tokens_equal_by_level": same.mean(0).tolist()}


def objective(fitted: Any, x: torch.Tensor) -> list[float]:
    """The mean cosine between a row and its centroid at every level, all in float64."""
    rows, found = DeviceRows(Resident(x)), []
    for stage in fitted.stages:
        if stage.sizes:
            centroids = unit(torch.as_tensor(stage.clusters.centroids).to(x.device, torch.float64))

            def total(x: Any, codes: Any, stage: Any = stage, centroids: Any = centroids) -> tuple[Any]:
                own = stage.tokens(x, codes)[:, 0]
                return ((unit(x.double()) * centroids[own]).sum().reshape(1),)

            found.append(float(rows.reduce(total)[0][0]) / len(x))
        rows = rows.map(stage)
    return found


def precision(x: torch.Tensor, sizes: tuple[int, ...], top_k: int, seeds: int) -> dict[str, Any]:
    """What the precision of scoring does to a fit: its objective by level, for every seed, and the mean gap to fp32.

    The spread is the standard deviation over seeds of the objective under fp32: what another seed would do.
    """
    spec = sidkit.prq_kmeans(sizes=sizes, top_k=top_k, beta=BETA, iterations=25)
    found = {
        kind: [objective(_with_precision(spec, kind).fit(DeviceRows(Resident(x)), seed=s), x) for s in range(seeds)]
        for kind in ("fp16", "bf16", "tf32", "fp32")
    }
    exact = np.array(found["fp32"])
    return {
        "rows": len(x), "d": x.shape[1], "sizes": sizes, "top_k": top_k, "iterations": 25, "seeds": seeds,
        "objective_fp32": exact.mean(0).tolist(), "spread_over_seeds": exact.std(0, ddof=1).tolist(),
        "gap_to_fp32": {kind: (np.array(runs) - exact).mean(0).tolist() for kind, runs in found.items()},
        "objective_by_seed": found,
    }  # fmt: skip


def kernels(x: torch.Tensor, half: torch.Tensor, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Each kernel of a fit alone: its time, the operations and the bytes of device memory it cannot do without."""
    n, d = x.shape
    table = []
    for K in sizes:
        book = cuda.book(half[:: n // K][:K].double().cpu().numpy(), "cosine", half)
        for k in (1, 5):
            cuda.soft_sums(half, book, k, BETA, SCALE)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
                cuda.soft_sums(half, book, k, BETA, SCALE)
                torch.cuda.synchronize()
            took = {e.key: e.self_device_time_total / 1e3 for e in trace.key_averages()}
            score, pairs = 2.0 * n * K * d, n * k
            for name, flop, moved in (
                ("fit_kernel", score, 2 * n * d + 8 * pairs + 4 * n),
                ("dense_kernel", 2 * score, 2 * n * d + 4 * n),
                ("scatter_kernel", 0.0, 16 * pairs),
                ("sum_kernel", 2.0 * pairs * d, 2 * n * d + 8 * pairs),
                ("repair_kernel", 0.0, 0),
            ):
                if name in took:
                    table.append({"kernel": name, "K": K, "top_k": k, "ms": took[name], "flop": flop, "bytes": moved})
    part = x[: n // 4]
    out, codes = torch.empty(part.shape, dtype=torch.float16, device=x.device), _random_codes(n // 4, sizes[0])
    books = [x[0], half[: sizes[0]].float()]
    plan = cuda.plan_carry([CarryStep(), CarryStep(books[0]), CarryStep(books[1], column=0)], x)
    took_ms = milliseconds(lambda: cuda.carried(part, plan, codes, 0, out))
    moved = len(part) * (6 * d + 4)
    table.append({"kernel": "carry_kernel", "ms": took_ms, "flop": 14.0 * part.numel(), "bytes": moved})
    return table


def _random_codes(n: int, K: int) -> torch.Tensor:
    return torch.randint(0, K, (1, n), device="cuda", dtype=torch.int32)


def _with_precision(spec: Any, precision: str) -> Any:
    from dataclasses import replace

    stages = tuple(
        replace(s, cluster=replace(s.cluster, precision=precision)) if hasattr(s, "cluster") else s for s in spec.stages
    )
    return replace(spec, stages=stages)


def wide(d: int, K: int, n: int, seed: int) -> dict[str, Any]:
    """Top-5 scores of wide rows against the rate of a plain bf16 product of the same shape."""
    g = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, d, device="cuda", generator=g), dim=1).bfloat16()
    c = x[:K].contiguous()
    book = cuda.book(c.double().cpu().numpy(), "cosine", x)
    out = torch.empty(n // 8, K, dtype=torch.bfloat16, device="cuda")
    product = milliseconds(lambda: torch.matmul(x[: n // 8], c.T, out=out)) * 8
    whole = milliseconds(lambda: cuda.soft_sums(x, book, 5, BETA, SCALE), 3, 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        cuda.soft_sums(x, book, 5, BETA, SCALE)
        torch.cuda.synchronize()
    score = sum(e.self_device_time_total for e in trace.key_averages() if e.key == "fit_kernel") / 1e3
    flops = 2.0 * n * K * d / 1e9
    return {
        "d": d, "K": K, "rows": n, "pass_ms": whole, "score_ms": score, "score_tflops": flops / score,
        "gemm_tflops": flops / product, "share_of_gemm": product / score,
    }  # fmt: skip


class Stages:
    """Progress that notes how long each phase of a fit takes, by a host clock."""

    def __init__(self) -> None:
        self.begun = [("begin", time.perf_counter())]

    def start(self, label: str, rows: int) -> None:
        torch.cuda.synchronize()
        self.begun.append((label, time.perf_counter()))

    def advance(self, rows: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def seconds(self) -> list[list[Any]]:
        ends = [at for _, at in self.begun[1:]] + [time.perf_counter()]
        return [[label, round(end - at, 4)] for (label, at), end in zip(self.begun, ends, strict=True)]


def others(x: torch.Tensor, found: dict[str, Any], names: list[str], keep: Callable[[str, Any], None]) -> None:
    """Whole fits and encodings by the recipes that are not one fused kernel: all rows, or a million of them.

    names: of those to time; all, if there are none.
    """
    five = (1024, 512, 128, 64, 64)
    specs: dict[str, Any] = {name: recipe(name, sizes=five) for name in ("rq-opq", "prq-opq", "res-kmeans-fsq")}
    few: dict[str, Any] = {name: recipe(name, sizes=(256, 256, 256)) for name in ("pq-kmeans", "opq-kmeans")}
    few["rq-gmm"] = sidkit.rq_gmm((256,))
    few["balanced"] = sidkit.Tokenizer((Level(Balanced(256), SUBTRACT),))
    for name, spec in (specs | few).items():
        if names and name not in names:
            continue
        some = x if name in specs else x[: 1 << 20]
        start = time.perf_counter()
        spec.fit(DeviceRows(Resident(some)), seed=0).encode(DeviceRows(Resident(some)))  # kernels compiled
        first = time.perf_counter() - start
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        watch = Stages()
        rows = DeviceRows(Resident(some))
        fit_s, fitted = seconds(lambda spec=spec, rows=rows, watch=watch: spec.fit(rows, seed=0, progress=watch))
        phases, peak = watch.seconds(), (torch.cuda.max_memory_allocated() - held) / 1e9
        encode_s, _ = seconds(lambda f=fitted, some=some: DeviceRows(Resident(some)).map(f.chain))
        with_host, _ = seconds(lambda f=fitted, some=some: f.encode(DeviceRows(Resident(some))))
        part = some[:: max(1, len(some) // 20_000)].contiguous()
        agree = fitted.encode(part) == fitted.encode(part.cpu().numpy(), device="cpu")
        found[name] = {
            "rows": len(some), "sizes": fitted.sizes, "fit_s": fit_s, "encode_s": encode_s,
            "encode_with_codes_on_host_s": with_host, "peak_above_rows_gb": peak, "first_fit_and_encode_s": first,
            "phases_of_the_fit_s": phases, "tokens_equal_on_the_cpu_by_level": agree.mean(0).tolist(),
        }  # fmt: skip
        keep("others", found)
        print(name, json.dumps(found[name]), flush=True)
        del fitted, rows


def streamed(x: torch.Tensor, sizes: tuple[int, ...], iterations: int) -> dict[str, Any]:
    """A fit of rows in host memory against the time of its copies alone."""
    host = x.cpu().numpy()
    held = Streamed(ArraySource(host), torch.device("cuda"))
    pin, _ = seconds(held._pages)
    spec = sidkit.prq_kmeans(sizes=sizes, top_k=5, beta=BETA, iterations=iterations)
    copies, count = seconds(lambda: sum(1 for _ in held.chunks(1 << 21)))
    spec.fit(DeviceRows(held), seed=0)
    took, _ = seconds(lambda: spec.fit(DeviceRows(held), seed=0))
    reads = 1 + len(sizes) * (iterations + 1)  # the mean, and for every level its passes and its assignment
    return {
        "gb": host.nbytes / 1e9, "pin_s": pin, "one_copy_s": copies, "chunks": count, "copies": reads,
        "iterations": iterations, "fit_s": took, "times_the_copies": took / (reads * copies),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--parts", default="passes,kernels,fit,others,agreement,precision,wide,streamed")
    parser.add_argument("--recipes", nargs="*", default=[], help="of the part others: those to time")
    parser.add_argument(
        "--embeddings", type=Path, nargs="*", default=[], help="real .npy rows to fit in each precision"
    )
    parser.add_argument("--plain-torch", action="store_true", help="time the plain torch loop too (slow)")
    parser.add_argument("--profile", action="store_true", help="print where the time of a top-5 fit goes")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {
        "command": "PYTHONPATH=src python benchmarks/gpu_fit.py",
        "machine": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
        "triton": __import__("triton").__version__, "python": platform.python_version(), "seed": args.seed,
        "rows": args.rows, "d": D, "sizes": SIZES, "ceilings": ceilings(),
    }  # fmt: skip
    parts = args.parts.split(",")
    if args.out and args.out.exists():  # parts may be timed one by one
        result = json.loads(args.out.read_text()) | result

    def keep(name: str, value: Any) -> None:
        result[name] = value
        print(name, json.dumps(value), flush=True)
        if args.out:
            args.out.write_text(json.dumps(result, indent=1) + "\n")

    torch.manual_seed(args.seed)
    x = rows_on_card(args.rows, D, args.seed)
    if "passes" in parts:
        half = torch.empty(args.rows, D, dtype=torch.float16, device="cuda")
        for i in range(0, len(x), 1 << 20):
            half[i : i + (1 << 20)] = torch.nn.functional.normalize(x[i : i + (1 << 20)], dim=1)
        keep("passes_ms", passes(half, SIZES, args.plain_torch))
        if "kernels" in parts:
            keep("kernels", kernels(x, half, SIZES))
        del half
    if "fit" in parts or "top5" in parts:
        keep("fit_top5", whole_fit(x, SIZES, 5, args.iterations, spare_memory()))
    if args.profile:
        print(profile_of_fit(x, SIZES, 5, args.iterations), flush=True)
    if "fit" in parts:
        keep("fit_top1", whole_fit(x, SIZES, 1, args.iterations, spare_memory()))
        keep("fit_top5_least_memory", whole_fit(x, SIZES, 5, args.iterations, SPARE))
        keep("fit_top1_least_memory", whole_fit(x, SIZES, 1, args.iterations, SPARE))
    if "others" in parts:
        others(x, result.get("others", {}), args.recipes, keep)
    if "agreement" in parts:
        keep("agreement", agreement(x, SIZES))
    if "precision" in parts:
        some = x[:: max(1, len(x) // 200_000)][:200_000].contiguous()
        found = {"mixture": precision(some, SIZES, 5, 5)}
        for path in args.embeddings:
            real = torch.from_numpy(np.load(path)).to("cuda", torch.float32)
            found[path.parent.name] = precision(real, (256, 256, 256), 2, 5)
        keep("precision", found)
    if "streamed" in parts:
        keep("streamed", streamed(x, SIZES, 5))
    del x
    torch.cuda.empty_cache()
    if "wide" in parts:
        keep("wide", [wide(768, 8192, 1 << 20, args.seed), wide(4096, 8192, 1 << 20, args.seed)])


if __name__ == "__main__":
    main()
