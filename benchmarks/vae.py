"""python benchmarks/vae.py DATA/toys/embedding.npy

Training of the learned tokenizers: seconds of an epoch and of whole fits, on a GPU where there is one, else on a CPU,
and the quality that a schedule ends with; each by the loop of an earlier commit and by this one, in fresh processes.
Cases that benchmarks/results/vae.json has for this code and device are not run again, and no case is begun after
--budget seconds, so that one call ends in time and the next goes on. `--cases epoch` runs those whose names start so.
Without git (`--now`) only this loop is timed. Beside other work, compare the seconds of processors.

    python benchmarks/vae.py DATA/toys/embedding.npy --streamed 16843945 --epochs 3

The paper's schedule on so many rows of 128 in host memory, streamed to a GPU: seconds of an epoch, after so many.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "97dc2f9"  # the last commit that trained one run at a time, step by step
CODE = ("src/sidkit/stages/vae", "src/sidkit/engine", "src/sidkit/tokenizer/fitting.py")

Case = dict
QUALITY = {"epochs": 40, "warmup_epochs": 10, "keep": "last", "evaluate_every": 10}
CASES: dict[str, Case] = {  # fits: how many are timed from the first epoch on
    "epoch rq-vae public": {"recipe": "rq-vae", "options": {"epochs": 12}, "seeds": [0], "on": "both"},
    "epoch rq-vae paper": {
        "recipe": "rq-vae",
        "options": {"preset": "paper", "epochs": 12},
        "seeds": [0],
        "on": "both",
    },
    "epoch r3-vae public": {"recipe": "r3-vae", "options": {"epochs": 12}, "seeds": [0], "on": "both"},
    "epoch r3-vae paper": {
        "recipe": "r3-vae",
        "options": {"preset": "paper", "epochs": 12},
        "seeds": [0],
        "on": "both",
    },
    "epoch rq-vae public, 2 seeds": {"recipe": "rq-vae", "options": {"epochs": 8}, "seeds": [0, 1], "on": "both"},
    "part rq-vae public": {"recipe": "rq-vae", "options": {"epochs": 300}, "seeds": [0], "on": "gpu", "only": "now"},
    "part rq-vae public, 8 seeds": {
        "recipe": "rq-vae",
        "options": {"epochs": 300},
        "seeds": [*range(8)],
        "on": "gpu",
        "only": "now",
    },
    "part r3-vae public, 8 seeds": {
        "recipe": "r3-vae",
        "options": {"epochs": 300},
        "seeds": [*range(8)],
        "on": "gpu",
        "only": "now",
    },
    "fit rq-vae public": {"recipe": "rq-vae", "options": {}, "seeds": [0], "on": "gpu", "only": "now"},
    "fit rq-vae public, 8 seeds": {"recipe": "rq-vae", "options": {}, "seeds": [*range(8)], "on": "gpu", "only": "now"},
    "fit r3-vae public, 8 seeds": {"recipe": "r3-vae", "options": {}, "seeds": [*range(8)], "on": "gpu", "only": "now"},
    "quality rq-vae public": {"recipe": "rq-vae", "options": QUALITY, "seeds": [0, 1, 2], "on": "both"},
    "quality r3-vae public": {
        "recipe": "r3-vae",
        "options": QUALITY | {"warmup_epochs": 0},
        "seeds": [0, 1],
        "on": "both",
    },
}


class Clock:
    """Progress that notes the time of every epoch, and the time of processors that this process had taken by then."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.taken: list[float] = []
        self.last = ""

    def start(self, label: str, rows: int) -> None:
        pass

    def advance(self, rows: int) -> None:
        pass

    def note(self, text: str) -> None:
        self.times.append(time.perf_counter())
        self.taken.append(time.process_time())
        self.last = text


