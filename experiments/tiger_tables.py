"""The generative recommendation tables of docs/results.md from the JSON lines of tiger.py.

    python experiments/tiger_tables.py experiments/results/tiger.jsonl --into docs/results.md

Tokenizers that the paper does not have are compared with PRQ-KMeans, in tables of their own; so are runs that a time
limit cut short (*.cut.jsonl beside the file); what counting gives (counting.json there) has a table, and every cell of
the run list that is still missing is named. Without --into the tables are printed. --figures FOLDER draws the test
figures of every run, the validation curves and, where k and beta were varied, the sensitivity figure.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import mean, stdev

from tables import mean_std
from tiger import MAIN
from tiger_codes import BEYOND, DATASETS, TOKENIZERS

SEEDS = (0, 1, 2)
PAPER = ("", "rq-kmeans", tuple(TOKENIZERS))  # what a table's heading says, its baseline and its rows
OURS = (", beyond the paper", "prq-kmeans", ("prq-kmeans", *BEYOND))
COLUMNS = {
    "Recall@20": "item_recall@20",
    "NDCG@20": "item_ndcg@20",
    "expected NDCG@20": "expected_ndcg@20",
    "corrected NDCG@20": "corrected_ndcg@20",
    "SID NDCG@20": "sid_ndcg@20",
}
PUBLISHED = {  # the paper's NDCG@20, from its tables of public benchmarks and ablations
    "prq-kmeans": {"sports": 0.0219, "toys": 0.0361, "clothing": 0.0151, "lastfm": 0.0076},
    "rq-kmeans": {"sports": 0.0215, "toys": 0.0346, "clothing": 0.0132, "lastfm": 0.0042},
    "without-global": {"sports": 0.0202, "toys": 0.0359, "clothing": 0.0151, "lastfm": 0.0044},
    "without-soft": {"sports": 0.0210, "toys": 0.0350, "clothing": 0.0146, "lastfm": 0.0017},
    "without-projection": {"sports": 0.0201, "toys": 0.0345, "clothing": 0.0141, "lastfm": 0.0044},
    "rq-vae": {"sports": 0.0219, "toys": 0.0321, "clothing": 0.0141, "lastfm": 0.0033},
    "opq-kmeans": {"sports": 0.0151, "toys": 0.0171, "clothing": 0.0087, "lastfm": 0.0014},
    "pq-kmeans": {"sports": 0.0033, "toys": 0.0080, "clothing": 0.0034, "lastfm": 0.0007},
    "rq-gmm": {"sports": 0.0209, "toys": 0.0287, "clothing": 0.0133, "lastfm": 0.0024},
    "r3-vae": {"sports": 0.0211, "toys": 0.0354, "clothing": 0.0147, "lastfm": 0.0029},
    "r3-vae-top1": {"sports": 0.0211, "toys": 0.0354, "clothing": 0.0147, "lastfm": 0.0029},
}
BEGIN, END = "<!-- tiger_tables.py begins -->", "<!-- tiger_tables.py ends -->"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def by_row(lines: list[dict], dataset: str, names: Sequence[str] = tuple(TOKENIZERS)) -> dict[str, dict[int, dict]]:
    rows: dict[str, dict[int, dict]] = defaultdict(dict)
    for line in lines:
        if line["dataset"] == dataset:
            rows[line["tokenizer"]][line["seed"]] = line
    return {name: dict(sorted(rows[name].items())) for name in names if name in rows}


def against(runs: dict[int, dict], baseline: dict[int, dict], field: str) -> str:
    """The mean paired difference to the baseline over shared seeds, and p of a t-test on paired logarithms."""
    seeds = sorted(runs.keys() & baseline.keys())
    if runs is baseline or not seeds:
        return ""
    pairs = [(runs[seed]["test"][field], baseline[seed]["test"][field]) for seed in seeds]
    gap = f"{mean(ours - theirs for ours, theirs in pairs):+.4f}"
    return gap if len(pairs) < 2 else f"{gap} ({chance([log(ours / theirs) for ours, theirs in pairs])})"


def chance(ratios: list[float]) -> str:
    """How likely such logarithms of ratios are where there is no difference, by a t-test."""
    from scipy.stats import ttest_1samp

    p = ttest_1samp(ratios, 0.0).pvalue
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def overall(lines: list[dict], name: str, baseline: str, field: str) -> str:
    """The geometric mean of the ratio to the baseline over all shared (dataset, seed) pairs, less one, and the p-value
    of a paired t-test on logarithms."""
    ratios = []
    for dataset in DATASETS:
        rows = by_row(lines, dataset, (name, baseline))
        for seed in rows.get(name, {}).keys() & rows.get(baseline, {}).keys():
            ratios.append(log(rows[name][seed]["test"][field] / rows[baseline][seed]["test"][field]))
    if name == baseline or not ratios:
        return ""
    test = f"{chance(ratios)}, " if len(ratios) > 1 else ""
    return f"{exp(mean(ratios)) - 1:+.1%} ({test}{len(ratios)} {'pair' if len(ratios) == 1 else 'pairs'})"


def summary(lines: list[dict], baseline: str, names: Sequence[str]) -> str:
    """The paper's table: Recall@20 and NDCG@20 of every tokenizer on every dataset, best means in bold."""
    fields = ("item_recall@20", "item_ndcg@20")
    found = {dataset: by_row(lines, dataset, names) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if found[dataset]]
    best = {
        (dataset, field): max(mean(run["test"][field] for run in runs.values()) for runs in found[dataset].values())
        for dataset in datasets
        for field in fields
    }
    heads = [f"{dataset} {word}" for dataset in datasets for word in ("Recall", "NDCG")]
    heads.append(f"NDCG against {baseline}, all pairs")
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in names:
        if not any(name in rows for rows in found.values()):
            continue
        cells = []
        for dataset in datasets:
            runs = found[dataset].get(name, {})
            for field in fields:
                value = mean(run["test"][field] for run in runs.values()) if runs else 0.0
                mark = "**" if runs and value == best[dataset, field] else ""
                cells.append(f"{mark}{value:.4f}{mark}{'' if len(runs) > 1 else '¹'}" if runs else "")
        cells.append(overall(lines, name, baseline, "item_ndcg@20"))
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*text, *["", "¹ one seed"] * any("¹" in row for row in text)])


