"""The tables of docs/results/searching.md from the lines of search.py and search_codes.py.

    python experiments/search_tables.py OUT ... --sizes full --into docs/results/searching.md --figures docs/images
    python experiments/search_tables.py --sizes small --into docs/results/searching-small.md

The runs of each OUT are added to experiments/results/search.jsonl, with paired tests from their ranks; tables and
figures are then made from that file alone. Cells that have not been run are dashes, and named at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

from search_codes import CONTROLS, FIVE, SIZES
from search_figures import BETA, K, draw
from search_lines import BLOCKS, Line, encoders_of, gather, lines_of, seeds_of
from tables import mean_std

from search import ABLATIONS, BASELINES, MAIN, OTHERS, ROBUST, SENSITIVITY

BEGIN, END = "<!-- search_tables.py begins -->", "<!-- search_tables.py ends -->"
RESULTS = Path(__file__).parent / "results" / "search.jsonl"
PAPER = {  # the paper's Click HitRate and MRR, from its tables of the industrial dataset
    "rq-vae": (0.2921, 0.0446), "r3-vae": (0.2788, 0.0402), "rq-kmeans": (0.3279, 0.0540), "rq-gmm": (0.3071, 0.0483),
    "pq-kmeans": (0.0521, 0.0054), "opq-kmeans": (0.1393, 0.0164), "prq-kmeans": (0.3488, 0.0588),
    "res-kmeans-fsq": (0.4364, 0.0969), "rq-opq": (0.4650, 0.1083), "prq-opq": (0.4713, 0.1089),
    "without-global": (0.3379, 0.0560), "without-soft": (0.3460, 0.0584), "without-projection": (0.3328, 0.0548),
}  # fmt: skip
BOTH = ("run", "codebook")
KINDS, METRICS = ("order", "click"), ("hit_rate@50", "mrr@50")
NAMES = {"hit_rate@50": "HitRate", "mrr@50": "MRR"}


def kinds_of(lines: list[Line], size: str, dataset: str) -> list[str]:
    """Of which pairs there are tests: orders and clicks, or clicks alone."""
    found = {kind for line in lines if line["kind"] in ("run", "baseline") and line["dataset"] == dataset
             and line["size"] == size for kind in line["figures"]}  # fmt: skip
    return [kind for kind in KINDS if kind in found]


def figures(runs: list[Line], kinds: list[str]) -> list[str]:
    """HitRate and MRR of each kind, the mean over seeds and their standard deviation."""
    if not runs:
        return ["–"] * 2 * len(kinds)
    return [mean_std([run["figures"][kind]["all"][one] for run in runs], 4) for kind in kinds for one in METRICS]


def codebook(lines: list[Line]) -> list[str]:
    """ICR, utilisation and Gini of L1 to L3."""
    if not lines:
        return ["–"] * 7
    quality = [line["quality"] for line in lines]
    shares = [[100 * one["icr_per_sid"] for one in quality]]
    shares += [[100 * one["utilisation"][level] for one in quality] for level in range(3)]
    return [
        *(mean_std(values) for values in shares),
        *(mean_std([one["prefix_gini"][level] for one in quality], 3) for level in range(3)),
    ]


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def heads_of(kinds: list[str]) -> list[str]:
    return [f"{kind.capitalize()} {NAMES[one]}" for kind in kinds for one in METRICS]


def main_table(lines: list[Line], size: str, dataset: str) -> str:
    """The paper's Table 1, and the baselines on the same pairs."""
    kinds = kinds_of(lines, size, dataset)
    heads = [
        "",
        *heads_of(kinds),
        "ICR %",
        *(f"L{i} used %" for i in (1, 2, 3)),
        *(f"L{i} Gini" for i in (1, 2, 3)),
        "seeds",
    ]
    rows = []
    for block, sizes in zip(BLOCKS, SIZES[size], strict=True):
        rows.append([f"*{'-'.join(map(str, sizes))}*", *[""] * (len(heads) - 1)])
        for name in block:
            runs = seeds_of(lines, "run", size, dataset, name)
            books = seeds_of(lines, "codebook", size, dataset, name)
            seeds = f"{len(runs)} / {len(books)}"
            rows.append([name, *figures(runs, kinds), *codebook(books), seeds])
    rows.append(["*without semantic IDs*", *[""] * (len(heads) - 1)])
    for name in BASELINES:
        found = seeds_of(lines, "baseline", size, dataset, name)
        rows.append([name, *figures(found, kinds), *[""] * 8])
    return table(heads, rows)


