"""The generative recommendation tables of docs/results/recommending.md from the JSON lines of tiger.py.

    python experiments/tiger_tables.py experiments/results/tiger.jsonl --into docs/results/recommending.md

Tokenizers that the paper does not have are compared with PRQ-KMeans in separate tables, and so are runs that a time
limit cut short (*.cut.jsonl in the same folder). Counting without a model (counting.json in the same folder) has a
table, and every cell of the run list that is still missing is named. Without --into the tables are printed. --figures
FOLDER draws the test figures of every run, the validation curves and, where k and beta were varied, the sensitivity
figure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import mean, stdev

from tables import mean_std
from tiger import CONTROLS
from tiger_codes import BEYOND, DATASETS, TOKENIZERS
from tiger_figures import draw
from tiger_lines import SEEDS, by_row, read

PAPER = ("", "rq-kmeans", tuple(TOKENIZERS))  # the suffix of a heading, the baseline and the rows of a table
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
}
RECALL = {  # the paper's Recall@20, from the same tables
    "prq-kmeans": {"sports": 0.0531, "toys": 0.0851, "clothing": 0.0382, "lastfm": 0.0179},
    "rq-kmeans": {"sports": 0.0528, "toys": 0.0824, "clothing": 0.0330, "lastfm": 0.0115},
    "without-global": {"sports": 0.0505, "toys": 0.0830, "clothing": 0.0370, "lastfm": 0.0107},
    "without-soft": {"sports": 0.0515, "toys": 0.0815, "clothing": 0.0371, "lastfm": 0.0043},
    "without-projection": {"sports": 0.0503, "toys": 0.0810, "clothing": 0.0360, "lastfm": 0.0099},
    "rq-vae": {"sports": 0.0522, "toys": 0.0751, "clothing": 0.0357, "lastfm": 0.0082},
    "opq-kmeans": {"sports": 0.0379, "toys": 0.0403, "clothing": 0.0233, "lastfm": 0.0033},
    "pq-kmeans": {"sports": 0.0087, "toys": 0.0177, "clothing": 0.0082, "lastfm": 0.0016},
    "rq-gmm": {"sports": 0.0506, "toys": 0.0711, "clothing": 0.0341, "lastfm": 0.0082},
    "r3-vae": {"sports": 0.0514, "toys": 0.0812, "clothing": 0.0361, "lastfm": 0.0074},
}
READINGS = {
    "r3-vae-top1": "r3-vae",
    "r3-vae-3000": "r3-vae",
    "rq-vae-20": "rq-vae",
    "rq-vae-3000": "rq-vae",
}  # of one row
BEGIN, END = "<!-- tiger_tables.py begins -->", "<!-- tiger_tables.py ends -->"


def against(runs: dict[int, dict], baseline: dict[int, dict], field: str) -> str:
    """The mean paired difference to the baseline over shared seeds, and p of a t-test on paired logarithms."""
    seeds = sorted(runs.keys() & baseline.keys())
    if runs is baseline or not seeds:
        return ""
    pairs = [(runs[seed]["test"][field], baseline[seed]["test"][field]) for seed in seeds]
    gap = f"{mean(ours - theirs for ours, theirs in pairs):+.4f}"
    return gap if len(pairs) < 2 else f"{gap} ({chance([log(ours / theirs) for ours, theirs in pairs])})"


def chance(ratios: list[float]) -> str:
    """The p-value of logarithms of ratios, by a t-test against no difference."""
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
    """The paper's table: Recall@20 and NDCG@20 of every tokenizer on every dataset, best means in bold, the second
    underlined."""
    fields = ("item_recall@20", "item_ndcg@20")
    rows = {dataset: by_row(lines, dataset, names) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if rows[dataset]]
    best = {
        (dataset, field): sorted({average(runs, field) for runs in rows[dataset].values()}, reverse=True)
        for dataset in datasets
        for field in fields
    }
    heads = [f"{dataset} {word}" for dataset in datasets for word in ("Recall", "NDCG")]
    heads.append(f"NDCG against {baseline}, all pairs")
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in names:
        if not any(name in rows[dataset] for dataset in datasets):
            continue
        cells = []
        for dataset in datasets:
            runs = rows[dataset].get(name, {})
            for field in fields:
                cells.append(cell(runs, field, best[dataset, field]))
        cells.append(overall(lines, name, baseline, "item_ndcg@20"))
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*text, *["", "¹ one seed"] * any("¹" in row for row in text)])


def average(runs: dict[int, dict], field: str) -> float:
    return mean(run["test"][field] for run in runs.values())


def cell(runs: dict[int, dict], field: str, best: list[float]) -> str:
    """A mean, bold if it is the best and underlined if it is the second. best: all means, descending."""
    if not runs:
        return ""
    value = average(runs, field)
    form = {0: "**{:.4f}**", 1: "<u>{:.4f}</u>"}.get(best.index(value), "{:.4f}")
    return form.format(value) + ("" if len(runs) > 1 else "¹")


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


def published(lines: list[dict], theirs: dict[str, dict[str, float]], field: str) -> str:
    """A figure against RQ-KMeans in per cent: the paper's, and here the mean and standard deviation over pairs of equal
    seeds."""
    rows = {dataset: by_row(lines, dataset) for dataset in DATASETS}
    datasets = [dataset for dataset in DATASETS if "rq-kmeans" in rows[dataset]]
    heads = [f"{dataset}, {whose}" for dataset in datasets for whose in ("paper", "here")]
    text = [f"| tokenizer | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    theirs = theirs | {name: theirs[row] for name, row in READINGS.items()}
    for name in (name for name in theirs if name != "rq-kmeans" and any(name in rows[each] for each in datasets)):
        cells = []
        for dataset in datasets:
            runs, base = rows[dataset].get(name, {}), rows[dataset]["rq-kmeans"]
            pairs = [(runs[seed]["test"], base[seed]["test"]) for seed in runs.keys() & base.keys()]
            gains = [100 * (ours[field] / other[field] - 1) for ours, other in pairs]
            cells.append(f"{100 * (theirs[name][dataset] / theirs['rq-kmeans'][dataset] - 1):+.0f}")
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


def free(lines: list[dict]) -> str:
    """The same weights decoded with and without the constraint, means over seeds; what is no SID is skipped, or takes a
    rank."""
    rows: dict[tuple, list[dict]] = {}
    for line in lines:
        rows.setdefault((line["dataset"], line["vectors"], line["tokenizer"]), []).append(line)
    text = [
        "| dataset | vectors | tokenizer | NDCG@20 | any tokens | they take ranks | Recall@20 | any tokens "
        "| they take ranks | SIDs, % of what is generated | seeds |",
        "|---|---|---|" + "---:|" * 8,
    ]
    for key in sorted(rows, key=lambda key: (DATASETS.index(key[0]), key[1], list(TOKENIZERS | BEYOND).index(key[2]))):
        runs = rows[key]
        cells = [
            f"{mean(run[test][field] for run in runs):.4f}"
            for field in ("item_ndcg@20", "item_recall@20")
            for test in ("test", "free", "free_ranked")
        ]
        cells.append(f"{100 * mean(run['free']['valid_share'] for run in runs):.1f}")
        cells.append(", ".join(str(run["seed"]) for run in sorted(runs, key=lambda run: run["seed"])))
        text.append(f"| {' | '.join((*key, *cells))} |")
    return "\n".join(text)


def counting(results: dict) -> str:
    """Baselines without a model: the most popular items, what followed the last item, what is taken together."""
    datasets = [dataset for dataset in DATASETS if dataset in results]
    heads = [f"{dataset} {word}" for dataset in datasets for word in ("Recall", "NDCG")]
    text = [f"| no model | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in ("popular", "followed", "together"):
        figures = [results[dataset][name] for dataset in datasets]
        cells = [f"{one[field]:.4f}" for one in figures for field in ("recall@20", "ndcg@20")]
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text)


def precision(done: list[dict], exact: list[dict]) -> str:
    """Runs in float32 and the same in bfloat16, over the epochs that both have, and their difference over all runs.
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
    """The runs that three seeds of every tokenizer would need, and the command of one."""
    have = {(line["dataset"], line["tokenizer"], line["seed"]) for line in done}
    text = []
    for dataset in DATASETS:
        lacking = []
        for name in (name for name in TOKENIZERS if name not in CONTROLS):
            seeds = [seed for seed in SEEDS if (dataset, name, seed) not in have]
            if seeds:
                lacking.append(f"{name} ({', '.join(map(str, seeds))})")
        text.append(f"- {dataset}: " + (", ".join(lacking) if lacking else "nothing"))
    script = "    python experiments/tiger.py CODES -o experiments/results/tiger{}.jsonl --data DATA {}"
    text.append("\nOn a GPU, a cell; all that is missing; the VAEs by 20 epochs and by the public schedule to its end;")
    text.append("without the constraint, and in float32 to early stopping, once per dataset:\n")
    text.append(script.format("", "--datasets toys --tokenizers opq-kmeans --seeds 1"))
    text.append(script.format("", "--at-once 11"))
    text.append(script.format("", "--tokenizers rq-vae-20,rq-vae-3000,r3-vae-3000"))
    text.append(script.format("", "--tokenizers prq-kmeans --seeds 0 --free"))
    text.append(script.format(".float32", "--tokenizers prq-kmeans --seeds 0 --precision float32"))
    return "\n".join(text)


