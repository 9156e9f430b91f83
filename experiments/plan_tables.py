"""Tables of the search for a plan, and of how the plan that it found learns."""

from __future__ import annotations

from statistics import fmean, stdev

from tiger_search import at, standing

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the epochs


def searched(lines: list[dict]) -> str:
    """Every candidate of the rungs that are complete, best first; empty if there are none."""
    rows = []
    for epochs in sorted(set(map(at, lines))):
        here = [line for line in lines if at(line) == epochs]
        datasets = list(dict.fromkeys(line["dataset"] for line in here))
        for name, figure in standing(lines, epochs, datasets).items():
            mine = {line["dataset"]: line for line in here if line["candidate"] == name}
            cells = "; ".join(f"{one}: {_values(mine[one]['validation'])}" for one in datasets)
            rows.append(f"| {epochs} | {name} | {figure:.3f} | {cells} |")
    head = ["| epochs | plan | relative | validation NDCG@20 |", "|---:|---|---:|---|"]
    return "\n".join([*head, *rows]) if rows else ""


def _values(values: list[float]) -> str:
    return f"{fmean(values):.4f}" + (f" ±{stdev(values):.4f}" if len(values) > 1 else "")


def curves(runs: list[dict]) -> str:
    """Validation NDCG@20 of the model alone after a share of the epochs, means over seeds, and the loss."""
    rows = []
    for dataset in dict.fromkeys(run["dataset"] for run in runs):
        mine = [run["curve"] for run in runs if run["dataset"] == dataset]
        at = [max(1, round(share * min(map(len, mine)))) for share in SHARES]
        for words, column, digits in (("validation NDCG@20", 1, 4), ("training loss", 0, 2)):
            cells = [f"{fmean(curve[epoch - 1][column] for curve in mine):.{digits}f}" for epoch in at]
            rows.append(f"| {dataset}, {len(mine[0])} epochs | {words} | {' | '.join(cells)} |")
    head = f"| dataset | | {' | '.join(f'{share:.0%}' for share in SHARES)} |"
    return "\n".join([head, "|---|---|" + "---:|" * len(SHARES), *rows]) if rows else ""
