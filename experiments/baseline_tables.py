"""The tables of baselines in docs/results/recommending.md, from the JSON lines of baselines.py, fused_models.py and
tiger_search.py.

    python experiments/baseline_tables.py DATA experiments/results --into docs/results/recommending.md \\
        --first-screen docs/recommending.md

NDCG@10 of every method on every dataset, beside TIGER here (tiger.jsonl) and published figures; lists against counting
and SASRec, user by user; targets by how often they were seen in training, which needs the sequences of DATA; learning
curves; the search for a plan. --first-screen is the document that begins with a table of the main rows. Without these
options the tables are printed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet as pq
from baselines import DATASETS, chosen
from json_lines import read_lines
from plan_tables import curves, searched
from stored_ranks import gains, unpack
from tables import mean_std
from tiger_codes import sequences_of

from sidkit.measure.seen import SEEN, ranks_by_seen, times_seen
from sidkit.retriever.data import examples

COUNTING = {
    "popular": "the most popular",
    "followed": "what followed the last item",
    "together": "taken together",
    "mixed": "both, mixed",
}
FORMS = ("followed", "together")  # of counting, before they are mixed
PUBLISHED = {  # NDCG@10, as their papers report it; TIGER's Last.fm and Clothing are not in it
    "TIGER, published": {"beauty": 0.0384, "sports": 0.0225, "toys": 0.0432},
    "ActionPiece, published": {"beauty": 0.0424, "sports": 0.0264},
}
OURS = {"prq-kmeans": "TIGER here, PRQ-KMeans", "prq-co1-unique": "TIGER here, blended and spread SIDs"}
FIRST_SCREEN = {
    "what followed the last item": "followed",
    "what was taken together": "together",
    "both of these, mixed": "mixed",
    "SASRec": "sasrec",
    "**TIGER, `--preset best`, fused**": "best, fused",
    "TIGER, `--preset best`, alone": "best",
    "the counts alone, by the formula of fusion": "best, its counts alone",
    "a small TIGER, five epochs, fused": "small paper, fused",
    "the same, alone": "small paper",
}
BEGIN, END = "<!-- baseline_tables.py begins -->", "<!-- baseline_tables.py ends -->"


def latest(path: Path) -> list[dict]:
    """The lines of a file; of equal runs the last, as one that was not finished is run again."""
    keys = ("dataset", "method", "setting", "seed")
    found = {json.dumps([line[key] for key in keys], sort_keys=True): line for line in read_lines(path)}
    return list(found.values())


def runs_of(lines: list[dict], dataset: str, method: str) -> list[dict]:
    """The lines of the setting that validation chose, all seeds."""
    best = chosen(lines, dataset, method)
    return [
        line
        for line in lines
        if best and [line[key] for key in ("dataset", "method", "setting")] == [dataset, method, best["setting"]]
    ]


def methods(lines: list[dict]) -> list[str]:
    """Of these lines, counting first."""
    found = list(dict.fromkeys(line["method"] for line in lines))
    return [*(name for name in COUNTING if name in found), *(name for name in found if name not in COUNTING)]


def label(method: str) -> str:
    words = {"sasrec": "SASRec"} | {name: f"counting: {text}" for name, text in COUNTING.items()}
    words["best, its counts alone"] = "counting: all counts, by the formula of fusion"
    return words.get(method, f"TIGER, {method}")


def overview(lines: list[dict], tiger: list[dict]) -> str:
    """NDCG@10 of the test, means over seeds."""
    rows = [f"| NDCG@10 | {' | '.join(DATASETS)} |", "|---|" + "---:|" * len(DATASETS)]
    for method in methods(lines):
        cells = []
        for dataset in DATASETS:
            runs = runs_of(lines, dataset, method)
            seeds = f" ({len(runs)} seeds)" if len(runs) > 1 else " (1 seed)" if method not in COUNTING and runs else ""
            cells.append(mean_std([run["test"]["ndcg@10"] for run in runs], 4) + seeds if runs else "")
        rows.append(f"| {label(method)} | {' | '.join(cells)} |")
    for words, found in of_the_paper(tiger).items():
        cells = [f"{mean_std(values, 4)} ({len(values)} seeds)" if values else "" for values in found]
        rows.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join([*rows, *published()])


def of_the_paper(tiger: list[dict]) -> dict[str, list[list[float]]]:
    """NDCG@10 of the test by tokenizer of OURS, for every dataset those of its seeds."""

    def values(dataset: str, tokenizer: str) -> list[float]:
        runs = [run for run in tiger if (run["dataset"], run["tokenizer"]) == (dataset, tokenizer)]
        return [run["test"]["item_ndcg@10"] for run in runs]

    found = {words: [values(dataset, tokenizer) for dataset in DATASETS] for tokenizer, words in OURS.items()}
    return {words: each for words, each in found.items() if any(each)}


def published() -> list[str]:
    """Rows of what papers report."""
    cells = {
        words: [f"{figures[dataset]:.4f}" if dataset in figures else "" for dataset in DATASETS]
        for words, figures in PUBLISHED.items()
    }
    return [f"| {words} | {' | '.join(row)} |" for words, row in cells.items()]


def user_gains(runs: list[dict]) -> np.ndarray:
    """(users,) NDCG@10, the mean over seeds."""
    return np.mean([gains(unpack(run["ranks"])) for run in runs], axis=0)


def rivals(lines: list[dict], dataset: str) -> list[str]:
    """The form of counting that is best on the test, which favours counting; both mixed; and SASRec."""
    forms = [name for name in FORMS if runs_of(lines, dataset, name)]
    best = max(forms, key=lambda name: user_gains(runs_of(lines, dataset, name)).mean(), default=None)
    return [name for name in (best, "mixed", "sasrec") if name and runs_of(lines, dataset, name)]


def paired(lines: list[dict]) -> str:
    """Every trained list against counting and against SASRec, over the same users."""
    rows = ["| dataset | list | against | NDCG@10 | theirs | difference | p |", "|---|---|---|---:|---:|---:|---:|"]
    for dataset in DATASETS:
        for method in methods(lines):
            if "allowed" in method:
                continue
            counts = method.replace(", fused", ", its counts alone")
            for other in dict.fromkeys((*rivals(lines, dataset), method.removesuffix(", fused"), counts)):
                runs, theirs = runs_of(lines, dataset, method), runs_of(lines, dataset, other)
                if method in COUNTING or method == other or not runs or not theirs:
                    continue
                if runs[0]["users"] == theirs[0]["users"]:
                    rows.append(f"| {dataset} | {label(method)} | {label(other)} | {difference(runs, theirs)} |")
    return "\n".join(rows)


def first_screen(lines: list[dict], tiger: list[dict]) -> str:
    """The main rows of what there is, with the p-value of the fused list against each rival."""
    names = {"lastfm": "Last.fm"} | {name: name.capitalize() for name in DATASETS if name != "lastfm"}
    rows = [f"| | {' | '.join(names.values())} |", "|---|" + "---:|" * len(DATASETS)]
    fused = {dataset: runs_of(lines, dataset, "best, fused") for dataset in DATASETS}
    for words, method in FIRST_SCREEN.items():
        found = [runs_of(lines, dataset, method) for dataset in DATASETS]
        bold = "**" * words.startswith("**")
        cells = [f"{bold}{user_gains(runs).mean():.4f}{bold}" if runs else "" for runs in found]
        rows += [f"| {words} | {' | '.join(cells)} |"] * any(found)
    for words, values in of_the_paper(tiger).items():
        rows.append(f"| {words} | {' | '.join(f'{mean(one):.4f}' if one else '' for one in values)} |")
    against = {"the better count": FORMS, "both, mixed": ("mixed",), "SASRec": ("sasrec",)}
    against["the counts alone"] = (counts := "best, its counts alone",)
    for words, names_of in against.items():
        cells = []
        for dataset in DATASETS:
            other = next((name for name in [*rivals(lines, dataset), counts] if name in names_of), None)
            runs, theirs = fused[dataset], runs_of(lines, dataset, other) if other else []
            cells.append(_short(runs, theirs) if runs and theirs else "")
        rows += [f"| fused against {words} | {' | '.join(cells)} |"] * any(cells)
    return "\n".join([*rows, *published()])


def difference(runs: list[dict], theirs: list[dict]) -> str:
    from scipy.stats import ttest_rel

    a, b = user_gains(runs), user_gains(theirs)
    p = ttest_rel(a, b).pvalue if (a != b).any() else 1.0
    return f"{a.mean():.4f} | {b.mean():.4f} | {a.mean() - b.mean():+.4f} | {'< 0.001' if p < 0.001 else f'{p:.3f}'}"


def by_seen(lines: list[dict], data: Path) -> str:
    """Recall@10 of targets by how often they were seen in training."""
    rows = [f"| dataset | method | {' | '.join(SEEN.values())} |", "|---|---|" + "---:|" * len(SEEN)]
    for dataset in DATASETS:
        found = {method: runs_of(lines, dataset, method) for method in methods(lines)}
        found = {method: runs for method, runs in found.items() if runs}
        if not found:
            continue
        sequences, items = sequences_of(data / dataset), pq.read_metadata(data / dataset / "items.parquet").num_rows
        times = times_seen(sequences, items)[sequences.rows[examples(sequences, "test").position]]
        groups = ranks_by_seen(np.zeros(len(times), np.int64), times)
        shares = [f"{one['share']:.1%} of the users" for one in groups.values()]
        rows.append(f"| {dataset} | | {' | '.join(shares)} |")
        for method, runs in found.items():
            if runs[0]["users"] == len(times):
                each = [ranks_by_seen(unpack(run["ranks"]), times) for run in runs]
                cells = [recall(each, name) for name in SEEN]
                rows.append(f"| | {label(method)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def recall(each: list[dict], group: str) -> str:
    values = [one[group]["recall@10"] for one in each]
    return "" if values[0] is None else f"{mean(values):.4f}"


def _short(runs: list[dict], theirs: list[dict]) -> str:
    """By how much of their NDCG@10, and the p-value."""
    a, b, *_, p = difference(runs, theirs).split(" | ")
    return f"{float(a) / float(b) - 1:+.0%} (p {p if p.startswith('<') else f'= {p}'})"


def between(path: Path, text: str) -> None:
    """Put the text between the two markers of a document."""
    before, _, rest = path.read_text().partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a document with the two markers that the tables go between")
    parser.add_argument("--first-screen", type=Path, help="likewise, for the table of the main rows")
    options = parser.parse_args()
    lines = [line for name in ("baselines", "fused_models") for line in latest(options.results / f"{name}.jsonl")]
    tiger = read_lines(options.results / "tiger.jsonl")
    parts = {
        "NDCG@10 of the test": overview(lines, tiger),
        "User by user": paired(lines),
        "Recall@10 by how often the target was seen in training": by_seen(lines, options.data),
        "Learning curves": curves([run for name in DATASETS for run in runs_of(lines, name, "best")]),
        "The search for the plan": searched(read_lines(options.results / "tiger_search.jsonl")),
    }
    text = "\n\n".join(f"### {title}\n\n{table}" for title, table in parts.items() if table)
    if options.into is None:
        print(text, first_screen(lines, tiger), sep="\n\n")
        return
    between(options.into, text)
    if options.first_screen:
        between(options.first_screen, first_screen(lines, tiger))


if __name__ == "__main__":
    main()
