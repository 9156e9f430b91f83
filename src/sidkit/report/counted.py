"""A comparison judged by what predicts training: how well items are recommended by counting first tokens.

On public datasets this figure predicted best which SIDs a trained recommender does well with (docs/results.md).
Tokenizers are measured as they are and, where asked for, with items spread over free codes of the last level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from ..data.sequences import Sequences
from ..measure.counting import counted_by_token, require_counted
from ..progress import Progress, Silent
from ..sids.quality import quality
from ..tokenizer.spread import can_spread, spread
from ..tokenizer.tokenizer import load
from .comparison import COUNTED, Comparison

__all__ = ["PREDICTS", "SPREAD", "judged"]

SPREAD = ", spread"  # what the label of a tokenizer ends in where its items are spread
PREDICTS = (
    f"{COUNTED.label}: {COUNTED.formula}; of all figures without training it predicted best, on public datasets, how "
    "well a trained recommender does"
)


def judged(
    comparison: Comparison,
    items: Any,
    sequences: Sequences | None = None,
    spread_too: bool = False,
    progress: Progress | None = None,
    device: str = "auto",
) -> Comparison:
    """The comparison with every run counted on sequences, ranked by that figure; with spread_too, spread ones as well.

    items: their vectors, in the order of the rows that sequences name. Tokenizers whose last level cannot be spread
    are measured as they are.
    """
    report = progress or Silent()
    known = None if sequences is None else require_counted(sequences)
    figures: dict[str, list[Mapping[str, Any]]] = {label: [] for label in comparison.figures}
    folders, spreads = dict(comparison.folders), set[str]()
    for label, runs in comparison.figures.items():
        for run, folder in zip(runs, comparison.folders[label], strict=True):
            fitted = load(folder)
            codes = fitted.encode(items, device=device, progress=report)
            figures[label].append({**run, **_counted(codes, fitted.sizes, known)})
            if spread_too and can_spread(fitted):
                apart = spread(fitted, items, codes, report)
                found = quality(apart, fitted.sizes) | _counted(apart, fitted.sizes, known)
                figures.setdefault(label + SPREAD, []).append(found)
                folders[label + SPREAD] = comparison.folders[label]
                spreads.add(label + SPREAD)
    order = list(figures)
    if known is not None:
        order.sort(key=lambda label: -mean(run[COUNTED.name] for run in figures[label]))
    ordered = {label: figures[label] for label in order}
    return replace(comparison, figures=ordered, folders={one: folders[one] for one in order}, spread=frozenset(spreads))


def _counted(codes: Any, sizes: Any, sequences: Sequences | None) -> dict[str, float]:
    return {} if sequences is None else {COUNTED.name: counted_by_token(codes, sizes, sequences)["ndcg@20"]}
