"""A fit with large codebooks and its products: 8192-8192-8192, top-2, d = 768.

    python benchmarks/large_codebooks.py --rows 20000 --passes 2

The bare product of the rows and one codebook is measured in the same run as the fit. A fit computes as many products as
it makes passes, for each of three levels, and one more for the codes. With few rows to a centroid, scores are further
apart than with many, and screens decide more: give as many rows as time allows. Results go to
benchmarks/results/large_codebooks.json.
"""

from __future__ import annotations

import argparse
import json
import sys

from cpu_pass import RESULTS, machine, native, planted, ratios, seconds, sgemm, write

import sidkit

OUT = RESULTS.with_name("large_codebooks.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--size", type=int, default=8192)
    options = parser.parse_args()
    if not native.prepare(float("inf")):
        raise SystemExit(f"no compiled kernels: {native.reason()}")
    x = planted(options.rows, 768, options.size)
    spec = sidkit.prq_kmeans(sizes=(options.size,) * 3, top_k=2, iterations=options.passes)
    product = sgemm(x, x[: options.size])
    fit = seconds(lambda: spec.fit(x, seed=0))
    bare = min(product.values())
    times = product | {"fit": fit}
    result = {
        "command": " ".join(sys.argv),
        "rows": options.rows,
        "passes": options.passes,
        "machine": machine(),
        "seconds": times,
        "one product": ratios(product),
        "fit over its products (passes and codes)": round(fit / (3 * (options.passes + 1) * bare), 3),
        "fit over the products of its passes alone": round(fit / (3 * options.passes * bare), 3),
    }
    write(OUT, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
