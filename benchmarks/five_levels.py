"""Five-level tokenizers on this processor, over the three-level fit in the same run.

    python benchmarks/five_levels.py                             1,000,000 x 128, 1024-512-128-64-64, every recipe
    python benchmarks/five_levels.py --recipes rq-opq --rows 250000
    python benchmarks/five_levels.py --before ../older/src       also the same by the sidkit in that folder, in turn
    python benchmarks/five_levels.py --passes 3                  an encoding after a short fit, and no figure of the fit

Each recipe is measured in a process of its own, which also fits and encodes PRQ-KMeans at 1024-512-128, in turns: a
ratio is the median of those of the turns. Beside seconds of the clock there are those of the processors, which other
work on the machine changes less. "planted" rows lie around 3,072 directions, so that nearly all parents have fewer rows
than the third level has codes, and the residual that the suffix quantizes is zero for nearly all rows; "crowded" rows
follow a law of powers over the same directions, so that many rows have a parent with a codebook to fit. Results are
added to benchmarks/results/five_levels.json; a measurement that is there already for this commit is not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).with_name("results") / "five_levels.json"
RECIPES = ("prq-opq", "rq-opq", "res-kmeans-fsq")
THREE = (1024, 512, 128)
DATA = ("planted", "crowded")


def rows_of(data, n):
    from cpu_pass import planted

    if data == "planted":
        return planted(n, 128, 1024)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3072, 128), dtype=np.float32)
    x = rng.standard_normal((n, 128), dtype=np.float32)
    x *= 0.5
    for start in range(0, n, 1 << 16):
        part = x[start : start + (1 << 16)]
        part += centres[(3072 * rng.random(len(part)) ** 4).astype(int)]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return x


def short_of(name, passes, **options):
    """A recipe, its stages cut to this many passes; 0: as it is."""
    from sidkit.tokenizer.recipes import recipe

    if not passes:
        return recipe(name, **options)
    spec = recipe(name, iterations=passes, **options)
    last = spec.stages[-1]
    if hasattr(last, "alternations"):
        last = replace(last, first=passes, alternations=passes)
    return replace(spec, stages=(*spec.stages[:-1], last))


def took(job):
    """Seconds of the clock and of all processors."""
    clock, cpu = time.perf_counter(), time.process_time()
    job()
    return {"seconds": time.perf_counter() - clock, "cpu seconds": time.process_time() - cpu}


def measure(recipe, data, n, repeats, passes):
    """Seconds of both tokenizers, and the digests of the tokens of the five-level one."""
    from cpu_pass import limited

    from sidkit.engine import native

    native.prepare(float("inf"))
    x, fits, codes = rows_of(data, n), {}, {}
    specs = {"three": short_of("prq-kmeans", passes, sizes=THREE, top_k=5), "five": short_of(recipe, passes)}

    def turns(job, count):
        return [{name: took(lambda name=name: job(name)) for name in specs} for _ in range(count)]

    def run():
        fit = turns(lambda name: fits.update({name: specs[name].fit(x, seed=0)}), 1 if passes else repeats)
        return {"fit": fit, "encode": turns(lambda name: codes.update({name: fits[name].encode(x)}), 2 * repeats + 1)}

    times = limited(len(os.sched_getaffinity(0)), run)

    def over(job, clock):
        return round(float(np.median([turn["five"][clock] / turn["three"][clock] for turn in times[job]])), 3)

    ratios = {
        f"{job} over three levels{of}": over(job, clock)
        for job in (("encode",) if passes else ("fit", "encode"))
        for clock, of in (("seconds", ""), ("cpu seconds", ", time of the processors"))
    }
    parents = np.unique(codes["five"][:, 0] * 512 + codes["five"][:, 1], return_counts=True)[1]
    return {
        "recipe": recipe,
        "data": data,
        "rows": n,
        "passes": passes,
        **ratios,
        "turns": times,
        "share of rows under a parent with over 128 rows": round(float(parents[parents > 128].sum() / n), 4),
        "digest of the tokens": hashlib.sha256(np.ascontiguousarray(codes["five"]).tobytes()).hexdigest()[:16],
        "tokens as in the fit": bool(np.array_equal(codes["five"], fits["five"].fit_codes)),
        "machine": machine(),
    }


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "processor": next((line.split(":")[1].strip() for line in lines if "model name" in line), ""),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "versions": {name: version(name) for name in ("numpy", "scipy")},
    }


def child(options, recipe, data, source):
    """`measure` in a process that takes sidkit from this folder."""
    numbers = ["--rows", options.rows, "--repeats", options.repeats, "--passes", options.passes]
    command = [sys.executable, __file__, "--child", "--recipes", recipe, "--data", data, *map(str, numbers)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def commit_of(source):
    """The commit of a checkout; a folder without git notes it in a file `commit` beside src."""
    noted = source.parent / "commit"
    if noted.exists():
        return noted.read_text().strip()
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=2, help="turns of the fits; of encodings twice as many and one")
    parser.add_argument("--passes", type=int, default=0, help="of every level; 0: those of the recipe")
    parser.add_argument("--before", type=Path, help="src of another checkout, measured in turn")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        one = options.recipes[0], options.data[0], options.rows, options.repeats, options.passes
        print(json.dumps(measure(*one)))
        return
    sources = [Path(__file__).parents[1] / "src", *([options.before.absolute()] if options.before else [])]
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    for data in options.data:
        for recipe in options.recipes:
            for source in sources:
                key = {"commit": commit_of(source), "recipe": recipe, "data": data, "rows": options.rows}
                key |= {"passes": options.passes}
                if any(key.items() <= one.items() for one in results):
                    continue
                results.append(key | child(options, recipe, data, source) | {"command": " ".join(sys.argv)})
                options.out.parent.mkdir(exist_ok=True)
                options.out.write_text(json.dumps(results, indent=1) + "\n")
                print({k: v for k, v in results[-1].items() if k not in ("machine", "command", "turns")}, flush=True)


if __name__ == "__main__":
    main()
