"""A fit with large codebooks and its products: 8192-8192-8192, top-2, d = 768.

    python benchmarks/large_codebooks.py --rows 20000 --passes 2
    PYTHONPATH=src python benchmarks/large_codebooks.py --rows 1000000 --passes 10 --device cuda

The bare product of the rows (on a CPU of 131,072 of them, before the fit and after it) and one codebook is measured in
the same run as the fit. A fit computes as many products as it makes passes, for each of three levels, and one more for
the codes. With few rows to a centroid, scores are further apart than with many, and screens decide more: give as many
rows as time allows. On a GPU the product is that of float16 rows, in which a fit scores rows there, and the fit is
timed once kernels are compiled; --profile says where its time goes. Results go to
benchmarks/results/large_codebooks.json, by device.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sidkit

MULTIPLIED = 1 << 17  # rows of the product on a CPU, which grows with the rows
OUT = Path(__file__).with_name("results") / "large_codebooks.json"


def on_cpu(rows: int, size: int, passes: int, profile: bool) -> dict[str, Any]:
    from cpu_pass import machine, native, planted, ratios, sgemm

    if not native.prepare(float("inf")):
        raise SystemExit(f"no compiled kernels: {native.reason()}")
    x = planted(rows, 768, size)
    part = x[:MULTIPLIED]
    best = sgemm(part[:8192], x[:size])
    product = np.matmul if min(best, key=best.get).startswith("sgemm numpy") else torch_product
    spec = sidkit.prq_kmeans(sizes=(size,) * 3, top_k=2, iterations=passes)
    before = took(lambda: by_blocks(product, part, x[:size]))
    fit = took(lambda: spec.fit(x, seed=0))
    after = took(lambda: by_blocks(product, part, x[:size]))
    once = {clock: min(before[clock], after[clock]) * rows / len(part) for clock in before}
    processors = over(fit["cpu seconds"], once["cpu seconds"], passes)
    return {
        "machine": machine(), "one product of 8,192 rows": ratios(best), "rows multiplied": len(part),
        "product": once, "fit": fit, "time of the processors": processors,
    } | over(fit["seconds"], once["seconds"], passes)  # fmt: skip


def took(job: Callable[[], Any]) -> dict[str, float]:
    """Seconds of the clock and of all processors."""
    clock, cpu = time.perf_counter(), time.process_time()
    job()
    return {"seconds": time.perf_counter() - clock, "cpu seconds": time.process_time() - cpu}


def by_blocks(product: Callable[..., Any], x: Any, c: Any) -> None:
    out = np.empty((8192, len(c)), np.float32)
    for start in range(0, len(x), 8192):
        part = x[start : start + 8192]
        product(part, c.T, out=out[: len(part)])


def torch_product(a: Any, b: Any, out: Any) -> None:
    import torch

    torch.mm(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))


def on_gpu(rows: int, size: int, passes: int, profile: bool) -> dict[str, Any]:
    import torch
    from gpu_profile import profiled

    from sidkit.rows.cuda import DeviceRows, Resident

    g = torch.Generator(device="cuda").manual_seed(0)
    centres = torch.randn(3 * size, 768, device="cuda", generator=g)
    x = 1.5 * torch.randn(rows, 768, device="cuda", generator=g)
    for part in x.split(1 << 18):
        part += centres[torch.randint(0, 3 * size, (len(part),), device="cuda", generator=g)]
    x = torch.nn.functional.normalize(x)

    def timed(f: Callable[[], Any]) -> float:
        f()
        torch.cuda.synchronize()
        start = time.perf_counter()
        f()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def multiply(a: Any, c: Any) -> None:
        out = torch.empty(1 << 16, len(c), dtype=a.dtype, device="cuda")
        for part in a.split(1 << 16):
            torch.mm(part, c.T, out=out[: len(part)])

    def bare(a: Any) -> float:
        return timed(lambda: multiply(a, a[:size]))

    product = {"float16": bare(x.half()), "float32": bare(x)}
    spec = sidkit.prq_kmeans(sizes=(size,) * 3, top_k=2, iterations=passes)
    short = sidkit.prq_kmeans(sizes=(size,) * 3, top_k=2, iterations=1)
    short.fit(DeviceRows(Resident(x)), seed=0)  # kernels compiled
    start = time.perf_counter()
    fitted = spec.fit(DeviceRows(Resident(x)), seed=0)
    torch.cuda.synchronize()
    fit = time.perf_counter() - start
    if profile:
        print(profiled(lambda: spec.fit(DeviceRows(Resident(x)), seed=0)))
    encode = timed(lambda: fitted.encode(DeviceRows(Resident(x))))
    return {
        "machine": torch.cuda.get_device_name(), "torch": torch.__version__,
        "seconds": product | {"fit": fit, "encode": encode},
    } | over(fit, product["float16"], passes)  # fmt: skip


def over(fit: float, product: float, passes: int) -> dict[str, float]:
    return {
        "fit over its products (passes and codes)": round(fit / (3 * (passes + 1) * product), 3),
        "fit over the products of its passes alone": round(fit / (3 * passes * product), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--profile", action="store_true", help="print where the time of a fit on a GPU goes")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    measure = on_gpu if asked.device == "cuda" else on_cpu
    found = {"command": " ".join(sys.argv), "rows": asked.rows, "passes": asked.passes}
    found |= measure(asked.rows, asked.size, asked.passes, asked.profile)
    results = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    asked.out.write_text(json.dumps(results | {asked.device: found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