def table(lines: list[dict], dataset: str, baseline: str, names: Sequence[str]) -> str:
    rows = by_row(lines, dataset, names)
    heads = [*COLUMNS, f"NDCG@20 − {baseline}", "epochs (best)", "seeds"]
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name, runs in rows.items():
        cells = [mean_std([run["test"][field] for run in runs.values()], 4) for field in COLUMNS.values()]
        cells.append(against(runs, rows.get(baseline, {}), "item_ndcg@20"))
        cells.append(", ".join(f"{run['epochs']} ({run['best_epoch']})" for run in runs.values()))
        cells.append(", ".join(str(seed) for seed in runs))
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text)


def beside(lines: list[dict]) -> str:
    """NDCG@20 against RQ-KMeans in per cent: the paper's, and the mean and mean_std over pairs of equal seeds here."""
    found = {dataset: by_row(lines, dataset) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if "rq-kmeans" in found[dataset]]
    heads = [f"{dataset}, {whose}" for dataset in datasets for whose in ("paper", "here")]
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in (name for name in PUBLISHED if name != "rq-kmeans"):
        cells = []
        for dataset in datasets:
            runs, base = found[dataset].get(name, {}), found[dataset]["rq-kmeans"]
            pairs = [(runs[seed]["test"], base[seed]["test"]) for seed in runs.keys() & base.keys()]
            gains = [100 * (ours["item_ndcg@20"] / theirs["item_ndcg@20"] - 1) for ours, theirs in pairs]
            cells.append(f"{100 * (PUBLISHED[name][dataset] / PUBLISHED['rq-kmeans'][dataset] - 1):+.0f}")
            cells.append(f"{mean(gains):+.0f}{f' ±{stdev(gains):.0f}' if len(gains) > 1 else '¹'}" if gains else "")
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*text, "", "¹ one seed"])


def paired(lines: list[dict]) -> str:
    """Tokenizers against a baseline over all pairs of equal (dataset, seed), by three readings of the same lists."""
    done, text = {line["tokenizer"] for line in lines}, []
    ablations = ("without-global", "without-soft", "without-projection")
    compared = [("prq-kmeans", "rq-kmeans"), ("rq-vae", "rq-kmeans")]
    compared += [(name, "prq-kmeans") for name in (*ablations, "rq-vae", *BEYOND)]
    for name, baseline in compared:
        if name in done:
            cells = [
                overall(lines, name, baseline, f"{reading}_ndcg@20") for reading in ("item", "expected", "corrected")
            ]
            text.append(f"| {name} | {baseline} | {' | '.join(cells)} |")
    heads = "| tokenizer | against | NDCG@20 | its expectation | corrected NDCG@20 |"
    return "\n".join([heads, "|---|---|---:|---:|---:|", *text])