def child(path: str, case: Case) -> dict:
    """One case, by the sidkit that this process imports."""
    import numpy as np
    import torch

    import sidkit
    from sidkit.tokenizer.recipes import recipe

    X = np.load(path).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    spec, clock, began = recipe(case["recipe"], **case["options"]), [], time.perf_counter()
    if hasattr(spec, "fit_seeds"):
        clock.append(Clock())
        fitted = spec.fit_seeds(X, case["seeds"], progress=clock[0])
    else:
        fitted = []
        for seed in case["seeds"]:
            clock.append(Clock())
            fitted.append(spec.fit(X, seed=seed, progress=clock[-1]))
    seconds = time.perf_counter() - began
    epochs = [b - a for one in clock for a, b in pairwise(one.times)]
    taken = [b - a for one in clock for a, b in pairwise(one.taken)]
    figures = [sidkit.quality(one.fit_codes, one.sizes) for one in fitted]
    keys = ("icr_per_sid", "surplus_per_item", "codes_used", "perplexity")
    error = [float((np.asarray(one.fitted_rows.take(np.arange(len(X))), np.float64) ** 2).mean()) for one in fitted]
    return {
        "rows": list(X.shape),
        "seconds": round(seconds, 2),
        "epoch_seconds": median(epochs) * len(clock),  # of all seeds
        "epoch_seconds_least": min(epochs) * len(clock),
        "epoch_processor_seconds": median(taken) * len(clock),  # hardly depends on what else the machine does
        "seconds_of_3000_epochs_reckoned": round(
            seconds + (3000 - len(clock[0].times)) * fmean(epochs[len(epochs) // 10 :]) * len(clock), 1
        ),
        "last_note": [one.last for one in clock],
        "reconstruction_mse": error,
        "figures": [{key: one[key] for key in keys if key in one} for one in figures],
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def streamed(rows: int, epochs: int) -> dict:
    """RQ-VAE by the paper's schedule, 1024-512-128, on rows in host memory: copied to the card, and streamed to it.

    Collisions are counted in every fifth epoch and in the last; the other epochs that were run, but the first, tell how
    long those take that were not.
    """
    import torch
    from gpu_fit import rows_on_card

    from sidkit.rows.cuda import DeviceRows, Streamed
    from sidkit.rows.sources import ArraySource
    from sidkit.stages.vae import loop
    from sidkit.tokenizer.recipes import recipe

    x = rows_on_card(rows, 128, 0).cpu().numpy()
    torch.cuda.empty_cache()
    found: dict = {"rows": [rows, 128], "epochs": epochs, "torch": torch.__version__}
    spec, room = recipe("rq-vae", sizes=(1024, 512, 128), preset="paper", epochs=epochs), loop.fits
    for name in ("copied", "streamed"):
        clock, began = Clock(), time.perf_counter()
        if name == "streamed":  # as for rows that do not fit
            loop.fits = lambda *_: False
        spec.fit(
            x if name == "copied" else DeviceRows(Streamed(ArraySource(x), torch.device("cuda"))),
            seed=0, device="cuda", progress=clock,
        )  # fmt: skip
        loop.fits, seconds = room, time.perf_counter() - began
        times = [b - a for a, b in zip(clock.times, clock.times[1:], strict=False)]
        found[name] = {
            "seconds": round(seconds, 2),
            "epoch_seconds": [round(one, 3) for one in times],
            "seconds_of_20_epochs_reckoned": round(seconds + (17 - epochs) * median(times[:-1]) + 3 * times[-1], 1),
            "peak_device_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        }
        print(name, json.dumps(found[name]), flush=True)
        torch.cuda.empty_cache()
    return found


def sources(commit: str, folder: str) -> str:
    """The src folder of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return str(Path(folder) / "src")


def code_version() -> str:
    """The commit that last changed what is measured; "-dirty" after it if files differ."""
    if not (ROOT / ".git").exists():
        return ""
    commit = subprocess.run(["git", "log", "-1", "--format=%h", "--", *CODE], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(["git", "status", "--porcelain", "--", *CODE], cwd=ROOT, capture_output=True, text=True)
    return commit.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def device_name() -> str:
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    names = [
        line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model n" in line
    ]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def run(path: str, case: Case, src: str) -> dict:
    words = [sys.executable, __file__, path, "--child", json.dumps(case)]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": src}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"a case failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings")
    parser.add_argument("--cases", default="", help="only cases whose names start so")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds after which no case is begun")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "vae.json")
    parser.add_argument("--now", action="store_true", help="only this loop, also where there is no git")
    parser.add_argument("--streamed", type=int, default=0, help="rows of the paper's schedule, streamed")
    parser.add_argument("--epochs", type=int, default=3, help="of --streamed")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.embeddings, json.loads(options.child))))
        return
    began, device, code = time.monotonic(), device_name(), code_version()
    on_gpu = "cores" not in device
    results = json.loads(options.output.read_text()) if options.output.exists() else {"runs": []}
    if options.streamed and not 3 <= options.epochs <= 5:
        parser.error("--epochs must be 3 to 5 with --streamed: two without a count of collisions, and one with it")
    if options.streamed:
        found = {"device": device} | streamed(options.streamed, options.epochs)
        command = f"python benchmarks/vae.py DATA/toys/embedding.npy --streamed {options.streamed}"
        results["streamed"] = {"command": f"{command} --epochs {options.epochs}"} | found
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(found), flush=True)
        return
    done = {(one["case"], one["loop"], one["device"]) for one in results["runs"] if one["code"] in (code, BEFORE)}
    with tempfile.TemporaryDirectory() as folder:
        loops = {"now": (code, str(ROOT / "src"))}
        if not options.now:
            loops = {"before": (BEFORE, sources(BEFORE, folder))} | loops
        for name, case in CASES.items():
            if not name.startswith(options.cases) or (case["on"] == "gpu" and not on_gpu):
                continue
            for loop, (version, src) in loops.items():
                if (name, loop, device) in done or case.get("only", loop) != loop:
                    continue
                if time.monotonic() - began > options.budget:
                    print("out of time; call again for the rest")
                    return
                result = run(options.embeddings, case, src)
                made = {
                    "command": "python benchmarks/vae.py DATA/toys/embedding.npy",
                    "python": platform.python_version(),
                }
                row = {"case": name, "loop": loop, "code": version, "device": device, **case, **result, **made}
                kept = [r for r in results["runs"] if (r["case"], r["loop"], r["device"]) != (name, loop, device)]
                results["runs"] = [*kept, row]
                options.output.write_text(json.dumps(results, indent=1) + "\n")
                print(
                    f"{name:32} {loop:6} epoch {result['epoch_seconds']:.3f} s, of processors "
                    f"{result['epoch_processor_seconds']:.3f} s, fit {result['seconds']:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