def ablations(lines: list[Line], size: str, dataset: str) -> str:
    """The paper's Table 3, and the controls."""
    kinds = kinds_of(lines, size, dataset)
    rows = []
    for name in ("prq-kmeans", *ABLATIONS, *CONTROLS):
        runs = [line for line in seeds_of(lines, "run", size, dataset, name) if line["seed"] == 0]
        books = [line for line in seeds_of(lines, "codebook", size, dataset, name) if line["seed"] == 0]
        rows.append([name, *figures(runs, kinds), codebook(books)[0]])
    return table(["", *heads_of(kinds), "ICR %"], rows)


def sensitivity(lines: list[Line], size: str, dataset: str) -> str:
    kinds = kinds_of(lines, size, dataset)
    rows = []
    for word, series in (("k", K), ("beta", BETA)):
        for value, name in series.items():
            runs = [line for line in seeds_of(lines, "run", size, dataset, name) if line["seed"] == 0]
            books = seeds_of(lines, "codebook", size, dataset, name)
            rows.append([f"{word} = {value}", *figures(runs, kinds), codebook(books)[0]])
    return table(["", *heads_of(kinds), "ICR %"], rows)


def robustness(lines: list[Line], size: str) -> str:
    """Five tokenizers under two encoders, the first seed."""
    places = [(dataset, encoder) for dataset in MAIN for encoder in encoders_of(lines, BOTH, size, dataset)]
    rows = []
    for name in ROBUST:
        cells = []
        for dataset, encoder in places:
            runs = [line for line in seeds_of(lines, "run", size, dataset, name, encoder) if line["seed"] == 0]
            cells += figures(runs, ["click"])
        rows.append([name, *cells])
    heads = [f"{dataset}, {encoder}: {NAMES[one]}" for dataset, encoder in places for one in METRICS]
    return table(["Click", *heads], rows)


def tests(lines: list[Line], size: str, dataset: str) -> str:
    rows = []
    for line in lines:
        if line["kind"] == "test" and (line["size"], line["dataset"], line["encoder"]) == (
            size,
            dataset,
            MAIN[dataset],
        ):
            for kind, found in line["tests"].items():
                cells = [difference(found[one]) for one in METRICS]
                queries = f"{found['mrr@50']['groups']:,}"
                rows.append([line["tokenizer"], line["against"], kind, *cells, queries, str(len(line["seeds"]))])
    order = {name: i for i, name in enumerate(("prq-kmeans", "prq-opq"))}
    rows.sort(key=lambda row: order.get(row[0], 9))
    return table(["", "against", "pairs", "HitRate", "MRR", "queries", "seeds"], rows)


def difference(one: dict[str, float]) -> str:
    """+0.0123 [+0.0021, +0.0225], p = 0.018; in bold where the interval does not hold zero."""
    text = f"{one['mean']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}], {chance(one['p_value'])}"
    return f"**{text}**" if one["low"] > 0 or one["high"] < 0 else text


def intents(lines: list[Line], size: str, dataset: str) -> str:
    """Click HitRate by class of query, where the shop knows it."""
    rows, classes, counts = [], [], {}
    for name in (*BASELINES, "rq-kmeans", "prq-kmeans", "rq-opq", "prq-opq"):
        runs = seeds_of(lines, "baseline" if name in BASELINES else "run", size, dataset, name)
        if runs:
            counts = {one: found["pairs"] for one, found in runs[0]["figures"]["click"].items()}
            classes = [one for one in counts if one not in ("all", "unknown")]
            cells = [mean_std([run["figures"]["click"][one]["hit_rate@50"] for run in runs], 4) for one in classes]
            rows.append([name, *cells])
    return table(["Click HitRate", *(f"{one} ({counts[one]:,} pairs)" for one in classes)], rows) if classes else ""


def published(lines: list[Line], size: str) -> str:
    """Click HitRate and MRR relative to RQ-KMeans (RQ-OPQ for five levels), in the paper and here, in per cent."""
    rows = []
    for name in (*BLOCKS[0], *ABLATIONS, *BLOCKS[1]):
        base = "rq-opq" if name in FIVE else "rq-kmeans"
        if name != base:
            cells = [" / ".join(f"{100 * (a / b - 1):+.1f}" for a, b in zip(PAPER[name], PAPER[base], strict=True))]
            for dataset in MAIN:
                one, other = (_by_seed(lines, size, dataset, row) for row in (name, base))
                shared = sorted(one.keys() & other.keys())
                ratios = [[one[seed][m] / other[seed][m] for seed in shared if other[seed][m]] for m in METRICS]
                cells.append(" / ".join(f"{100 * (mean(each) - 1):+.1f}" for each in ratios) if all(ratios) else "–")
            rows.append([name, base, *cells])
    return table(["HitRate / MRR, %", "against", "the paper", *MAIN], rows)