def counting(found: dict) -> str:
    """What needs no model: counts of items, of what followed the last one, and of what is taken together."""
    datasets = [dataset for dataset in DATASETS if dataset in found]
    heads = [f"{dataset} {word}" for dataset in datasets for word in ("Recall", "NDCG")]
    text = [f"| no model | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in ("popular", "followed", "together"):
        figures = [found[dataset][name] for dataset in datasets]
        cells = [f"{one[field]:.4f}" for one in figures for field in ("recall@20", "ndcg@20")]
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text)


def precision(done: list[dict], exact: list[dict]) -> str:
    """Runs in float32 beside the same in bfloat16, epoch by epoch as far as both went, and what differs over all runs.
    Loss is of the last such epoch, NDCG@20 the mean over them."""
    text = [
        "| dataset | tokenizer | seed | epochs | loss, bfloat16 | float32 | validation NDCG@20, bfloat16 | float32 |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    losses, gains = [], []
    for line in exact:
        name, seed = line["tokenizer"], line["seed"]
        same = by_row(done, line["dataset"], (name,)).get(name, {}).get(seed)
        if same:
            curves = list(zip(same["curve"], line["curve"], strict=False))
            (loss, theirs), value = curves[-1], [mean(run[1] for run in runs) for runs in zip(*curves, strict=True)]
            losses.append(log(loss[0] / theirs[0]))
            gains.append(log(value[0] / value[1]))
            text.append(
                f"| {line['dataset']} | {name} | {seed} | {len(curves)} | {loss[0]:.4f} | {theirs[0]:.4f} "
                f"| {value[0]:.4f} | {value[1]:.4f} |"
            )
    if len(gains) > 1:
        differ = [f"{exp(mean(ratios)) - 1:+.2%} ({chance(ratios)})" for ratios in (losses, gains)]
        text.append(f"\nbfloat16 against float32, over all runs: loss {differ[0]}, validation NDCG@20 {differ[1]}.")
    return "\n".join(text)


def missing(done: list[dict]) -> str:
    """What of the run list is still to be done: three seeds of the main rows, one of all others."""
    have = {(line["dataset"], line["tokenizer"], line["seed"]) for line in done}
    text = []
    for dataset in DATASETS:
        lacking = []
        for name in TOKENIZERS:
            seeds = [seed for seed in (SEEDS if name in MAIN else SEEDS[:1]) if (dataset, name, seed) not in have]
            if seeds:
                lacking.append(name + (f" ({', '.join(map(str, seeds))})" if name in MAIN else ""))
        text.append(f"- {dataset}: " + (", ".join(lacking) if lacking else "nothing"))
    return "\n".join(text)


def section(done: list[dict], cut: list[dict], exact: list[dict], simple: dict) -> str:
    parts = [
        f"### All datasets{heading}\n\n{summary(done, baseline, names)}"
        for heading, baseline, names in (PAPER, OURS)
        if {line["tokenizer"] for line in done} & set(names) - {baseline}
    ]
    if simple:
        parts.insert(1, f"### Without a model\n\n{counting(simple)}")
    parts.insert(1, f"### NDCG@20 against RQ-KMeans in per cent, in the paper and here\n\n{beside(done)}")
    parts.insert(2, f"### Pairs of equal data and seed\n\n{paired(done)}")
    for lines, warning in ((done, ""), (cut, ", cut short: not to be read as results")):
        for heading, baseline, names in (PAPER, OURS):
            for dataset in DATASETS:
                if by_row(lines, dataset, names).keys() - {baseline}:
                    parts.append(f"### {dataset}{heading}{warning}\n\n{table(lines, dataset, baseline, names)}")
    if exact:
        parts.append(f"### Precision\n\n{precision(done, exact)}")
    parts.append(f"### Still missing (seeds in brackets)\n\n{missing(done)}")
    return "\n\n".join(parts)


def draw(done: list[dict], folder: Path) -> None:
    """tiger-main.svg: test NDCG@20 of every run. tiger-curves.svg: validation NDCG@20 by epoch. tiger-sensitivity.svg:
    NDCG@20 by top-k and by beta."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tiger"  # the same runs, the same file
    import matplotlib.pyplot as plt

    datasets = [dataset for dataset in DATASETS if any(line["dataset"] == dataset for line in done)]
    if not datasets:
        return
    size = {"figsize": (4 * len(datasets), 3.2), "squeeze": False, "layout": "constrained"}
    curves, panels = plt.subplots(1, len(datasets), **size)
    main, dots = plt.subplots(1, len(datasets), **size | {"figsize": (4 * len(datasets), 4)}, sharey=True)
    shown = [name for name in (*TOKENIZERS, *BEYOND) if any(name == line["tokenizer"] for line in done)]
    for place, dataset in enumerate(datasets):
        rows = by_row(done, dataset)
        for name, runs in by_row(done, dataset, shown).items():
            values, at = [run["test"]["item_ndcg@20"] for run in runs.values()], shown.index(name)
            dots[0][place].plot(values, [at] * len(values), "o", color="C0", ms=4, alpha=0.6)
            dots[0][place].plot(mean(values), at, "|", color="black", ms=12)
        dots[0][place].set(title=dataset, xlabel="test NDCG@20", yticks=range(len(shown)), yticklabels=shown)
        dots[0][place].grid(axis="x", alpha=0.3)
        dots[0][place].locator_params(axis="x", nbins=5)
        for name, runs in rows.items():
            if name in (*MAIN, "random"):
                for seed, run in runs.items():
                    label = name if seed == min(runs) else None
                    colour = f"C{list(TOKENIZERS).index(name)}"
                    panels[0][place].plot([value for _, value in run["curve"]], color=colour, label=label, lw=1)
        panels[0][place].set(title=dataset, xlabel="epoch", ylabel="validation NDCG@20")
        panels[0][place].legend(fontsize=7)
    dots[0][0].invert_yaxis()
    folder.mkdir(parents=True, exist_ok=True)
    main.savefig(folder / "tiger-main.svg", metadata={"Date": None})
    curves.savefig(folder / "tiger-curves.svg", metadata={"Date": None})
    sensitivity(done).savefig(folder / "tiger-sensitivity.svg", metadata={"Date": None})


def sensitivity(done: list[dict]):
    """By k and by beta, on every dataset where either was varied: runs of the first seed joined, the others in grey."""
    import matplotlib.pyplot as plt

    settings = {1: "without-soft", 2: "prq-kmeans", 5: "prq-k5", 10: "prq-k10"}
    betas = {10: "prq-beta10", 15: "prq-kmeans", 20: "prq-beta20", 25: "prq-beta25"}
    varied = {*settings.values(), *betas.values()} - set(MAIN)
    rows = {dataset: by_row(done, dataset) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if varied & rows[dataset].keys()]
    figure, axes = plt.subplots(
        2, max(1, len(datasets)), figsize=(4 * max(1, len(datasets)), 6), squeeze=False, layout="constrained"
    )
    for place, dataset in enumerate(datasets):
        for axis, (word, series) in zip(axes[:, place], (("top-k", settings), ("beta", betas)), strict=True):
            runs = {x: rows[dataset][name] for x, name in series.items() if name in rows[dataset]}
            found = {x: {seed: run["test"]["item_ndcg@20"] for seed, run in some.items()} for x, some in runs.items()}
            first = {x: values[SEEDS[0]] for x, values in found.items() if SEEDS[0] in values}
            axis.plot(list(first), list(first.values()), "o-", label="seed 0")
            others = [(x, value) for x, values in found.items() for seed, value in values.items() if seed != SEEDS[0]]
            axis.plot([x for x, _ in others], [value for _, value in others], ".", color="grey", label="other seeds")
            axis.set(title=dataset, xlabel=word, ylabel="test NDCG@20", xticks=list(series))
    axes[0][0].legend(fontsize=8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a document with the two marks that the tables go between")
    parser.add_argument("--figures", type=Path, help="a folder for the charts")
    options = parser.parse_args()
    done, cut, exact, short = (
        read(options.results.with_suffix(ending))
        for ending in (".jsonl", ".cut.jsonl", ".float32.jsonl", ".float32.cut.jsonl")
    )
    if options.figures:
        draw(done, options.figures)
    simple = options.results.with_name("counting.json")
    text = section(done, cut, exact + short, json.loads(simple.read_text())["datasets"] if simple.exists() else {})
    if options.into is None:
        print(text)
        return
    before, _, rest = options.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    options.into.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