def section(
    done: list[dict], cut: list[dict], exact: list[dict], simple: dict, gte: list[dict], freely: list[dict]
) -> str:
    parts = [
        f"## All datasets{heading}\n\n{summary(done, baseline, names)}"
        for heading, baseline, names in (PAPER, OURS)
        if {line["tokenizer"] for line in done} & set(names) - {baseline}
    ]
    if simple:
        parts.insert(1, f"## Without a model\n\n{counting(simple)}")
    for place, (name, theirs) in enumerate({"NDCG@20": PUBLISHED, "Recall@20": RECALL}.items(), 1):
        heading = f"## {name} against RQ-KMeans in per cent, in the paper and here"
        parts.insert(place, f"{heading}\n\n{published(done, theirs, COLUMNS[name])}")
    parts.insert(3, f"## Pairs of equal data and seed\n\n{paired(done)}")
    for lines, warning in ((done, ""), (cut, ", cut short: not to be read as results")):
        for heading, baseline, names in (PAPER, OURS):
            for dataset in DATASETS:
                if by_row(lines, dataset, names).keys() - {baseline}:
                    parts.append(f"## {dataset}{heading}{warning}\n\n{table(lines, dataset, baseline, names)}")
    for dataset in DATASETS:
        for whole in (True, False):
            lines = [line for line in gte if line["finished"] == whole]
            if by_row(lines, dataset):
                heading = f"## {dataset}, gte-small's vectors" + ("" if whole else ", cut short at the same epoch")
                parts.append(f"{heading}\n\n{table(lines, dataset, 'rq-kmeans', tuple(TOKENIZERS))}")
    if freely:
        parts.append(f"## Without the constraint\n\n{free(freely)}")
    if exact:
        parts.append(f"## Precision\n\n{precision(done, exact)}")
    parts.append(f"## Seeds that were not run (of 0, 1, 2)\n\n{missing(done)}")
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a document with the two markers that the tables go between")
    parser.add_argument("--figures", type=Path, help="a folder for the charts")
    options = parser.parse_args()
    done, cut, exact, short, gte, gte_short, freely, gte_freely = (
        read(options.results.with_suffix(f"{ending}.jsonl"))
        for ending in ("", ".cut", ".float32", ".float32.cut", ".gte", ".gte.cut", ".free", ".gte.free")
    )
    if options.figures:
        draw(done, options.figures)
    simple = options.results.with_name("counting.json")
    counted = json.loads(simple.read_text())["datasets"] if simple.exists() else {}
    text = section(done, cut, exact + short, counted, gte + gte_short, freely + gte_freely)
    if options.into is None:
        print(text)
        return
    before, _, rest = options.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    options.into.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