CLAIMS = {  # the paper's, and what a user would like to know
    "PRQ-KMeans is above RQ-KMeans": ("prq-kmeans", "rq-kmeans"),
    "PRQ-OPQ is above RQ-OPQ": ("prq-opq", "rq-opq"),
    "PRQ-OPQ is above ResKmeansFSQ": ("prq-opq", "res-kmeans-fsq"),
    "five levels are above three": ("prq-opq", "prq-kmeans"),
    "global removal helps": ("prq-kmeans", "without-global"),
    "soft refinement helps": ("prq-kmeans", "without-soft"),
    "projection helps": ("prq-kmeans", "without-projection"),
    **{f"PRQ-KMeans is above {name}": ("prq-kmeans", name) for name in (*OTHERS, *CONTROLS, *BASELINES)},
}


def claims(lines: list[Line], size: str) -> str:
    """Whether each claim holds in Click HitRate: by the 95 % interval over queries, and in every seed."""
    found = {
        (line["dataset"], line["tokenizer"], line["against"]): line["tests"]["click"]["hit_rate@50"]
        for line in lines
        if line["kind"] == "test" and line["size"] == size and line["encoder"] == MAIN[line["dataset"]]
    }
    rows = []
    for claim, pair in CLAIMS.items():
        cells = [verdict(found.get((one, *pair)), gains(lines, size, one, *pair)) for one in MAIN]
        rows.append([claim, *cells])
    for word, field, level, sign in (
        ("a higher ICR", "icr_per_sid", None, 1),
        ("higher utilisation of L2", "utilisation", 1, 1),
        ("a lower Gini at L2", "prefix_gini", 1, -1),
        ("a lower Gini at L3", "prefix_gini", 2, -1),
    ):
        cells = [codebook_verdict(lines, size, dataset, field, level, sign) for dataset in MAIN]
        rows.append([f"PRQ-KMeans has {word} than RQ-KMeans", *cells])
    return table(["Click HitRate@50; codebooks", *MAIN], rows)


def gains(lines: list[Line], size: str, dataset: str, name: str, other: str) -> list[float]:
    """How far a tokenizer is ahead in Click HitRate, seed by seed."""
    ours, theirs = _by_seed(lines, size, dataset, name), _by_seed(lines, size, dataset, other)
    if other in BASELINES:
        found = seeds_of(lines, "baseline", size, dataset, other)
        theirs = dict.fromkeys(ours, found[0]["figures"]["click"]["all"]) if found else {}
    return [ours[seed][METRICS[0]] - theirs[seed][METRICS[0]] for seed in sorted(ours.keys() & theirs.keys())]


def verdict(one: dict[str, float] | None, by_seed: list[float]) -> str:
    if one is None:
        return "–"
    word = "holds" if one["low"] > 0 else "the reverse" if one["high"] < 0 else "not seen"
    if min(by_seed) < 0 < max(by_seed):
        return f"not seen: seeds differ ({', '.join(f'{gain:+.4f}' for gain in by_seed)})"
    alone = ", one seed" if len(by_seed) == 1 else ""
    return f"{word} ({one['mean']:+.4f}, {chance(one['p_value'])}{alone})"


def codebook_verdict(lines: list[Line], size: str, dataset: str, field: str, level: int | None, sign: int) -> str:
    """Of every seed: all seeds of one tokenizer beyond all of the other, or their ranges overlap."""
    values = []
    for name in ("prq-kmeans", "rq-kmeans"):
        quality = [line["quality"][field] for line in seeds_of(lines, "codebook", size, dataset, name)]
        values.append([sign * (one if level is None else one[level]) for one in quality])
    ours, theirs = values
    if not ours or not theirs:
        return "–"
    word = "holds" if min(ours) > max(theirs) else "the reverse" if max(ours) < min(theirs) else "not seen"
    return f"{word} ({sign * mean(ours):.3f} against {sign * mean(theirs):.3f})"


