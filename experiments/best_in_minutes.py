"""All that `--preset best` needs a GPU for, in the minutes that there are: the search for the plan, the models with the
plan that it found, alone and fused, SASRec beside them, and the tables.

    python experiments/tiger_codes.py DATA -o CODES --seeds 3 --tokenizers prq-co1-unique \\
        --datasets lastfm,beauty,toys,sports,clothing
    python experiments/near_codes.py DATA -o CODES --datasets toys,sports --seeds 2
    python experiments/best_in_minutes.py CODES DATA -o experiments/results --minutes 9.5

Every part is made of calls of the scripts, which can be stopped at any time and go on: the same command again does
what is missing, and a second and a third call of ten minutes finish what one cannot. A part that has nothing left to
do takes no time, and those after it get its share (SHARES). Several processes share a part, because one stack of a
few runs does not fill a large card. All choices are made on validation figures; the test is computed once for every
trained model, by fused_models.py. The tables are printed to RESULTS/best.md; baseline_tables.py puts them into the
documents.

One call of 9.5 minutes was planned for a card that trains 400,000 examples a second: the first half of the search's
candidates for 12 epochs on Toys with two seeds, the best of them and all changes that helped for 24 epochs on Toys
and Sports; then some 50 epochs of three seeds on every dataset. A CPU proves that it runs:

    python experiments/best_in_minutes.py CODES DATA -o SMALL --minutes 30 --small --users 200 --datasets lastfm \\
        --tokenizer prq-unique --candidates 3 --rungs 1,2 --seeds 1 --processes 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SHARES = {"search": 0.42, "models": 0.45, "sasrec": 0.13}
GRACE = 8  # seconds that a part may take beyond its time, before its processes are ended
SIZES = {
    "sports": 190,
    "clothing": 161,
    "beauty": 131,
    "toys": 109,
    "lastfm": 49,
}  # thousands of examples, largest first


def command(script: str, *words: object) -> list[str]:
    return [sys.executable, str(HERE / script), *map(str, words)]


def groups(datasets: list[str], processes: int) -> list[list[str]]:
    """The datasets for so many processes, each with about as many examples, the largest first."""
    parts: list[list[str]] = [[] for _ in range(min(processes, len(datasets)))]
    for name in sorted(datasets, key=lambda name: -SIZES.get(name, 0)):
        min(parts, key=lambda part: sum(SIZES.get(one, 0) for one in part)).append(name)
    return parts


class Session:
    """What is left of the minutes, and the parts that share them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.end = options, time.monotonic() + 60 * options.minutes
        self.names = options.datasets.split(",")

    def __call__(self) -> None:
        parts = list(SHARES)
        for place, name in enumerate(parts):
            left = self.end - time.monotonic()
            seconds = left * SHARES[name] / sum(SHARES[one] for one in parts[place:])
            began = time.monotonic()
            print(f"{name}: {seconds:.0f} of {left:.0f} s", flush=True)
            self.together(getattr(self, name)(max(seconds, 1.0) / 60), seconds + GRACE)
            print(f"{name}: took {time.monotonic() - began:.0f} s", flush=True)
            if name == "search":
                self.together([self.searching("--best", self.plan)], max(self.end - time.monotonic(), 1.0))
        self.tables()

    @property
    def plan(self) -> Path:
        return self.options.output / "plan.json"

    def searching(self, *words: object) -> list[str]:
        o = self.options
        named = {name: getattr(o, name) for name in ("tokenizer", "candidates", "rungs", "keep", "users")}
        named |= {"seeds": min(o.seeds, 2), "datasets": self.searched()}
        more = [word for name, value in named.items() for word in (f"--{name}", value)] + ["--small"] * o.small
        return command("tiger_search.py", o.codes, "-o", o.output / "tiger_search.jsonl", *more, *words)

    def searched(self) -> str:
        """The datasets of the rungs: Toys first, then Sports as well; where these are not wanted, the first one."""
        known = [name for name in ("toys", "sports") if name in self.names] or self.names[:1]
        return f"{known[0]}/{','.join(known)}"

    def search(self, minutes: float) -> list[list[str]]:
        return [self.searching("--minutes", minutes)] * self.options.processes

    def models(self, minutes: float) -> list[list[str]]:
        o, parts = self.options, groups(self.names, max(1, self.options.processes // 2))
        seeds = ",".join(map(str, range(o.seeds)))
        words = ["--tokenizers", o.tokenizer, "--seeds", seeds, "--users", o.users]
        words += ["--plan-file", self.plan] * self.plan.exists()  # else the plan of the preset
        words += ["--minutes", minutes, "--rate", o.rate / len(parts), "--workers", o.workers] + ["--small"] * o.small
        out = o.output / "fused_models.jsonl"
        return [command("fused_models.py", o.codes, "-o", out, "--datasets", ",".join(part), *words) for part in parts]

    def sasrec(self, minutes: float) -> list[list[str]]:
        o, parts = self.options, groups(self.names, self.options.processes)
        words = ["-o", o.output / "baselines.jsonl", "--sasrec", "--settings", o.settings, "--seeds", o.seeds]
        words += ["--minutes", minutes]
        return [command("baselines.py", o.data, *words, "--datasets", ",".join(part)) for part in parts]

    def together(self, commands: list[list[str]], seconds: float) -> None:
        """Run processes at once; those that are not done in time are ended. One that fails does not stop the others."""
        until = time.monotonic() + seconds
        running = [subprocess.Popen(one) for one in commands]
        for process in running:
            try:
                if code := process.wait(max(until - time.monotonic(), 0.1)):
                    print(f"ended with {code}: {' '.join(process.args[1:])}", flush=True)
            except subprocess.TimeoutExpired:
                print(f"not done in time: {' '.join(process.args[1:])}", flush=True)
                process.terminate()
                process.wait()

    def tables(self) -> None:
        with (self.options.output / "best.md").open("w") as file:
            subprocess.run(
                command("baseline_tables.py", self.options.data, self.options.output), stdout=file, check=False
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--datasets", default="lastfm,beauty,toys,sports,clothing")
    parser.add_argument("--tokenizer", default="prq-co1-unique")
    parser.add_argument("--candidates", type=int, default=12, help="plans of the first rung")
    parser.add_argument("--rungs", default="12,24", help="epochs of each rung, by commas")
    parser.add_argument("--keep", type=int, default=2, help="plans of a rung that are in the next")
    parser.add_argument("--seeds", type=int, default=3, help="of the models; the search has at most two")
    parser.add_argument("--settings", type=int, default=3, help="of SASRec, how many are tried")
    parser.add_argument("--processes", type=int, default=4, help="at once; half as many train models")
    parser.add_argument("--workers", type=int, default=4, help="of each process that trains models, to fuse them")
    parser.add_argument(
        "--rate", type=float, default=400_000, help="examples a second, as a guess for the first models"
    )
    parser.add_argument("--users", type=int, default=0, help="only the first so many sequences")
    parser.add_argument("--small", action="store_true", help="one layer of width 64, for a CPU")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    Session(options)()


if __name__ == "__main__":
    main()