def chance(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def _by_seed(lines: list[Line], size: str, dataset: str, name: str) -> dict[int, dict[str, float]]:
    runs = seeds_of(lines, "run", size, dataset, name)
    return {run["seed"]: run["figures"]["click"]["all"] for run in runs}


def missing(lines: list[Line], size: str) -> str:
    """The cells of the tables that have not been run."""
    text = []
    for dataset in MAIN:
        wanted = [(name, 0, MAIN[dataset]) for name in (*FIVE, *ABLATIONS, *CONTROLS, *OTHERS, *SENSITIVITY)]
        wanted += [(name, seed, MAIN[dataset]) for name in ("prq-kmeans", "rq-kmeans") for seed in (0, 1)]
        wanted += [(name, 0, one) for one in encoders_of(lines, BOTH, size, dataset)[1:] for name in ROBUST]
        have = {(line["tokenizer"], line["seed"], line["encoder"]) for line in lines
                if line["kind"] == "run" and line["size"] == size and line["dataset"] == dataset}  # fmt: skip
        lacking = [
            f"{name} ({encoder}, seed {seed})" for name, seed, encoder in wanted if (name, seed, encoder) not in have
        ]
        text.append(
            f"- {dataset}: {len(wanted) - len(lacking)} of {len(wanted)} runs; missing: "
            + (", ".join(lacking) or "none")
        )
    return "\n".join(text)


def facts(lines: list[Line], size: str) -> str:
    """Machine, versions and plans of the runs."""
    text = []
    for dataset in MAIN:
        runs = [line for line in lines if line["kind"] == "run" and (line["size"], line["dataset"]) == (size, dataset)]
        if runs:
            plan, one = runs[0]["plan"], runs[0]
            pairs = ", ".join(
                f"{found['all']['pairs']:,} test pairs of {kind}s" for kind, found in one["figures"].items()
            )
            versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
            counts = ", ".join(f"{count:,} {stage}" for stage, count in one["examples"].items())
            text.append(
                f"- **{dataset}**: {one['items']:,} items, {pairs}; training examples: {counts}; epochs "
                f"{'/'.join(map(str, plan['epochs']))}, batch {plan['batch']}, learning rate "
                f"{plan['learning_rate']:g}, {plan['layers']} + {plan['layers']} layers of {plan['d_model']}; "
                f"{one['device']}, {versions}"
            )
    return "\n".join(text)


FIGURES = {
    "sensitivity": "Click HitRate by k and by beta; seed 0 joined, other seeds in grey",
    "robustness": "Click HitRate and MRR of five tokenizers under two encoders",
}


def section(lines: list[Line], size: str) -> str:
    """All tables of one size."""
    there = [line for line in lines if line["size"] == size]
    datasets = [dataset for dataset in MAIN if any(line["dataset"] == dataset for line in there)]
    runs = any(line["kind"] == "run" for line in there)
    parts = [f"## {'Small shops' if size == 'small' else 'Whole shops'}"]
    if runs:
        parts += [facts(lines, size), "### What holds, and what does not", claims(lines, size)]
        parts += ["### Relative to RQ-KMeans and RQ-OPQ, in the paper and here", published(lines, size)]
    for dataset in datasets:
        parts += [f"### {dataset}", main_table(lines, size, dataset)]
        if runs:
            parts += ["Ablations and controls, seed 0:", ablations(lines, size, dataset)]
            parts += ["k and beta, seed 0:", sensitivity(lines, size, dataset)]
            by_class = intents(lines, size, dataset)
            parts += ["By class of query:", by_class] if by_class else []
            parts += ["Paired tests over queries:", tests(lines, size, dataset)]
    if runs:
        parts += ["### Two encoders", robustness(lines, size), "### Still missing", missing(lines, size)]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="*")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--sizes", nargs="+", default=["full", "small"], choices=list(SIZES), help="of shops")
    parser.add_argument("--into", type=Path, help="a document with the two markers that the tables go between")
    parser.add_argument("--figures", type=Path, help="a folder for the charts")
    asked: Any = parser.parse_args()
    lines = lines_of(asked.results)
    for out in asked.outputs:
        lines = gather(out, asked.results)
    sizes = [size for size in asked.sizes if any(line["size"] == size for line in lines)]
    text = "\n\n".join(section(lines, size) for size in sizes)
    if asked.figures:
        drawn = draw(lines, asked.figures)
        text += "".join(f"\n\n![{FIGURES[name]}](../images/search-{name}.svg)" for name in drawn)
    if asked.into is None:
        print(text)
        return
    before, _, rest = asked.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    asked.into.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
